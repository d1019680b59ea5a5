/* Shared by the kernels of the gradient of attention on tensor cores: operands, and the function that writes sums. */
#ifndef LS_KERNEL_CUDA_ATTENTION_GRAD_H
#define LS_KERNEL_CUDA_ATTENTION_GRAD_H

#include "kernel/cuda/attention_problem.h"
#include "kernel/cuda/attention_tiles.h"

struct grad_problem {
    heads<const bf16> q, k, v, dout;
    heads<const float> lse, delta;
    heads<float> dq, dk, dv;
    sight see;
    int B, H, J, D, E, group, first_q, first_kv;
    bool adds_dq, adds_dkv;
    float scale, softcap;
};

static inline grad_problem grad_problem_of(const ls_kernel_call *call) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    const ls_view *q = &call->in[0];
    return {.q = heads_of<const bf16>(q),
            .k = heads_of<const bf16>(&call->in[1]),
            .v = heads_of<const bf16>(&call->in[2]),
            .dout = heads_of<const bf16>(&call->in[5]),
            .lse = rows_of_heads<const float>(&call->in[6]),
            .delta = rows_of_heads<const float>(&call->in[7]),
            .dq = heads_of<float>(&call->out[0]),
            .dk = heads_of<float>(&call->out[1]),
            .dv = heads_of<float>(&call->out[2]),
            .see = sight_of(call),
            .B = (int)q->size[0],
            .H = (int)q->size[2],
            .J = (int)call->in[1].size[2],
            .D = (int)q->size[3],
            .E = (int)call->in[2].size[3],
            .group = params->group,
            .first_q = params->first_q,
            .first_kv = params->first_kv,
            .adds_dq = params->accumulate_dq,
            .adds_dkv = params->accumulate_dkv,
            .scale = (float)params->scale,
            .softcap = (float)params->softcap};
}

/* Whether operands can be loaded as tiles and results can be written from sums. */
static inline bool grad_fits_tiles(const ls_kernel_call *call) {
    bool fits = fits_tiles(&call->in[5]);
    for (int i = 0; i < 3; i++) fits &= fits_tiles(&call->in[i]) && call->out[i].stride[3] == 1;
    return fits;
}

/* The row and the column of sum (n, i) of a thread, in products of 16 rows with columns. */
static __device__ __forceinline__ int pair_row(int i) { return threadIdx.x % 32 / 4 + i / 2 * 8; }
static __device__ __forceinline__ int pair_column(int n, int i) { return 8 * n + 2 * (int)(threadIdx.x % 4) + i % 2; }

/* Writes 16 rows of sums times a factor, from row `first` on; rows from n on do not exist. */
template <int D>
static __device__ __forceinline__ void write_rows(const float sum[D / 8][4], float factor, heads<float> to, int64_t b,
                                                  int64_t h, int64_t first, int64_t n_rows, int d_of_head, bool adds) {
    EACH_SUM(D / 8, n, i) {
        const int64_t row = first + pair_row(i);
        const int d = pair_column(n, i);
        if (row >= n_rows || d >= d_of_head) continue;
        float *at = to.at(b, row, h) + d;
        *at = (adds ? *at : 0) + sum[n][i] * factor;
    }
}

/* Whether the query sees the key; false if either does not exist. */
static __device__ __forceinline__ bool is_seen(const sight &see, int64_t b, int64_t query, int64_t key) {
    return query < see.queries && key < see.keys &&
           sees(see.spans + (b * see.queries + query) * see.W, see.W, see.kpos[key]);
}

/* The number of a query: its lse, or inf if the lse is -inf or there is no such query, so that all weights are 0. */
static __device__ __forceinline__ float number_of(const grad_problem &p, int64_t b, int64_t query, int64_t h) {
    const float lse = query < p.see.queries ? *p.lse.at(b, query, h) : -INFINITY;
    return lse == -INFINITY ? INFINITY : lse;
}
static __device__ __forceinline__ float delta_of(const grad_problem &p, int64_t b, int64_t query, int64_t h) {
    return query < p.see.queries ? *p.delta.at(b, query, h) : 0;
}

#endif
