/*
 * matmul: C[M,N] = op(A)[M,K] · op(B)[K,N] (+ bias), in square tiles. Each sum is in double and in the order k = 0, 1,
 * ..., so tiles and threads do not change the result. op(B) is packed tile by tile, so that the inner loop reads
 * contiguous doubles.
 */
#include <string.h>

#include "kernel/ref/ref_impl.h"

enum { TILE = 64 };

typedef struct product {
    const real *A, *B, *bias; /* bias may be NULL */
    int64_t M, N, K;
    int64_t a_row, a_column, b_row, b_column, c_row; /* strides of op(A), op(B), C */
    ls_view C;
    bool accumulate;
    int64_t tiles_n;
} product;

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_MATMUL, LS_REAL, call);
}

/* op(B)[k0.., n0..] as doubles; columns beyond n_size are 0. */
static void pack(const product *p, int64_t k0, int64_t k_size, int64_t n0, int64_t n_size, double out[TILE][TILE]) {
    for (int64_t k = 0; k < k_size; k++) {
        const real *row = p->B + (k0 + k) * p->b_row + n0 * p->b_column;
        for (int64_t n = 0; n < n_size; n++) out[k][n] = (double)row[n * p->b_column];
        for (int64_t n = n_size; n < TILE; n++) out[k][n] = 0;
    }
}

static void add_row(const double *restrict a, const double B[TILE][TILE], int64_t k_size, double *restrict sum) {
    for (int64_t k = 0; k < k_size; k++)
        for (int n = 0; n < TILE; n++) sum[n] += a[k] * B[k][n];
}

/* The kernel for f64 may have an f32 result. */
static void store(const product *p, int64_t m, int64_t n, double value) {
    const int64_t at = m * p->c_row + n;
    if (p->bias != NULL) value += (double)p->bias[n];
    if (p->C.dtype == LS_REAL) {
        real *C = p->C.data;
        C[at] = (real)(p->accumulate ? (double)C[at] + value : value);
    } else {
        float *C = p->C.data;
        C[at] = (float)(p->accumulate ? (double)C[at] + value : value);
    }
}

static void tile_of_c(const product *p, int64_t m0, int64_t n0) {
    double sum[TILE][TILE], B[TILE][TILE], a[TILE];
    const int64_t m_size = ls_min(TILE, p->M - m0), n_size = ls_min(TILE, p->N - n0);
    memset(sum, 0, sizeof sum);
    for (int64_t k0 = 0; k0 < p->K; k0 += TILE) {
        const int64_t k_size = ls_min(TILE, p->K - k0);
        pack(p, k0, k_size, n0, n_size, B);
        for (int64_t m = 0; m < m_size; m++) {
            const real *row = p->A + (m0 + m) * p->a_row + k0 * p->a_column;
            for (int64_t k = 0; k < k_size; k++) a[k] = (double)row[k * p->a_column];
            add_row(a, B, k_size, sum[m]);
        }
    }
    for (int64_t m = 0; m < m_size; m++)
        for (int64_t n = 0; n < n_size; n++) store(p, m0 + m, n0 + n, sum[m][n]);
}

static void tiles(const void *context, int64_t first, int64_t last) {
    const product *p = context;
    for (int64_t i = first; i < last; i++) tile_of_c(p, i / p->tiles_n * TILE, i % p->tiles_n * TILE);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_matmul_params *params = call->params;
    const bool ta = params->transpose_a, tb = params->transpose_b;
    const ls_view *A = &call->in[0], *B = &call->in[1];
    const int64_t a_rows = ref_rows(A), a_columns = ref_columns(A);
    product p = {
        .A = A->data,
        .B = B->data,
        .bias = call->n_in > 2 ? call->in[2].data : NULL,
        .M = ta ? a_columns : a_rows,
        .K = ta ? a_rows : a_columns,
        .N = tb ? ref_rows(B) : ref_columns(B),
        .a_row = ta ? 1 : a_columns,
        .a_column = ta ? a_columns : 1,
        .b_row = tb ? 1 : ref_columns(B),
        .b_column = tb ? ref_columns(B) : 1,
        .C = call->out[0],
        .accumulate = params->accumulate,
    };
    p.c_row = ls_view_is_dense(&p.C) ? p.N : p.C.stride[0];
    p.tiles_n = ls_ceil_div(p.N, TILE);
    ref_split(pool, ls_ceil_div(p.M, TILE) * p.tiles_n, tiles, &p);
}

const ls_kernel REF(matmul) = {.id = LS_KERNEL_MATMUL, .dtype = LS_REAL, .prepare = prepare, .run = run};
