/* Text: the whole file is one, in parts where it is long. */
#include "data/cut.h"
#include "data/source_impl.h"

#include <stdlib.h>
#include <string.h>

#define PART \
    ((size_t)256 << 10) /* texts are cut into parts of about this, so that several threads share them */
#define LONG_PART ((size_t)1 << 20) /* the same where places to cut must be looked for */

/* Bytes that may be encoded by themselves, about a part; 0: there is no such place. */
static ls_status next_part(const ls_source *s, size_t *bytes) {
    if (s->piece < SIZE_MAX) {
        *bytes = s->piece < PART ? PART / s->piece * s->piece : s->piece;
        return ls_ok();
    }
    return ls_text_cut(s->tokenizer, s->buffer + s->begin, s->filled - s->begin, LONG_PART, bytes);
}

/* What is in the buffer as such parts; what is no part stays unless the text ends. */
static ls_status take_parts(ls_source *s, bool ends) {
    const size_t least = s->piece < SIZE_MAX ? 0 : 2 * LONG_PART;
    while (s->n < LS_SOURCE_RECORDS && s->filled - s->begin > least) {
        size_t part = 0;
        LS_TRY(next_part(s, &part));
        if (part == 0 || part >= s->filled - s->begin) break;
        ls_source_take(s, part, 0, false);
    }
    if (ends && s->n < LS_SOURCE_RECORDS) ls_source_take(s, s->filled - s->begin, 0, true);
    return ls_ok();
}

/* Whether a text that is longer than the buffer is one: read to its end by itself. */
static ls_status look_for_nul(const ls_source *s, bool *found) {
    static const size_t room = (size_t)1 << 20;
    ls_byte_stream *stream = NULL;
    char *block = malloc(room);
    if (block == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", ls_source_input(s)->path);
    ls_status status = ls_stream_open(ls_source_input(s)->path, &stream);
    size_t n = room;
    for (*found = false; status.code == LS_OK && n == room && !*found;) {
        status = ls_stream_read(stream, block, room, &n);
        *found = memchr(block, 0, n) != NULL;
    }
    if (stream != NULL && ls_stream_broken(stream) != NULL)
        status = ls_ok(); /* seen again where it is read */
    ls_stream_close(stream);
    free(block);
    return status;
}

static void drop(ls_source *s, const char *why, bool binary) {
    ls_source_drop(s, (ls_place){s->place.input, 0, 1}, why, binary);
}

static ls_status take(ls_source *s) {
    const bool starts = s->place.offset == 0, long_one = !starts || !s->ended;
    if (s->begin > 0 && s->n > 0 && long_one) return ls_ok(); /* it has the next batch for itself */
    bool found = false;
    if (starts && s->ended)
        found = memchr(s->buffer + s->begin, 0, s->filled - s->begin) != NULL;
    else if (starts)
        LS_TRY(look_for_nul(s, &found));
    if (found) {
        drop(s, "holds a NUL byte: not text", true);
        return ls_ok();
    }
    const bool ends = s->ended && s->broken[0] == 0;
    if (!ends && s->ended) return ls_ok(); /* the rest of a broken file goes */
    if (!long_one && s->piece == SIZE_MAX) {
        ls_source_take(s, s->filled - s->begin, 0, true); /* others are beside it, for the other threads */
        return ls_ok();
    }
    const size_t before = s->n;
    LS_TRY(take_parts(s, ends));
    if (starts || s->n > before || s->filled < s->room)
        return ls_ok(); /* from its start on the buffer may grow */
    return ls_error(
        LS_INVALID,
        "%s: behind byte %lld there is no place to cut it for %zu bytes, and the tokenizer cannot "
        "encode more at once",
        ls_source_input(s)->path, (long long)s->place.offset, s->room);
}

static ls_status too_long(ls_source *s) {
    drop(s, s->why, false);
    return ls_ok();
}

const ls_source_kind ls_source_text = {NULL, take, too_long};
