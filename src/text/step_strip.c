/*
 * Strip: the normalizer removes white space from the ends, the decoder removes one character from the ends of each
 * token.
 */
#include "text/characters.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct stripping {
    bool left, right;
    char content[4];
    int length;          /* of content */
    int64_t start, stop; /* the most that are removed at each end */
} stripping;

static ls_status read(ls_json_value step, void **state) {
    stripping *s = *state = calloc(1, sizeof *s);
    if (!s) return ls_no_memory(0);
    LS_TRY(ls_json_bool(step, "strip_left", &s->left));
    return ls_json_bool(step, "strip_right", &s->right);
}

static ls_status normalize(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out) {
    const stripping *s = state;
    uint32_t code;
    int length;
    (void)scratch, (void)out, (void)most;
    while (s->left && (length = ls_utf8_decode(piece->text, piece->bytes, &code)) > 0 && ls_is_space(code)) {
        piece->text += length;
        piece->bytes -= (size_t)length;
        piece->first = false;
    }
    while (s->right && piece->bytes > 0 && (length = ls_utf8_last(piece->text, piece->bytes, &code)) > 0 &&
           ls_is_space(code))
        piece->bytes -= (size_t)length;
    return ls_ok();
}

static ls_cut cut(const void *state, ls_boundary *boundary) {
    (void)state;
    return ls_is_space(boundary->left) || ls_is_space(boundary->right) ? LS_CUT_UNKNOWN : LS_CUT_SAME;
}

static ls_status read_decoder(ls_json_value step, void **state) {
    stripping *s = *state = calloc(1, sizeof *s);
    const char *content;
    if (!s) return ls_no_memory(0);
    LS_TRY(ls_json_text(step, "content", &content));
    s->length = ls_utf8_decode(content, strlen(content), NULL);
    if (s->length == 0 || content[s->length] != 0)
        return ls_json_error(ls_json_field(step, "content"), "one character");
    memcpy(s->content, content, (size_t)s->length);
    LS_TRY(ls_json_int(step, "start", 0, INT32_MAX, &s->start));
    return ls_json_int(step, "stop", 0, INT32_MAX, &s->stop);
}

static ls_status decode(const void *state, const ls_strings *in, ls_strings *out) {
    const stripping *s = state;
    const size_t length = (size_t)s->length;
    for (size_t i = 0, start = 0; i < in->count; start = in->end[i++]) {
        const char *text = in->all.byte + start;
        size_t bytes = in->end[i] - start;
        for (int64_t n = 0; n < s->start && bytes >= length && memcmp(text, s->content, length) == 0; n++) {
            text += length;
            bytes -= length;
        }
        for (int64_t n = 0; n < s->stop && bytes >= length && memcmp(text + bytes - length, s->content, length) == 0;
             n++)
            bytes -= length;
        if (!ls_text_append(&out->all, text, bytes) || !ls_strings_end(out)) return ls_no_memory(in->all.count);
    }
    return ls_ok();
}

const ls_step_kind ls_step_strip = {.type = "Strip", .read = read, .free = free, .normalize = normalize, .cut = cut};
const ls_step_kind ls_step_strip_decoder = {.type = "Strip", .read = read_decoder, .free = free, .decode = decode};
