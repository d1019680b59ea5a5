/*
 * Whatever the texts, they are refused or cut into sequences of ids. The first byte is the length of a sequence, the second whether
 * the order is shuffled; files are divided by the byte 0x1e.
 */
#include "fuzz/samples.h"
#include "fuzz/targets.h"

#include <string.h>

enum { DIVIDER = 0x1e, MOST_FILES = 6 };

static void put_files(const fuzz_folder *folder, const uint8_t *data, size_t bytes) {
    for (int file = 0; file < MOST_FILES; file++) {
        const uint8_t *divider = memchr(data, DIVIDER, bytes);
        const size_t n = divider ? (size_t)(divider - data) : bytes;
        fuzz_folder_put(folder, (char[]){(char)('a' + file), 0}, data, n);
        if (!divider) return;
        data = divider + 1;
        bytes -= n + 1;
    }
}

static void run(const uint8_t *data, size_t bytes) {
    if (bytes < 2) return;
    const int64_t sequence = 1 + data[0] % FUZZ_LONGEST_SEQUENCE;
    fuzz_folder folder = fuzz_folder_make();
    put_files(&folder, data + 2, bytes - 2);
    fuzz_check_samples(folder.path, sequence, data[1] & 1);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_data_text = {.name = "data_text", .run = run};
