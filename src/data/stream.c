#include "data/stream.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if LS_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

enum { INPUT = 1 << 17 }; /* bytes that are read at once where they are compressed */

struct ls_stream {
    const char *path;
    int file;
    bool compressed;
#if LS_HAVE_ZSTD
    ZSTD_DStream *zstd;
    ZSTD_inBuffer in;
    size_t wanted; /* 0: at the end of a frame */
#endif
    char *input; /* [INPUT] */
};

static ls_status read_file(const ls_stream *s, char *out, size_t room, size_t *bytes) {
    *bytes = 0;
    while (*bytes < room) {
        const ssize_t n = read(s->file, out + *bytes, room - *bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_error(LS_IO, "cannot read %s: %s", s->path, strerror(errno));
        if (n == 0) break;
        *bytes += (size_t)n;
    }
    return ls_ok();
}

#if LS_HAVE_ZSTD
static ls_status begin_zstd(ls_stream *s) {
    s->zstd = ZSTD_createDStream();
    s->input = malloc(INPUT);
    if (s->zstd == NULL || s->input == NULL)
        return ls_error(LS_NO_MEMORY, "no memory to decompress %s", s->path);
    return ls_ok();
}

static ls_status read_zstd(ls_stream *s, void *out, size_t room, size_t *bytes) {
    ZSTD_outBuffer to = {out, room, 0};
    while (to.pos < to.size) {
        if (s->in.pos == s->in.size) {
            size_t n;
            LS_TRY(read_file(s, s->input, INPUT, &n));
            s->in = (ZSTD_inBuffer){s->input, n, 0};
        }
        const bool ended = s->in.size == 0;
        const size_t before = to.pos;
        if (ended && s->wanted == 0) break;
        const size_t left = ZSTD_decompressStream(s->zstd, &to, &s->in);
        if (ZSTD_isError(left))
            return ls_error(LS_INVALID, "%s: not to be decompressed: %s%s", s->path, ZSTD_getErrorName(left),
                            ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge
                                ? " (its window is more than 128 MiB; compress it without --long)"
                                : "");
        s->wanted = left;
        if (ended && left > 0 && to.pos == before)
            return ls_error(LS_INVALID, "%s: ends in the middle of a zstd frame", s->path);
    }
    *bytes = to.pos;
    return ls_ok();
}

static void end_zstd(ls_stream *s) { ZSTD_freeDStream(s->zstd); }
#else
static ls_status begin_zstd(ls_stream *s) {
    return ls_error(LS_UNSUPPORTED,
                    "%s: this build reads no zstd; build with libzstd-dev installed, or decompress the file",
                    s->path);
}

static ls_status read_zstd(ls_stream *s, void *out, size_t room, size_t *bytes) {
    return read_file(s, out, room, bytes);
}

static void end_zstd(ls_stream *s) { (void)s; }
#endif

ls_status ls_stream_open(const char *path, bool compressed, ls_stream **out) {
    ls_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", path);
    s->path = path;
    s->compressed = compressed;
    s->file = open(path, O_RDONLY | O_CLOEXEC);
    ls_status status = s->file < 0 ? ls_error(LS_IO, "cannot open %s: %s", path, strerror(errno)) : ls_ok();
    if (status.code == LS_OK && compressed) status = begin_zstd(s);
    if (status.code == LS_OK)
        *out = s;
    else
        ls_stream_close(s);
    return status;
}

ls_status ls_stream_read(ls_stream *s, char *out, size_t room, size_t *bytes) {
    return s->compressed ? read_zstd(s, out, room, bytes) : read_file(s, out, room, bytes);
}

static ls_status too_short(const ls_stream *s, int64_t bytes) {
    return ls_error(LS_INVALID, "%s: ends %lld bytes before the place to go on from", s->path,
                    (long long)bytes);
}

static ls_status skip_plain(const ls_stream *s, int64_t bytes) {
    struct stat info;
    const off_t at = lseek(s->file, 0, SEEK_CUR);
    if (at < 0 || fstat(s->file, &info) != 0)
        return ls_error(LS_IO, "cannot seek in %s: %s", s->path, strerror(errno));
    if (bytes > info.st_size - at) return too_short(s, bytes - (info.st_size - at));
    return lseek(s->file, bytes, SEEK_CUR) >= 0
               ? ls_ok()
               : ls_error(LS_IO, "cannot seek in %s: %s", s->path, strerror(errno));
}

ls_status ls_stream_skip(ls_stream *s, int64_t bytes) {
    if (!s->compressed && bytes > 0) return skip_plain(s, bytes);
    char room[1 << 14];
    for (size_t n = 0; bytes > 0; bytes -= (int64_t)n) {
        LS_TRY(ls_stream_read(s, room, (size_t)ls_min(bytes, sizeof room), &n));
        if (n == 0) return too_short(s, bytes);
    }
    return ls_ok();
}

void ls_stream_close(ls_stream *s) {
    if (s == NULL) return;
    if (s->compressed) end_zstd(s);
    if (s->file >= 0) (void)close(s->file);
    free(s->input);
    free(s);
}
