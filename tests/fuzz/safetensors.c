/*
 * Any safetensors file is refused, or its tensors are found by name, lie inside the mapping and convert to f64 and f32.
 */
#include "fuzz/fuzz.h"

#include <math.h>

/* Converting elements together or one by one, to f64 or f32, gives the same numbers. */
static void check_numbers(const ls_st_tensor *t) {
    enum { MOST = 64 };
    double all[MOST], one;
    float single[MOST];
    const int64_t n = ls_min(t->count, MOST);
    if (n == 0 || !fuzz_done(ls_st_convert(t, t->count - n, n, LS_F64, all))) return;
    const bool singles = fuzz_done(ls_st_convert(t, t->count - n, n, LS_F32, single));
    for (int64_t i = 0; i < n; i++) {
        LS_ASSERT(fuzz_done(ls_st_convert(t, t->count - n + i, 1, LS_F64, &one)));
        LS_ASSERT(one == all[i] || (isnan(one) && isnan(all[i])));
        LS_ASSERT(!singles || (double)single[i] == (double)(float)one || isnan(one));
    }
}

static void check_tensor(const ls_st_file *file, const ls_st_tensor *tensor) {
    const ls_st_tensor *found;
    LS_ASSERT(ls_st_find(file, tensor->name) == tensor);
    LS_ASSERT(fuzz_done(ls_st_need(file, tensor->name, tensor->ndim, tensor->shape, &found)) && found == tensor);
    fuzz_touch(tensor->data, tensor->bytes);
    check_numbers(tensor);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_file input = fuzz_file_make(data, bytes);
    ls_st_file *file;
    if (fuzz_read(ls_st_open(input.path, &file), input.path)) {
        size_t total = 0;
        for (int64_t i = 0; i < ls_st_count(file); i++) {
            check_tensor(file, ls_st_at(file, i));
            total += ls_st_at(file, i)->bytes;
        }
        LS_ASSERT(total < bytes);
        (void)ls_st_metadata(file, "format");
        ls_st_close(file);
    }
    fuzz_file_close(&input);
}

/* The index after the brace that closes the header, or the length of the data. */
static size_t header_end(const uint8_t *data, size_t bytes) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 8; i < bytes; i++) {
        if (quoted && data[i] == '\\') {
            i++;
            continue;
        }
        if (data[i] == '"') quoted = !quoted;
        if (quoted) continue;
        depth += (data[i] == '{') - (data[i] == '}');
        if (depth == 0) return i + 1;
    }
    return bytes;
}

/* Sets the length that stands before the header. */
size_t fuzz_safetensors_repair(uint8_t *data, size_t bytes, size_t room) {
    (void)room;
    if (bytes < 8) return bytes;
    const uint64_t length = header_end(data, bytes) - 8;
    for (int i = 0; i < 8; i++) data[i] = (uint8_t)(length >> (8 * i));
    return bytes;
}

const fuzz_target fuzz_safetensors = {.name = "safetensors", .run = run, .repair = fuzz_safetensors_repair};
