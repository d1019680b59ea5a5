/* matmul of ref: every transposition against three plain loops, across tile edges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"

enum { MOST = 200 * 200 };

typedef struct shape {
    int64_t M, N, K;
} shape;

static double random_at(uint64_t stream, int64_t i) { return ls_rng_normal(3, stream, (uint64_t)i); }

/* A in f64 and f32, with C[m,n] = sum over k of A(m,k)·B(k,n), k ascending, in double. */
static void check_product(shape s, ls_dtype dtype, ls_matmul_params params, bool bias, int threads) {
    static float a32[MOST], b32[MOST], c32[MOST], bias32[200];
    static double a64[MOST], b64[MOST], c64[MOST], bias64[200];
    for (int64_t i = 0; i < s.M * s.K; i++) a32[i] = (float)random_at(1, i), a64[i] = (double)a32[i];
    for (int64_t i = 0; i < s.K * s.N; i++) b32[i] = (float)random_at(2, i), b64[i] = (double)b32[i];
    for (int64_t i = 0; i < s.N; i++) bias32[i] = (float)random_at(3, i), bias64[i] = (double)bias32[i];
    for (int64_t i = 0; i < s.M * s.N; i++) c32[i] = params.accumulate ? 2 : NAN, c64[i] = (double)c32[i];
    const bool f64 = dtype == LS_F64, ta = params.transpose_a, tb = params.transpose_b;
    run_kernel("matmul", dtype, LS_ISA_REF, threads,
               (ls_kernel_call){.n_in = bias ? 3 : 2,
                                .n_out = 1,
                                .in = {VIEW(f64 ? (void *)a64 : a32, dtype, ta ? s.K : s.M, ta ? s.M : s.K),
                                       VIEW(f64 ? (void *)b64 : b32, dtype, tb ? s.N : s.K, tb ? s.K : s.N),
                                       VIEW(f64 ? (void *)bias64 : bias32, dtype, s.N)},
                                .out = {VIEW(f64 ? (void *)c64 : c32, dtype, s.M, s.N)},
                                .params = &params});
    for (int64_t m = 0; m < s.M; m++) {
        for (int64_t n = 0; n < s.N; n++) {
            double sum = 0;
            for (int64_t k = 0; k < s.K; k++)
                sum += a64[ta ? k * s.M + m : m * s.K + k] * b64[tb ? n * s.K + k : k * s.N + n];
            if (bias) sum += bias64[n];
            if (params.accumulate) sum += 2;
            /* the same sums in the same order: the same bits */
            if (f64) assert_true(c64[m * s.N + n] == sum);
            if (!f64) assert_true(c32[m * s.N + n] == (float)sum);
        }
    }
}

static void test_products(void **state) {
    (void)state;
    static const shape shapes[] = {{1, 1, 1}, {3, 5, 4}, {64, 64, 64}, {65, 130, 70}, {1, 200, 129}, {130, 1, 63}};
    for (size_t i = 0; i < LS_COUNT(shapes); i++)
        for (int bits = 0; bits < 32; bits++)
            check_product(shapes[i], bits & 1 ? LS_F64 : LS_F32, (ls_matmul_params){bits & 2, bits & 4, bits & 8},
                          bits & 16, 1 + bits % 3);
}

/* No terms: the product is 0, or what was there. */
static void test_empty_sum(void **state) {
    (void)state;
    double nothing[1], C[2] = {NAN, NAN};
    const ls_matmul_params params = {0};
    run_kernel("matmul", LS_F64, LS_ISA_REF, 1,
               (ls_kernel_call){.n_in = 2,
                                .n_out = 1,
                                .in = {VIEW(nothing, LS_F64, 1, 0), VIEW(nothing, LS_F64, 0, 2)},
                                .out = {VIEW(C, LS_F64, 1, 2)},
                                .params = &params});
    assert_true(C[0] == 0 && C[1] == 0);
}

static ls_status prepare(ls_view A, ls_view B, ls_view C, ls_matmul_params params) {
    ls_kernel_call call = {.n_in = 2, .n_out = 1, .in = {A, B}, .out = {C}, .params = &params};
    return prepare_kernel("matmul", LS_F32, LS_ISA_REF, call);
}

static void test_refusals(void **state) {
    (void)state;
    float x[64];
    const ls_matmul_params plain = {0}, tb = {.transpose_b = true};
    ls_view A = VIEW(x, LS_F32, 3, 4), C = VIEW(x, LS_F32, 3, 6);
    assert_int_equal(prepare(A, VIEW(x, LS_F32, 4, 6), C, plain).code, LS_OK);
    assert_int_equal(prepare(A, VIEW(x, LS_F32, 6, 4), C, tb).code, LS_OK);
    assert_int_equal(prepare(VIEW(x, LS_F32, 3, 1, 4), VIEW(x, LS_F32, 4, 6), C, plain).code, LS_OK);
    ls_status status = prepare(A, VIEW(x, LS_F32, 5, 6), C, plain);
    assert_int_equal(status.code, LS_INVALID);
    assert_string_equal(status.text, "kernel matmul: A is f32[3,4], B is f32[5,6], inner sizes differ");
    status = prepare(A, VIEW(x, LS_F32, 4, 6), VIEW(x, LS_F32, 6, 3), plain);
    assert_non_null(strstr(status.text, "C is f32[6,3], expected [3,6]"));
    status = prepare(A, VIEW(x, LS_F64, 4, 6), C, plain);
    assert_string_equal(status.text, "kernel matmul: B is f64[4,6], expected type f32");
    status = prepare(A, ls_view_slice(VIEW(x, LS_F32, 4, 8), 1, 0, 6), C, plain);
    assert_string_equal(status.text, "kernel matmul: B is f32[4,6] with gaps, expected dense");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_empty_sum),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
