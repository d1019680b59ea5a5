/*
 * Shared by the kernels for products: the operands, the work of a block, and the storing of an element. A block has a
 * tile of C. If there are too few tiles to keep a GPU busy, several blocks have parts of the sums of one tile, and a
 * second kernel adds up the parts.
 */
#ifndef LS_KERNEL_CUDA_MATMUL_PROBLEM_H
#define LS_KERNEL_CUDA_MATMUL_PROBLEM_H

#include "kernel/cuda/cuda_impl.h"

/*
 * C[M,N] = op(A) op(B) + bias. A line is a row of op(A) or a column of op(B), and has K elements. Lines are contiguous
 * (in A if it is not transposed, in B if it is), or interleaved.
 */
template <typename T> struct product {
    const T *A, *B, *bias; /* no bias: nullptr */
    void *C;               /* of T or f32; with several parts, [parts,M,N] of f32 */
    int64_t M, N, K, c_row;
    int parts;
    bool a_by_lines, b_by_lines, accumulate, to_f32;
};

static constexpr int TILE = 128; /* rows and columns */

template <typename T> static int64_t count_tiles(const product<T> &p) {
    return ls_ceil_div(p.M, (int64_t)TILE) * ls_ceil_div(p.N, (int64_t)TILE);
}

/* The number of parts depends only on the sizes. */
template <typename T> static int count_parts(const product<T> &p) {
    constexpr int64_t ENOUGH_BLOCKS = 256, LEAST_DEPTH = 512; /* of K */
    const int64_t tiles = count_tiles(p);
    return tiles == 0 ? 1 : (int)ls_max(1, ls_min(ENOUGH_BLOCKS / tiles, p.K / LEAST_DEPTH));
}

template <typename T> static product<T> product_of(const ls_kernel_call *call) {
    const ls_matmul_params *params = (const ls_matmul_params *)call->params;
    const ls_view *A = &call->in[0];
    product<T> p = {.A = input<T>(call, 0),
                    .B = input<T>(call, 1),
                    .bias = call->n_in > 2 ? input<T>(call, 2) : nullptr,
                    .C = call->out[0].data,
                    .M = rows_of(&call->out[0]),
                    .N = columns_of(&call->out[0]),
                    .K = params->transpose_a ? rows_of(A) : columns_of(A),
                    .c_row = ls_view_is_dense(&call->out[0]) ? columns_of(&call->out[0]) : call->out[0].stride[0],
                    .parts = 1,
                    .a_by_lines = !params->transpose_a,
                    .b_by_lines = params->transpose_b,
                    .accumulate = params->accumulate,
                    .to_f32 = call->out[0].dtype == LS_F32};
    p.parts = count_parts(p);
    return p;
}

template <typename T> static size_t product_workspace(const ls_kernel_call *call) {
    const product<T> p = product_of<T>(call);
    return p.parts > 1 ? sizeof(float) * (size_t)(p.parts * p.M * p.N) : 0;
}

/* --- what a block computes ---------------------------------------------------------------------------------------- */

/* A part of the sums of a tile: the tile's first row and column, and the steps of K from `first` to end - 1. */
struct block_work {
    int64_t m, n;
    int part, first, end;
};

/* Blocks with consecutive numbers, which run at the same time, are in BAND rows of tiles, so that they share lines. */
template <int STEP, typename T> static __device__ __forceinline__ block_work work_of_block(const product<T> &p) {
    constexpr int64_t BAND = 8;
    const int64_t down = (p.M + TILE - 1) / TILE, across = (p.N + TILE - 1) / TILE, steps = (p.K + STEP - 1) / STEP;
    const int64_t number = blockIdx.x % (down * across), part = blockIdx.x / (down * across);
    const int64_t first = number / (BAND * across) * BAND, within = number % (BAND * across);
    const int64_t height = down - first < BAND ? down - first : BAND;
    return {(first + within % height) * TILE, within / height * TILE, (int)part, (int)(steps * part / p.parts),
            (int)(steps * (part + 1) / p.parts)};
}

template <typename T, typename C>
static __device__ __forceinline__ void store_sum(const product<T> &p, int part, int64_t m, int64_t n, float sum) {
    if (m >= p.M || n >= p.N) return;
    C *to = (C *)p.C + (part * p.M + m) * p.c_row + n;
    if (p.bias != nullptr) sum += to_float(p.bias[n]);
    *to = from_float<C>(p.accumulate ? to_float(*to) + sum : sum);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* C = the sums of the parts. */
template <typename T, typename C>
static __global__ void __launch_bounds__(CUDA_THREADS) add_products(product<T> p, const float *parts) {
    for (EACH(i, p.M * p.N)) {
        float sum = 0;
        for (int part = 0; part < p.parts; part++) sum += parts[part * p.M * p.N + i];
        store_sum<T, C>(p, 0, i / p.N, i % p.N, sum);
    }
}

/* Launches the kernel for all tiles. */
template <typename T>
static ls_status launch_product(const product<T> &p, void *workspace, void *stream, size_t shared,
                                void (*kernel)(product<T>)) {
    const int64_t blocks = count_tiles(p) * p.parts;
    if (p.parts == 1) return launch("matmul", stream, blocks, shared, kernel, p);
    product<T> in_parts = p;
    in_parts.C = workspace;
    in_parts.c_row = p.N;
    in_parts.bias = nullptr;
    in_parts.accumulate = false;
    in_parts.to_f32 = true;
    LS_TRY(launch("matmul", stream, blocks, shared, kernel, in_parts));
    return launch("matmul", stream, blocks_for(p.M * p.N), 0, p.to_f32 ? add_products<T, float> : add_products<T, T>, p,
                  (const float *)workspace);
}

#endif
