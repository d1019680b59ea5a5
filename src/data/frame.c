#include "data/frame.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

bool ls_frame_is_auto(const char *word) { return word == NULL || strcmp(word, "auto") == 0; }

/* *out: -1 for "none". */
static ls_status find_token(const ls_tokenizer *tokenizer, const char *flag, const char *word, int32_t *out) {
    *out = -1;
    if (strcmp(word, "none") == 0) return ls_ok();
    *out = ls_tokenizer_find(tokenizer, word);
    return *out >= 0 ? ls_ok()
                     : ls_error(LS_USAGE, "--%s is '%s', expected auto, none or a token of the tokenizer",
                                flag, word);
}

static ls_status find_begin(const ls_tokenizer *tokenizer, const char *word, ls_frame *out) {
    if (!ls_frame_is_auto(word)) {
        LS_TRY(find_token(tokenizer, "begin", word, &out->begin[0]));
        out->n_begin = out->begin[0] >= 0;
        return ls_ok();
    }
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    if (frame.n_before > LS_FRAME_MOST)
        return ls_error(LS_UNSUPPORTED, "the tokenizer puts %zu tokens before a text, expected at most %d",
                        frame.n_before, LS_FRAME_MOST);
    out->n_begin = (int)frame.n_before;
    for (int i = 0; i < out->n_begin; i++) out->begin[i] = frame.before[i];
    return ls_ok();
}

ls_status ls_frame_find(const ls_tokenizer *tokenizer, const char *begin, const char *end, ls_frame *out) {
    ls_frame frame = {.end = ls_tokenizer_end_of_document(tokenizer)};
    LS_TRY(find_begin(tokenizer, begin, &frame));
    if (!ls_frame_is_auto(end))
        LS_TRY(find_token(tokenizer, "end", end, &frame.end));
    else if (frame.end < 0)
        return ls_error(
            LS_INVALID,
            "the tokenizer \"%s\" says of no token that it ends a document, expected eos_token in "
            "tokenizer_config.json, or --end with a token or none",
            ls_tokenizer_name(tokenizer));
    *out = frame;
    return ls_ok();
}

void ls_frame_text(const ls_tokenizer *tokenizer, const int32_t *ids, int n, char *out, size_t room) {
    ls_text text = {0};
    snprintf(out, room, "none");
    if (n > 0 && ids[0] >= 0 && ls_tokenizer_decode(tokenizer, ids, (size_t)n, &text).code == LS_OK)
        ls_utf8_printable(text.byte, text.count, out, room);
    free(text.byte);
}
