/* Sums of many rows, column block by column block: what column_sum and embedding_grad share. */
#ifndef LS_KERNEL_CPU_COLUMNS_H
#define LS_KERNEL_CPU_COLUMNS_H

#include "kernel/cpu/cpu_impl.h"

enum { COLUMN_BLOCK = 64, COLUMN_FLUSH_ROWS = 64 };

/*
 * out[0..columns) += the sum of `rows` rows of x, columns <= COLUMN_BLOCK; row i of the sum is row order[i] of x, or i
 * when order is NULL; rows of x are `stride` elements apart. In f32 over COLUMN_FLUSH_ROWS rows, those sums in f64.
 */
V_INLINE void add_rows(float *out, const element *x, int64_t stride, const int32_t *order, int64_t rows,
                       int64_t columns) {
    enum { VECTORS = COLUMN_BLOCK / V_LANES };
    double total[COLUMN_BLOCK] = {0};
    for (int64_t first = 0; first < rows; first += COLUMN_FLUSH_ROWS) {
        v_f32 sum[VECTORS] = {{0}};
        const int64_t last = ls_min(rows, first + COLUMN_FLUSH_ROWS);
        for (int64_t i = first; i < last; i++) {
            const element *row = x + (order ? order[i] : i) * stride;
            for (int v = 0; v < VECTORS; v++) sum[v] += v_load(row + v * V_LANES, columns - v * V_LANES);
        }
        for (int v = 0; v < VECTORS; v++) {
            for (int l = 0; l < V_LANES; l++) total[v * V_LANES + l] += (double)sum[v][l];
        }
    }
    for (int64_t c = 0; c < columns; c++) out[c] += (float)total[c];
}

#endif
