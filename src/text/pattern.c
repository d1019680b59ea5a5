/*
 * Matches patterns with PCRE2. PCRE2's own limit applies to one place of a text at a time, so many places together may
 * take long. Therefore there are two kinds of search. The fast one tries few places with few characters after them, and
 * gives up if one of the places needs more. Then the same expression is run at these places with a callout before each
 * of its items, which counts the items and the characters between them. That is exact, but about ten times as slow.
 * Ordinary texts need it only for words of more than FEW_PLACES bytes.
 */
#include "base/base.h"
#include "text/pattern_impl.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 16, /* of an expression */
    FEW_PLACES = 64,      /* places that the fast search tries at once, with at least as many bytes after the last */
    FEW_STEPS = 32,       /* steps as PCRE2 counts them, at one place of the fast search */
    MOST_HEAP = 64 << 10, /* KiB */
    JIT_STACK = 64 << 20, /* most bytes; allocated as needed */
    JIT_STACK_START = 32 << 10 /* bytes */
};

struct ls_pattern {
    pcre2_code *code, *counted; /* the expression; with callouts */
    char *text;                 /* the plain text when there is no code */
    size_t bytes;
    bool jit;
    char *where; /* "FILE: path", for errors */
};

struct ls_match_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t steps, most; /* in this text */
    size_t at;            /* where the last item began */
};

const char *ls_pattern_text(const ls_pattern *pattern) { return pattern->text; }

void ls_pattern_free(ls_pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->counted);
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

static ls_status compile_for(ls_json_value where, const ls_text *regex, uint32_t options,
                             pcre2_compile_context *context, pcre2_code **out) {
    char reason[160] = "";
    int error;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)regex->byte, regex->count,
                         PCRE2_UTF | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT | options, &error, &at, context);
    if (*out != NULL) return ls_ok();
    pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
    return ls_json_error(where, "a regular expression (%s)", reason);
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
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        status = compile_for(where, &translated, 0, context, &pattern->code);
    }
    if (status.code == LS_OK) status = compile_for(where, &translated, PCRE2_AUTO_CALLOUT, context, &pattern->counted);
    pcre2_compile_context_free(context);
    free(translated.byte);
    pattern->jit = status.code == LS_OK &&
                   pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0 &&
                   pcre2_jit_compile(pattern->counted, PCRE2_JIT_COMPLETE) == 0;
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

/* Called before each item of an expression. A number below 0 ends the matching with it. */
static int count_item(pcre2_callout_block *item, void *context) {
    ls_match_scratch *s = context;
    s->steps += 1 + (item->current_position > s->at ? item->current_position - s->at : 0);
    s->at = item->current_position;
    return s->steps > s->most ? PCRE2_ERROR_MATCHLIMIT : 0;
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
    pcre2_set_heap_limit(scratch->context, MOST_HEAP);
    pcre2_set_callout(scratch->context, count_item, scratch);
    if (scratch->stack) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    ls_match_scratch_begin(scratch, ls_pattern_most_steps(0));
    return scratch;
}

void ls_match_scratch_begin(ls_match_scratch *scratch, uint64_t most_steps) {
    scratch->steps = 0;
    scratch->most = most_steps;
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
    const ls_match_scratch *s = m->scratch;
    char reason[160] = "";
    if (error == PCRE2_ERROR_MATCHLIMIT && s->steps > s->most)
        return ls_error(LS_INVALID,
                        "%s: matching takes more than %llu steps, the most there may be, at byte %zu of %zu",
                        m->pattern->where, (unsigned long long)s->most, m->from, m->bytes);
    pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
    return ls_error(LS_INVALID, "%s: matching fails at byte %zu of a text of %zu bytes: %s", m->pattern->where, m->from,
                    m->bytes, reason);
}

/* The start of a character at least `ahead` bytes after m->from, or the end of the text. */
static size_t ahead_of(const ls_matches *m, size_t ahead) {
    if (m->bytes - m->from <= ahead) return m->bytes;
    size_t at = m->from + ahead;
    while (at < m->bytes && (m->text[at] & 0xc0) == 0x80) at++;
    return at;
}

/*
 * Tries the places from m->from to `last`, in the text up to `end`; `last` itself only if the text ends there. PCRE2's
 * compiled code for partial matching goes on at the byte after the limit, which must begin a character.
 */
static int match_at(const ls_matches *m, const pcre2_code *code, size_t last, size_t end, uint32_t most_steps) {
    ls_match_scratch *s = m->scratch;
    const PCRE2_SPTR text = (PCRE2_SPTR)m->text;
    const uint32_t options = end < m->bytes ? PCRE2_PARTIAL_HARD : 0;
    pcre2_set_offset_limit(s->context, last < m->bytes ? last - 1 : last);
    pcre2_set_match_limit(s->context, most_steps);
    return m->pattern->jit ? pcre2_jit_match(code, text, end, m->from, options, s->data, s->context)
                           : pcre2_match(code, text, end, m->from, options | PCRE2_NO_UTF_CHECK, s->data, s->context);
}

static bool find_regex(ls_matches *m, ls_status *status) {
    const ls_pattern *pattern = m->pattern;
    ls_match_scratch *s = m->scratch;
    int found;
    for (;;) {
        const size_t last = ahead_of(m, FEW_PLACES), end = ahead_of(m, 2 * FEW_PLACES);
        found = match_at(m, pattern->code, last, end, FEW_STEPS);
        if (found == PCRE2_ERROR_PARTIAL || found == PCRE2_ERROR_MATCHLIMIT) {
            s->at = m->from;
            found = match_at(m, pattern->counted, last, m->bytes, UINT32_MAX);
        }
        if (found != PCRE2_ERROR_NOMATCH || last == m->bytes) break;
        m->from = last;
    }
    m->found = found >= 0;
    if (m->found) {
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(s->data);
        m->start = place[0];
        m->end = place[1];
    } else if (found != PCRE2_ERROR_NOMATCH) {
        *status = match_error(m, found);
        return false;
    }
    return true;
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
