#include "data/source_impl.h"
#include "longspan/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH ((size_t)16 << 20)

static const ls_source_kind *const kinds[] = {[LS_INPUT_TEXT] = &ls_source_text,
                                              [LS_INPUT_LINES] = &ls_source_lines,
                                              [LS_INPUT_VALUES] = &ls_source_values};

ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer, ls_place from,
                         int64_t most, ls_source **out) {
    ls_source *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %lld files", (long long)n);
    *s = (ls_source){.inputs = inputs,
                     .n_inputs = n,
                     .tokenizer = tokenizer,
                     .piece = ls_tokenizer_piece(tokenizer),
                     .most = (size_t)ls_max(most > 0 ? most : LS_RECORD_MOST, (int64_t)BATCH),
                     .place = from,
                     .room = BATCH};
    char bytes[LS_BYTES_TEXT];
    snprintf(s->why, sizeof s->why, "longer than %s; --longest-record says how long it may be",
             ls_bytes_text((double)s->most, bytes));
    s->buffer = malloc(s->room);
    s->records = malloc(LS_SOURCE_RECORDS * sizeof *s->records);
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

/* --- the buffer ------------------------------------------------------------------------------------------------------------- */

void ls_source_pass(ls_source *s, size_t bytes) {
    s->begin += bytes;
    s->place.offset += (int64_t)bytes;
}

void ls_source_take(ls_source *s, size_t bytes, size_t skip, bool last) {
    s->records[s->n++] = (ls_text_record){s->buffer + s->begin, bytes, s->place, last, NULL, false, false};
    ls_source_pass(s, bytes + skip);
}

void ls_source_drop(ls_source *s, ls_place at, const char *why, bool binary) {
    s->begin = s->filled;
    s->ended = s->dropped = true;
    s->records[s->n++] = (ls_text_record){"", 0, at, true, why, true, binary};
}

void ls_source_pass_mark(ls_source *s) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    if (s->place.offset > 0 || s->filled - s->begin < sizeof mark ||
        memcmp(s->buffer + s->begin, mark, sizeof mark) != 0)
        return;
    ls_source_pass(s, sizeof mark);
}

/* What is left goes to its front. */
static void move_up(ls_source *s) {
    memmove(s->buffer, s->buffer + s->begin, s->filled - s->begin);
    s->filled -= s->begin;
    s->begin = 0;
}

ls_status ls_source_fill(ls_source *s) {
    size_t n = 0;
    const size_t wanted = s->room - s->filled;
    if (s->ended || wanted == 0) return ls_ok();
    const ls_status status = ls_stream_read(s->stream, s->buffer + s->filled, wanted, &n);
    const char *broken = ls_stream_broken(s->stream);
    if (broken == NULL) LS_TRY(status);
    if (broken != NULL) snprintf(s->broken, sizeof s->broken, "%s", broken);
    s->filled += n;
    s->ended = n < wanted;
    return ls_ok();
}

/* A record is longer than the buffer. */
static ls_status grow(ls_source *s) {
    if (s->room >= s->most) return kinds[ls_source_input(s)->kind]->too_long(s);
    const size_t wanted = 2 * s->room < s->most ? 2 * s->room : s->most;
    char *grown = realloc(s->buffer, wanted);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", wanted);
    s->buffer = grown;
    s->room = wanted;
    return ls_ok();
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

static ls_status next_file(ls_source *s) {
    const ls_source_kind *kind = kinds[ls_source_input(s)->kind];
    LS_TRY(ls_stream_open(ls_source_input(s)->path, &s->stream));
    s->ended = s->dropped = false;
    s->broken[0] = 0;
    return kind->begin != NULL ? kind->begin(s) : ls_stream_skip(s->stream, s->place.offset);
}

/* What was read of a file that changed meanwhile is of no file that ever was. */
static ls_status check_unchanged(const ls_input *in) {
    struct stat info;
    if (stat(in->path, &info) == 0 && info.st_size == in->bytes &&
        (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec == in->changed)
        return ls_ok();
    return ls_error(LS_IO, "%s: changed while it was read; begin again, into another --out", in->path);
}

static ls_status leave_file(ls_source *s) {
    LS_TRY(check_unchanged(ls_source_input(s)));
    ls_stream_close(s->stream);
    s->stream = NULL;
    s->place = (ls_place){s->place.input + 1, 0, 1};
    return ls_ok();
}

static void pass_refused(ls_source *s) {
    const ls_input *in = ls_source_input(s);
    s->records[s->n++] = (ls_text_record){"", 0, s->place, true, in->refused, true, true};
    s->place = (ls_place){s->place.input + 1, 0, 1};
}

/* --- batches ---------------------------------------------------------------------------------------------------------------- */

/* More records of the file that is open. */
static ls_status take_some(ls_source *s) {
    LS_TRY(ls_source_fill(s));
    LS_TRY(kinds[ls_source_input(s)->kind]->take(s));
    if (s->n == 0 && s->begin == 0 && s->filled == s->room) LS_TRY(grow(s)); /* less than one */
    if (s->ended && s->broken[0] != 0 && !s->dropped && s->n < LS_SOURCE_RECORDS)
        ls_source_drop(s, s->place, s->broken, false);
    return ls_ok();
}

ls_status ls_source_next(ls_source *s, const ls_text_record **records, size_t *n) {
    move_up(s);
    s->n = 0;
    while (s->n < LS_SOURCE_RECORDS && (s->stream != NULL || s->place.input < s->n_inputs)) {
        if (s->stream == NULL && ls_source_input(s)->refused != NULL) {
            pass_refused(s);
            continue;
        }
        if (s->stream == NULL) LS_TRY(next_file(s));
        LS_TRY(take_some(s));
        const bool broken = s->broken[0] != 0; /* the text of its record stays until the next call */
        if (s->ended && s->begin == s->filled)
            LS_TRY(leave_file(s));
        else if (s->n > 0)
            break;
        if ((s->filled == s->room || broken) && s->n > 0) break;
        if (s->begin > 0 && s->n == 0) move_up(s); /* nothing but white space so far */
    }
    *records = s->records;
    *n = s->n;
    return ls_ok();
}
