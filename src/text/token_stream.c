/*
 * Decodes ids one by one. With each new id, all kept ids are decoded again, and the part of their text that was not
 * returned yet is returned, up to the last complete character. Ids before a point where the text was complete are
 * dropped, except a few that decoders need as context.
 */
#include "base/base.h"
#include "text/text_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAITING = 4, /* ids that a character can take: one for each byte */
    /* Ids without text that are kept because decoding may treat later ids differently after them. */
    MOST_SILENT = 1024
};

struct ls_token_stream {
    const ls_tokenizer *tokenizer;
    ls_token_list ids;        /* `context` ids whose text is appended already, then the newer ones */
    size_t context;           /* ids that are kept because decoders treat the beginning of a text differently */
    size_t waiting;           /* ids since text was last appended */
    ls_text emitted, decoded; /* the text of `ids`: the part that is appended already, and all of it */
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
    free(stream->emitted.byte);
    free(stream->decoded.byte);
    free(stream);
}

/*
 * Length of a text without its end that later ids may turn into a character: incomplete bytes, or the U+FFFD that
 * decoders put for them.
 */
static size_t complete_bytes(const ls_text *text) {
    size_t bytes = ls_utf8_valid_run(text->byte, text->count);
    if (bytes < text->count) return text->count - bytes < 4 ? bytes : text->count;
    while (bytes >= 3 && memcmp(text->byte + bytes - 3, "\xef\xbf\xbd", 3) == 0) bytes -= 3;
    return bytes;
}

/*
 * Appends the text up to `bytes` if it still begins with the text appended before. A wrong byte may change all of the
 * decoded text.
 */
static ls_status emit(ls_token_stream *s, size_t bytes, ls_text *out) {
    const size_t had = s->emitted.count;
    if (bytes <= had || (had > 0 && memcmp(s->decoded.byte, s->emitted.byte, had) != 0)) return ls_ok();
    if (!ls_text_append(out, s->decoded.byte + had, bytes - had) ||
        !ls_text_append(&s->emitted, s->decoded.byte + had, bytes - had))
        return ls_no_memory(bytes);
    s->waiting = 0;
    return ls_ok();
}

/*
 * To be called when all text has been appended: the newer ids become the context, and the older ones are dropped. The
 * new context must have text of its own. If a decoder strips all of it, as may happen with spaces at the beginning, the
 * older ids are still needed.
 */
static ls_status drop_context(ls_token_stream *s) {
    const size_t newer = s->ids.count - s->context;
    s->waiting = 0;
    s->emitted.count = 0;
    LS_TRY(ls_tokenizer_decode(s->tokenizer, s->ids.id + s->context, newer, &s->emitted));
    if (s->emitted.count == 0 && newer < MOST_SILENT)
        return ls_tokenizer_decode(s->tokenizer, s->ids.id, s->ids.count, &s->emitted);
    memmove(s->ids.id, s->ids.id + s->context, newer * sizeof *s->ids.id);
    s->context = s->ids.count = newer;
    return ls_ok();
}

static ls_status emit_all(ls_token_stream *s, ls_text *out) {
    const size_t before = s->waiting;
    LS_TRY(emit(s, s->decoded.count, out));
    /* emit has returned nothing (the new text does not continue the old one): U+FFFD for each waiting id. */
    const size_t lost = s->waiting > 0 ? before : 0;
    for (size_t i = 0; i < lost; i++)
        if (!ls_text_append(out, "\xef\xbf\xbd", 3)) return ls_no_memory(3);
    return drop_context(s);
}

ls_status ls_token_stream_push(ls_token_stream *stream, int32_t id, ls_text *out) {
    if (!ls_token_list_reserve(&stream->ids, 1)) return ls_no_memory(1);
    stream->ids.id[stream->ids.count] = id;
    stream->decoded.count = 0;
    LS_TRY(ls_tokenizer_decode(stream->tokenizer, stream->ids.id, stream->ids.count + 1, &stream->decoded));
    stream->ids.count++;
    stream->waiting++;
    const size_t bytes = complete_bytes(&stream->decoded);
    LS_TRY(emit(stream, bytes, out));
    if (stream->waiting >= MOST_WAITING) return emit_all(stream, out);
    return bytes == stream->decoded.count && bytes == stream->emitted.count ? drop_context(stream) : ls_ok();
}

ls_status ls_token_stream_finish(ls_token_stream *stream, ls_text *out) {
    if (stream->ids.count == stream->context) return ls_ok();
    stream->decoded.count = 0;
    LS_TRY(ls_tokenizer_decode(stream->tokenizer, stream->ids.id, stream->ids.count, &stream->decoded));
    return emit_all(stream, out);
}
