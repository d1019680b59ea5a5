/*
 * Attention and its gradient for all types and head sizes, without tensor cores: a warp has one query and visits the
 * keys that the query sees one by one, or it has one key and visits the queries that see the key. Used for calls that
 * the fast kernels do not support, and as the reference for their speed.
 */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

static constexpr int LANE_ELEMENTS = 8,
                     MOST_D = 32 * LANE_ELEMENTS; /* of a head, lane l has elements l, l + 32 and on */

template <typename T> struct plain_problem {
    heads<const T> q, k, v, dout;
    heads<float> o, lse, dq, dk, dv; /* lse is an input of the gradient */
    heads<const float> delta;
    sight see;
    int64_t B;
    int H, J, D, E, group, first_q, first_kv;
    bool merge, adds_dq, adds_dkv;
    float scale, softcap;

    __device__ int64_t kv_of(int64_t h) const { return (first_q + h) / group - first_kv; }
};

template <typename T> static __device__ __forceinline__ void read_head(const T *from, int D, float x[LANE_ELEMENTS]) {
    for (int e = 0, d = threadIdx.x % 32; e < LANE_ELEMENTS; e++, d += 32) x[e] = d < D ? to_float(from[d]) : 0;
}

static __device__ __forceinline__ float product(const float a[LANE_ELEMENTS], const float b[LANE_ELEMENTS]) {
    float sum = 0;
    for (int e = 0; e < LANE_ELEMENTS; e++) sum += a[e] * b[e];
    return warp_sum(sum);
}

static __device__ __forceinline__ void add_scaled(float to[LANE_ELEMENTS], float factor, const float x[LANE_ELEMENTS]) {
    for (int e = 0; e < LANE_ELEMENTS; e++) to[e] += factor * x[e];
}

static __device__ __forceinline__ void write_head(const float x[LANE_ELEMENTS], int D, bool adds, float *to) {
    for (int e = 0, d = threadIdx.x % 32; e < LANE_ELEMENTS; e++, d += 32)
        if (d < D) to[d] = (adds ? to[d] : 0) + x[e];
}

template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) attend_plainly(plain_problem<T> p) {
    const int64_t w = warp_number();
    if (w >= p.B * p.H * p.see.queries) return;
    const int64_t i = w % p.see.queries, h = w / p.see.queries % p.H, b = w / p.see.queries / p.H, kv = p.kv_of(h);
    const int32_t *spans = p.see.spans + (b * p.see.queries + i) * p.see.W;
    float q[LANE_ELEMENTS], o[LANE_ELEMENTS] = {}, most = -INFINITY, sum = 0;
    read_head(p.q.at(b, i, h), p.D, q);
    for (int64_t j = 0; j < p.see.keys; j++) {
        if (!sees(spans, p.see.W, p.see.kpos[j])) continue;
        float k[LANE_ELEMENTS], v[LANE_ELEMENTS];
        read_head(p.k.at(b, j, kv), p.D, k);
        read_head(p.v.at(b, j, kv), p.E, v);
        const float x = logit(product(q, k), p.scale, p.softcap), above = fmaxf(most, x);
        if (x == -INFINITY) continue; /* weight 0, even if the value is not finite */
        const float fade = expf(most - above), weight = expf(x - above);
        for (int e = 0; e < LANE_ELEMENTS; e++) o[e] = o[e] * fade + weight * v[e];
        sum = sum * fade + weight;
        most = above;
    }
    const float before = p.merge ? *p.lse.at(b, i, h) : -INFINITY;
    const merged m = merge(sum == 0 ? -INFINITY : most + logf(sum), before);
    float *to = p.o.at(b, i, h);
    for (int e = 0, d = threadIdx.x % 32; e < LANE_ELEMENTS; e++, d += 32)
        if (d < p.E) to[d] = (p.merge ? to[d] * m.before : 0) + (sum == 0 ? 0 : o[e] * m.own / sum);
    __syncwarp(); /* all have read the lse before */
    if (threadIdx.x % 32 == 0) *p.lse.at(b, i, h) = m.lse;
}

template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) grad_of_queries(plain_problem<T> p) {
    const int64_t w = warp_number();
    if (w >= p.B * p.H * p.see.queries) return;
    const int64_t i = w % p.see.queries, h = w / p.see.queries % p.H, b = w / p.see.queries / p.H, kv = p.kv_of(h);
    const int32_t *spans = p.see.spans + (b * p.see.queries + i) * p.see.W;
    const float lse = *p.lse.at(b, i, h), delta = *p.delta.at(b, i, h);
    float q[LANE_ELEMENTS], dout[LANE_ELEMENTS], dq[LANE_ELEMENTS] = {};
    read_head(p.q.at(b, i, h), p.D, q);
    read_head(p.dout.at(b, i, h), p.E, dout);
    for (int64_t j = 0; j < p.see.keys; j++) {
        if (!sees(spans, p.see.W, p.see.kpos[j])) continue;
        float k[LANE_ELEMENTS], v[LANE_ELEMENTS];
        read_head(p.k.at(b, j, kv), p.D, k);
        read_head(p.v.at(b, j, kv), p.E, v);
        add_scaled(dq, pair_of(product(q, k), product(dout, v), lse, delta, p.scale, p.softcap).dproduct, k);
    }
    write_head(dq, p.D, p.adds_dq, p.dq.at(b, i, h));
}

template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) grad_of_keys(plain_problem<T> p) {
    const int64_t w = warp_number();
    if (w >= p.B * p.J * p.see.keys) return;
    const int64_t j = w % p.see.keys, kv = w / p.see.keys % p.J, b = w / p.see.keys / p.J;
    const int32_t position = p.see.kpos[j];
    float k[LANE_ELEMENTS], v[LANE_ELEMENTS], dk[LANE_ELEMENTS] = {}, dv[LANE_ELEMENTS] = {};
    read_head(p.k.at(b, j, kv), p.D, k);
    read_head(p.v.at(b, j, kv), p.E, v);
    for (int64_t h = 0; h < p.H; h++) {
        if (p.kv_of(h) != kv) continue;
        for (int64_t i = 0; i < p.see.queries; i++) {
            if (!sees(p.see.spans + (b * p.see.queries + i) * p.see.W, p.see.W, position)) continue;
            float q[LANE_ELEMENTS], dout[LANE_ELEMENTS];
            read_head(p.q.at(b, i, h), p.D, q);
            read_head(p.dout.at(b, i, h), p.E, dout);
            const pair_gradient g =
                pair_of(product(q, k), product(dout, v), *p.lse.at(b, i, h), *p.delta.at(b, i, h), p.scale, p.softcap);
            add_scaled(dk, g.dproduct, q);
            add_scaled(dv, g.weight, dout);
        }
    }
    write_head(dk, p.D, p.adds_dkv, p.dk.at(b, j, kv));
    write_head(dv, p.E, p.adds_dkv, p.dv.at(b, j, kv));
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

static bool supports(const ls_kernel_call *call) {
    bool dense = widest_head(call) <= MOST_D; /* the elements of a head are contiguous */
    for (int i = 0; i < 3; i++) dense &= call->in[i].stride[3] == 1;
    for (int o = 0; o < call->n_out; o++) dense &= call->out[o].ndim < 4 || call->out[o].stride[3] == 1;
    return dense && (call->n_in < 6 || call->in[5].stride[3] == 1);
}

template <typename T> static plain_problem<T> problem_of(const ls_kernel_call *call) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    plain_problem<T> p = {};
    p.q = heads_of<const T>(&call->in[0]);
    p.k = heads_of<const T>(&call->in[1]);
    p.v = heads_of<const T>(&call->in[2]);
    p.see = sight_of(call);
    p.B = call->in[0].size[0];
    p.H = (int)call->in[0].size[2];
    p.J = (int)call->in[1].size[2];
    p.D = (int)call->in[0].size[3];
    p.E = (int)call->in[2].size[3];
    p.group = params->group;
    p.first_q = params->first_q;
    p.first_kv = params->first_kv;
    p.scale = (float)params->scale;
    p.softcap = (float)params->softcap;
    return p;
}

template <typename T> static ls_status launch_attention(const ls_kernel_call *call, void *, void *stream) {
    plain_problem<T> p = problem_of<T>(call);
    p.o = heads_of<float>(&call->out[0]);
    p.lse = rows_of_heads<float>(&call->out[1]);
    p.merge = ((const ls_attention_params *)call->params)->merge;
    return launch("attention", stream, ls_ceil_div(p.B * p.H * p.see.queries, (int64_t)CUDA_WARPS), 0,
                  attend_plainly<T>, p);
}

template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    plain_problem<T> p = problem_of<T>(call);
    p.dout = heads_of<const T>(&call->in[5]);
    p.lse = rows_of_heads<float>(&call->in[6]);
    p.delta = rows_of_heads<const float>(&call->in[7]);
    p.dq = heads_of<float>(&call->out[0]);
    p.dk = heads_of<float>(&call->out[1]);
    p.dv = heads_of<float>(&call->out[2]);
    p.adds_dq = params->accumulate_dq;
    p.adds_dkv = params->accumulate_dkv;
    LS_TRY(launch("attention_grad", stream, ls_ceil_div(p.B * p.H * p.see.queries, (int64_t)CUDA_WARPS), 0,
                  grad_of_queries<T>, p));
    return launch("attention_grad", stream, ls_ceil_div(p.B * p.J * p.see.keys, (int64_t)CUDA_WARPS), 0,
                  grad_of_keys<T>, p);
}

CUDA_ROW_FOR(ls_cuda_f32_attention, ATTENTION, LS_F32, launch_attention<float>, nullptr, supports)
CUDA_ROW_FOR(ls_cuda_bf16_attention_plain, ATTENTION, LS_BF16, launch_attention<bf16>, nullptr, supports)
CUDA_ROW_FOR(ls_cuda_f32_attention_grad, ATTENTION_GRAD, LS_F32, launch_grad<float>, nullptr, supports)
CUDA_ROW_FOR(ls_cuda_bf16_attention_grad_plain, ATTENTION_GRAD, LS_BF16, launch_grad<bf16>, nullptr, supports)
