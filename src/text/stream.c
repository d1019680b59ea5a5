/*
 * Text of ids as they come. The text of the ids since a place where it was whole is made anew with each id; what
 * it has more than without that id is said, unless it ends within a character.
 */
#include "base/base.h"
#include "text/text_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAITING = 4, /* ids: the bytes of a character */
    MOST_SILENT =
        1024 /* ids without a text that are kept because those that follow may be changed with them */
};

struct ls_token_stream {
    const ls_tokenizer *tokenizer;
    ls_token_list
        ids; /* those of the last time that all was said, for what comes before, and the later ones */
    size_t old, waiting; /* how many are the first kind; how many came since something was said */
    ls_text said, now;   /* the text of ids as far as it was said, and all of it */
};

ls_status ls_token_stream_create(const ls_tokenizer *tokenizer, ls_token_stream **out) {
    ls_token_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return ls_error(LS_NO_MEMORY, "no memory for a stream of text");
    stream->tokenizer = tokenizer;
    *out = stream;
    return ls_ok();
}

void ls_token_stream_destroy(ls_token_stream *stream) {
    if (!stream) return;
    free(stream->ids.id);
    free(stream->said.byte);
    free(stream->now.byte);
    free(stream);
}

/* Bytes of a text without an end that may yet become a character: bytes that begin one, or U+FFFD for them. */
static size_t settled(const ls_text *text) {
    size_t bytes = ls_utf8_valid_run(text->byte, text->count);
    if (bytes < text->count) return text->count - bytes < 4 ? bytes : text->count;
    while (bytes >= 3 && memcmp(text->byte + bytes - 3, "\xef\xbf\xbd", 3) == 0) bytes -= 3;
    return bytes;
}

/* Says the text up to `bytes`, where it still begins with what was said: bytes that spoil a run take all of it back. */
static ls_status say(ls_token_stream *s, size_t bytes, ls_text *out) {
    const size_t had = s->said.count;
    if (bytes <= had || (had > 0 && memcmp(s->now.byte, s->said.byte, had) != 0)) return ls_ok();
    if (!ls_text_append(out, s->now.byte + had, bytes - had) ||
        !ls_text_append(&s->said, s->now.byte + had, bytes - had))
        return ls_no_memory(bytes);
    s->waiting = 0;
    return ls_ok();
}

/*
 * All was said: only the ids since the last time are kept, for what decoders do to the first of a text. By themselves
 * they must have a text: of spaces that are all taken off, a decoder has not taken all that it would.
 */
static ls_status forget(ls_token_stream *s) {
    const size_t newer = s->ids.count - s->old;
    s->waiting = 0;
    s->said.count = 0;
    LS_TRY(ls_tokenizer_decode(s->tokenizer, s->ids.id + s->old, newer, &s->said));
    if (s->said.count == 0 && newer < MOST_SILENT)
        return ls_tokenizer_decode(s->tokenizer, s->ids.id, s->ids.count, &s->said);
    memmove(s->ids.id, s->ids.id + s->old, newer * sizeof *s->ids.id);
    s->old = s->ids.count = newer;
    return ls_ok();
}

static ls_status say_all(ls_token_stream *s, ls_text *out) {
    const size_t before = s->waiting;
    LS_TRY(say(s, s->now.count, out));
    for (size_t i = 0; i < before && s->waiting > 0;
         i++) /* what was said does not hold: a mark for each id */
        if (!ls_text_append(out, "\xef\xbf\xbd", 3)) return ls_no_memory(3);
    return forget(s);
}

ls_status ls_token_stream_push(ls_token_stream *stream, int32_t id, ls_text *out) {
    if (!ls_token_list_reserve(&stream->ids, 1)) return ls_no_memory(1);
    stream->ids.id[stream->ids.count] = id;
    stream->now.count = 0;
    LS_TRY(ls_tokenizer_decode(stream->tokenizer, stream->ids.id, stream->ids.count + 1, &stream->now));
    stream->ids.count++;
    stream->waiting++;
    const size_t bytes = settled(&stream->now);
    LS_TRY(say(stream, bytes, out));
    if (stream->waiting >= MOST_WAITING) return say_all(stream, out);
    return bytes == stream->now.count && bytes == stream->said.count ? forget(stream) : ls_ok();
}

ls_status ls_token_stream_finish(ls_token_stream *stream, ls_text *out) {
    if (stream->ids.count == stream->old) return ls_ok();
    stream->now.count = 0;
    LS_TRY(ls_tokenizer_decode(stream->tokenizer, stream->ids.id, stream->ids.count, &stream->now));
    return say_all(stream, out);
}
