/* The printable copy of any bytes is valid UTF-8, fits its buffer, and does not change when it is copied again. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void run(const uint8_t *data, size_t bytes) {
    size_t room = bytes ? 1 + data[0] % (3 * bytes + 1) : 1;
    char *once = malloc(room), *twice = malloc(room);
    size_t n = ls_utf8_printable((const char *)data, bytes, once, room);
    LS_ASSERT(n < room && once[n] == 0);
    LS_ASSERT(ls_utf8_valid_prefix(once, n) == n);
    LS_ASSERT(ls_utf8_printable(once, n, twice, room) == n && memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
}

const fuzz_target fuzz_utf8 = {.name = "utf8", .run = run};
