/* What the kernels for products share: the operands, which tile of C a block computes, and how an element is stored. */
#ifndef LS_KERNEL_CUDA_MATMUL_PROBLEM_H
#define LS_KERNEL_CUDA_MATMUL_PROBLEM_H

#include "kernel/cuda/cuda_impl.h"

/*
 * C[M,N] = op(A) op(B) + bias. A line is a row of op(A) or a column of op(B); op(A) and op(B) have K elements in each.
 * Lines lie one after the other (in A if it is not transposed, in B if it is), or side by side.
 */
template <typename T> struct product {
    const T *A, *B, *bias; /* no bias: nullptr */
    void *C;
    int64_t M, N, K;
    bool a_by_lines, b_by_lines, accumulate;
};

template <typename T> static product<T> product_of(const ls_kernel_call *call) {
    const ls_matmul_params *params = (const ls_matmul_params *)call->params;
    const ls_view *A = &call->in[0];
    return {.A = input<T>(call, 0),
            .B = input<T>(call, 1),
            .bias = call->n_in > 2 ? input<T>(call, 2) : nullptr,
            .C = call->out[0].data,
            .M = rows_of(&call->out[0]),
            .N = columns_of(&call->out[0]),
            .K = params->transpose_a ? rows_of(A) : columns_of(A),
            .a_by_lines = !params->transpose_a,
            .b_by_lines = params->transpose_b,
            .accumulate = params->accumulate};
}

template <typename T, typename C>
static __device__ __forceinline__ void store_sum(const product<T> &p, int64_t m, int64_t n, float sum) {
    if (m >= p.M || n >= p.N) return;
    C *to = (C *)p.C + m * p.N + n;
    if (p.bias != nullptr) sum += to_float(p.bias[n]);
    *to = from_float<C>(p.accumulate ? to_float(*to) + sum : sum);
}

/* --- tiles of C --------------------------------------------------------------------------------------------------- */

static constexpr int TILE = 128; /* rows and columns */

template <typename T> static int64_t count_tiles(const product<T> &p) {
    return ls_ceil_div(p.M, (int64_t)TILE) * ls_ceil_div(p.N, (int64_t)TILE);
}

/* First row and column of a block's tile. Blocks that run at the same time have BAND rows of tiles, and share lines. */
struct tile_place {
    int64_t m, n;
};
template <typename T> static __device__ __forceinline__ tile_place tile_of_block(const product<T> &p) {
    constexpr int64_t BAND = 8;
    const int64_t down = (p.M + TILE - 1) / TILE, across = (p.N + TILE - 1) / TILE;
    const int64_t first = blockIdx.x / (BAND * across) * BAND, within = blockIdx.x % (BAND * across);
    const int64_t height = down - first < BAND ? down - first : BAND;
    return {(first + within % height) * TILE, within / height * TILE};
}

#endif
