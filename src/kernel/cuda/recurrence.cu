/*
 * recurrence: each channel's state goes from token to token: h = gate * h + x. recurrence_map: what some tokens make of
 * any state, for ranks that do not know it yet. recurrence_follow: several of these maps, one after the other.
 * Channels alone are too few threads for a GPU. So tokens are cut into parts, as many as the sizes say: the map of each
 * part is computed first, then the state in front of each, then the states in it.
 */
#include "kernel/cuda/tokens.h"

enum { PART_TOKENS = 64 /* at least */, WANTED_THREADS = 1 << 18, BATCH = 8 };

/* The sizes of a call. Tokens are numbered in the order in which states follow each other. */
struct problem {
    int64_t B, N, E, parts;
    bool backwards;
    __device__ int64_t start(int64_t part) const { return N * part / parts; }
    __device__ int64_t tokens_in(int64_t part) const { return start(part + 1) - start(part); }
};

static problem problem_of(const ls_kernel_call *call) {
    const ls_view *x = &call->in[1];
    problem p = {x->size[0], x->size[1], x->size[2], 1, ((const ls_recurrence_params *)call->params)->backwards};
    const int64_t wanted = ls_ceil_div((int64_t)WANTED_THREADS, ls_max(p.B * p.E, (int64_t)1));
    p.parts = ls_max((int64_t)1, ls_min(wanted, p.N / PART_TOKENS));
    return p;
}

/* The maps of all parts: G[parts,2,B,E]. */
static size_t workspace(const ls_kernel_call *call) {
    const problem p = problem_of(call);
    return p.parts == 1 ? 0 : sizeof(float) * (size_t)(p.parts * 2 * p.B * p.E);
}

/* A channel of tokens that follow each other. */
template <typename T> struct walker {
    T *at;
    int64_t step;
    __device__ T &next() {
        T *const here = at;
        at += step;
        return *here;
    }
};

/* From the first token of the part on, in channel e of sequence b. */
template <typename T>
static __device__ __forceinline__ walker<T> walk_from(const problem &p, const tokens<T> &t, int64_t part, int64_t b,
                                                      int64_t e) {
    const int64_t first = p.start(part);
    if (p.backwards) return {t.at(b, p.N - 1 - first) + e, -t.token_stride};
    return {t.at(b, first) + e, t.token_stride};
}

/*
 * visit(gate, x) for n tokens. A batch of them is read before the first is visited, so that many reads are on their way
 * at a time.
 */
template <typename T, typename F>
static __device__ __forceinline__ void walk(walker<const T> gate, walker<const T> x, int64_t n, F visit) {
    for (int64_t i = 0; i < n; i += BATCH) {
        float gates[BATCH] = {}, terms[BATCH] = {};
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (i + k >= n) continue;
            gates[k] = to_float(gate.next());
            terms[k] = to_float(x.next());
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (i + k < n) visit(gates[k], terms[k]);
    }
}

/* maps[part]: for each channel the factor and the term. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_maps(problem p, tokens<const T> gate, tokens<const T> x, float *maps) {
    const int64_t channels = p.B * p.E;
    for (EACH(k, channels * p.parts)) {
        const int64_t part = k / channels, channel = k % channels, b = channel / p.E, e = channel % p.E;
        float factor = 1, state = 0;
        walk(walk_from(p, gate, part, b, e), walk_from(p, x, part, b, e), p.tokens_in(part), [&](float g, float term) {
            factor *= g;
            state = g * state + term;
        });
        maps[part * 2 * channels + channel] = factor;
        maps[(part * 2 + 1) * channels + channel] = state;
    }
}

/* The terms of the maps become the states in front of their parts. */
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_starts(const float *start, float *maps, int64_t channels, int64_t parts) {
    for (EACH(channel, channels)) {
        float state = start[channel];
        for (int64_t part = 0; part < parts; part++) {
            float *map = maps + part * 2 * channels + channel;
            const float next = map[0] * state + map[channels];
            map[channels] = state;
            state = next;
        }
    }
}

/* The states of all tokens, from that in front of each part: starts[part * part_stride + channel]. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_states(problem p, tokens<const T> gate, tokens<const T> x, const float *starts, int64_t part_stride,
                tokens<T> h) {
    const int64_t channels = p.B * p.E;
    for (EACH(k, channels * p.parts)) {
        const int64_t part = k / channels, channel = k % channels, b = channel / p.E, e = channel % p.E;
        float state = starts[part * part_stride + channel];
        walker<T> to = walk_from(p, h, part, b, e);
        walk(walk_from(p, gate, part, b, e), walk_from(p, x, part, b, e), p.tokens_in(part), [&](float g, float term) {
            state = g * state + term;
            to.next() = from_float<T>(state);
        });
    }
}

template <typename T> static ls_status launch_recurrence(const ls_kernel_call *call, void *, void *stream) {
    const problem p = problem_of(call);
    const int64_t channels = p.B * p.E, blocks = blocks_for(channels * p.parts);
    const tokens<const T> gate = tokens_of<const T>(&call->in[0]), x = tokens_of<const T>(&call->in[1]);
    const tokens<T> h = tokens_of<T>(&call->out[0]);
    const float *start = input<float>(call, 2);
    float *maps = (float *)call->workspace;
    if (p.parts == 1) return launch("recurrence", stream, blocks, 0, make_states<T>, p, gate, x, start, (int64_t)0, h);
    LS_TRY(launch("recurrence", stream, blocks, 0, make_maps<T>, p, gate, x, maps));
    LS_TRY(launch("recurrence", stream, blocks_for(channels), 0, make_starts, start, maps, channels, p.parts));
    return launch("recurrence", stream, blocks, 0, make_states<T>, p, gate, x, (const float *)maps + channels,
                  2 * channels, h);
}

/* --- recurrence_map and recurrence_follow ------------------------------------------------------------------------- */

/* One map of all: map[0] factors and map[1] terms of each channel. */
static __global__ void __launch_bounds__(CUDA_THREADS)
    join_maps(const float *maps, float *map, int64_t channels, int64_t parts) {
    for (EACH(channel, channels)) {
        float factor = 1, state = 0;
        for (int64_t part = 0; part < parts; part++) {
            const float *of_part = maps + part * 2 * channels + channel;
            factor *= of_part[0];
            state = of_part[0] * state + of_part[channels];
        }
        map[channel] = factor;
        map[channels + channel] = state;
    }
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    const problem p = problem_of(call);
    const int64_t channels = p.B * p.E;
    const tokens<const T> gate = tokens_of<const T>(&call->in[0]), x = tokens_of<const T>(&call->in[1]);
    float *map = output<float>(call, 0), *maps = p.parts == 1 ? map : (float *)call->workspace;
    LS_TRY(launch("recurrence_map", stream, blocks_for(channels * p.parts), 0, make_maps<T>, p, gate, x, maps));
    if (p.parts == 1) return ls_ok();
    return launch("recurrence_map", stream, blocks_for(channels), 0, join_maps, (const float *)maps, map, channels,
                  p.parts);
}

/* maps[M,2,B,E] at strides. */
struct given_maps {
    const float *data;
    int64_t M, of_map, of_term, of_sequence;
    bool backwards;
};

static __global__ void __launch_bounds__(CUDA_THREADS)
    follow_maps(given_maps maps, float *state, int64_t channels, int64_t E) {
    for (EACH(channel, channels)) {
        const float *of_channel = maps.data + channel / E * maps.of_sequence + channel % E;
        float s = state[channel];
        for (int64_t n = 0; n < maps.M; n++) {
            const float *map = of_channel + (maps.backwards ? maps.M - 1 - n : n) * maps.of_map;
            s = map[0] * s + map[maps.of_term];
        }
        state[channel] = s;
    }
}

static ls_status launch_follow(const ls_kernel_call *call, void *, void *stream) {
    const ls_view *v = &call->in[0];
    const int64_t channels = ls_view_elements(&call->out[0]);
    const given_maps maps = {input<float>(call, 0), v->size[0],
                             v->stride[0],          v->stride[1],
                             v->stride[2],          ((const ls_recurrence_params *)call->params)->backwards};
    return launch("recurrence_follow", stream, blocks_for(channels), 0, follow_maps, maps, output<float>(call, 0),
                  channels, v->size[3]);
}

CUDA_ROWS(RECURRENCE, recurrence, launch_recurrence, workspace)
CUDA_ROWS(RECURRENCE_MAP, recurrence_map, launch_map, workspace)
/* Its operands are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_recurrence_follow, RECURRENCE_FOLLOW, LS_F32, launch_follow, nullptr)
CUDA_ROW(ls_cuda_bf16_recurrence_follow, RECURRENCE_FOLLOW, LS_BF16, launch_follow, nullptr)
