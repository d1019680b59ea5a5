/* Patterns, matched by PCRE2. */
#include "base/base.h"
#include "text/pattern_impl.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 16,      /* of an expression */
    MOST_STEPS = 10000000,     /* of one match: about a second at most */
    MOST_HEAP = 64 << 10,      /* KiB */
    JIT_STACK = 64 << 20,      /* most bytes; allocated as needed */
    JIT_STACK_START = 32 << 10 /* bytes */
};

struct ls_pattern {
    pcre2_code *code;
    char *text; /* the plain text when there is no code */
    size_t bytes;
    bool jit;
    char *where; /* "FILE: path", for errors */
};

struct ls_match_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

const char *ls_pattern_text(const ls_pattern *pattern) { return pattern->text; }

void ls_pattern_free(ls_pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    free(pattern->text);
    free(pattern->where);
    free(pattern);
}

static ls_status no_memory(ls_json_value where) {
    return ls_error(LS_NO_MEMORY, "no memory for the patterns of %s", where.file);
}

/* NULL: no memory. */
static ls_pattern *new_pattern(ls_json_value where) {
    ls_pattern *pattern = calloc(1, sizeof *pattern);
    const size_t room = strlen(where.file) + strlen(where.path) + 3;
    if (pattern) pattern->where = malloc(room);
    if (!pattern || !pattern->where) {
        ls_pattern_free(pattern);
        return NULL;
    }
    snprintf(pattern->where, room, "%s: %s", where.file, where.path);
    return pattern;
}

static ls_status compile(ls_json_value where, const char *regex, ls_pattern *pattern) {
    const size_t bytes = strlen(regex);
    if (bytes == 0 || bytes > MOST_BYTES)
        return ls_json_error(where, "a regular expression of 1 to %d bytes", MOST_BYTES);
    ls_text translated = {0};
    ls_status status = ls_pattern_translate(where, regex, &translated);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (status.code == LS_OK && !context) status = ls_no_memory(bytes);
    if (status.code == LS_OK) {
        int error;
        PCRE2_SIZE at;
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pattern->code = pcre2_compile((PCRE2_SPTR)translated.byte, translated.count, PCRE2_UTF | PCRE2_MULTILINE,
                                      &error, &at, context);
        if (!pattern->code) {
            char reason[160] = "";
            pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
            status = ls_json_error(where, "a regular expression (%s)", reason);
        }
    }
    pcre2_compile_context_free(context);
    free(translated.byte);
    if (pattern->code) pattern->jit = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    return status;
}

ls_status ls_pattern_compile(ls_json_value where, const char *regex, ls_pattern **out) {
    ls_pattern *pattern = new_pattern(where);
    if (!pattern) return no_memory(where);
    ls_status status = compile(where, regex, pattern);
    if (status.code != LS_OK)
        ls_pattern_free(pattern);
    else
        *out = pattern;
    return status;
}

ls_status ls_pattern_read(ls_json_value object, const char *key, ls_pattern **out) {
    ls_json_value field;
    const char *text;
    LS_TRY(ls_json_object(object, key, &field));
    if (ls_json_has(field, "Regex")) {
        LS_TRY(ls_json_text(field, "Regex", &text));
        return ls_pattern_compile(ls_json_field(field, "Regex"), text, out);
    }
    LS_TRY(ls_json_text(field, "String", &text));
    if (text[0] == 0) return ls_json_error(ls_json_field(field, "String"), "a text that is not empty");
    ls_pattern *pattern = new_pattern(field);
    if (!pattern) return no_memory(field);
    pattern->text = strdup(text);
    pattern->bytes = strlen(text);
    if (!pattern->text) {
        ls_pattern_free(pattern);
        return no_memory(field);
    }
    *out = pattern;
    return ls_ok();
}

ls_match_scratch *ls_match_scratch_create(void) {
    ls_match_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    /* NULL: PCRE2 uses its own, smaller one */
    scratch->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK, NULL);
    if (!scratch->data || !scratch->context) {
        ls_match_scratch_destroy(scratch);
        return NULL;
    }
    pcre2_set_match_limit(scratch->context, MOST_STEPS);
    pcre2_set_heap_limit(scratch->context, MOST_HEAP);
    if (scratch->stack) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return scratch;
}

void ls_match_scratch_destroy(ls_match_scratch *scratch) {
    if (!scratch) return;
    pcre2_match_data_free(scratch->data);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    free(scratch);
}

static void find_text(ls_matches *m) {
    const char *found = ls_text_find(m->text + m->from, m->bytes - m->from, m->pattern->text, m->pattern->bytes);
    m->found = found != NULL;
    if (!found) return;
    m->start = (size_t)(found - m->text);
    m->end = m->from = m->start + m->pattern->bytes;
}

static ls_status match_error(const ls_matches *m, int error) {
    char reason[160] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
    return ls_error(LS_INVALID, "%s: matching fails at byte %zu of a text of %zu bytes: %s", m->pattern->where, m->from,
                    m->bytes, reason);
}

static bool find_regex(ls_matches *m, ls_status *status) {
    const ls_pattern *pattern = m->pattern;
    ls_match_scratch *s = m->scratch;
    const PCRE2_SPTR text = (PCRE2_SPTR)m->text;
    const int found =
        pattern->jit ? pcre2_jit_match(pattern->code, text, m->bytes, m->from, 0, s->data, s->context)
                     : pcre2_match(pattern->code, text, m->bytes, m->from, PCRE2_NO_UTF_CHECK, s->data, s->context);
    m->found = found >= 0;
    if (found >= 0) {
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(s->data);
        m->start = place[0];
        m->end = place[1];
        return true;
    }
    if (found != PCRE2_ERROR_NOMATCH) *status = match_error(m, found);
    return found == PCRE2_ERROR_NOMATCH;
}

bool ls_matches_next(ls_matches *m, ls_status *status) {
    if (m->pattern->text) return find_text(m), true;
    for (;;) {
        m->found = false;
        if (m->from > m->bytes) return true;
        if (!find_regex(m, status)) return false;
        if (!m->found) return true;
        if (m->start != m->end || m->end != m->last_end) break;
        const int length = ls_utf8_decode(m->text + m->from, m->bytes - m->from, NULL);
        m->from += length > 0 ? (size_t)length : 1;
    }
    m->from = m->last_end = m->end;
    return true;
}
