/*
 * Records of the inputs, in batches. The files are read one after the other through one buffer. Each kind of input
 * (text, JSON lines, JSON values) is a row that finds the records in the buffer.
 */
#include "data/source_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH ((size_t)16 << 20)
enum { MOST_RECORDS = 1 << 18 }; /* in a batch */

struct ls_source {
    const ls_input *inputs;
    int64_t n_inputs;
    const ls_tokenizer *tokenizer;
    size_t piece; /* ls_tokenizer_piece */
    size_t most;  /* most bytes of a record */
    ls_encoding encoding;
    ls_place place;         /* place of buffer[begin] */
    ls_byte_stream *stream; /* stream of the open file; NULL: none is open */
    bool ended;             /* the stream has no more bytes */
    char broken[200];       /* why the stream ended too early; empty: it did not */
    bool rejected;          /* the rest of the file was rejected */
    char *buffer;
    size_t room, begin, filled; /* bytes begin .. filled - 1 of the buffer are not used yet */
    ls_text_record *records;    /* [MOST_RECORDS] */
    size_t n;
    char too_long[160]; /* the error of a record that is too long */

    /* For JSON values: */
    bool array;      /* the values are the items of an array */
    int64_t skip_to; /* an earlier build has read the values that begin before this offset */
    /* What is allowed next. */
    enum { OPENING, VALUE_OR_END, VALUE, COMMA_OR_END, CLOSED } next;
};

typedef struct source_kind {
    ls_status (*begin)(ls_source *source);        /* called when a file is opened; NULL: skips to source->place */
    ls_status (*read_records)(ls_source *source); /* adds the records that are complete in the buffer */
    ls_status (*too_long)(ls_source *source);     /* a record does not fit into the buffer, which may not grow */
} source_kind;

static const ls_input *current_input(const ls_source *s) { return &s->inputs[s->place.input]; }

/* ---- the buffer ---- */

static void skip(ls_source *s, size_t bytes) {
    s->begin += bytes;
    s->place.offset += (int64_t)bytes;
}

/*
 * The next bytes of the buffer are a record. The `separator` bytes after it are skipped. last: the record ends its
 * document.
 */
static void add_record(ls_source *s, size_t bytes, size_t separator, bool last) {
    s->records[s->n++] = (ls_text_record){s->buffer + s->begin, bytes, s->place, last, NULL, false, false};
    skip(s, bytes + separator);
}

/* Adds a bad record at `at`, and skips the rest of the file. */
static void reject_rest(ls_source *s, ls_place at, const char *why, bool binary) {
    s->begin = s->filled;
    s->ended = s->rejected = true;
    s->records[s->n++] = (ls_text_record){"", 0, at, true, why, true, binary};
}

static void skip_byte_order_mark(ls_source *s) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    if (s->place.offset > 0 || s->filled - s->begin < sizeof mark ||
        memcmp(s->buffer + s->begin, mark, sizeof mark) != 0)
        return;
    skip(s, sizeof mark);
}

/* Moves the unused bytes to the front of the buffer. */
static void move_up(ls_source *s) {
    memmove(s->buffer, s->buffer + s->begin, s->filled - s->begin);
    s->filled -= s->begin;
    s->begin = 0;
}

/* Reads more bytes of the file into the buffer. */
static ls_status fill_buffer(ls_source *s) {
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

/* ---- JSON lines: a record is a line ---- */

static bool is_blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

static ls_status read_lines(ls_source *s) {
    skip_byte_order_mark(s);
    while (s->n < MOST_RECORDS && s->begin < s->filled) {
        const char *at = s->buffer + s->begin, *newline = memchr(at, '\n', s->filled - s->begin);
        if (newline == NULL && (!s->ended || s->broken[0] != 0)) return ls_ok();
        const size_t bytes = newline != NULL ? (size_t)(newline - at) : s->filled - s->begin;
        const size_t separator = newline != NULL;
        if (is_blank(at, bytes))
            skip(s, bytes + separator);
        else
            add_record(s, bytes, separator, true);
        s->place.line++;
    }
    return ls_ok();
}

/* The buffer holds the beginning of a line that is too long. */
static ls_status skip_long_line(ls_source *s) {
    const char *newline = NULL;
    const ls_place at = s->place;
    while (newline == NULL && s->begin < s->filled) {
        newline = memchr(s->buffer + s->begin, '\n', s->filled - s->begin);
        skip(s, newline != NULL ? (size_t)(newline - s->buffer) + 1 - s->begin : s->filled - s->begin);
        if (newline != NULL) break;
        s->begin = s->filled = 0;
        LS_TRY(fill_buffer(s));
    }
    s->place.line++;
    s->records[s->n++] = (ls_text_record){"", 0, at, true, s->too_long, false, false};
    return ls_ok();
}

/* ---- JSON values: a record is an item of the file's array, or one of several values ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Always reads from the beginning of the file, because what is allowed at a place depends on everything before it. */
static ls_status begin_values(ls_source *s) {
    s->skip_to = s->place.offset;
    s->place = (ls_place){s->place.input, 0, 1};
    s->next = OPENING;
    return ls_ok();
}

static void skip_space(ls_source *s) {
    size_t n = 0;
    for (const char *at = s->buffer + s->begin; s->begin + n < s->filled && is_space(at[n]); n++)
        s->place.line += at[n] == '\n';
    skip(s, n);
}

/* The end of the string that begins at `at`, or NULL if the text ends before it. */
static const char *end_of_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end) at++;
    return at < end ? at + 1 : NULL;
}

/*
 * The end of the value that begins at `at`, or NULL if the text ends before it. Only brackets, commas and strings are
 * considered; the parser rejects anything that is not a value. ended: the text is the end of the file.
 */
static const char *end_of_value(const char *at, const char *end, bool ended) {
    int64_t depth = 0;
    while (at < end) {
        const char c = *at;
        const bool closes = c == ']' || c == '}';
        if (depth == 0 && (closes || c == ',' || is_space(c))) return at;
        if (c == '"') {
            at = end_of_string(at, end);
            if (at == NULL) return NULL;
        } else {
            depth += c == '[' || c == '{';
            depth -= closes;
            at++;
        }
        if (depth == 0 && (c == '"' || closes)) return at;
    }
    return ended && depth == 0 ? end : NULL;
}

/* Skips a bracket or comma of the array. False: neither that nor the beginning of a value is allowed here. */
static bool skip_punctuation(ls_source *s) {
    const char c = s->buffer[s->begin];
    if (c == '[' && s->next == OPENING)
        s->next = VALUE_OR_END;
    else if (c == ',' && s->next == COMMA_OR_END)
        s->next = VALUE;
    else if (c == ']' && (s->next == COMMA_OR_END || s->next == VALUE_OR_END))
        s->next = CLOSED;
    else
        return c != ',' && c != ']' && s->next != COMMA_OR_END && s->next != CLOSED;
    skip(s, 1);
    return true;
}

/* Skips to the next value. False: the buffer holds none. */
static bool find_value(ls_source *s) {
    for (skip_space(s); s->begin < s->filled; skip_space(s)) {
        const size_t at = s->begin;
        if (s->next == OPENING) s->array = s->buffer[at] == '[';
        if (!s->array) return true;
        if (!skip_punctuation(s)) {
            reject_rest(s, s->place,
                        s->next == CLOSED                             ? "there is text after the end of its array"
                        : s->next == VALUE || s->next == VALUE_OR_END ? "expected a value in its array"
                                                                      : "expected a comma or the end of its array",
                        false);
            return false;
        }
        if (s->begin == at) return true;
    }
    return false;
}

static ls_status read_values(ls_source *s) {
    skip_byte_order_mark(s);
    while (s->n + 1 < MOST_RECORDS && find_value(s)) { /* a rejected rest needs one more record */
        const char *at = s->buffer + s->begin, *limit = s->buffer + s->filled;
        const char *end = end_of_value(at, limit, s->ended && s->broken[0] == 0);
        if (end == NULL) break;
        if (end == at) end++; /* a misplaced bracket or comma: a record that the parser rejects */
        int64_t lines = 0;
        for (const char *c = at; (c = memchr(c, '\n', (size_t)(end - c))) != NULL; c++) lines++;
        if (s->place.offset < s->skip_to)
            skip(s, (size_t)(end - at));
        else
            add_record(s, (size_t)(end - at), 0, true);
        s->place.line += lines;
        s->next = COMMA_OR_END;
    }
    const bool full = s->n + 1 >= MOST_RECORDS;
    const bool cut = s->begin < s->filled || (s->array && s->next != OPENING && s->next != CLOSED);
    if (s->ended && s->broken[0] == 0 && cut && !full && !s->rejected)
        reject_rest(s, s->place, s->array ? "ends inside of its array" : "ends inside of a value", false);
    return ls_ok();
}

static ls_status reject_long_value(ls_source *s) {
    reject_rest(s, s->place, s->too_long, false);
    return ls_ok();
}

/* ---- cutting long texts ---- */

enum {
    CONTEXT = 400,    /* bytes on each side of a place that are encoded to test it */
    MOST_PLACES = 200 /* places that are tested */
};

/* Whether this is a byte of a UTF-8 character other than its first. */
static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Appends the ids of text[from, to). */
static ls_status append_ids(const ls_tokenizer *tokenizer, const char *text, size_t from, size_t to,
                            ls_token_list *out) {
    return (from > 0 ? ls_tokenizer_encode_rest : ls_tokenizer_encode)(tokenizer, text + from, to - from, out);
}

/* Whether the text around `at` has the same ids when it is encoded in two parts. ids: scratch. */
static ls_status test_place(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t at,
                            ls_token_list ids[2], bool *out) {
    size_t from = at > CONTEXT ? at - CONTEXT : 0, to = bytes - at > CONTEXT ? at + CONTEXT : bytes;
    while (from < at && continues(text[from])) from++;
    while (to > at && to < bytes && continues(text[to])) to--;
    ids[0].count = ids[1].count = 0;
    const ls_status whole = append_ids(tokenizer, text, from, to, &ids[0]);
    *out = whole.code == LS_INVALID; /* it is refused wherever it is cut, and the error gives its place in the file */
    if (*out) return ls_ok();
    LS_TRY(whole);
    LS_TRY(append_ids(tokenizer, text, from, at, &ids[1]));
    LS_TRY(append_ids(tokenizer, text, at, to, &ids[1]));
    *out = ids[0].count == ids[1].count &&
           (ids[0].count == 0 || memcmp(ids[0].id, ids[1].id, ids[0].count * sizeof *ids[0].id) == 0);
    return ls_ok();
}

ls_status ls_text_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted, size_t *out) {
    if (ls_tokenizer_cut(tokenizer, text, bytes, wanted, out)) return ls_ok();
    ls_token_list ids[2] = {{0}, {0}};
    ls_status status = ls_ok();
    bool found = false;
    size_t at = wanted < bytes ? wanted : bytes;
    for (int i = 0; i < MOST_PLACES && !found && status.code == LS_OK; i++) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        if (newline == NULL || newline + 1 == text + bytes) break;
        at = (size_t)(newline - text) + 1;
        status = test_place(tokenizer, text, bytes, at, ids, &found);
    }
    free(ids[0].id);
    free(ids[1].id);
    *out = found ? at : 0;
    return status;
}

/* ---- text: a file is one text, in parts if it is long ---- */

/* Bytes of the parts that long texts are cut into, so that several threads can encode them. */
#define PART ((size_t)256 << 10)
/* The same if ls_text_cut has to search for a place to cut. */
#define SEARCHED_PART ((size_t)1 << 20)

/* Bytes of the next part; 0: no place to cut was found. */
static ls_status next_part(const ls_source *s, size_t *bytes) {
    if (s->piece < SIZE_MAX) {
        *bytes = s->piece < PART ? PART / s->piece * s->piece : s->piece;
        return ls_ok();
    }
    return ls_text_cut(s->tokenizer, s->buffer + s->begin, s->filled - s->begin, SEARCHED_PART, bytes);
}

/* Adds the parts that are complete in the buffer, and the last part too if the text ends with the buffer. */
static ls_status add_parts(ls_source *s, bool ends) {
    const size_t least = s->piece < SIZE_MAX ? 0 : 2 * SEARCHED_PART;
    while (s->n < MOST_RECORDS && s->filled - s->begin > least) {
        size_t part = 0;
        LS_TRY(next_part(s, &part));
        if (part == 0 || part >= s->filled - s->begin) break;
        add_record(s, part, 0, false);
    }
    if (ends && s->n < MOST_RECORDS) add_record(s, s->filled - s->begin, 0, true);
    return ls_ok();
}

/* Whether a file that is longer than the buffer holds a NUL byte. Reads all of it, before any of its text is used. */
static ls_status find_nul(const ls_source *s, bool *found) {
    static const size_t room = (size_t)1 << 20;
    ls_byte_stream *stream = NULL;
    char *block = malloc(room);
    if (block == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", current_input(s)->path);
    ls_status status = ls_stream_open(current_input(s)->path, s->encoding, &stream);
    size_t n = room;
    for (*found = false; status.code == LS_OK && n == room && !*found;) {
        status = ls_stream_read(stream, block, room, &n);
        *found = memchr(block, 0, n) != NULL;
    }
    if (stream != NULL && ls_stream_broken(stream) != NULL)
        status = ls_ok(); /* the error is reported when the records are read */
    ls_stream_close(stream);
    free(block);
    return status;
}

static void reject_text(ls_source *s, const char *why, bool binary) {
    reject_rest(s, (ls_place){s->place.input, 0, 1}, why, binary);
}

static ls_status read_text(ls_source *s) {
    const bool starts = s->place.offset == 0, is_long = !starts || !s->ended;
    if (s->begin > 0 && s->n > 0 && is_long) return ls_ok(); /* a long text begins a batch */
    bool found = false;
    if (starts && s->ended)
        found = memchr(s->buffer + s->begin, 0, s->filled - s->begin) != NULL;
    else if (starts)
        LS_TRY(find_nul(s, &found));
    if (found) {
        reject_text(s, "holds a NUL byte: not text", true);
        return ls_ok();
    }
    const bool ends = s->ended && s->broken[0] == 0;
    if (!ends && s->ended) return ls_ok(); /* the caller rejects the rest of a broken file */
    if (!is_long && s->piece == SIZE_MAX) {
        add_record(s, s->filled - s->begin, 0, true);
        return ls_ok();
    }
    const size_t before = s->n;
    LS_TRY(add_parts(s, ends));
    if (starts || s->n > before || s->filled < s->room)
        return ls_ok(); /* at the start of a text, the buffer may still grow */
    return ls_error(LS_INVALID,
                    "%s: after byte %lld no place to cut this long text was found within %zu bytes; expected one "
                    "(usually the end of a line) where the ids of both parts are those of the whole",
                    current_input(s)->path, (long long)s->place.offset, s->room);
}

static ls_status reject_long_text(ls_source *s) {
    reject_text(s, s->too_long, false);
    return ls_ok();
}

/* ---- kinds of inputs ---- */

static const source_kind kinds[] = {[LS_INPUT_TEXT] = {NULL, read_text, reject_long_text},
                                    [LS_INPUT_LINES] = {NULL, read_lines, skip_long_line},
                                    [LS_INPUT_VALUES] = {begin_values, read_values, reject_long_value}};

static const source_kind *current_kind(const ls_source *s) { return &kinds[current_input(s)->kind]; }

/* ---- opening ---- */

ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer, ls_place from, int64_t most,
                         ls_encoding encoding, ls_source **out) {
    ls_source *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %lld files", (long long)n);
    *s = (ls_source){.inputs = inputs,
                     .n_inputs = n,
                     .tokenizer = tokenizer,
                     .piece = ls_tokenizer_piece(tokenizer),
                     .most = (size_t)ls_max(most > 0 ? most : LS_RECORD_MOST, (int64_t)BATCH),
                     .encoding = encoding,
                     .place = from,
                     .room = BATCH};
    char bytes[LS_BYTES_TEXT];
    snprintf(s->too_long, sizeof s->too_long, "longer than %s; --longest-record says how long it may be",
             ls_bytes_text((double)s->most, bytes));
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

/* Makes the buffer larger for a record that does not fit. */
static ls_status grow_buffer(ls_source *s) {
    if (s->room >= s->most) return current_kind(s)->too_long(s);
    const size_t wanted = 2 * s->room < s->most ? 2 * s->room : s->most;
    char *grown = realloc(s->buffer, wanted);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", wanted);
    s->buffer = grown;
    s->room = wanted;
    return ls_ok();
}

/* ---- files ---- */

static ls_status open_file(ls_source *s) {
    const source_kind *kind = current_kind(s);
    LS_TRY(ls_stream_open(current_input(s)->path, s->encoding, &s->stream));
    s->ended = s->rejected = false;
    s->broken[0] = 0;
    return kind->begin != NULL ? kind->begin(s) : ls_stream_skip(s->stream, s->place.offset);
}

/* A file that changed while it was read may have given a mixture of two versions. */
static ls_status check_unchanged(const ls_input *in) {
    struct stat info;
    if (stat(in->path, &info) == 0 && info.st_size == in->bytes &&
        (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec == in->changed)
        return ls_ok();
    return ls_error(LS_IO, "%s: changed while it was read; start again with another --out", in->path);
}

static ls_status close_file(ls_source *s) {
    LS_TRY(check_unchanged(current_input(s)));
    ls_stream_close(s->stream);
    s->stream = NULL;
    s->place = (ls_place){s->place.input + 1, 0, 1};
    return ls_ok();
}

static void reject_file(ls_source *s) {
    const ls_input *in = current_input(s);
    s->records[s->n++] = (ls_text_record){"", 0, s->place, true, in->refused, true, true};
    s->place = (ls_place){s->place.input + 1, 0, 1};
}

/* ---- batches ---- */

/* Adds more records of the open file. */
static ls_status add_records(ls_source *s) {
    LS_TRY(fill_buffer(s));
    LS_TRY(current_kind(s)->read_records(s));
    if (s->n == 0 && s->begin == 0 && s->filled == s->room) LS_TRY(grow_buffer(s));
    if (s->ended && s->broken[0] != 0 && !s->rejected && s->n < MOST_RECORDS)
        reject_rest(s, s->place, s->broken, false);
    return ls_ok();
}

ls_status ls_source_next(ls_source *s, const ls_text_record **records, size_t *n) {
    move_up(s);
    s->n = 0;
    while (s->n < MOST_RECORDS && (s->stream != NULL || s->place.input < s->n_inputs)) {
        if (s->stream == NULL && current_input(s)->refused != NULL) {
            reject_file(s);
            continue;
        }
        if (s->stream == NULL) LS_TRY(open_file(s));
        LS_TRY(add_records(s));
        /* s->broken is the text of the error of its record until the next call */
        const bool broken = s->broken[0] != 0;
        if (s->ended && s->begin == s->filled && (!broken || s->rejected))
            LS_TRY(close_file(s));
        else if (s->n > 0)
            break;
        if ((s->filled == s->room || broken) && s->n > 0) break;
        if (s->begin > 0 && s->n == 0) move_up(s); /* only white space so far */
    }
    *records = s->records;
    *n = s->n;
    return ls_ok();
}
