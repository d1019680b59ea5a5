/*
 * copy, cast and accumulate of src/kernel/cpu and src/kernel/cuda between strided views leave the bytes between
 * elements untouched.
 */
#include "kernel/cuda/table.h"
#include "support/kernel_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 40000 };

/* A block of a larger array: sizes, and strides of either side. */
typedef struct layout {
    int ndim;
    int64_t size[LS_MAX_DIMS], from[LS_MAX_DIMS], to[LS_MAX_DIMS];
} layout;

static const layout layouts[] = {
    {1, {1}, {1}, {1}},
    {1, {20000}, {1}, {1}},
    {2, {3, 5}, {5, 1}, {9, 1}},
    {2, {7, 5}, {1, 7}, {5, 1}},                /* transposed */
    {3, {4, 6, 16}, {96, 16, 1}, {256, 32, 1}}, /* every second head */
    {4, {2, 3, 5, 7}, {105, 35, 7, 1}, {105, 7, 21, 1}},
    {4, {2, 64, 4, 33}, {8448, 132, 33, 1}, {16896, 264, 66, 1}},
    {2, {9, 16}, {17, 1}, {16, 1}}, /* rows that begin anywhere */
    {2, {9, 16}, {16, 1}, {21, 1}},
    {3, {4, 3, 2}, {9, 3, 1}, {6, 2, 1}},
    {3, {5, 1, 8}, {8, 999, 1}, {16, 7, 1}}, /* the stride of one element does not matter */
};

static ls_view view_of(void *data, ls_dtype dtype, const layout *l, const int64_t *stride) {
    ls_view view = ls_view_dense(data, dtype, l->ndim, l->size);
    for (int d = 0; d < l->ndim; d++) view.stride[d] = stride[d];
    return view;
}

/* i32 gets the bits of f32: they are copied alone. */
static void set(void *data, ls_dtype dtype, int64_t i, float value) {
    if (dtype == LS_BF16)
        ((ls_bf16 *)data)[i] = ls_bf16_from_f32(value);
    else
        ((float *)data)[i] = value;
}

static float get(const void *data, ls_dtype dtype, int64_t i) {
    return dtype == LS_BF16 ? ls_bf16_to_f32(((const ls_bf16 *)data)[i]) : ((const float *)data)[i];
}

/* The same by four loops. Small whole numbers, so that sums are exact. */
static void expect(const layout *l, const void *from, ls_dtype from_type, void *to, ls_dtype to_type, bool add) {
    int64_t n[LS_MAX_DIMS] = {1, 1, 1, 1}, a[LS_MAX_DIMS] = {0}, b[LS_MAX_DIMS] = {0};
    for (int d = 0; d < l->ndim; d++) n[d] = l->size[d], a[d] = l->from[d], b[d] = l->to[d];
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++)
                for (int64_t m = 0; m < n[3]; m++) {
                    const int64_t at = i * b[0] + j * b[1] + k * b[2] + m * b[3];
                    const float x = get(from, from_type, i * a[0] + j * a[1] + k * a[2] + m * a[3]);
                    set(to, to_type, at, x + (add ? get(to, to_type, at) : 0));
                }
}

static void check_row(const ls_kernel *kernel, const layout *l, ls_dtype from_type, ls_dtype to_type, int threads) {
    const bool add = kernel->id == LS_KERNEL_ACCUMULATE;
    void *const from = malloc(4 * ROOM), *const to = malloc(4 * ROOM), *const wanted = malloc(4 * ROOM);
    for (int i = 0; i < ROOM; i++) {
        set(from, from_type, i, (float)(i % 101));
        set(to, to_type, i, (float)(i % 13));
        set(wanted, to_type, i, (float)(i % 13));
    }
    const ls_kernel_call call = {
        .n_in = 1, .n_out = 1, .in = {view_of(from, from_type, l, l->from)}, .out = {view_of(to, to_type, l, l->to)}};
    call_kernel_on(kernel, threads, call);
    expect(l, from, from_type, wanted, to_type, add);
    assert_memory_equal(to, wanted, ls_dtype_bytes(to_type) * ROOM);
    free(from);
    free(to);
    free(wanted);
}

static void check(const char *name, const layout *l, ls_dtype T, ls_dtype from_type, ls_dtype to_type) {
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        const ls_kernel *kernel = NULL;
        if (ls_isa_check(isa).code != LS_OK) continue;
        assert_int_equal(find_kernel(name, T, isa, NULL, &kernel).code, LS_OK);
        for (int threads = 1; threads <= 3; threads++) check_row(kernel, l, from_type, to_type, threads);
    }
    const ls_kernel_request request = {.id = ls_kernel_named(name), .dtype = T, .device = LS_DEVICE_CUDA};
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel *kernel = ls_kernel_choose(tables, 1, &request);
    assert_non_null(kernel);
    check_row(kernel, l, from_type, to_type, 1);
}

static void copies(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(layouts); i++) {
        check("copy", &layouts[i], LS_F32, LS_F32, LS_F32);
        check("copy", &layouts[i], LS_BF16, LS_BF16, LS_BF16);
        check("copy", &layouts[i], LS_I32, LS_I32, LS_I32);
    }
}

static void accumulations(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(layouts); i++) {
        check("accumulate", &layouts[i], LS_F32, LS_F32, LS_F32);
        check("accumulate", &layouts[i], LS_BF16, LS_F32, LS_F32);
        check("accumulate", &layouts[i], LS_BF16, LS_BF16, LS_F32);
    }
}

static void casts(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(layouts); i++) {
        check("cast", &layouts[i], LS_F32, LS_F32, LS_BF16);
        check("cast", &layouts[i], LS_BF16, LS_BF16, LS_F32);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies), cmocka_unit_test(casts),
                                       cmocka_unit_test(accumulations)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
