/* Shared by the kernels of attention on tensor cores: the operands of the call, and the function that stores a row. */
#ifndef LS_KERNEL_CUDA_ATTENTION_FORWARD_H
#define LS_KERNEL_CUDA_ATTENTION_FORWARD_H

#include "kernel/cuda/attention_problem.h"
#include "kernel/cuda/tiles.h"

#include <math.h>

struct forward_problem {
    heads<const bf16> q, k, v;
    heads<float> o, lse;
    sight see;
    int H, D, E, group, first_q, first_kv;
    bool merge;
    float scale, softcap;
};

static inline forward_problem forward_problem_of(const ls_kernel_call *call) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    const ls_view *q = &call->in[0];
    return {.q = heads_of<const bf16>(q),
            .k = heads_of<const bf16>(&call->in[1]),
            .v = heads_of<const bf16>(&call->in[2]),
            .o = heads_of<float>(&call->out[0]),
            .lse = rows_of_heads<float>(&call->out[1]),
            .see = sight_of(call),
            .H = (int)q->size[2],
            .D = (int)q->size[3],
            .E = (int)call->in[2].size[3],
            .group = params->group,
            .first_q = params->first_q,
            .first_kv = params->first_kv,
            .merge = params->merge,
            .scale = (float)params->scale,
            .softcap = (float)params->softcap};
}

static inline bool fits_forward(const ls_kernel_call *call) {
    return call->in[3].size[2] <= MOST_SPAN_COLUMNS && fits_tiles(&call->in[0]) && fits_tiles(&call->in[1]) &&
           fits_tiles(&call->in[2]) && call->out[0].stride[3] == 1;
}

/*
 * Stores row g (half 0) or g + 8 (half 1) of a warp, whose elements four lanes have, in the layout of tensor core sums.
 * sums: o, relative to the largest logit. sum: this lane's part of the sum of the weights.
 */
template <int TILES>
static __device__ __forceinline__ void store_row(const forward_problem &p, const float (&sums)[TILES][4], int half,
                                                 float most, float sum, int64_t b, int64_t i, int64_t h) {
    const int t = threadIdx.x % 4;
    const bool is = i < p.see.queries;
    for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
    const float before = is && p.merge ? *p.lse.at(b, i, h) : -INFINITY;
    const merged m = merge(sum == 0 ? -INFINITY : most + logf(sum), before);
    __syncwarp(); /* all four have read the lse before */
    if (!is) return;
    if (t == 0) *p.lse.at(b, i, h) = m.lse;
    float *o = p.o.at(b, i, h);
    const float share = sum == 0 ? 0 : m.own / sum;
#pragma unroll
    for (int n = 0; n < TILES; n++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int d = 8 * n + 2 * t + c;
            if (d < p.E) o[d] = (p.merge ? o[d] * m.before : 0) + sums[n][2 * half + c] * share;
        }
    }
}

#endif
