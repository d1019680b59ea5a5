/*
 * linear_recurrence_grad: the gradients of one token after the other, from the last token to the first. The states in
 * front of every SEGMENT-th token are kept; those within a segment are recomputed. linear_recurrence_back: the effect
 * of some tokens on the gradient of any state behind them. A block has a key head, because gradients are summed over
 * the heads that use it; in linear_recurrence_back a block has a head.
 */
#include "kernel/cuda/linear_recurrence.h"

enum { SEGMENT = 64 };

static const inputs_of_call OF_GRAD = {0, 1, 2, 3, 6}, OF_BACK = {0, 1, -1, 2, 5};

/* The memory that a block works with, in global memory. */
struct rooms {
    float *starts;        /* [segments][D*E]: states in front of segments */
    float *states;        /* [SEGMENT + 1][D*E]: states within a segment */
    float *sum_q, *sum_k; /* [N*D]: sums over the heads that share a key head */
};

template <typename T> static __host__ __device__ int64_t segments_of(const recurrence<T> &r) {
    return (r.N + SEGMENT - 1) / SEGMENT;
}

template <typename T> static __host__ __device__ int64_t room_of(const recurrence<T> &r) {
    return (segments_of(r) + SEGMENT + 1) * r.D * r.E + 2 * r.N * r.D;
}

template <typename T> static __device__ rooms rooms_of(const recurrence<T> &r, float *workspace) {
    rooms x;
    x.starts = workspace + blockIdx.x * room_of(r);
    x.states = x.starts + segments_of(r) * r.D * r.E;
    x.sum_q = x.states + (SEGMENT + 1) * r.D * r.E;
    x.sum_k = x.sum_q + r.N * r.D;
    return x;
}

template <typename T> static size_t grad_workspace(const ls_kernel_call *call) {
    const recurrence<T> r = recurrence_of<T>(call, OF_GRAD);
    return sizeof(float) * (size_t)(r.B * r.K * room_of(r));
}

/* The results of the gradient, and the states in front of the tokens. */
template <typename T> struct gradients {
    head_view<T> dq, dk, dv;
    head_view<float> ddecay, dbeta;
    const float *front;
    float *dstate;
};

/* Computes the states in front of all segments. Each thread has its own columns. */
template <typename T>
static __device__ void keep_starts(const recurrence<T> &r, const rooms &x, const shared_token &t, const float *front,
                                   int64_t b, int64_t h) {
    const int64_t size = r.D * r.E;
    for (OF_BLOCK(e, r.E))
        for (int64_t d = 0; d < r.D; d++) x.states[d * r.E + e] = front[d * r.E + e];
    for (int64_t n = 0; n < r.N; n++) {
        load_token(r, t, b, n, h);
        for (OF_BLOCK(e, r.E)) {
            for (int64_t d = 0; d < r.D && n % SEGMENT == 0; d++)
                x.starts[n / SEGMENT * size + d * r.E + e] = x.states[d * r.E + e];
            if (!r.unmasked) step(r, t, x.states, b, n, h, e);
        }
    }
}

/* states[i] = the state in front of token first + i. */
template <typename T>
static __device__ void make_states(const recurrence<T> &r, const rooms &x, const shared_token &t, int64_t b, int64_t h,
                                   int64_t first, int64_t past) {
    const int64_t size = r.D * r.E;
    for (OF_BLOCK(e, r.E))
        for (int64_t d = 0; d < r.D; d++) x.states[d * r.E + e] = x.starts[first / SEGMENT * size + d * r.E + e];
    for (int64_t n = first; n < past; n++) {
        float *S = x.states + (n - first + 1) * size;
        load_token(r, t, b, n, h);
        for (OF_BLOCK(e, r.E)) {
            for (int64_t d = 0; d < r.D; d++) S[d * r.E + e] = S[d * r.E + e - size];
            if (!r.unmasked) step(r, t, S, b, n, h, e);
        }
    }
}

/*
 * By columns: adds the gradient from the result to dS, and sets w, which the token writes into the state, dw, the
 * gradient of w, and dv. Returns this thread's part of dbeta.
 */
template <typename T>
static __device__ float columns_back(const recurrence<T> &r, const gradients<T> &g, const shared_token &t, float *dS,
                                     const float *S, float *w, float *dw, int64_t b, int64_t n, int64_t h) {
    const float beta = beta_of(r, b, n, h);
    float dbeta = 0;
    for (OF_BLOCK(e, r.E)) {
        const float grad_o = to_float(r.grad_o.at(b, n, h)[e]);
        float found = 0, sum = 0;
        for (int64_t d = 0; d < r.D; d++) {
            float *at = dS + d * r.E + e;
            if (!r.unmasked) *at += t.q[d] * grad_o;
            sum += t.k[d] * *at;
            if (r.delta) found += t.k[d] * t.factor[d] * S[d * r.E + e];
        }
        const float left = to_float(r.v.at(b, n, h)[e]) - found;
        w[e] = beta * left;
        dw[e] = sum;
        dbeta += sum * left;
        g.dv.at(b, n, h)[e] = from_float<T>(beta * sum);
    }
    return dbeta;
}

/*
 * By rows: computes dq and dk, and turns dS into the gradient of the state in front. Returns this thread's part of the
 * decay's gradient, for a decay that is one number for all elements.
 */
template <typename T>
static __device__ float rows_back(const recurrence<T> &r, const gradients<T> &g, const rooms &x, const shared_token &t,
                                  float *dS, const float *S, const float *w, const float *dw, int64_t b, int64_t n,
                                  int64_t h) {
    const float beta = beta_of(r, b, n, h);
    const T *grad_o = r.grad_o.at(b, n, h);
    float all = 0;
    for (OF_BLOCK(d, r.D)) {
        const float *behind = S + r.D * r.E + d * r.E, *front = S + d * r.E;
        float dq = 0, dk = 0, decay = 0;
        for (int64_t e = 0; e < r.E; e++) {
            float *at = dS + d * r.E + e;
            const float decayed = r.unmasked ? 0.0f : t.factor[d] * front[e];
            dq += behind[e] * to_float(grad_o[e]);
            dk += *at * w[e] - (r.delta ? beta * dw[e] * decayed : 0.0f);
            if (r.delta) *at -= beta * t.k[d] * dw[e];
            decay += *at * decayed;
            if (!r.unmasked) *at *= t.factor[d];
        }
        x.sum_q[n * r.D + d] += dq;
        x.sum_k[n * r.D + d] += dk;
        all += decay;
        if (r.decay.elements == r.D) g.ddecay.at(b, n, h)[d] = decay;
    }
    return all;
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_gradients(recurrence<T> r, gradients<T> g, float *workspace) {
    LS_DYNAMIC_SHARED(bytes);
    float *shared = (float *)bytes;
    const shared_token t = shared_of(shared, r.D);
    float *w = shared + 3 * r.D, *dw = w + r.E;
    const rooms x = rooms_of(r, workspace);
    const int64_t b = blockIdx.x / r.K, key = blockIdx.x % r.K, group = r.H / r.K, size = r.D * r.E;
    for (OF_BLOCK(i, 2 * r.N * r.D)) x.sum_q[i] = 0; /* sum_k follows sum_q */
    for (int64_t h = key * group; h < (key + 1) * group; h++) {
        float *dS = g.dstate + (b * r.H + h) * size;
        __syncthreads();
        keep_starts(r, x, t, g.front + (b * r.H + h) * size, b, h);
        for (int64_t first = (r.N - 1) / SEGMENT * SEGMENT; first >= 0; first -= SEGMENT) {
            const int64_t past = first + SEGMENT < r.N ? first + SEGMENT : r.N;
            make_states(r, x, t, b, h, first, past);
            for (int64_t n = past - 1; n >= first; n--) {
                const float *S = x.states + (n - first) * size;
                load_token(r, t, b, n, h);
                const float dbeta = block_sum(columns_back(r, g, t, dS, S, w, dw, b, n, h));
                __syncthreads();
                const float all = block_sum(rows_back(r, g, x, t, dS, S, w, dw, b, n, h));
                if (threadIdx.x == 0 && r.beta.elements > 0) *g.dbeta.at(b, n, h) = dbeta;
                if (threadIdx.x == 0 && r.decay.elements == 1) *g.ddecay.at(b, n, h) = all;
            }
        }
    }
    __syncthreads();
    for (OF_BLOCK(i, r.N * r.D)) {
        g.dq.at(b, i / r.D, key)[i % r.D] = from_float<T>(x.sum_q[i]);
        g.dk.at(b, i / r.D, key)[i % r.D] = from_float<T>(x.sum_k[i]);
    }
}

template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const recurrence<T> r = recurrence_of<T>(call, OF_GRAD);
    const gradients<T> g = {head_view_of<T>(&call->out[0]),
                            head_view_of<T>(&call->out[1]),
                            head_view_of<T>(&call->out[2]),
                            head_view_of<float>(&call->out[3]),
                            head_view_of<float>(&call->out[4]),
                            input<float>(call, 7),
                            output<float>(call, 5)};
    return launch("linear_recurrence_grad", stream, r.B * r.K, sizeof(float) * (size_t)(3 * r.D + 2 * r.E),
                  make_gradients<T>, r, g, (float *)call->workspace);
}

/* --- maps of gradients -------------------------------------------------------------------------------------------- */

/* [dS | M^T] of each head, or only dS if M is a diagonal. */
template <typename T> static size_t back_workspace(const ls_kernel_call *call) {
    const recurrence<T> r = recurrence_of<T>(call, OF_BACK);
    return sizeof(float) * (size_t)(r.B * r.H * r.D * (r.E + r.D));
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_back_maps(recurrence<T> r, float *states, float *maps, int64_t size) {
    LS_DYNAMIC_SHARED(bytes);
    float *shared = (float *)bytes;
    const shared_token t = shared_of(shared, r.D);
    const int64_t b = blockIdx.x / r.H, h = blockIdx.x % r.H, factors = size - r.D * r.E;
    float *dS = states + (int64_t)blockIdx.x * r.D * (r.E + r.D), *map = maps + blockIdx.x * size, *M = map + r.D * r.E;
    for (OF_BLOCK(i, r.D * r.width)) dS[i] = i % r.width == r.E + i / r.width ? 1.0f : 0.0f;
    for (OF_BLOCK(i, factors)) M[i] = 1;
    for (int64_t n = r.N - 1; n >= 0; n--) {
        load_token(r, t, b, n, h);
        const float beta = beta_of(r, b, n, h);
        for (OF_BLOCK(e, r.width)) {
            const float grad_o = e < r.E ? to_float(r.grad_o.at(b, n, h)[e]) : 0.0f;
            float taken = 0;
            for (int64_t d = 0; d < r.D; d++) {
                dS[d * r.width + e] += t.q[d] * grad_o;
                if (r.delta) taken += beta * t.k[d] * dS[d * r.width + e];
            }
            for (int64_t d = 0; d < r.D; d++) {
                float *at = dS + d * r.width + e;
                *at = (r.unmasked ? 1.0f : t.factor[d]) * (*at - t.k[d] * taken);
            }
        }
        for (OF_BLOCK(i, r.delta ? 0 : factors)) M[i] *= t.factor[i];
    }
    __syncthreads();
    for (OF_BLOCK(i, r.D * r.E)) map[i] = dS[i / r.E * r.width + i % r.E];
    for (OF_BLOCK(i, r.delta ? factors : 0)) M[i] = dS[i % r.D * r.width + r.E + i / r.D];
}

template <typename T> static ls_status launch_back(const ls_kernel_call *call, void *, void *stream) {
    recurrence<T> r = recurrence_of<T>(call, OF_BACK);
    if (r.delta) r.width = r.E + r.D;
    return launch("linear_recurrence_back", stream, r.B * r.H, 3 * sizeof(float) * (size_t)r.D, make_back_maps<T>, r,
                  (float *)call->workspace, output<float>(call, 0), call->out[0].size[2]);
}

CUDA_ROW(ls_cuda_f32_linear_recurrence_grad, LINEAR_RECURRENCE_GRAD, LS_F32, launch_grad<float>, grad_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_grad, LINEAR_RECURRENCE_GRAD, LS_BF16, launch_grad<bf16>, grad_workspace<bf16>)
CUDA_ROW(ls_cuda_f32_linear_recurrence_back, LINEAR_RECURRENCE_BACK, LS_F32, launch_back<float>, back_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_back, LINEAR_RECURRENCE_BACK, LS_BF16, launch_back<bf16>, back_workspace<bf16>)
