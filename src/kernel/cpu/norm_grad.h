/*
 * The parts of rmsnorm_grad and layernorm_grad that are alike: rows are split over threads, and dweight is summed in
 * f32 over a few rows and these sums are added in f64. out[1] is dweight G[E], to which the sum is added.
 */
#ifndef LS_KERNEL_CPU_NORM_GRAD_H
#define LS_KERNEL_CPU_NORM_GRAD_H

#include "kernel/cpu/cpu_impl.h"

/* Rows over which dweight is summed in f32. */
enum { NORM_FLUSH_ROWS = 64 };

V_INLINE int norm_parts(const ls_kernel_call *call) {
    return ls_cpu_parts(row_count(&call->in[0]), NORM_FLUSH_ROWS, call->threads);
}

/* f64[E] for each part, the total; then f32[E] for each part, the sum of the last rows. */
V_INLINE size_t norm_workspace(const ls_kernel_call *call) {
    return (size_t)norm_parts(call) * (size_t)last_size(&call->in[0]) * (sizeof(double) + sizeof(float));
}

/* Writes dx of one row and adds its term to dweight. */
typedef void (*norm_row)(const ls_kernel_call *call, int64_t row, float *dweight);

V_INLINE void norm_rows(const ls_kernel_call *call, int part, int64_t start, int64_t end, norm_row body) {
    const int64_t E = last_size(&call->in[0]);
    double *total = (double *)call->workspace + part * E;
    float *recent = (float *)((double *)call->workspace + norm_parts(call) * E) + part * E;
    memset(total, 0, sizeof *total * (size_t)E);
    for (int64_t first = start; first < end; first += NORM_FLUSH_ROWS) {
        memset(recent, 0, sizeof *recent * (size_t)E);
        const int64_t last = ls_min(end, first + NORM_FLUSH_ROWS);
        for (int64_t row = first; row < last; row++) body(call, row, recent);
        for (int64_t e = 0; e < E; e++) total[e] += (double)recent[e];
    }
}

/* Runs `part`, which must call norm_rows, over all rows; then adds the parts' totals in order. */
V_INLINE void norm_gradient(const ls_kernel_call *call, ls_pool *pool, ls_cpu_body part) {
    const int parts = norm_parts(call);
    const int64_t E = last_size(&call->in[0]);
    ls_cpu_split(pool, row_count(&call->in[0]), parts, part, call);
    double *total = call->workspace;
    for (int64_t i = E; i < parts * E; i++) total[i % E] += total[i];
    float *dweight = call->out[1].data;
    for (int64_t e = 0; e < E; e++) dweight[e] += (float)total[e];
}

#endif
