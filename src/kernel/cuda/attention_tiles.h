/* Tiles of heads in shared memory, and products of them on tensor cores. */
#ifndef LS_KERNEL_CUDA_ATTENTION_TILES_H
#define LS_KERNEL_CUDA_ATTENTION_TILES_H

#include "kernel/cuda/cuda_impl.h"

/*
 * A tile has rows of D elements of bf16, for a D of 64, 128 or 256 of which a head may have fewer: the others are 0.
 * Rows are 16 bytes longer, so that the rows of a matrix of 8 lie in different banks.
 */
template <int D> struct tile {
    static constexpr int PITCH = D + 8;
    static constexpr int bytes(int rows) { return rows * PITCH * (int)sizeof(bf16); }
};

/* Begins to copy rows first .. first + ROWS - 1 of n, of d elements each; rows and elements beyond are 0. */
template <int D, int ROWS>
static __device__ __forceinline__ void load_tile(bf16 *to, const bf16 *from, int64_t stride, int64_t first, int64_t n,
                                                 int d) {
    constexpr int CHUNKS = D / 8; /* of 16 bytes, in a row */
    for (int c = threadIdx.x; c < ROWS * CHUNKS; c += CUDA_THREADS) {
        const int row = c / CHUNKS, e = c % CHUNKS * 8;
        const bool is = first + row < n && e < d;
        ls_copy_16(to + row * tile<D>::PITCH + e, is ? from + (first + row) * stride + e : from, is);
    }
}

/*
 * The address that a lane gives to load four matrices of [16,16] elements from row and column on: those of rows 0 to 7
 * first (by_rows), or those of columns 0 to 7.
 */
template <int D>
static __device__ __forceinline__ const bf16 *matrix_row(const bf16 *t, int row, int column, bool by_rows) {
    const int lane = threadIdx.x % 32, within = lane % 8, first = lane / 8 % 2 * 8, second = lane / 16 * 8;
    return t + (row + within + (by_rows ? first : second)) * tile<D>::PITCH + column + (by_rows ? second : first);
}

static __device__ __forceinline__ unsigned pack(float x, float y) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    unsigned bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* Elements of a head lie one after the other, and every row at a multiple of 16 bytes. */
static inline bool fits_tiles(const ls_view *v) {
    return v->stride[3] == 1 && v->size[3] <= 256 && v->size[3] % 8 == 0 && v->stride[0] % 8 == 0 &&
           v->stride[1] % 8 == 0 && v->stride[2] % 8 == 0;
}

/* x[n] = products of 16 rows, from `row` on, with rows 8 n and on of `columns`, as the tensor cores have sums. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void multiply_rows(const bf16 *rows, const bf16 *columns, int row,
                                                     float x[COLUMNS / 8][4]) {
    for (int n = 0; n < COLUMNS / 8; n++)
        for (int i = 0; i < 4; i++) x[n][i] = 0;
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        unsigned a[4];
        ls_load_matrices(a, matrix_row<D>(rows, row, d, true));
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n += 2) {
            unsigned b[4];
            ls_load_matrices(b, matrix_row<D>(columns, 8 * n, d, false));
            ls_mma(x[n], a, b);
            ls_mma(x[n + 1], a, b + 2);
        }
    }
}

/* sum[n] += x times columns 8 n and on of the tile, whose row c belongs to column c of x. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void add_products(float sum[D / 8][4], const float x[COLUMNS / 8][4], const bf16 *t) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c += 16) {
        const float *low = x[c / 8], *high = x[c / 8 + 1];
        const unsigned a[4] = {pack(low[0], low[1]), pack(low[2], low[3]), pack(high[0], high[1]),
                               pack(high[2], high[3])};
#pragma unroll
        for (int d = 0; d < D; d += 16) {
            unsigned b[4];
            ls_load_transposed(b, matrix_row<D>(t, c, d, true));
            ls_mma(sum[d / 8], a, b);
            ls_mma(sum[d / 8 + 1], a, b + 2);
        }
    }
}

#endif
