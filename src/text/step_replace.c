/* Replace, as a normalizer and as a decoder: replaces every match of a pattern by a text. */
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct replacement {
    ls_pattern *pattern;
    char *content;
    size_t bytes;
} replacement;

static void free_state(void *state) {
    replacement *r = state;
    if (r) ls_pattern_free(r->pattern);
    if (r) free(r->content);
    free(r);
}

static ls_status read(ls_json_value step, void **state) {
    replacement *r = *state = calloc(1, sizeof *r);
    const char *content;
    if (!r) return ls_no_memory(0);
    LS_TRY(ls_pattern_read(step, "pattern", &r->pattern));
    LS_TRY(ls_json_text(step, "content", &content));
    r->content = strdup(content);
    r->bytes = strlen(content);
    return r->content ? ls_ok() : ls_no_memory(r->bytes);
}

/*
 * Appends the text with its matches replaced; may stop after `most` bytes. *first_gone: a match at the beginning was
 * replaced by nothing.
 */
static ls_status replace(const replacement *r, ls_match_scratch *scratch, const char *text, size_t bytes, size_t most,
                         ls_text *out, bool *first_gone) {
    ls_matches m = {r->pattern, scratch, text, bytes, .last_end = SIZE_MAX};
    size_t at = 0;
    *first_gone = false;
    for (;; at = m.end) {
        ls_status status;
        if (!ls_matches_next(&m, &status)) return status;
        const size_t until = m.found ? m.start : bytes;
        if (!ls_text_append(out, text + at, until - at)) return ls_no_memory(bytes);
        if (!m.found || out->count > most) return ls_ok();
        if (m.start == 0 && m.end > 0 && r->bytes == 0) *first_gone = true;
        if (!ls_text_append(out, r->content, r->bytes)) return ls_no_memory(bytes);
    }
}

static ls_status normalize(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out) {
    bool first_gone;
    LS_TRY(replace(state, scratch, piece->text, piece->bytes, most, out, &first_gone));
    piece->text = out->byte;
    piece->bytes = out->count;
    piece->first = piece->first && !first_gone;
    return ls_ok();
}

/*
 * If the pattern is one character, a match on the left of the boundary becomes the last character of the content, and a
 * match on the right its first character.
 */
static ls_cut cut(const void *state, ls_boundary *boundary) {
    const replacement *r = state;
    const char *text = ls_pattern_text(r->pattern);
    uint32_t code, first, last;
    if (!text) return LS_CUT_UNKNOWN;
    if (!ls_utf8_holds(text, boundary->left) && !ls_utf8_holds(text, boundary->right)) return LS_CUT_SAME;
    const int n = ls_utf8_decode(text, strlen(text), &code);
    if (n == 0 || text[n] != 0 || ls_utf8_decode(r->content, r->bytes, &first) == 0 ||
        ls_utf8_last(r->content, r->bytes, &last) == 0)
        return LS_CUT_UNKNOWN;
    if (boundary->left == code) boundary->left = last;
    if (boundary->right == code) boundary->right = first;
    return LS_CUT_SAME;
}

/* Decoding is rare, so it allocates its own memory for matching. */
static ls_status decode(const void *state, const ls_strings *in, ls_strings *out) {
    const size_t most = ls_most_bytes(in->all.count);
    ls_match_scratch *scratch = ls_match_scratch_create();
    ls_status status = scratch ? ls_ok() : ls_no_memory(in->all.count);
    if (scratch) ls_match_scratch_begin(scratch, ls_pattern_most_steps(in->all.count));
    for (size_t i = 0, start = 0; i < in->count && status.code == LS_OK; start = in->end[i++]) {
        bool first_gone;
        status = replace(state, scratch, in->all.byte + start, in->end[i] - start, most, &out->all, &first_gone);
        if (status.code == LS_OK && out->all.count > most)
            status = ls_error(LS_INVALID, "the decoders of the tokenizer turn a text into more than %zu bytes", most);
        if (status.code == LS_OK && !ls_strings_end(out)) status = ls_no_memory(in->all.count);
    }
    ls_match_scratch_destroy(scratch);
    return status;
}

const ls_step_kind ls_step_replace = {
    .type = "Replace", .read = read, .free = free_state, .normalize = normalize, .cut = cut};
const ls_step_kind ls_step_replace_decoder = {.type = "Replace", .read = read, .free = free_state, .decode = decode};
