/* copy and accumulate of src/kernel/cpu between strided views leave the bytes between elements untouched. */
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
    {3, {5, 1, 8}, {8, 999, 1}, {16, 7, 1}}, /* the stride of one element does not matter */
};

static ls_view view_of(void *data, ls_dtype dtype, const layout *l, const int64_t *stride) {
    ls_view view = ls_view_dense(data, dtype, l->ndim, l->size);
    for (int d = 0; d < l->ndim; d++) view.stride[d] = stride[d];
    return view;
}

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

static void check(const char *kernel, const layout *l, ls_dtype T, ls_dtype from_type, ls_dtype to_type, bool add) {
    void *const from = malloc(4 * ROOM), *const to = malloc(4 * ROOM), *const wanted = malloc(4 * ROOM);
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        for (int threads = 1; threads <= 3; threads++) {
            for (int i = 0; i < ROOM; i++) {
                set(from, from_type, i, (float)(i % 101));
                set(to, to_type, i, (float)(i % 13));
                set(wanted, to_type, i, (float)(i % 13));
            }
            const ls_kernel_call call = {.n_in = 1,
                                         .n_out = 1,
                                         .in = {view_of(from, from_type, l, l->from)},
                                         .out = {view_of(to, to_type, l, l->to)}};
            run_kernel(kernel, T, isa, threads, call);
            expect(l, from, from_type, wanted, to_type, add);
            assert_memory_equal(to, wanted, ls_dtype_bytes(to_type) * ROOM);
        }
    }
    free(from);
    free(to);
    free(wanted);
}

static void copies(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(layouts); i++) {
        check("copy", &layouts[i], LS_F32, LS_F32, LS_F32, false);
        check("copy", &layouts[i], LS_BF16, LS_BF16, LS_BF16, false);
    }
}

static void accumulations(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(layouts); i++) {
        check("accumulate", &layouts[i], LS_F32, LS_F32, LS_F32, true);
        check("accumulate", &layouts[i], LS_BF16, LS_F32, LS_F32, true);
        check("accumulate", &layouts[i], LS_BF16, LS_BF16, LS_F32, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies), cmocka_unit_test(accumulations)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
