/*
 * linear_recurrence, token by token; linear_recurrence_map: the effect of some tokens on any state;
 * linear_recurrence_follow: applies several of these maps one after the other. A block has a head.
 */
#include "kernel/cuda/linear_recurrence.h"

static const inputs_of_call OF_FORWARD = {0, 1, 2, 3, -1}, OF_MAP = {-1, 0, 1, 2, -1};

static size_t shared_bytes(int64_t D) { return 3 * sizeof(float) * (size_t)D; }

static int64_t heads_of(const ls_view *state) { return state->size[0] * state->size[1]; }

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS) make_results(recurrence<T> r, head_view<T> o, float *states) {
    LS_DYNAMIC_SHARED(bytes);
    float *shared = (float *)bytes;
    const shared_token t = shared_of(shared, r.D);
    const int64_t b = blockIdx.x / r.H, h = blockIdx.x % r.H;
    float *S = states + (int64_t)blockIdx.x * r.D * r.E;
    for (int64_t n = 0; n < r.N; n++) {
        load_token(r, t, b, n, h);
        for (OF_BLOCK(e, r.E)) {
            if (!r.unmasked) step(r, t, S, b, n, h, e);
            float sum = 0;
            for (int64_t d = 0; d < r.D; d++) sum += t.q[d] * S[d * r.E + e];
            o.at(b, n, h)[e] = from_float<T>(sum);
        }
    }
}

template <typename T> static ls_status launch_forward(const ls_kernel_call *call, void *, void *stream) {
    const recurrence<T> r = recurrence_of<T>(call, OF_FORWARD);
    return launch("linear_recurrence", stream, r.B * r.H, shared_bytes(r.D), make_results<T>, r,
                  head_view_of<T>(&call->out[0]), output<float>(call, 1));
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

/* [U | M] of each head, or only U if M is a diagonal. */
template <typename T> static size_t map_workspace(const ls_kernel_call *call) {
    const recurrence<T> r = recurrence_of<T>(call, OF_MAP);
    return sizeof(float) * (size_t)(r.B * r.H * r.D * (r.E + r.D));
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_maps(recurrence<T> r, float *states, float *maps, int64_t size) {
    LS_DYNAMIC_SHARED(bytes);
    float *shared = (float *)bytes;
    const shared_token t = shared_of(shared, r.D);
    const int64_t b = blockIdx.x / r.H, h = blockIdx.x % r.H, factors = size - r.D * r.E;
    float *S = states + (int64_t)blockIdx.x * r.D * (r.E + r.D), *map = maps + blockIdx.x * size, *M = map + r.D * r.E;
    for (OF_BLOCK(i, r.D * r.width)) S[i] = i % r.width == r.E + i / r.width ? 1.0f : 0.0f;
    for (OF_BLOCK(i, factors)) M[i] = 1;
    for (int64_t n = 0; n < r.N; n++) {
        load_token(r, t, b, n, h);
        for (OF_BLOCK(e, r.width)) step(r, t, S, b, n, h, e);
        for (OF_BLOCK(i, r.delta ? 0 : factors)) M[i] *= t.factor[i];
    }
    __syncthreads();
    for (OF_BLOCK(i, r.D * r.E)) map[i] = S[i / r.E * r.width + i % r.E];
    for (OF_BLOCK(i, r.delta ? factors : 0)) M[i] = S[i / r.D * r.width + r.E + i % r.D];
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    recurrence<T> r = recurrence_of<T>(call, OF_MAP);
    if (r.delta) r.width = r.E + r.D;
    return launch("linear_recurrence_map", stream, r.B * r.H, shared_bytes(r.D), make_maps<T>, r,
                  (float *)call->workspace, output<float>(call, 0), call->out[0].size[2]);
}

/* --- maps one after the other ------------------------------------------------------------------------------------- */

struct given_maps {
    const float *data;
    int64_t M, of_map, of_sequence, of_head, factors, H, D, E;
    bool delta, transposed, backwards;
};

/* A thread has columns of a state S; each map replaces S by M S + U. */
static __global__ void __launch_bounds__(CUDA_THREADS) follow_maps(given_maps m, float *states, float *rooms) {
    const int64_t head = blockIdx.x;
    float *S = states + head * m.D * m.E, *next = rooms + head * m.D * m.E;
    for (OF_BLOCK(e, m.E)) {
        for (int64_t i = 0; i < m.M; i++) {
            const float *U = m.data + (m.backwards ? m.M - 1 - i : i) * m.of_map + head / m.H * m.of_sequence +
                             head % m.H * m.of_head,
                        *M = U + m.D * m.E;
            for (int64_t d = 0; d < m.D; d++) {
                float sum = U[d * m.E + e];
                if (!m.delta) sum += M[m.factors == 1 ? 0 : d] * S[d * m.E + e];
                for (int64_t j = 0; j < m.D && m.delta; j++)
                    sum += M[m.transposed ? j * m.D + d : d * m.D + j] * S[j * m.E + e];
                next[d * m.E + e] = sum;
            }
            for (int64_t d = 0; d < m.D; d++) S[d * m.E + e] = next[d * m.E + e];
        }
    }
}

static size_t follow_workspace(const ls_kernel_call *call) {
    return sizeof(float) * (size_t)ls_view_elements(&call->out[0]);
}

static ls_status launch_follow(const ls_kernel_call *call, void *, void *stream) {
    const ls_linear_recurrence_params *p = (const ls_linear_recurrence_params *)call->params;
    const ls_view *maps = &call->in[0], *state = &call->out[0];
    const int64_t D = state->size[2], E = state->size[3];
    const given_maps m = {input<float>(call, 0),
                          maps->size[0],
                          maps->stride[0],
                          maps->stride[1],
                          maps->stride[2],
                          maps->size[3] - D * E,
                          state->size[1],
                          D,
                          E,
                          p->delta,
                          p->transposed,
                          p->backwards};
    return launch("linear_recurrence_follow", stream, heads_of(state), 0, follow_maps, m, output<float>(call, 0),
                  (float *)call->workspace);
}

CUDA_ROWS(LINEAR_RECURRENCE, linear_recurrence, launch_forward, nullptr)
CUDA_ROW(ls_cuda_f32_linear_recurrence_map, LINEAR_RECURRENCE_MAP, LS_F32, launch_map<float>, map_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_map, LINEAR_RECURRENCE_MAP, LS_BF16, launch_map<bf16>, map_workspace<bf16>)
/* The operands are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_linear_recurrence_follow, LINEAR_RECURRENCE_FOLLOW, LS_F32, launch_follow, follow_workspace)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_follow, LINEAR_RECURRENCE_FOLLOW, LS_BF16, launch_follow, follow_workspace)
