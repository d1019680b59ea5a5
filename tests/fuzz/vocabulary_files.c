/*
 * A folder with any vocab.json, merges.txt and other files is refused, or its end of document is a token and texts
 * become ids of its vocabulary. The input is vocab.json, merges.txt, tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json and config.json, separated by the byte 0x1e; an empty file is not written.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>

static const char sample[] = "Hello, world! caf\xc3\xa9  12345\n\t<|endoftext|>abab";

static void run(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {
        "vocab.json",        "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
        "added_tokens.json", "config.json"};
    fuzz_bytes rest = {data, bytes};
    fuzz_folder folder = fuzz_folder_make();
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        const fuzz_bytes part = fuzz_part(&rest);
        if (part.n > 0) fuzz_folder_put(&folder, names[i], part.at, part.n);
    }
    ls_tokenizer *tokenizer;
    if (fuzz_read(ls_tokenizer_open(folder.path, &tokenizer), folder.path)) {
        const int32_t end = ls_tokenizer_end_of_document(tokenizer), n = ls_tokenizer_vocabulary(tokenizer);
        ls_token_list ids = {0};
        LS_ASSERT(end >= 0 && end < n);
        if (fuzz_done(ls_tokenizer_encode(tokenizer, sample, sizeof sample - 1, &ids)))
            for (size_t i = 0; i < ids.count; i++) LS_ASSERT(ids.id[i] >= 0 && ids.id[i] < n);
        free(ids.id);
        ls_tokenizer_close(tokenizer);
    }
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_vocabulary_files = {.name = "vocabulary_files", .run = run};
