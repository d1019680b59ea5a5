/*
 * Any texts are refused, or give training sequences. The first byte chooses the length of a sequence, the second
 * whether the order is shuffled; then come the files, separated by the byte 0x1e.
 */
#include "fuzz/fuzz.h"

enum { MOST_FILES = 6 };

static void put_files(const fuzz_folder *folder, fuzz_bytes rest) {
    for (int file = 0; file < MOST_FILES && (file == 0 || rest.n > 0); file++) {
        const fuzz_bytes part = fuzz_part(&rest);
        fuzz_folder_put(folder, (char[]){(char)('a' + file), 0}, part.at, part.n);
    }
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const int64_t sequence = 1 + fuzz_choice(&rest) % FUZZ_LONGEST_SEQUENCE;
    const bool shuffle = fuzz_choice(&rest) & 1;
    fuzz_folder folder = fuzz_folder_make();
    put_files(&folder, rest);
    fuzz_check_samples(folder.path, sequence, shuffle);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_data_text = {.name = "data_text", .run = run};
