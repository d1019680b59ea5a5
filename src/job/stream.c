/*
 * The text of a token may depend on its neighbours (a space before a word, bytes of one character in several tokens), so a few tokens
 * before the new ones are always decoded with them.
 */
#include "job/stream.h"
#include "base/base.h"

#include <stdlib.h>

enum { CONTEXT = 4, MOST_TOGETHER = 32 }; /* tokens */

static ls_status decode_from(ls_stream *s, const int32_t *ids, size_t n) {
    s->text.count = 0;
    return ls_tokenizer_decode(s->tokenizer, ids + s->anchor, n - s->anchor, &s->text);
}

/* Everything up to here is out. */
static ls_status anchor_at(ls_stream *s, const int32_t *ids, size_t n) {
    s->anchor = n > CONTEXT ? n - CONTEXT : 0;
    LS_TRY(decode_from(s, ids, n));
    s->emitted = s->text.count;
    return ls_ok();
}

ls_status ls_stream_begin(const ls_tokenizer *tokenizer, ls_stream_out out, void *context, const int32_t *ids,
                          size_t at, ls_stream *stream) {
    *stream = (ls_stream){.tokenizer = tokenizer, .out = out, .context = context};
    return anchor_at(stream, ids, at);
}

static void emit(ls_stream *s, size_t n) {
    char piece[64];
    for (size_t end = s->emitted + n, part; s->emitted < end; s->emitted += part) {
        const char *bytes = s->text.byte + s->emitted;
        part = ls_utf8_valid_prefix(bytes, (size_t)ls_min((int64_t)(end - s->emitted), 16));
        if (part == 0) part = 1; /* a wrong byte: printed as U+FFFD */
        s->out(s->context, piece, ls_utf8_printable(bytes, part, piece, sizeof piece));
    }
}

ls_status ls_stream_show(ls_stream *s, const int32_t *ids, size_t n, bool end) {
    LS_TRY(decode_from(s, ids, n));
    /* A character has at most four bytes: what is still none by then will never be one. */
    while (s->emitted < s->text.count) {
        const size_t left = s->text.count - s->emitted;
        const size_t valid = ls_utf8_valid_prefix(s->text.byte + s->emitted, left);
        if (valid == 0 && left < 4 && !end) return ls_ok();
        emit(s, valid > 0 ? valid : 1);
    }
    return n - s->anchor > MOST_TOGETHER ? anchor_at(s, ids, n) : ls_ok();
}

void ls_stream_free(ls_stream *stream) { free(stream->text.byte); }
