/*
 * The common part of the gradients of norms: rows are split over threads; dweight is summed in f32 over a few rows of
 * each group, and these sums are added in f64. out[1] is dweight G[E], or G[groups,E], where row i belongs to group
 * i % groups; the sum is added to it.
 */
#ifndef LS_KERNEL_CPU_NORM_GRAD_H
#define LS_KERNEL_CPU_NORM_GRAD_H

#include "kernel/cpu/cpu_impl.h"

/* Rows of a group over which dweight is summed in f32. */
enum { NORM_FLUSH_ROWS = 64 };

V_INLINE int64_t norm_sums(const ls_kernel_call *call) { return ls_view_elements(&call->out[1]); }

/* The number of rows after which the sums in f32 are added to those in f64. */
V_INLINE int64_t norm_flush(const ls_kernel_call *call) { return NORM_FLUSH_ROWS * row_count(&call->out[1]); }

V_INLINE int norm_parts(const ls_kernel_call *call) {
    return ls_cpu_parts(row_count(&call->in[0]), norm_flush(call), call->threads);
}

/* For each part f64[sums], its total; then for each part f32[sums], the sum of its last rows, and room for a row. */
V_INLINE size_t norm_workspace(const ls_kernel_call *call) {
    const int64_t sums = norm_sums(call), room = last_size(&call->in[0]);
    return (size_t)norm_parts(call) * ((size_t)sums * sizeof(double) + (size_t)(sums + room) * sizeof(float));
}

/* Writes the results of one row and adds its term to dweight. It may use the room for a row behind dweight. */
typedef void (*norm_row)(const ls_kernel_call *call, int64_t row, float *dweight);

V_INLINE void norm_rows(const ls_kernel_call *call, int part, int64_t start, int64_t end, norm_row body) {
    const int64_t sums = norm_sums(call), flush = norm_flush(call);
    double *total = (double *)call->workspace + part * sums;
    float *recent =
        (float *)((double *)call->workspace + norm_parts(call) * sums) + part * (sums + last_size(&call->in[0]));
    memset(total, 0, sizeof *total * (size_t)sums);
    for (int64_t first = start; first < end; first += flush) {
        memset(recent, 0, sizeof *recent * (size_t)sums);
        const int64_t last = ls_min(end, first + flush);
        for (int64_t row = first; row < last; row++) body(call, row, recent);
        for (int64_t e = 0; e < sums; e++) total[e] += (double)recent[e];
    }
}

/* Runs `part`, which must call norm_rows, over all rows; then adds the parts' totals in order. */
V_INLINE void norm_gradient(const ls_kernel_call *call, ls_pool *pool, ls_cpu_body part) {
    const int parts = norm_parts(call);
    const int64_t sums = norm_sums(call);
    ls_cpu_split(pool, row_count(&call->in[0]), parts, part, call);
    double *total = call->workspace;
    for (int64_t i = sums; i < parts * sums; i++) total[i % sums] += total[i];
    float *dweight = call->out[1].data;
    for (int64_t e = 0; e < sums; e++) dweight[e] += (float)total[e];
}

#endif
