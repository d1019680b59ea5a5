/*
 * Sums over the rows of a matrix, for each column, in an order that depends only on the sizes: first the sums of parts
 * of the rows, then the sum of these.
 */
#ifndef LS_KERNEL_CUDA_COLUMNS_H
#define LS_KERNEL_CUDA_COLUMNS_H

#include "kernel/cuda/cuda_impl.h"

enum { PART_ROWS = 64, MOST_PARTS = 1024 };

static inline int64_t count_parts(int64_t rows) { return ls_min(MOST_PARTS, ls_ceil_div(rows, (int64_t)PART_ROWS)); }

/* Bytes of workspace for the sums of [rows, columns]. */
static inline size_t column_workspace(int64_t rows, int64_t columns) {
    return sizeof(float) * (size_t)(count_parts(rows) * columns);
}

/* The workspace of sums over the rows of input 0. */
static inline size_t rows_workspace(const ls_kernel_call *call) {
    return column_workspace(rows_of(&call->in[0]), columns_of(&call->in[0]));
}

/* parts[p][e] = the sum of term(i, e) over part p of the rows. The grid has blocks over the columns for each part. */
template <typename Term>
static __global__ void __launch_bounds__(CUDA_THREADS)
    sum_parts(Term term, int64_t rows, int64_t columns, int64_t n_parts, float *parts) {
    const int64_t across = gridDim.x / n_parts, part = blockIdx.x / across;
    const int64_t e = blockIdx.x % across * CUDA_THREADS + threadIdx.x;
    if (e >= columns) return;
    float sum = 0;
    for (int64_t i = rows * part / n_parts; i < rows * (part + 1) / n_parts; i++) sum += term(i, e);
    parts[part * columns + e] = sum;
}

enum { BLOCK_COLUMNS = 32 };

/* Each warp of a block adds every CUDA_WARPS-th part of the block's columns; then the first warp adds all sums to y. */
static __global__ void __launch_bounds__(CUDA_THREADS)
    add_parts(const float *parts, int64_t n_parts, int64_t columns, float *y) {
    __shared__ float of_warp[CUDA_WARPS][BLOCK_COLUMNS];
    const int lane = (int)threadIdx.x % BLOCK_COLUMNS, warp = (int)threadIdx.x / BLOCK_COLUMNS;
    const int64_t e = (int64_t)blockIdx.x * BLOCK_COLUMNS + lane;
    float sum = 0;
    for (int64_t p = warp; p < n_parts && e < columns; p += CUDA_WARPS) sum += parts[p * columns + e];
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || e >= columns) return;
    for (int w = 1; w < CUDA_WARPS; w++) sum += of_warp[w][lane];
    y[e] += sum;
}

/* y[e] += the sum of term(i, e) over all rows. Of the two launches, the first sums the parts, the second adds them. */
template <typename Term>
static ls_status sum_columns(const char *name, void *stream, Term term, int64_t rows, int64_t columns,
                             void *workspace) {
    const int64_t parts = count_parts(rows);
    return launch(name, stream, parts * ls_ceil_div(columns, (int64_t)CUDA_THREADS), 0, sum_parts<Term>, term, rows,
                  columns, parts, (float *)workspace);
}
static inline ls_status add_columns(const char *name, void *stream, int64_t parts, int64_t columns,
                                    const void *workspace, float *y) {
    return launch(name, stream, ls_ceil_div(columns, (int64_t)BLOCK_COLUMNS), 0, add_parts, (const float *)workspace,
                  parts, columns, y);
}

#endif
