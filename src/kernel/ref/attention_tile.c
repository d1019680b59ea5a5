#include "kernel/ref/attention_tile.h"

#include <string.h>

problem REF(problem_of)(const ls_kernel_call *call) {
    const ls_view *q = &call->in[0], *k = &call->in[1];
    return (problem){
        .call = call,
        .params = call->params,
        .spans = call->in[3].data,
        .kpos = call->in[4].data,
        .B = q->size[0],
        .N = q->size[1],
        .H = q->size[2],
        .D = q->size[3],
        .K = k->size[1],
        .J = k->size[2],
        .E = call->in[2].size[3],
        .columns = call->in[3].size[2],
    };
}

static const real *row_of(const ls_view *view, int64_t b, int64_t h, int64_t row) {
    return (const real *)view->data + b * view->stride[0] + row * view->stride[1] + h * view->stride[2];
}

void REF(pack_rows)(const ls_view *view, int64_t b, int64_t h, int64_t first, int64_t count, double *out) {
    const int64_t D = view->size[3];
    for (int64_t i = 0; i < count; i++) {
        const real *row = row_of(view, b, h, first + i);
        for (int64_t d = 0; d < D; d++) out[i * D + d] = (double)row[d];
    }
}

void REF(pack_columns)(const ls_view *view, int64_t b, int64_t h, int64_t first, int64_t count, double *out) {
    const int64_t D = view->size[3];
    if (count < TILE_K) memset(out, 0, sizeof(double) * (size_t)(D * TILE_K));
    for (int64_t i = 0; i < count; i++) {
        const real *row = row_of(view, b, h, first + i);
        for (int64_t d = 0; d < D; d++) out[d * TILE_K + i] = (double)row[d];
    }
}

bool REF(visible)(const problem *p, int64_t b, int64_t q0, int64_t q_count, int64_t k0, int64_t k_count,
                  bool seen[TILE_Q][TILE_K]) {
    bool any = false;
    for (int64_t i = 0; i < q_count; i++) {
        memset(seen[i], 0, sizeof seen[i]);
        const int32_t *span = p->spans + (b * p->N + q0 + i) * p->columns;
        for (int64_t w = 0; w < p->columns; w += 2) {
            for (int64_t j = 0; j < k_count; j++) {
                const bool inside = span[w] <= p->kpos[k0 + j] && p->kpos[k0 + j] < span[w + 1];
                seen[i][j] |= inside;
                any |= inside;
            }
        }
    }
    return any;
}

void REF(dots)(const double *a, int64_t count, const double *columns, int64_t D, tile_pairs out) {
    for (int64_t i = 0; i < count; i++) {
        double sum[TILE_K] = {0};
        for (int64_t d = 0; d < D; d++)
            for (int j = 0; j < TILE_K; j++) sum[j] += a[i * D + d] * columns[d * TILE_K + j];
        memcpy(out[i], sum, sizeof sum);
    }
}

void REF(add_weighted)(double weight, const double *restrict row, int64_t D, double *restrict sum) {
    for (int64_t d = 0; d < D; d++) sum[d] += weight * row[d];
}

size_t REF(thread_bytes)(int threads, int64_t doubles) {
    return (size_t)ls_max(1, threads) * sizeof(double) * (size_t)doubles;
}
