/*
 * recurrence: each element's state, of K numbers, goes from token to token: h = gate h + x. recurrence_map: the effect
 * of some tokens on any state, for ranks that do not know the state yet. recurrence_follow: applies several of these
 * maps one after the other. A thread for each element would be too few threads for a GPU. So tokens are divided into
 * parts, whose number depends only on the sizes: first the map of each part is computed, then the state in front of
 * each part, then the states within it.
 */
#include "kernel/cuda/cuda_impl.h"

enum { PART_TOKENS = 64 /* at least */, WANTED_THREADS = 1 << 18 };

/* The sizes of a call. Tokens are numbered in the order in which they are computed. */
struct problem {
    int64_t B, N, E, parts;
    bool backwards;
    __device__ int64_t start(int64_t part) const { return N * part / parts; }
    __device__ int64_t tokens_in(int64_t part) const { return start(part + 1) - start(part); }
};

static problem problem_of(const ls_kernel_call *call) {
    const ls_view *x = &call->in[1];
    problem p = {x->size[0], x->size[1], x->size[3], 1, ((const ls_recurrence_params *)call->params)->backwards};
    const int64_t wanted = ls_ceil_div((int64_t)WANTED_THREADS, ls_max(p.B * p.E, (int64_t)1));
    p.parts = ls_max((int64_t)1, ls_min(wanted, p.N / PART_TOKENS));
    return p;
}

/* The maps of all parts: G[parts,K+1,B,K,E]. */
static size_t workspace(const ls_kernel_call *call) {
    const problem p = problem_of(call);
    const int64_t K = call->in[1].size[2];
    return p.parts == 1 ? 0 : sizeof(float) * (size_t)(p.parts * (K + 1) * p.B * K * p.E);
}

/* The strides of a view [B,N,K,K,E], or of a view [B,N,K,E], for which of_column is not used. */
template <typename T> struct matrices {
    T *data;
    int64_t of_sequence, of_token, of_row, of_column;
};

template <typename T> static matrices<T> states_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[2], 0};
}

/* turned: gates are transposed, as params.backwards needs. */
template <typename T> static matrices<T> gates_of(const ls_view *v, bool turned) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[turned ? 3 : 2], v->stride[turned ? 2 : 3]};
}

/* One element, walking from token to token. */
template <typename T> struct walker {
    T *at;
    int64_t step;
    __device__ T *next() {
        T *const here = at;
        at += step;
        return here;
    }
};

/* A walker from the first token of the part on, for element e of sequence b. */
template <typename T>
static __device__ __forceinline__ walker<T> walk_from(const problem &p, const matrices<T> &m, int64_t part, int64_t b,
                                                      int64_t e) {
    const int64_t first = p.start(part), token = p.backwards ? p.N - 1 - first : first;
    return {m.data + b * m.of_sequence + token * m.of_token + e, p.backwards ? -m.of_token : m.of_token};
}

/* A token's effect on a state: state = gate state + x. */
template <int K> struct token { float gate[K][K], x[K]; };

template <int K> static __device__ __forceinline__ void turn(const token<K> &t, bool with_x, float *state) {
    float next[K];
#pragma unroll
    for (int r = 0; r < K; r++) {
        next[r] = with_x ? t.x[r] : 0;
#pragma unroll
        for (int c = 0; c < K; c++) next[r] += t.gate[r][c] * state[c];
    }
#pragma unroll
    for (int r = 0; r < K; r++) state[r] = next[r];
}

/*
 * Calls visit(token) for n tokens. A batch of tokens is read before the first of them is visited, so that many reads
 * are under way at a time.
 */
template <int K, typename T, typename F>
static __device__ __forceinline__ void walk(const matrices<const T> &gates, walker<const T> gate,
                                            const matrices<const T> &terms, walker<const T> x, int64_t n, F visit) {
    constexpr int BATCH = K == 1 ? 8 : K == 2 ? 2 : 1;
    for (int64_t i = 0; i < n; i += BATCH) {
        token<K> batch[BATCH] = {};
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (i + k >= n) continue;
            const T *of_gate = gate.next(), *of_x = x.next();
            for (int r = 0; r < K; r++) {
                for (int c = 0; c < K; c++)
                    batch[k].gate[r][c] = to_float(of_gate[r * gates.of_row + c * gates.of_column]);
                batch[k].x[r] = to_float(of_x[r * terms.of_row]);
            }
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (i + k < n) visit(batch[k]);
    }
}

/* The index of number s of term k in a map [K+1,B,K,E]; with k = 0 also the index of number s in a state [B,K,E]. */
template <int K> static __device__ __forceinline__ int64_t place(const problem &p, int k, int64_t b, int s, int64_t e) {
    return ((k * p.B + b) * K + s) * p.E + e;
}

/* maps[part] = for each element, the states that the part makes of each unit state, and of 0. */
template <int K, typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_maps(problem p, matrices<const T> gate, matrices<const T> x, float *maps) {
    const int64_t elements = p.B * p.E, size = (K + 1) * elements * K;
    for (EACH(i, elements * p.parts)) {
        const int64_t part = i / elements, b = i % elements / p.E, e = i % p.E;
        float term[K + 1][K] = {};
        for (int k = 0; k < K; k++) term[k][k] = 1;
        walk<K>(gate, walk_from(p, gate, part, b, e), x, walk_from(p, x, part, b, e), p.tokens_in(part),
                [&](const token<K> &t) {
#pragma unroll
                    for (int k = 0; k <= K; k++) turn<K>(t, k == K, term[k]);
                });
        for (int k = 0; k <= K; k++)
            for (int s = 0; s < K; s++) maps[part * size + place<K>(p, k, b, s, e)] = term[k][s];
    }
}

/* Applies a map to `state`; with_x false: without the map's last term. */
template <int K>
static __device__ __forceinline__ void follow(const float *map, int64_t of_term, int64_t of_number, bool with_x,
                                              float *state) {
    token<K> t;
#pragma unroll
    for (int r = 0; r < K; r++) {
        t.x[r] = map[K * of_term + r * of_number];
#pragma unroll
        for (int c = 0; c < K; c++) t.gate[r][c] = map[c * of_term + r * of_number];
    }
    turn<K>(t, with_x, state);
}

/* Replaces the last term of each map by the state in front of its part. */
template <int K>
static __global__ void __launch_bounds__(CUDA_THREADS) make_starts(problem p, const float *start, float *maps) {
    const int64_t elements = p.B * p.E;
    for (EACH(i, elements)) {
        const int64_t b = i / p.E, e = i % p.E;
        float state[K];
        for (int s = 0; s < K; s++) state[s] = start[place<K>(p, 0, b, s, e)];
        for (int64_t part = 0; part < p.parts; part++) {
            float *map = maps + part * (K + 1) * elements * K + place<K>(p, 0, b, 0, e), before[K];
            for (int s = 0; s < K; s++) before[s] = state[s];
            follow<K>(map, elements * K, p.E, true, state);
            for (int s = 0; s < K; s++) map[K * elements * K + s * p.E] = before[s];
        }
    }
}

/* Computes the states of all tokens, from the state in front of each part, at starts[part * part_stride]. */
template <int K, typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_states(problem p, matrices<const T> gate, matrices<const T> x, const float *starts, int64_t part_stride,
                matrices<T> h) {
    const int64_t elements = p.B * p.E;
    for (EACH(i, elements * p.parts)) {
        const int64_t part = i / elements, b = i % elements / p.E, e = i % p.E;
        float state[K];
        for (int s = 0; s < K; s++) state[s] = starts[part * part_stride + place<K>(p, 0, b, s, e)];
        walker<T> to = walk_from(p, h, part, b, e);
        walk<K>(gate, walk_from(p, gate, part, b, e), x, walk_from(p, x, part, b, e), p.tokens_in(part),
                [&](const token<K> &t) {
                    turn<K>(t, true, state);
                    T *const at = to.next();
                    for (int s = 0; s < K; s++) at[s * h.of_row] = from_float<T>(state[s]);
                });
    }
}

template <int K, typename T> static ls_status launch_states(const ls_kernel_call *call, void *stream) {
    const problem p = problem_of(call);
    const int64_t elements = p.B * p.E, blocks = blocks_for(elements * p.parts), size = (K + 1) * elements * K;
    const matrices<const T> gate = gates_of<const T>(&call->in[0], p.backwards), x = states_of<const T>(&call->in[1]);
    const matrices<T> h = states_of<T>(&call->out[0]);
    const float *start = input<float>(call, 2);
    float *maps = (float *)call->workspace;
    if (p.parts == 1)
        return launch("recurrence", stream, blocks, 0, make_states<K, T>, p, gate, x, start, (int64_t)0, h);
    LS_TRY(launch("recurrence", stream, blocks, 0, make_maps<K, T>, p, gate, x, maps));
    LS_TRY(launch("recurrence", stream, blocks_for(elements), 0, make_starts<K>, p, start, maps));
    return launch("recurrence", stream, blocks, 0, make_states<K, T>, p, gate, x,
                  (const float *)maps + K * elements * K, size, h);
}

/* --- recurrence_map and recurrence_follow ------------------------------------------------------------------------- */

/* Joins the maps of all parts into one map. */
template <int K>
static __global__ void __launch_bounds__(CUDA_THREADS) join_maps(problem p, const float *maps, float *map) {
    const int64_t elements = p.B * p.E;
    for (EACH(i, elements)) {
        const int64_t b = i / p.E, e = i % p.E;
        float term[K + 1][K] = {};
        for (int k = 0; k < K; k++) term[k][k] = 1;
        for (int64_t part = 0; part < p.parts; part++) {
            const float *of_part = maps + part * (K + 1) * elements * K + place<K>(p, 0, b, 0, e);
            for (int k = 0; k <= K; k++) follow<K>(of_part, elements * K, p.E, k == K, term[k]);
        }
        for (int k = 0; k <= K; k++)
            for (int s = 0; s < K; s++) map[place<K>(p, k, b, s, e)] = term[k][s];
    }
}

template <int K, typename T> static ls_status launch_maps(const ls_kernel_call *call, void *stream) {
    const problem p = problem_of(call);
    const int64_t elements = p.B * p.E;
    const matrices<const T> gate = gates_of<const T>(&call->in[0], p.backwards), x = states_of<const T>(&call->in[1]);
    float *map = output<float>(call, 0), *maps = p.parts == 1 ? map : (float *)call->workspace;
    LS_TRY(launch("recurrence_map", stream, blocks_for(elements * p.parts), 0, make_maps<K, T>, p, gate, x, maps));
    if (p.parts == 1) return ls_ok();
    return launch("recurrence_map", stream, blocks_for(elements), 0, join_maps<K>, p, (const float *)maps, map);
}

/* Strided maps [M,K+1,B,K,E]; states are [B,K,E]. */
struct given_maps {
    const float *data;
    int64_t M, of_map, of_term, of_sequence, of_number, B, E;
    bool backwards;
};

template <int K> static __global__ void __launch_bounds__(CUDA_THREADS) follow_maps(given_maps maps, float *states) {
    for (EACH(i, maps.B * maps.E)) {
        const int64_t b = i / maps.E, e = i % maps.E;
        const float *of_element = maps.data + b * maps.of_sequence + e;
        float *at = states + b * K * maps.E + e, state[K];
        for (int s = 0; s < K; s++) state[s] = at[s * maps.E];
        for (int64_t n = 0; n < maps.M; n++)
            follow<K>(of_element + (maps.backwards ? maps.M - 1 - n : n) * maps.of_map, maps.of_term, maps.of_number,
                      true, state);
        for (int s = 0; s < K; s++) at[s * maps.E] = state[s];
    }
}

template <int K> static ls_status follow_all(const ls_kernel_call *call, void *stream) {
    const ls_view *v = &call->in[0];
    const given_maps maps = {input<float>(call, 0),
                             v->size[0],
                             v->stride[0],
                             v->stride[1],
                             v->stride[2],
                             v->stride[3],
                             v->size[2],
                             v->size[4],
                             ((const ls_recurrence_params *)call->params)->backwards};
    return launch("recurrence_follow", stream, blocks_for(maps.B * maps.E), 0, follow_maps<K>, maps,
                  output<float>(call, 0));
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static_assert(LS_RECURRENCE_STATES == 4, "a launch for each size of states");

template <typename T> static ls_status launch_recurrence(const ls_kernel_call *call, void *, void *stream) {
    static ls_status (*const of_size[])(const ls_kernel_call *, void *) = {launch_states<1, T>, launch_states<2, T>,
                                                                           launch_states<3, T>, launch_states<4, T>};
    return of_size[call->in[1].size[2] - 1](call, stream);
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    static ls_status (*const of_size[])(const ls_kernel_call *, void *) = {launch_maps<1, T>, launch_maps<2, T>,
                                                                           launch_maps<3, T>, launch_maps<4, T>};
    return of_size[call->in[1].size[2] - 1](call, stream);
}

static ls_status launch_follow(const ls_kernel_call *call, void *, void *stream) {
    static ls_status (*const of_size[])(const ls_kernel_call *, void *) = {follow_all<1>, follow_all<2>, follow_all<3>,
                                                                           follow_all<4>};
    return of_size[call->out[0].size[1] - 1](call, stream);
}

CUDA_ROWS(RECURRENCE, recurrence, launch_recurrence, workspace)
CUDA_ROWS(RECURRENCE_MAP, recurrence_map, launch_map, workspace)
/* The operands are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_recurrence_follow, RECURRENCE_FOLLOW, LS_F32, launch_follow, nullptr)
CUDA_ROW(ls_cuda_bf16_recurrence_follow, RECURRENCE_FOLLOW, LS_BF16, launch_follow, nullptr)
