/*
 * linear_recurrence, chunk by chunk; linear_recurrence_map: the effect of some tokens on any state;
 * linear_recurrence_follow: applies several of these maps one after the other.
 */
#include "kernel/cuda/linear_recurrence.h"

static const inputs_of_call OF_FORWARD = {0, 1, 2, 3, -1, false}, OF_MAP = {-1, 0, 1, 2, -1, true};

/* --- results from a state ----------------------------------------------------------------------------------------- */

template <typename T> struct forward_problem {
    recurrence<T> r;
    head_view<T> o;
    float *states; /* [B,H,D,E] */
    int64_t floats;
};

struct forward_room {
    chunk c;
    rows S;
};

template <typename T> static __host__ __device__ forward_room take_forward(const recurrence<T> &r, room *at) {
    forward_room x = {take_chunk(r, at), {}};
    x.S = at->take(r.padded(), COLUMNS);
    return x;
}

/* o = (q e) S + P V'; v is free. */
template <typename T> static __device__ void store_results(const forward_problem<T> &p, const chunk &c, rows S) {
    multiply(c, c.q, c.e, nullptr);
    product<2>(CHUNK, COLUMNS, c.D, c.x, S, [&](int i, int j, float sum) { c.v(i, j) = sum; });
    product<2>(CHUNK, COLUMNS, p.r.unmasked ? 0 : CHUNK, c.P, c.written, [&](int i, int j, float sum) {
        if (i < c.n && c.of.first + j < p.r.E)
            p.o.at(c.of.b, c.first + i, c.of.h)[c.of.first + j] = from_float<T>(c.v(i, j) + sum);
    });
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS) make_results(forward_problem<T> p, float *rooms) {
    LS_DYNAMIC_SHARED(shared);
    room at = room_of_block(shared, rooms, p.floats);
    forward_room x = take_forward(p.r, &at);
    x.c.of = slice_of_block(p.r);
    float *state = p.states + x.c.of.head * p.r.D * p.r.E;
    load_state(p.r, x.c.of, x.S, state);
    for (int64_t n = 0; n < p.r.N; n += CHUNK) {
        begin_chunk(p.r, &x.c, n, p.r.N);
        find_written(x.c, p.r.delta, x.S);
        store_results(p, x.c, x.S);
        if (!p.r.unmasked) advance(x.c, x.S);
    }
    store_state(p.r, x.c.of, x.S, state);
}

template <typename T> static size_t forward_workspace(const ls_kernel_call *call) {
    const recurrence<T> r = recurrence_of<T>(call, OF_FORWARD);
    return spare_rooms(r.blocks(), floats_of(r, take_forward<T>));
}

template <typename T> static ls_status launch_forward(const ls_kernel_call *call, void *, void *stream) {
    const recurrence<T> r = recurrence_of<T>(call, OF_FORWARD);
    const int64_t floats = floats_of(r, take_forward<T>);
    const forward_problem<T> p = {r, head_view_of<T>(&call->out[0]), output<float>(call, 1), floats};
    return launch_with_rooms("linear_recurrence", stream, r.blocks(), floats, (float *)call->workspace, make_results<T>,
                             p);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) make_maps(map_problem<T> p, float *rooms) {
    LS_DYNAMIC_SHARED(shared);
    room at = room_of_block(shared, rooms, p.floats);
    map_room x = take_map(p.r, &at);
    x.c.of = slice_of_block(p.r);
    begin_map(p.r, x.c.of, x.S);
    for (OF_BLOCK(d, x.c.D)) x.diagonal(0, d) = 1;
    for (int64_t n = 0; n < p.r.N; n += CHUNK) {
        begin_chunk(p.r, &x.c, n, p.r.N);
        find_written(x.c, p.r.delta, x.S);
        for (OF_BLOCK(d, x.c.D)) x.diagonal(0, d) *= x.c.last(d);
        advance(x.c, x.S);
    }
    store_map(p.r, x.c.of, x.S, x.diagonal.at, p.factors(), false, p.maps + x.c.of.head * p.size);
}

template <typename T> static size_t map_workspace(const ls_kernel_call *call) {
    return map_workspace_of<T>(call, OF_MAP);
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    return launch_map_of("linear_recurrence_map", call, OF_MAP, stream, make_maps<T>);
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
    return launch("linear_recurrence_follow", stream, state->size[0] * state->size[1], 0, follow_maps, m,
                  output<float>(call, 0), (float *)call->workspace);
}

CUDA_ROW(ls_cuda_f32_linear_recurrence, LINEAR_RECURRENCE, LS_F32, launch_forward<float>, forward_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence, LINEAR_RECURRENCE, LS_BF16, launch_forward<bf16>, forward_workspace<bf16>)
CUDA_ROW(ls_cuda_f32_linear_recurrence_map, LINEAR_RECURRENCE_MAP, LS_F32, launch_map<float>, map_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_map, LINEAR_RECURRENCE_MAP, LS_BF16, launch_map<bf16>, map_workspace<bf16>)
/* The operands are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_linear_recurrence_follow, LINEAR_RECURRENCE_FOLLOW, LS_F32, launch_follow, follow_workspace)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_follow, LINEAR_RECURRENCE_FOLLOW, LS_BF16, launch_follow, follow_workspace)
