#include "data/source.h"
#include "base/base.h"
#include "data/cut.h"
#include "data/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH ((size_t)16 << 20)
#define PART \
    ((size_t)256 << 10) /* texts are cut into parts of about this, so that several threads share them */
#define LONG_PART ((size_t)1 << 20) /* the same where places to cut must be looked for */
enum { MOST_RECORDS = 1 << 18 };

struct ls_source {
    const ls_input *inputs;
    int64_t n_inputs;
    size_t piece; /* of the tokenizer */
    const ls_tokenizer *tokenizer;
    ls_place place; /* of buffer[begin]: where the next record begins */
    ls_stream *stream;
    bool ended; /* nothing is left of the stream */
    char *buffer;
    size_t room, begin, filled;
    ls_record *records; /* [MOST_RECORDS] */
    size_t n;
};

ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer, ls_place from,
                         ls_source **out) {
    ls_source *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %lld files", (long long)n);
    *s = (ls_source){.inputs = inputs,
                     .n_inputs = n,
                     .tokenizer = tokenizer,
                     .piece = ls_tokenizer_piece(tokenizer),
                     .place = from,
                     .room = BATCH};
    s->buffer = malloc(s->room);
    s->records = malloc(MOST_RECORDS * sizeof *s->records);
    if (s->buffer == NULL || s->records == NULL) {
        ls_source_close(s);
        return ls_error(LS_NO_MEMORY, "no memory to read %lld files", (long long)n);
    }
    *out = s;
    return ls_ok();
}

void ls_source_close(ls_source *s) {
    if (s == NULL) return;
    ls_stream_close(s->stream);
    free(s->buffer);
    free(s->records);
    free(s);
}

ls_place ls_source_place(const ls_source *s) { return s->place; }

static const ls_input *input_of(const ls_source *s) { return &s->inputs[s->place.input]; }

/* The next `bytes` of the buffer, `skip` behind them. */
static void take(ls_source *s, size_t bytes, size_t skip, bool last, const char *bad) {
    s->records[s->n++] = (ls_record){s->buffer + s->begin, bytes, s->place, last, bad};
    s->begin += bytes + skip;
    s->place.offset += (int64_t)(bytes + skip);
}

static ls_status next_file(ls_source *s) {
    LS_TRY(ls_stream_open(input_of(s)->path, input_of(s)->compressed, &s->stream));
    s->ended = false;
    return ls_stream_skip(s->stream, s->place.offset);
}

/* What was read of a file that changed meanwhile is of no file that ever was. */
static ls_status check_unchanged(const ls_input *in) {
    struct stat info;
    if (stat(in->path, &info) == 0 && info.st_size == in->bytes &&
        (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec == in->changed)
        return ls_ok();
    return ls_error(
        LS_IO, "%s: changed while it was read; build again from the beginning, into another --out", in->path);
}

static ls_status leave_file(ls_source *s) {
    LS_TRY(check_unchanged(input_of(s)));
    ls_stream_close(s->stream);
    s->stream = NULL;
    s->place = (ls_place){s->place.input + 1, 0, 1};
    return ls_ok();
}

static ls_status fill(ls_source *s) {
    size_t n = 0;
    const size_t wanted = s->room - s->filled;
    if (s->ended || wanted == 0) return ls_ok();
    LS_TRY(ls_stream_read(s->stream, s->buffer + s->filled, wanted, &n));
    s->filled += n;
    s->ended = n < wanted;
    return ls_ok();
}

/* --- lines ------------------------------------------------------------------------------------------------------------------ */

static bool blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

/* A byte order mark at the beginning of a file is no part of its first line. */
static void pass_mark(ls_source *s) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    if (s->place.offset > 0 || s->filled - s->begin < sizeof mark ||
        memcmp(s->buffer + s->begin, mark, sizeof mark) != 0)
        return;
    s->begin += sizeof mark;
    s->place.offset += (int64_t)sizeof mark;
}

static void take_lines(ls_source *s) {
    pass_mark(s);
    while (s->n < MOST_RECORDS && s->begin < s->filled) {
        const char *at = s->buffer + s->begin, *newline = memchr(at, '\n', s->filled - s->begin);
        if (newline == NULL && !s->ended) return;
        const size_t bytes = newline != NULL ? (size_t)(newline - at) : s->filled - s->begin;
        const size_t skip = newline != NULL;
        if (blank(at, bytes)) {
            s->begin += bytes + skip;
            s->place.offset += (int64_t)(bytes + skip);
        } else {
            take(s, bytes, skip, true, NULL);
        }
        s->place.line++;
    }
}

/* The buffer is full of a line without an end: it is passed over. */
static ls_status pass_long_line(ls_source *s) {
    const char *newline = NULL;
    const ls_place at = s->place;
    while (newline == NULL && s->begin < s->filled) {
        newline = memchr(s->buffer + s->begin, '\n', s->filled - s->begin);
        const size_t bytes =
            newline != NULL ? (size_t)(newline - s->buffer) + 1 - s->begin : s->filled - s->begin;
        s->begin += bytes;
        s->place.offset += (int64_t)bytes;
        if (newline != NULL) break;
        s->begin = s->filled = 0;
        LS_TRY(fill(s));
    }
    s->place.line++;
    s->records[s->n++] = (ls_record){"", 0, at, true, "the line is longer than 64 MiB"};
    return ls_ok();
}

/* --- texts ------------------------------------------------------------------------------------------------------------------ */

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
    while (s->n < MOST_RECORDS && s->filled - s->begin > least) {
        size_t part = 0;
        LS_TRY(next_part(s, &part));
        if (part == 0 || part >= s->filled - s->begin) break;
        take(s, part, 0, false, NULL);
    }
    if (ends && s->n < MOST_RECORDS) take(s, s->filled - s->begin, 0, true, NULL);
    return ls_ok();
}

/* Whether a text that is longer than the buffer is one: read to its end by itself. */
static ls_status look_for_nul(const ls_source *s, bool *found) {
    static const size_t room = (size_t)1 << 20;
    ls_stream *stream = NULL;
    char *block = malloc(room);
    if (block == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", input_of(s)->path);
    ls_status status = ls_stream_open(input_of(s)->path, input_of(s)->compressed, &stream);
    size_t n = room;
    for (*found = false; status.code == LS_OK && n == room && !*found;) {
        status = ls_stream_read(stream, block, room, &n);
        *found = status.code == LS_OK && memchr(block, 0, n) != NULL;
    }
    ls_stream_close(stream);
    free(block);
    return status;
}

/* The rest of the file is not wanted. */
static void drop_text(ls_source *s, const char *why) {
    s->begin = s->filled;
    s->ended = true;
    s->records[s->n++] = (ls_record){"", 0, {s->place.input, 0, 1}, true, why};
}

static ls_status take_text(ls_source *s) {
    const bool starts = s->place.offset == 0, long_one = !starts || !s->ended;
    if (s->begin > 0 && s->n > 0 && long_one) return ls_ok(); /* it has the next batch for itself */
    bool found = false;
    if (starts && s->ended)
        found = memchr(s->buffer + s->begin, 0, s->filled - s->begin) != NULL;
    else if (starts)
        LS_TRY(look_for_nul(s, &found));
    if (found) {
        drop_text(s, "holds a NUL byte: not text");
        return ls_ok();
    }
    if (!long_one && s->piece == SIZE_MAX) {
        take(s, s->filled - s->begin, 0, true, NULL); /* others are beside it, for the other threads */
        return ls_ok();
    }
    const size_t before = s->n;
    LS_TRY(take_parts(s, s->ended));
    if (starts || s->n > before || s->filled < s->room)
        return ls_ok(); /* from its start on the buffer may grow */
    return ls_error(
        LS_INVALID,
        "%s: behind byte %lld there is no place to cut it for %zu bytes, and the tokenizer cannot "
        "encode more at once",
        input_of(s)->path, (long long)s->place.offset, s->room);
}

/* --- batches ---------------------------------------------------------------------------------------------------------------- */

/* A record that is longer than the buffer. */
static ls_status grow(ls_source *s) {
    if (s->room >= LS_RECORD_MOST) {
        if (input_of(s)->lines) return pass_long_line(s);
        drop_text(s,
                  "the text is longer than 64 MiB, and has no place where the tokenizer's ids let it be cut");
        return ls_ok();
    }
    LS_ASSERT(s->room >= BATCH);
    char *grown = realloc(s->buffer, 2 * s->room);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", 2 * s->room);
    s->buffer = grown;
    s->room *= 2;
    return ls_ok();
}

ls_status ls_source_next(ls_source *s, const ls_record **records, size_t *n) {
    memmove(s->buffer, s->buffer + s->begin, s->filled - s->begin);
    s->filled -= s->begin;
    s->begin = s->n = 0;
    while (s->n < MOST_RECORDS && (s->stream != NULL || s->place.input < s->n_inputs)) {
        if (s->stream == NULL) LS_TRY(next_file(s));
        LS_TRY(fill(s));
        if (input_of(s)->lines)
            take_lines(s);
        else
            LS_TRY(take_text(s));
        const bool stuck = s->n == 0 && s->begin == 0 && s->filled == s->room;
        if (stuck) LS_TRY(grow(s));
        if (s->ended && s->begin == s->filled)
            LS_TRY(leave_file(s));
        else if (s->n > 0)
            break;
        if (s->filled == s->room && s->n > 0) break;
        if (s->begin > 0 && s->n == 0) { /* nothing but blank lines so far */
            memmove(s->buffer, s->buffer + s->begin, s->filled - s->begin);
            s->filled -= s->begin;
            s->begin = 0;
        }
    }
    *records = s->records;
    *n = s->n;
    return ls_ok();
}
