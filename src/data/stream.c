/* The bytes of a file, decompressed if necessary, and which codec a file needs. */
#include "base/base.h"
#include "data/source_impl.h"
#include "parquet/parquet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT = 1 << 17 }; /* compressed bytes that are read at once */
/* Decompressed bytes from which on LS_STREAM_MOST_RATIO applies; a smaller amount can do no harm. */
#define RATIO_FROM ((int64_t)64 << 20)

/* ---- codecs ---- */

static const ls_codec *const codecs[] = {&ls_codec_zstd, &ls_codec_gzip};

const ls_codec *ls_codec_of_name(const char *name, size_t *stem) {
    const size_t length = strlen(name);
    *stem = length;
    for (size_t i = 0; i < LS_COUNT(codecs); i++) {
        const size_t n = strlen(codecs[i]->suffix);
        if (length <= n || strcmp(name + length - n, codecs[i]->suffix) != 0) continue;
        *stem = length - n;
        return codecs[i];
    }
    return NULL;
}

const ls_codec *ls_codec_of_bytes(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < LS_COUNT(codecs); i++)
        if (n >= codecs[i]->magic_bytes && memcmp(bytes, codecs[i]->magic, codecs[i]->magic_bytes) == 0)
            return codecs[i];
    return NULL;
}

bool ls_name_is_table(const char *name) {
    static const char suffix[] = ".parquet";
    const size_t n = strlen(name), length = sizeof suffix - 1;
    return n > length && strcmp(name + n - length, suffix) == 0;
}

/* ---- reading ---- */

struct ls_byte_stream {
    const char *path;
    int file;
    ls_encoding encoding;
    /* for latin-1: the second byte of the last character, for which there was no room; 0: none */
    char waiting;
    ls_parquet *table;     /* for Parquet, whose bytes are its rows as lines of JSON; NULL: another file */
    const ls_codec *codec; /* NULL: the file is not compressed */
    void *state;
    ls_codec_step step;
    unsigned char *input;        /* [INPUT] */
    int64_t bytes_in, bytes_out; /* compressed and decompressed bytes so far */
    bool ended;                  /* the file has no more bytes */
    char broken[200];            /* why it cannot be decompressed; empty: it can */
};

static ls_status read_file(const ls_byte_stream *s, void *out, size_t room, size_t *bytes) {
    *bytes = 0;
    while (*bytes < room) {
        const ssize_t n = read(s->file, (char *)out + *bytes, room - *bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_error(LS_IO, "cannot read %s: %s", s->path, strerror(errno));
        if (n == 0) break;
        *bytes += (size_t)n;
    }
    return ls_ok();
}

/* ---- decompressing ---- */

static ls_status more_input(ls_byte_stream *s) {
    size_t n = 0;
    if (s->step.in_bytes > 0 || s->ended) return ls_ok();
    LS_TRY(read_file(s, s->input, INPUT, &n));
    s->step.in = s->input;
    s->step.in_bytes = n;
    s->bytes_in += (int64_t)n;
    s->ended = n < INPUT;
    return ls_ok();
}

static void check_ratio(ls_byte_stream *s) {
    if (s->bytes_out > RATIO_FROM && s->bytes_out / LS_STREAM_MOST_RATIO > s->bytes_in)
        snprintf(s->broken, sizeof s->broken, "its %s expands to more than %d times its size: no text", s->codec->name,
                 LS_STREAM_MOST_RATIO);
}

/* One step of decoding; sets `broken` on an error. */
static void decode(ls_byte_stream *s) {
    const bool ended = s->step.in_bytes == 0;
    const size_t room = s->step.room;
    const char *wrong = s->codec->decode(s->state, &s->step);
    s->bytes_out += (int64_t)(room - s->step.room);
    if (wrong != NULL)
        snprintf(s->broken, sizeof s->broken, "cannot be decompressed as %s: %.120s", s->codec->name, wrong);
    else if (ended && !s->step.between && s->step.room == room)
        snprintf(s->broken, sizeof s->broken, "ends in the middle of a %s %s", s->codec->name, s->codec->part);
    else
        check_ratio(s);
}

static ls_status read_decoded(ls_byte_stream *s, char *out, size_t room, size_t *bytes) {
    ls_status status = ls_ok();
    s->step.out = out;
    s->step.room = room;
    while (s->step.room > 0 && s->broken[0] == 0) {
        status = more_input(s);
        if (status.code != LS_OK || (s->step.in_bytes == 0 && s->step.between)) break;
        decode(s);
    }
    *bytes = room - s->step.room;
    LS_TRY(status);
    return s->broken[0] == 0 ? ls_ok() : ls_error(LS_INVALID, "%s: %s", s->path, s->broken);
}

static ls_status begin_decoding(ls_byte_stream *s) {
    const ls_codec *c = s->codec;
    if (c->create == NULL)
        return ls_error(LS_UNSUPPORTED, "%s: this build reads no %s; build with %s installed, or decompress the file",
                        s->path, c->name, c->package);
    s->state = c->create();
    s->input = malloc(INPUT);
    s->step.between = true;
    if (s->state == NULL || s->input == NULL) return ls_error(LS_NO_MEMORY, "no memory to decompress %s", s->path);
    return ls_ok();
}

/* ---- opening, reading, skipping ---- */

static ls_status open_file(ls_byte_stream *s) {
    unsigned char first[sizeof s->codec->magic];
    size_t stem, n = 0;
    s->file = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->file < 0) return ls_error(LS_IO, "cannot open %s: %s", s->path, strerror(errno));
    LS_TRY(read_file(s, first, sizeof first, &n));
    if (lseek(s->file, 0, SEEK_SET) < 0) return ls_error(LS_IO, "cannot seek in %s: %s", s->path, strerror(errno));
    if (ls_parquet_begins(first, n) || ls_name_is_table(s->path)) {
        s->encoding = LS_UTF_8; /* the rows are written in this encoding */
        return ls_parquet_open(s->path, &s->table);
    }
    s->codec = ls_codec_of_bytes(first, n);
    if (s->codec == NULL) s->codec = ls_codec_of_name(s->path, &stem);
    return s->codec != NULL ? begin_decoding(s) : ls_ok();
}

ls_status ls_stream_open(const char *path, ls_encoding encoding, ls_byte_stream **out) {
    ls_byte_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", path);
    s->path = path;
    s->encoding = encoding;
    s->file = -1;
    const ls_status status = open_file(s);
    if (status.code == LS_OK)
        *out = s;
    else
        ls_stream_close(s);
    return status;
}

static ls_status read_rows(ls_byte_stream *s, char *out, size_t room, size_t *bytes) {
    const ls_status status = ls_parquet_read(s->table, out, room, bytes);
    const char *broken = ls_parquet_broken(s->table);
    if (broken != NULL) snprintf(s->broken, sizeof s->broken, "%s", broken);
    return status;
}

static ls_status read_bytes(ls_byte_stream *s, char *out, size_t room, size_t *bytes) {
    if (s->table != NULL) return read_rows(s, out, room, bytes);
    return s->codec != NULL ? read_decoded(s, out, room, bytes) : read_file(s, out, room, bytes);
}

/* Converts to UTF-8: a byte from 0x80 on becomes two, the second of which may have to wait for the next call. */
static ls_status read_latin_1(ls_byte_stream *s, char *out, size_t room, size_t *bytes) {
    unsigned char raw[1 << 14];
    size_t used = 0, wanted = 0, n = 0;
    ls_status status = ls_ok();
    if (s->waiting != 0 && room > 0) {
        out[used++] = s->waiting;
        s->waiting = 0;
    }
    while (used < room && n == wanted && status.code == LS_OK) {
        wanted = (room - used + 1) / 2 < sizeof raw ? (room - used + 1) / 2 : sizeof raw;
        status = read_bytes(s, (char *)raw, wanted, &n);
        for (size_t i = 0; i < n; i++) {
            const char second = (char)(0x80 | (raw[i] & 0x3f));
            out[used++] = (char)(raw[i] < 0x80 ? raw[i] : 0xc0 | raw[i] >> 6);
            if (raw[i] < 0x80) continue;
            if (used < room)
                out[used++] = second;
            else
                s->waiting = second;
        }
    }
    *bytes = used;
    return status;
}

ls_status ls_stream_read(ls_byte_stream *s, char *out, size_t room, size_t *bytes) {
    return (s->encoding == LS_LATIN_1 ? read_latin_1 : read_bytes)(s, out, room, bytes);
}

ls_status ls_encoding_find(const char *name, ls_encoding *out) {
    const bool latin_1 = name != NULL && strcmp(name, "latin-1") == 0;
    if (!latin_1 && name != NULL && strcmp(name, "utf-8") != 0)
        return ls_error(LS_USAGE, "--encoding is '%s'; known are utf-8 and latin-1", name);
    *out = latin_1 ? LS_LATIN_1 : LS_UTF_8;
    return ls_ok();
}

const char *ls_stream_broken(const ls_byte_stream *s) { return s->broken[0] != 0 ? s->broken : NULL; }

static ls_status too_short(const ls_byte_stream *s, int64_t bytes) {
    return ls_error(LS_INVALID, "%s: ends %lld bytes before the place to resume from", s->path, (long long)bytes);
}

static ls_status skip_plain(const ls_byte_stream *s, int64_t bytes) {
    struct stat info;
    const off_t at = lseek(s->file, 0, SEEK_CUR);
    if (at < 0 || fstat(s->file, &info) != 0) return ls_error(LS_IO, "cannot seek in %s: %s", s->path, strerror(errno));
    if (bytes > info.st_size - at) return too_short(s, bytes - (info.st_size - at));
    return lseek(s->file, bytes, SEEK_CUR) >= 0 ? ls_ok()
                                                : ls_error(LS_IO, "cannot seek in %s: %s", s->path, strerror(errno));
}

ls_status ls_stream_skip(ls_byte_stream *s, int64_t bytes) {
    if (s->table == NULL && s->codec == NULL && s->encoding == LS_UTF_8 && bytes > 0) return skip_plain(s, bytes);
    char room[1 << 14];
    for (size_t n = 0; bytes > 0; bytes -= (int64_t)n) {
        LS_TRY(ls_stream_read(s, room, (size_t)ls_min(bytes, sizeof room), &n));
        if (n == 0) return too_short(s, bytes);
    }
    return ls_ok();
}

void ls_stream_close(ls_byte_stream *s) {
    if (s == NULL) return;
    if (s->state != NULL) s->codec->destroy(s->state);
    ls_parquet_close(s->table);
    if (s->file >= 0) (void)close(s->file);
    free(s->input);
    free(s);
}
