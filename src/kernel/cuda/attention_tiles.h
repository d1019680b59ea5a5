/* Products of tiles of heads on tensor cores. If a head has fewer elements than its tile, the others are 0. */
#ifndef LS_KERNEL_CUDA_ATTENTION_TILES_H
#define LS_KERNEL_CUDA_ATTENTION_TILES_H

#include "kernel/cuda/tiles.h"

/* x[n] = the products of 16 rows, from `row` on, with 8 rows of `columns`, from 8 n on, in the layout of ls_mma's d. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void multiply_rows(const bf16 *rows, const bf16 *columns, int row,
                                                     float x[COLUMNS / 8][4]) {
    EACH_SUM(COLUMNS / 8, n, i) x[n][i] = 0;
    __syncwarp(); /* all lanes of a warp must execute the instructions below together */
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

/* sum[n] += x times 8 columns of the tile, from 8 n on; row c of the tile is multiplied by column c of x. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void add_products(float sum[D / 8][4], const float x[COLUMNS / 8][4], const bf16 *t) {
    __syncwarp(); /* as above: lanes may have made x by different branches */
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
