/*
 * Any .npy file is refused, or its array is inside its mapping. The readers of tokens, labels and ends of documents
 * refuse it, or give values in range.
 */
#include "cli/cli_impl.h"
#include "fuzz/fuzz.h"

enum { VOCABULARY = 16, SEQUENCE = 8 };

static void read_tokens(const char *path) {
    ls_array tokens = {0}, labels = {0};
    int64_t valid = 0;
    if (fuzz_read(ls_tokens_read(path, VOCABULARY, &tokens), path)) {
        const int32_t *id = tokens.data;
        for (int64_t i = 0; i < tokens.count; i++) LS_ASSERT(id[i] >= 0 && id[i] < VOCABULARY);
        LS_ASSERT(fuzz_done(ls_labels_read(NULL, VOCABULARY, &tokens, &labels, &valid)));
        LS_ASSERT(valid == tokens.count - tokens.size[0]);
        ls_array_free(&labels);
    }
    static const int64_t size[] = {1, 4};
    ls_array like = {.ndim = 2, .size = {1, 4}, .count = size[0] * size[1]};
    if (fuzz_read(ls_labels_read(path, VOCABULARY, &like, &labels, &valid), path))
        LS_ASSERT(valid >= 0 && valid <= like.count);
    ls_array_free(&labels);
    ls_array_free(&tokens);
}

static void read_documents(const char *path) {
    char text[80];
    ls_mask_text mask;
    snprintf(text, sizeof text, "causal+documents:%s", path);
    if (fuzz_read(ls_mask_text_read(text, SEQUENCE, &mask), path)) {
        const ls_mask_term *term = &mask.mask.term[1];
        LS_ASSERT(term->ends[0] == 0 && term->ends[term->n_ends - 1] == SEQUENCE);
    }
    ls_mask_text_free(&mask);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_file file = fuzz_file_make(data, bytes);
    ls_npy array;
    if (fuzz_read(ls_npy_open(file.path, &array), file.path)) {
        fuzz_touch(array.data, (size_t)array.count * ls_npy_type_bytes(array.type));
        ls_npy_close(&array);
    }
    read_tokens(file.path);
    read_documents(file.path);
    fuzz_file_close(&file);
}

/* Sets the length of the header: up to its newline, or up to its closing brace. */
static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    (void)room;
    if (bytes < 12) return bytes;
    const size_t width = data[6] == 1 ? 2 : 4, begin = 8 + width;
    size_t end = begin;
    while (end < bytes && data[end] != '\n') end++;
    if (end == bytes)
        for (end = begin; end < bytes && data[end] != '}';) end++;
    const size_t length = (end < bytes ? end + 1 : bytes) - begin;
    for (size_t i = 0; i < width; i++) data[8 + i] = (uint8_t)(length >> (8 * i));
    return bytes;
}

const fuzz_target fuzz_npy = {.name = "npy", .run = run, .repair = repair};
