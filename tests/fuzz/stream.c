/*
 * Any compressed file is refused, or decompressing it gives the same bytes at once, in small parts, and after skipping
 * some. The first byte chooses the size of a part.
 */
#include "data/source_impl.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 18 };

/* Reads at most `room` bytes from an offset on, `part` bytes at a time. */
static ls_status read_parts(const char *path, int64_t offset, size_t part, char *out, size_t room, size_t *n) {
    ls_byte_stream *stream;
    *n = 0;
    LS_TRY(ls_stream_open(path, LS_UTF_8, &stream));
    ls_status status = ls_stream_skip(stream, offset);
    for (size_t got = part; status.code == LS_OK && got == part && *n < room;) {
        part = (size_t)ls_min((int64_t)part, (int64_t)(room - *n));
        status = ls_stream_read(stream, out + *n, part, &got);
        if (status.code == LS_OK) *n += got;
    }
    ls_stream_close(stream);
    return status;
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const size_t part = 1 + fuzz_choice(&rest);
    fuzz_file file = fuzz_file_make(rest.at, rest.n);
    char *whole = malloc(ROOM), *again = malloc(ROOM);
    size_t n, m;
    LS_ASSERT(whole && again);
    const bool good = fuzz_read(read_parts(file.path, 0, ROOM, whole, ROOM, &n), file.path);
    const bool good_parts = fuzz_read(read_parts(file.path, 0, part, again, ROOM, &m), file.path);
    LS_ASSERT(good == good_parts || n == ROOM || m == ROOM);
    LS_ASSERT(!good || !good_parts || (n == m && memcmp(whole, again, n) == 0));
    const size_t place = n / 2;
    if (good && fuzz_read(read_parts(file.path, (int64_t)place, part, again, ROOM - place, &m), file.path))
        LS_ASSERT(m == n - place && memcmp(whole + place, again, m) == 0);
    fuzz_read(read_parts(file.path, ROOM, part, again, 1, &m), file.path);
    free(whole);
    free(again);
    fuzz_file_close(&file);
}

const fuzz_target fuzz_stream = {.name = "stream", .run = run};
