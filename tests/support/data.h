/* Shared by tests of token shards: a tokenizer, corpora, builds, comparing folders. */
#ifndef TESTS_DATA_H
#define TESTS_DATA_H

#include "scratch.h"

#include "data/data.h"

static inline ls_tokenizer *bytes_tokenizer(void) {
    ls_tokenizer *tokenizer = NULL;
    assert_ok(ls_tokenizer_open(NULL, &tokenizer));
    return tokenizer;
}

static inline ls_build_options build_options(const ls_tokenizer *tokenizer, const char *const *paths, int n,
                                             const char *out) {
    return (ls_build_options){
        .paths = paths, .n_paths = n, .out = out, .tokenizer = tokenizer, .shard_tokens = 5000, .threads = 2};
}

/* Text of words; the seed decides its length and letters. */
static inline size_t random_text(uint64_t seed, size_t most, char *out) {
    static const char *const words[] = {"long ", "span ", "a ", "token ", "\n", "shard, ", "é ", "數 ", "0123456789 "};
    const size_t bytes = ls_rng_below(seed, 1, 0, most);
    size_t at = 0;
    for (uint64_t i = 0; at < bytes; i++) {
        const char *word = words[ls_rng_below(seed, 2, i, LS_COUNT(words))];
        memcpy(out + at, word, strlen(word));
        at += strlen(word);
    }
    out[at] = 0;
    return at;
}

/* n text files of up to `most` bytes in a folder. */
static inline void make_texts(void **state, const char *folder, int n, size_t most) {
    char *text = malloc(most + 64), name[200];
    assert_non_null(text);
    assert_ok(ls_file_make_folders(scratch_path(state, folder)));
    for (int i = 0; i < n; i++) {
        const size_t bytes = random_text((uint64_t)i + 100, most, text);
        snprintf(name, sizeof name, "%s/%05d.txt", folder, i);
        scratch_file(state, name, text, bytes);
    }
    free(text);
}

/* Both folders hold the same files with the same bytes. */
static inline void assert_same_folders(const char *a, const char *b) {
    ls_file_names names[2] = {{0}};
    assert_ok(ls_file_list(a, &names[0]));
    assert_ok(ls_file_list(b, &names[1]));
    assert_int_equal(names[0].count, names[1].count);
    for (size_t i = 0; i < names[0].count; i++) {
        char path[600], *text[2];
        size_t bytes[2];
        assert_string_equal(names[0].name[i], names[1].name[i]);
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%s", k ? b : a, names[0].name[i]);
            assert_ok(ls_file_read(path, SIZE_MAX - 1, &text[k], &bytes[k]));
        }
        if (bytes[0] != bytes[1] || memcmp(text[0], text[1], bytes[0]) != 0) fail_msg("%s differs", path);
        free(text[0]);
        free(text[1]);
    }
    ls_file_names_free(&names[0]);
    ls_file_names_free(&names[1]);
}

#endif
