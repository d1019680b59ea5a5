/*
 * Any Parquet file is refused, or its rows are lines, the same at once and in small parts. The first byte chooses the
 * size of a part. The repair sets the magic at both ends, and the length of the description.
 */
#include "parquet/parquet.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, MAGIC = 4 };

/* Reads at most ROOM bytes, `part` bytes at a time. */
static ls_status read_parts(const char *path, size_t part, char *out, size_t *n) {
    ls_parquet *parquet;
    *n = 0;
    LS_TRY(ls_parquet_open(path, &parquet));
    ls_status status = ls_ok();
    for (size_t got = part; status.code == LS_OK && got == part && *n < ROOM; *n += got) {
        part = ROOM - *n < part ? ROOM - *n : part;
        status = ls_parquet_read(parquet, out + *n, part, &got);
        LS_ASSERT(got <= part);
    }
    LS_ASSERT((status.code == LS_OK) == (ls_parquet_broken(parquet) == NULL));
    ls_parquet_close(parquet);
    return status;
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const size_t part = 1 + 16 * (size_t)fuzz_choice(&rest);
    fuzz_file file = fuzz_file_make(rest.at, rest.n);
    char *whole = malloc(ROOM), *again = malloc(ROOM);
    size_t n, m;
    LS_ASSERT(whole && again);
    const bool good = fuzz_read(read_parts(file.path, ROOM, whole, &n), file.path);
    const bool good_parts = fuzz_read(read_parts(file.path, part, again, &m), file.path);
    LS_ASSERT(n == m && (good == good_parts || n == ROOM) && memcmp(whole, again, n) == 0);
    LS_ASSERT(n == 0 || n == ROOM || whole[n - 1] == '\n');
    free(whole);
    free(again);
    fuzz_file_close(&file);
}

/* The description begins where its length, if it is possible, says, else after the magic. */
static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    uint32_t n;
    (void)room;
    if (bytes < 1 + 2 * MAGIC + sizeof n) return bytes;
    const size_t most = bytes - 1 - 2 * MAGIC - sizeof n;
    memcpy(data + 1, "PAR1", MAGIC);
    memcpy(data + bytes - MAGIC, "PAR1", MAGIC);
    memcpy(&n, data + bytes - MAGIC - sizeof n, sizeof n);
    if (n > most) n = (uint32_t)most;
    memcpy(data + bytes - MAGIC - sizeof n, &n, sizeof n);
    return bytes;
}

const fuzz_target fuzz_parquet = {.name = "parquet", .run = run, .repair = repair};
