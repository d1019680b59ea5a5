/*
 * Matrices in few bytes, as bitsandbytes, FP8 and MXFP4 checkpoints hold them (tests/reference/make_few_bytes.py):
 * every bit of their numbers; the blocks that Longspan makes itself; every mistake in such a file.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/format.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "weights/weights_impl.h"

static const ls_st_tensor *find(const void *file, const char *name, const char **path) {
    *path = ls_st_path(file);
    return ls_st_find(file, name);
}

static ls_status open_in(const ls_st_file *file, int64_t rows, int64_t columns, ls_stored **out) {
    const ls_shape shape = {2, {{rows, LS_FACTOR_NONE}, {columns, LS_FACTOR_NONE}}};
    return ls_stored_open(&(ls_stored_lookup){find, file}, "m.weight", &shape, out);
}

static ls_st_file *open_reference(const char *name) {
    char path[512];
    ls_st_file *file;
    snprintf(path, sizeof path, LS_TEST_REFERENCE "/few-bytes/%s.safetensors", name);
    assert_ok(ls_st_open(path, &file));
    return file;
}

typedef struct reference {
    const char *file;
    ls_dtype dtype;
    bool has_bf16;
} reference;
static const reference references[] = {
    {"nf4", LS_NF4, true}, {"nf4-nested", LS_NF4, true}, {"int8", LS_INT8, false},
    {"fp8", LS_FP8, true}, {"mxfp4", LS_MXFP4, false},
};

static void test_numbers(void **state) {
    (void)state;
    for (size_t r = 0; r < LS_COUNT(references); r++) {
        ls_st_file *file = open_reference(references[r].file);
        const ls_st_tensor *expected = ls_st_find(file, "in f32"), *half = ls_st_find(file, "in bf16");
        ls_stored *stored;
        assert_ok(open_in(file, expected->shape[0], expected->shape[1], &stored));
        assert_int_equal(ls_stored_dtype(stored), references[r].dtype);
        float *numbers = malloc(expected->bytes);
        ls_stored_numbers(stored, 0, expected->count, numbers);
        assert_memory_equal(numbers, expected->data, expected->bytes);
        assert_int_equal(half != NULL, references[r].has_bf16);
        for (int64_t i = 0; i < expected->count && half != NULL; i++) {
            const ls_bf16 is = ls_bf16_from_f32(numbers[i]);
            assert_memory_equal((const char *)half->data + i * 2, &is, 2);
        }
        ls_stored_numbers(stored, 77, 200, numbers); /* not from the beginning of a block */
        assert_memory_equal(numbers, (const char *)expected->data + 77 * sizeof *numbers, 200 * sizeof *numbers);
        free(numbers);
        ls_stored_close(stored);
        ls_st_close(file);
    }
}

/* Blocks of nf4 are those of bitsandbytes, codes and scales. */
static void test_made_nf4(void **state) {
    (void)state;
    ls_st_file *file = open_reference("nf4");
    const ls_st_tensor *from = ls_st_find(file, "from");
    const int64_t n = from->count / 64;
    ls_stored *stored;
    assert_ok(open_in(file, from->shape[0], from->shape[1], &stored));
    float *numbers = malloc(sizeof *numbers * (size_t)from->count);
    char *made = malloc((size_t)n * ls_dtype_bytes(LS_NF4)), *theirs = malloc((size_t)n * ls_dtype_bytes(LS_NF4));
    assert_ok(ls_st_convert(from, 0, from->count, LS_F32, numbers));
    ls_blocks_encode(LS_NF4, numbers, n, made);
    ls_stored_blocks(stored, 0, n, theirs);
    assert_memory_equal(made, theirs, (size_t)n * ls_dtype_bytes(LS_NF4));
    free(numbers);
    free(made);
    free(theirs);
    ls_stored_close(stored);
    ls_st_close(file);
}

/* Each number becomes the nearest of those that its block can hold. */
static void test_nearest(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_NF4, LS_INT8, LS_FP8};
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        float numbers[64], decoded[64], all[64];
        unsigned char block[LS_BLOCK_MOST_BYTES], probe[LS_BLOCK_MOST_BYTES];
        for (int i = 0; i < 64; i++) numbers[i] = (float)ls_rng_normal(3, t, (uint64_t)i) * (i % 7 == 0 ? 0.001f : 1);
        assert_true(ls_blocks_can_encode(types[t]));
        ls_blocks_encode(types[t], numbers, 1, block);
        ls_blocks_decode(types[t], block, 1, decoded);
        for (int code = 0; code < 256; code++) {
            memcpy(probe, block, sizeof probe);
            memset(probe, code, types[t] == LS_NF4 ? 32 : 64);
            ls_blocks_decode(types[t], probe, 1, all);
            if (isnan(all[0])) continue;
            for (int i = 0; i < 64; i++)
                assert_true(fabsf(numbers[i] - decoded[i]) <= fabsf(numbers[i] - all[i]) * (1 + 1e-5f) + 1e-7f);
        }
    }
    assert_false(ls_blocks_can_encode(LS_MXFP4));
}

static void test_not_finite(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_NF4, LS_INT8, LS_FP8};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < LS_COUNT(types) * LS_COUNT(wrong); t++) {
        float numbers[64] = {1, 2, 3};
        unsigned char block[LS_BLOCK_MOST_BYTES];
        numbers[1] = wrong[t % LS_COUNT(wrong)];
        ls_blocks_encode(types[t / LS_COUNT(wrong)], numbers, 1, block);
        ls_blocks_decode(types[t / LS_COUNT(wrong)], block, 1, numbers);
        for (int i = 0; i < 64; i++) assert_false(isfinite(numbers[i]));
    }
    float zeros[64] = {0};
    unsigned char block[LS_BLOCK_MOST_BYTES];
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        ls_blocks_encode(types[t], zeros, 1, block);
        ls_blocks_decode(types[t], block, 1, zeros);
        for (int i = 0; i < 64; i++) assert_true(zeros[i] == 0);
    }
}

/* A copy of a reference, in which something is another. */
typedef struct change {
    const char *file, *tensor, *from, *to; /* text in its data; from NULL: all of it is `to` */
    const char *drop;                      /* a tensor that is left out */
    int64_t rows, columns;
    ls_code code;
    const char *word, *other;
} change;

static void write_changed(void **state, const change *c, ls_st_file *file) {
    ls_st_entry entries[16];
    ls_st_plan *plan;
    ls_st_writer *writer;
    int n = 0;
    const ls_st_tensor *tensors[16];
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *t = ls_st_at(file, i);
        if (c->drop != NULL && strcmp(c->drop, t->name) == 0) continue;
        entries[n] = (ls_st_entry){.name = t->name, .dtype = t->dtype, .ndim = t->ndim};
        memcpy(entries[n].shape, t->shape, sizeof t->shape);
        tensors[n++] = t;
    }
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_st_create(scratch_path(state, "changed.safetensors"), plan, &writer));
    for (int i = 0; i < n; i++) {
        char *data = malloc(tensors[i]->bytes + 1);
        memcpy(data, tensors[i]->data, tensors[i]->bytes);
        if (c->tensor != NULL && strcmp(c->tensor, tensors[i]->name) == 0) {
            char *at = c->from != NULL ? memmem(data, tensors[i]->bytes, c->from, strlen(c->from)) : data;
            assert_non_null(at);
            memcpy(at, c->to, strlen(c->to));
        }
        assert_ok(ls_st_write(writer, i, 0, data, (int64_t)tensors[i]->bytes));
        free(data);
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
}

static void test_mistakes(void **state) {
    static const char quant_state[] = "m.weight.quant_state.bitsandbytes__nf4";
    static const change cases[] = {
        {"nf4", NULL, NULL, NULL, "m.weight.absmax", 16, 128, LS_INVALID, "tensor m.weight.absmax is missing",
         "in nf4"},
        {"nf4", quant_state, "\"nf4\"", "\"fp4\"", NULL, 16, 128, LS_INVALID, "quant_type is \"fp4\"", "expected nf4"},
        {"nf4", quant_state, ": 64", ": 32", NULL, 16, 128, LS_INVALID, "blocksize is 32", "a multiple of 64"},
        {"nf4", NULL, NULL, NULL, NULL, 8, 256, LS_INVALID, "shape is", "expected [8,256]"},
        {"nf4", NULL, NULL, NULL, NULL, 32, 96, LS_UNSUPPORTED, "is [32,96]", "a multiple of 64"},
        {"nf4", "m.weight.quant_map", NULL, "\1\2", NULL, 16, 128, LS_INVALID, "the 16 values of nf4", "value 0 is"},
        {"nf4-nested", NULL, NULL, NULL, "m.weight.nested_quant_map", 80, 256, LS_INVALID, "nested_quant_map",
         "beside it"},
        {"int8", "m.weight_format", NULL, "\2", NULL, 16, 128, LS_INVALID, "m.weight_format", "codes by rows"},
        {"int8", NULL, NULL, NULL, NULL, 32, 64, LS_INVALID, "m.SCB of m.weight in int8 is F32 of 16 elements",
         "expected F32 of 32"},
        {"fp8", NULL, NULL, NULL, NULL, 65, 384, LS_INVALID, "m.weight_scale_inv", "[1,3], a scale for each 128 x 128"},
        {"mxfp4", NULL, NULL, NULL, "m.weight_blocks", 16, 512, LS_INVALID, "m.weight_blocks is missing", "in mxfp4"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_st_file *file = open_reference(cases[i].file), *changed;
        ls_stored *stored;
        write_changed(state, &cases[i], file);
        assert_ok(ls_st_open(scratch_path(state, "changed.safetensors"), &changed));
        assert_error(open_in(changed, cases[i].rows, cases[i].columns, &stored), cases[i].code, cases[i].word,
                     cases[i].other);
        assert_null(stored);
        ls_st_close(changed);
        ls_st_close(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_made_nf4),
                                       cmocka_unit_test(test_nearest), cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
