/*
 * Shared by the kernels of the linear recurrence. A block computes one token of a head after the other. Each thread has
 * its own columns of the state, which is in global memory, in f32.
 */
#ifndef LS_KERNEL_CUDA_LINEAR_RECURRENCE_H
#define LS_KERNEL_CUDA_LINEAR_RECURRENCE_H

#include "kernel/cuda/cuda_impl.h"

/* A view [B,N,heads,elements] with dense elements; of places [B,N,elements]. */
template <typename T> struct head_view {
    T *data;
    int64_t sequence, token, head, elements;
    __device__ T *at(int64_t b, int64_t n, int64_t h) const { return data + b * sequence + n * token + h * head; }
};

template <typename T> static head_view<T> head_view_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[2], v->size[3]};
}

/* Operands of a call; if the call lacks one, its data is NULL. */
template <typename T> struct recurrence {
    head_view<const T> q, k, v, grad_o;
    head_view<const float> decay, beta;
    head_view<const int32_t> places;
    int64_t B, N, K, H, D, E, width; /* width: columns of a state */
    bool delta, unmasked;
    __device__ int64_t key_of(int64_t h) const { return h / (H / K); }
};

/* The indices of the call's inputs; -1: the call has no such input. */
struct inputs_of_call {
    int q, k, v, gates, grad_o;
};

template <typename T> static recurrence<T> recurrence_of(const ls_kernel_call *call, const inputs_of_call &of) {
    const ls_linear_recurrence_params *p = (const ls_linear_recurrence_params *)call->params;
    const ls_view *k = &call->in[of.k], *decay = &call->in[of.gates], *places = &call->in[of.gates + 2];
    recurrence<T> r = {};
    if (of.q >= 0) r.q = head_view_of<const T>(&call->in[of.q]);
    r.k = head_view_of<const T>(k);
    if (of.v >= 0) r.v = head_view_of<const T>(&call->in[of.v]);
    if (of.grad_o >= 0) r.grad_o = head_view_of<const T>(&call->in[of.grad_o]);
    r.decay = head_view_of<const float>(decay);
    r.beta = head_view_of<const float>(&call->in[of.gates + 1]);
    r.places = {(const int32_t *)places->data, places->stride[0], places->stride[1], 0, places->size[2]};
    r.B = k->size[0];
    r.N = k->size[1];
    r.K = k->size[2];
    r.D = k->size[3];
    r.H = decay->size[2];
    r.E = call->in[of.v >= 0 ? of.v : of.grad_o].size[3];
    r.width = r.E;
    r.delta = p->delta;
    r.unmasked = p->unmasked;
    return r;
}

/* The elements i < n of this thread, if the threads of a block share them: for (OF_BLOCK(i, n)). */
#define OF_BLOCK(i, n)       \
    int64_t i = threadIdx.x; \
    i < (n);                 \
    i += CUDA_THREADS

/* A token's key, query and decays, in shared memory: 3 D numbers. */
struct shared_token {
    float *k, *q, *factor;
};

static __device__ __forceinline__ shared_token shared_of(float *shared, int64_t D) {
    return {shared, shared + D, shared + 2 * D};
}

template <typename T> static __device__ __forceinline__ bool begins(const recurrence<T> &r, int64_t b, int64_t n) {
    return r.places.elements > 0 && *r.places.at(b, n, 0) == 0;
}

template <typename T>
static __device__ __forceinline__ float beta_of(const recurrence<T> &r, int64_t b, int64_t n, int64_t h) {
    return r.beta.elements > 0 ? *r.beta.at(b, n, h) : 1.0f;
}

/* The threads of the block load a token, after all of them have finished with the previous one. */
template <typename T>
static __device__ __forceinline__ void load_token(const recurrence<T> &r, const shared_token &t, int64_t b, int64_t n,
                                                  int64_t h) {
    const int64_t key = r.key_of(h);
    const bool start = begins(r, b, n);
    __syncthreads();
    for (OF_BLOCK(d, r.D)) {
        t.k[d] = to_float(r.k.at(b, n, key)[d]);
        if (r.q.data != nullptr) t.q[d] = to_float(r.q.at(b, n, key)[d]);
        const int64_t of = r.decay.elements == 1 ? 0 : d;
        t.factor[d] = start ? 0.0f : r.decay.elements > 0 ? expf(r.decay.at(b, n, h)[of]) : 1.0f;
    }
    __syncthreads();
}

/*
 * Advances column e of S [D,width] by the token. Returns what the token writes into the column; from column E on, its
 * value counts as 0.
 */
template <typename T>
static __device__ __forceinline__ float step(const recurrence<T> &r, const shared_token &t, float *S, int64_t b,
                                             int64_t n, int64_t h, int64_t e) {
    float found = 0;
    for (int64_t d = 0; d < r.D; d++) {
        float *at = S + d * r.width + e;
        if (!r.unmasked) *at *= t.factor[d];
        if (r.delta) found += t.k[d] * *at;
    }
    const float value = e < r.E ? to_float(r.v.at(b, n, h)[e]) : 0.0f, written = beta_of(r, b, n, h) * (value - found);
    for (int64_t d = 0; d < r.D; d++) S[d * r.width + e] += t.k[d] * written;
    return written;
}

#endif
