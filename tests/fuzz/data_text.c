/*
 * Whatever the texts, they are refused or cut into sequences of ids. The first byte is the length of a sequence, the second whether
 * the order is shuffled; files are divided by the byte 0x1e.
 */
#include "data/data.h"
#include "fuzz/targets.h"

#include <math.h>
#include <string.h>

enum { DIVIDER = 0x1e, MOST_FILES = 6, LONGEST = 64 };

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

static void check_data(const ls_data *data, int64_t sequence, int32_t vocabulary) {
    int32_t ids[LONGEST + 1];
    const ls_data_summary *s = ls_data_summarise(data);
    const double nats = ls_data_unigram_nats(data);
    LS_ASSERT(s->windows >= 1 && s->whole_windows <= s->windows && s->longest_document <= s->tokens);
    LS_ASSERT(isfinite(nats) && nats >= 0);
    for (int64_t i = 0; i < ls_min(s->windows, 64) + 1; i++) {
        ls_data_sequence(data, i, ids);
        for (int64_t t = 0; t <= sequence; t++) LS_ASSERT(ids[t] >= 0 && ids[t] < vocabulary);
    }
}

static void run(const uint8_t *data, size_t bytes) {
    if (bytes < 2) return;
    const int64_t sequence = 1 + data[0] % LONGEST;
    fuzz_folder folder = fuzz_folder_make();
    put_files(&folder, data + 2, bytes - 2);
    ls_tokenizer *tokenizer;
    LS_ASSERT(fuzz_done(ls_tokenizer_open(NULL, &tokenizer)));
    const char *const paths[] = {folder.path};
    const ls_data_options options = {.paths = paths,
                                     .n_paths = 1,
                                     .tokenizer = tokenizer,
                                     .sequence = sequence,
                                     .seed = 7,
                                     .shuffle = data[1] & 1};
    ls_data *texts;
    if (fuzz_done(ls_data_open(&options, &texts))) {
        check_data(texts, sequence, ls_tokenizer_vocabulary(tokenizer));
        ls_data_close(texts);
    }
    ls_tokenizer_close(tokenizer);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_data_text = {.name = "data_text", .run = run};
