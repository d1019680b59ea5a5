/*
 * Matrices in blocks of numbers: decode gives the bits of kernel/blocks.c, and matmul_blocks the product with what it
 * decodes, as ref does it in f64, for each type of blocks, both ways in which the matrix may lie, every instruction set
 * of this machine and the device cuda, whose processor is emulated. Also matmul with a C whose rows lie apart, as
 * matmul_blocks calls it.
 */
#include "support/kernel_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"

static const ls_dtype block_types[] = {LS_NF4, LS_INT8, LS_FP8, LS_MXFP4};
static const ls_dtype element_types[] = {LS_F32, LS_BF16};

/* n blocks of any codes; scales around 1. */
static unsigned char *make_blocks(ls_dtype type, int64_t n) {
    const size_t bytes = ls_dtype_bytes(type);
    unsigned char *blocks = malloc(bytes * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        unsigned char *block = blocks + bytes * (size_t)i;
        for (size_t k = 0; k < bytes; k++) {
            block[k] = (unsigned char)ls_rng_below(7, (uint64_t)i, k, 256);
            if (type == LS_FP8 && (block[k] & 0x7f) == 0x7f) block[k] = 3;
        }
        const float scale = (float)ls_rng_normal(8, 1, (uint64_t)i) * (type == LS_INT8  ? 1.0f
                                                                       : type == LS_FP8 ? 0.01f
                                                                                        : 1);
        if (type == LS_MXFP4)
            block[bytes - 1] = (unsigned char)(120 + i % 9);
        else
            memcpy(block + bytes - sizeof scale, &scale, sizeof scale);
    }
    return blocks;
}

static void put(void *to, ls_dtype type, int64_t i, double x) {
    if (type == LS_F64)
        ((double *)to)[i] = x;
    else if (type == LS_F32)
        ((float *)to)[i] = (float)x;
    else
        ((ls_bf16 *)to)[i] = ls_bf16_from_f32((float)x);
}

/* Calls `check` for the kernel of each instruction set, and for that of cuda. */
typedef void (*check_kernel)(const ls_kernel *kernel, const void *context);
static void each_kernel(const char *name, ls_dtype T, const ls_kernel_call *call, check_kernel check,
                        const void *context) {
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel_request request = {.id = ls_kernel_named(name), .dtype = T, .device = LS_DEVICE_CUDA, .call = call};
    const ls_kernel *const on_cuda = ls_kernel_choose(tables, 1, &request), *before = NULL;
    assert_non_null(on_cuda);
    if (ls_view_elements(&call->out[0]) < 10000) check(on_cuda, context); /* an emulated GPU is slow */
    for (ls_isa isa = T == LS_BF16 ? LS_ISA_BASE : LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
        const ls_kernel *kernel;
        if (ls_isa_check(isa).code != LS_OK) continue;
        assert_int_equal(find_kernel(name, T, isa, call, &kernel).code, LS_OK);
        if (kernel != before) check(kernel, context);
        before = kernel;
    }
}

/* --- decode ------------------------------------------------------------------------------------------------------- */

typedef struct decoding {
    ls_kernel_call call;
    const void *expected;
    size_t bytes;
} decoding;

static void check_decode(const ls_kernel *kernel, const void *context) {
    const decoding *d = context;
    for (int threads = 1; threads <= 3; threads++) {
        memset(d->call.out[0].data, 0xff, d->bytes);
        call_kernel_on(kernel, threads, d->call);
        if (memcmp(d->call.out[0].data, d->expected, d->bytes) != 0)
            fail_msg("decode of %s, %s, %s: other bits", ls_dtype_name(d->call.in[0].dtype),
                     ls_dtype_name(kernel->dtype), kernel_isa_name(kernel));
    }
}

static void test_decode(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(block_types) * LS_COUNT(element_types); i++) {
        const ls_dtype Q = block_types[i / LS_COUNT(element_types)], T = element_types[i % LS_COUNT(element_types)];
        const int64_t n = 3 * 17, numbers = n * ls_dtype_values(Q);
        unsigned char *blocks = make_blocks(Q, n);
        float *decoded = malloc(sizeof *decoded * (size_t)numbers);
        decoding d = {.bytes = ls_dtype_bytes(T) * (size_t)numbers};
        void *expected = malloc(d.bytes), *got = malloc(d.bytes);
        ls_blocks_decode(Q, blocks, n, decoded);
        for (int64_t k = 0; k < numbers; k++) put(expected, T, k, (double)decoded[k]);
        d.expected = expected;
        d.call = (ls_kernel_call){
            .n_in = 1, .in = {VIEW(blocks, Q, 3, n / 3)}, .n_out = 1, .out = {VIEW(got, T, 3, numbers / 3)}};
        each_kernel("decode", T, &d.call, check_decode, &d);
        free(blocks);
        free(decoded);
        free(expected);
        free(got);
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct product {
    int64_t M, rows, columns; /* of the matrix */
    bool by_rows, bias, wide;
} product;
static const product products[] = {
    {1, 96, 128, true, false, false},  {40, 96, 128, true, true, false},     {150, 1100, 192, true, true, true},
    {33, 70, 64, false, false, false}, {150, 130, 1152, false, true, false}, {0, 64, 64, true, false, false},
};

typedef struct computing {
    const product *p;
    ls_kernel_call call;
    const double *expected;
    int64_t n; /* elements of C */
} computing;

static void check_product(const ls_kernel *kernel, const void *context) {
    const computing *c = context;
    const size_t bytes = ls_view_bytes(&c->call.out[0]);
    void *first = malloc(bytes + 1);
    for (int threads = 1; threads <= 3; threads++) {
        memset(c->call.out[0].data, 0xff, bytes);
        call_kernel_on(kernel, threads, c->call);
        if (threads == 1) memcpy(first, c->call.out[0].data, bytes);
        double *got = malloc(sizeof *got * (size_t)(c->n + 1));
        for (int64_t i = 0; i < c->n; i++) got[i] = ls_number_at(c->call.out[0].data, c->call.out[0].dtype, i);
        const double error = c->n > 0 ? largest_error(got, c->expected, c->n) : 0;
        if (!(error < (c->call.out[0].dtype == LS_BF16 ? 4e-3 : kernel->dtype == LS_F64 ? 1e-14 : 3e-6)))
            fail_msg("matmul_blocks of %s, %s, %s, %lld x %lld x %lld: error %g", ls_dtype_name(c->call.in[1].dtype),
                     ls_dtype_name(kernel->dtype), kernel_isa_name(kernel), (long long)c->p->M, (long long)c->p->rows,
                     (long long)c->p->columns, error);
        free(got);
    }
    call_kernel_on(kernel, 1, c->call);
    assert_memory_equal(first, c->call.out[0].data, bytes);
    free(first);
}

/* The operands in that type; *exact: C in f64, of a matrix whose numbers are rounded to T. */
static void compute(const product *p, ls_dtype Q, ls_dtype T) {
    const int64_t values = ls_dtype_values(Q), K = p->by_rows ? p->columns : p->rows,
                  N = p->by_rows ? p->rows : p->columns;
    const ls_dtype out = p->wide ? LS_F32 : T;
    unsigned char *blocks = make_blocks(Q, p->rows * p->columns / values);
    float *matrix = malloc(sizeof *matrix * (size_t)(p->rows * p->columns));
    double *a = malloc(sizeof *a * (size_t)(p->M * K + 1)), *bias = malloc(sizeof *bias * (size_t)N),
           *exact = malloc(sizeof *exact * (size_t)(p->M * N + 1));
    void *A = malloc(sizeof(double) * (size_t)(p->M * K + 1)), *b = malloc(sizeof(double) * (size_t)N),
         *C = malloc(sizeof(double) * (size_t)(p->M * N + 1)),
         *rounded = malloc(sizeof(double) * (size_t)(p->rows * p->columns));
    ls_blocks_decode(Q, blocks, p->rows * p->columns / values, matrix);
    fill_normal(a, p->M * K, 1);
    fill_normal(bias, N, 2);
    for (int64_t i = 0; i < p->M * K; i++) put(A, T, i, a[i]);
    for (int64_t i = 0; i < N; i++) put(b, T, i, bias[i]);
    for (int64_t i = 0; i < p->rows * p->columns; i++) put(rounded, T, i, (double)matrix[i]);
    for (int64_t m = 0; m < p->M; m++)
        for (int64_t n = 0; n < N; n++) {
            double sum = p->bias ? ls_number_at(b, T, n) : 0;
            for (int64_t k = 0; k < K; k++)
                sum += ls_number_at(A, T, m * K + k) *
                       ls_number_at(rounded, T, p->by_rows ? n * p->columns + k : k * p->columns + n);
            exact[m * N + n] = sum;
        }
    const ls_matmul_params params = {.transpose_b = p->by_rows};
    const computing c = {
        .p = p,
        .expected = exact,
        .n = p->M * N,
        .call = {.n_in = p->bias ? 3 : 2,
                 .in = {VIEW(A, T, p->M, K), VIEW(blocks, Q, p->rows, p->columns / values), VIEW(b, T, N)},
                 .n_out = 1,
                 .out = {VIEW(C, out, p->M, N)},
                 .params = &params}};
    each_kernel("matmul_blocks", T, &c.call, check_product, &c);
    free(blocks);
    free(matrix);
    free(a);
    free(bias);
    free(exact);
    free(A);
    free(b);
    free(C);
    free(rounded);
}

static void test_products(void **unused) {
    (void)unused;
    for (size_t i = 0; i < LS_COUNT(products) * LS_COUNT(element_types); i++)
        for (size_t q = 0; q < LS_COUNT(block_types); q++)
            compute(&products[i / LS_COUNT(element_types)], block_types[q], element_types[i % LS_COUNT(element_types)]);
}

static void test_refused(void **unused) {
    (void)unused;
    float x[4 * 128], c[4 * 96];
    unsigned char blocks[96 * 2 * 36] = {0};
    const ls_matmul_params plain = {.transpose_b = true}, adds = {.transpose_b = true, .accumulate = true},
                           turned = {.transpose_a = true, .transpose_b = true};
    ls_kernel_call call = {.n_in = 2,
                           .in = {VIEW(x, LS_F32, 4, 128), VIEW(blocks, LS_NF4, 96, 2)},
                           .n_out = 1,
                           .out = {VIEW(c, LS_F32, 4, 96)},
                           .params = &plain};
    assert_int_equal(prepare_kernel("matmul_blocks", LS_F32, LS_ISA_REF, call).code, LS_OK);
    call.params = &adds;
    assert_int_equal(prepare_kernel("matmul_blocks", LS_F32, LS_ISA_REF, call).code, LS_INVALID);
    call.params = &turned;
    assert_int_equal(prepare_kernel("matmul_blocks", LS_F32, LS_ISA_REF, call).code, LS_INVALID);
    call.params = &plain;
    call.in[1] = VIEW(blocks, LS_NF4, 96, 1);
    assert_int_equal(prepare_kernel("matmul_blocks", LS_F32, LS_ISA_REF, call).code, LS_INVALID);
    call.in[1] = VIEW(x, LS_F32, 96, 2);
    assert_int_equal(prepare_kernel("matmul_blocks", LS_F32, LS_ISA_REF, call).code, LS_INVALID);
}

/* --- matmul with rows of C that lie apart ------------------------------------------------------------------------- */

enum { M = 140, K = 160, N = 520, BETWEEN = 24 };

typedef struct gaps {
    ls_kernel_call dense;
    ls_view apart;
    size_t row; /* bytes of a row of C */
} gaps;

static void check_gaps(const ls_kernel *kernel, const void *context) {
    const gaps *g = context;
    const size_t between = (size_t)g->apart.stride[0] * ls_dtype_bytes(g->apart.dtype);
    ls_kernel_call call = g->dense;
    char *const to = g->apart.data, *const dense = g->dense.out[0].data;
    memset(to, 1, between * M);
    memset(dense, 1, g->row * M);
    call.out[0] = g->apart;
    call_kernel_on(kernel, 2, g->dense);
    call_kernel_on(kernel, 2, call);
    for (size_t m = 0; m < M; m++) {
        assert_memory_equal(to + m * between, dense + m * g->row, g->row);
        for (size_t i = g->row; i < between; i++) assert_int_equal(to[m * between + i], 1);
    }
}

static void test_gaps(void **unused) {
    (void)unused;
    for (int i = 0; i < 12; i++) {
        const ls_dtype T = element_types[i % 2], out = i / 2 % 2 ? LS_F32 : T;
        const ls_matmul_params params = {.transpose_b = i % 3 == 0, .accumulate = i / 4 == 1};
        double *numbers = malloc(sizeof *numbers * (M * K + K * N + N));
        char *a = malloc(4 * M * K), *b = malloc(4 * K * N), *bias = malloc(4 * N), *c = malloc(4 * M * N),
             *apart = malloc(4 * M * (N + BETWEEN));
        fill_normal(numbers, M * K + K * N + N, 3);
        for (int64_t k = 0; k < M * K; k++) put(a, T, k, numbers[k]);
        for (int64_t k = 0; k < K * N; k++) put(b, T, k, numbers[M * K + k]);
        for (int64_t k = 0; k < N; k++) put(bias, T, k, numbers[M * K + K * N + k]);
        gaps g = {.dense = {.n_in = i / 8 == 1 ? 3 : 2,
                            .in = {VIEW(a, T, M, K), params.transpose_b ? VIEW(b, T, N, K) : VIEW(b, T, K, N),
                                   VIEW(bias, T, N)},
                            .n_out = 1,
                            .out = {VIEW(c, out, M, N)},
                            .params = &params},
                  .apart = VIEW(apart, out, M, N),
                  .row = ls_dtype_bytes(out) * N};
        g.apart.stride[0] = N + BETWEEN;
        each_kernel("matmul", T, &g.dense, check_gaps, &g);
        free(numbers);
        free(a);
        free(b);
        free(bias);
        free(c);
        free(apart);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode), cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_gaps)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
