/*
 * gated_norm: y = a rstd weight silu(gate) with a = x, or a rstd weight with a = x silu(gate) (params.gate_first);
 * rstd = 1/sqrt(mean(a^2) + epsilon) of each row. Gradient: with b, the gradient of a rstd weight, da = rstd (w b - a
 * rstd^2 mean(w b a)), dweight = the sum of b a rstd over the rows of a group. The gradients of x and the gate follow
 * from the product in which the gate is a factor. Each operand is moved once: a team has rows of one group, whose sums
 * stay in registers, as in norm_grad.cu.
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/rows.h"

/* Tokens are divided into parts: enough for many teams, and few enough that their sums are small beside the rows. */
enum { LEAST_TEAMS = 128, TEAM_ROWS = 16 };

static int64_t groups_of(const ls_kernel_call *call) { return rows_of(&call->in[1]); }

static int64_t count_token_parts(const ls_kernel_call *call) {
    const int64_t groups = groups_of(call), tokens = rows_of(&call->in[0]) / groups;
    const int64_t parts = ls_min(MOST_PARTS, ls_ceil_div(tokens, (int64_t)TEAM_ROWS));
    return ls_min(tokens, ls_max(ls_ceil_div((int64_t)LEAST_TEAMS, groups), parts));
}

static size_t workspace(const ls_kernel_call *call) {
    return sizeof(float) * (size_t)(count_token_parts(call) * ls_view_elements(&call->in[1]));
}

/* y, dx and dgate may overwrite x, gate or dy. sums: float[parts][groups][E]. */
template <typename T> struct gated_operands {
    const T *x, *weight, *gate, *dy;
    T *y, *dgate; /* y: in the gradient, dx */
    float *sums;
    int64_t rows, groups, parts, E;
    float epsilon;
};

template <typename T> static gated_operands<T> operands_of(const ls_kernel_call *call) {
    return {.x = input<T>(call, 0),
            .weight = input<T>(call, 1),
            .gate = input<T>(call, 2),
            .dy = nullptr,
            .y = output<T>(call, 0),
            .dgate = nullptr,
            .sums = nullptr,
            .rows = rows_of(&call->in[0]),
            .groups = groups_of(call),
            .parts = 0,
            .E = columns_of(&call->in[0]),
            .epsilon = (float)((const ls_gated_norm_params *)call->params)->epsilon};
}

static bool gate_is_first(const ls_kernel_call *call) {
    return ((const ls_gated_norm_params *)call->params)->gate_first;
}

static __device__ __forceinline__ float share_of(float gate) { return 1 / (1 + expf(-gate)); }

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* Element e of a row before its norm. */
template <bool FIRST> static __device__ __forceinline__ float normed(float x, float gate) {
    return FIRST ? x * gate * share_of(gate) : x;
}

template <typename T, int TEAM, bool PACKED, bool FIRST>
static __global__ void __launch_bounds__(CUDA_THREADS) normalise(gated_operands<T> p) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, p.rows)) {
        const T *x = p.x + i * p.E, *gate = p.gate + i * p.E, *weight = p.weight + i % p.groups * p.E;
        float squares = 0;
        for (EACH_GROUP(TEAM, N, e, p.E)) {
            const pack<float, N> a = load_group<PACKED, N>(x, e, p.E);
            pack<float, N> g = {};
            if (FIRST) g = load_group<PACKED, N>(gate, e, p.E);
            for (int k = 0; k < N; k++) {
                const float of = normed<FIRST>(a.at[k], g.at[k]);
                squares += of * of;
            }
        }
        const float r = 1 / sqrtf(team<TEAM>::sum(squares) / (float)p.E + p.epsilon);
        for (EACH_GROUP(TEAM, N, e, p.E)) {
            const pack<float, N> a = load_group<PACKED, N>(x, e, p.E), g = load_group<PACKED, N>(gate, e, p.E);
            const pack<float, N> w = load_group<PACKED, N>(weight, e, p.E);
            pack<float, N> result;
            for (int k = 0; k < N; k++) result.at[k] = normed<true>(a.at[k], g.at[k]) * r * w.at[k];
            store_group<PACKED, N>(p.y + i * p.E, e, p.E, result);
        }
    }
}

template <bool FIRST, typename T> static ls_status launch_forward(const gated_operands<T> &p, void *stream) {
    const bool aligned = is_aligned(p.x) && is_aligned(p.weight) && is_aligned(p.gate) && is_aligned(p.y);
    return for_rows<T>(p.E, aligned, [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("gated_norm", stream, team<TEAM>::blocks(p.rows), 0, normalise<T, TEAM, PACKED, FIRST>, p);
    });
}

template <typename T> static ls_status launch_gated_norm(const ls_kernel_call *call, void *, void *stream) {
    const gated_operands<T> p = operands_of<T>(call);
    return gate_is_first(call) ? launch_forward<true>(p, stream) : launch_forward<false>(p, stream);
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

/* Adds the terms of an element to the two sums over its row. */
template <bool FIRST>
static __device__ __forceinline__ void add_terms(float x, float w, float gate, float dy, float &squares, float &dots) {
    const float gated = x * gate * share_of(gate), a = FIRST ? gated : x;
    squares += a * a;
    dots += w * dy * gated; /* the gate is a factor of either a or b */
}

/* The results of an element, and its term of dweight. mean: rstd^2 mean(w b a) of the row. */
template <bool FIRST>
static __device__ __forceinline__ float results_of(float x, float w, float gate, float dy, float rstd, float mean,
                                                   float &dx, float &dgate) {
    const float share = share_of(gate), silu = gate * share, slope = share * (1 + gate * (1 - share));
    const float a = FIRST ? x * silu : x, b = FIRST ? dy : dy * silu;
    const float da = rstd * (w * b - a * mean);
    dx = FIRST ? da * silu : da;
    dgate = (FIRST ? da * x : dy * x * rstd * w) * slope;
    return b * a * rstd;
}

/* The work of a team: the rows of one group, of some tokens. */
struct share {
    int64_t group, first, past;
};
template <typename T> static __device__ __forceinline__ share share_at(const gated_operands<T> &p, int64_t i) {
    const int64_t tokens = p.rows / p.groups, part = i / p.groups;
    return {i % p.groups, tokens * part / p.parts, tokens * (part + 1) / p.parts};
}

template <int TEAM, typename T>
static __device__ __forceinline__ void finish_row(const gated_operands<T> &p, float &squares, float &dots) {
    squares = 1 / sqrtf(team<TEAM>::sum(squares) / (float)p.E + p.epsilon);
    dots = team<TEAM>::sum(dots) / (float)p.E * squares * squares;
}

/* Rows of any size: operands are read twice, and between two rows the sums of a part are kept in the workspace. */
template <typename T, int TEAM, bool PACKED, bool FIRST>
static __global__ void __launch_bounds__(CUDA_THREADS) gradients(gated_operands<T> p) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, p.parts * p.groups)) {
        const share of = share_at(p, i);
        const T *weight = p.weight + of.group * p.E;
        float *sums = p.sums + i * p.E;
        for (int64_t token = of.first; token < of.past; token++) {
            const int64_t at = (token * p.groups + of.group) * p.E;
            float rstd = 0, mean = 0; /* first the sums that they are made of */
            for (EACH_GROUP(TEAM, N, e, p.E)) {
                const pack<float, N> x = load_group<PACKED, N>(p.x + at, e, p.E),
                                     g = load_group<PACKED, N>(p.gate + at, e, p.E),
                                     d = load_group<PACKED, N>(p.dy + at, e, p.E),
                                     w = load_group<PACKED, N>(weight, e, p.E);
                for (int k = 0; k < N; k++) add_terms<FIRST>(x.at[k], w.at[k], g.at[k], d.at[k], rstd, mean);
            }
            finish_row<TEAM>(p, rstd, mean);
            for (EACH_GROUP(TEAM, N, e, p.E)) {
                const pack<float, N> x = load_group<PACKED, N>(p.x + at, e, p.E),
                                     g = load_group<PACKED, N>(p.gate + at, e, p.E),
                                     d = load_group<PACKED, N>(p.dy + at, e, p.E),
                                     w = load_group<PACKED, N>(weight, e, p.E);
                pack<float, N> dx, dgate, sum = {};
                if (token > of.first) sum = load_group<PACKED, N>(sums, e, p.E);
                for (int k = 0; k < N; k++)
                    sum.at[k] +=
                        results_of<FIRST>(x.at[k], w.at[k], g.at[k], d.at[k], rstd, mean, dx.at[k], dgate.at[k]);
                store_group<PACKED, N>(p.y + at, e, p.E, dx);
                store_group<PACKED, N>(p.dgate + at, e, p.E, dgate);
                store_group<PACKED, N>(sums, e, p.E, sum);
            }
        }
    }
}

/*
 * Rows of at most GROUPS packs for each thread: everything is kept in registers, so that each row is moved once. The
 * sums and their order are the same as in `gradients`.
 */
template <typename T, int TEAM, int GROUPS, bool FIRST>
static __global__ void __launch_bounds__(CUDA_THREADS) gradients_in_registers(gated_operands<T> p) {
    constexpr int N = pack_size<T>();
    const int64_t lane = (int64_t)team<TEAM>::lane() * N;          /* and lane + TEAM N, ... */
    const auto load = [&](const T *row, int j) -> pack<float, N> { /* zeros behind the row's end */
                                                                   if (lane + j * TEAM * N >= p.E) return {};
                                                                   return load_floats<N>(row + lane + j * TEAM * N);
    };
    for (EACH_ROW(TEAM, i, p.parts * p.groups)) {
        const share of = share_at(p, i);
        pack<float, N> w[GROUPS], x[GROUPS], g[GROUPS], d[GROUPS], sum[GROUPS];
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            w[j] = load(p.weight + of.group * p.E, j);
            sum[j] = {};
        }
        for (int64_t token = of.first; token < of.past; token++) {
            const int64_t at = (token * p.groups + of.group) * p.E;
            float rstd = 0, mean = 0; /* first the sums that they are made of */
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                x[j] = load(p.x + at, j);
                g[j] = load(p.gate + at, j);
                d[j] = load(p.dy + at, j);
            }
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
#pragma unroll
                for (int k = 0; k < N; k++)
                    add_terms<FIRST>(x[j].at[k], w[j].at[k], g[j].at[k], d[j].at[k], rstd, mean);
            }
            finish_row<TEAM>(p, rstd, mean);
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                pack<float, N> dx, dgate;
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[j].at[k] += results_of<FIRST>(x[j].at[k], w[j].at[k], g[j].at[k], d[j].at[k], rstd, mean,
                                                      dx.at[k], dgate.at[k]);
                if (lane + j * TEAM * N >= p.E) continue;
                store_floats(p.y + at + lane + j * TEAM * N, dx);
                store_floats(p.dgate + at + lane + j * TEAM * N, dgate);
            }
        }
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            if (lane + j * TEAM * N < p.E) store_floats(p.sums + i * p.E + lane + j * TEAM * N, sum[j]);
    }
}

template <typename T> using gradients_kernel = void (*)(gated_operands<T>);

/* The kernel for rows of E elements, which are packed, by teams of TEAM threads. */
template <typename T, int TEAM, bool FIRST> static gradients_kernel<T> kernel_for(int64_t E) {
    const int64_t groups = ls_ceil_div(E, (int64_t)(TEAM * pack_size<T>()));
    if (groups <= 1) return gradients_in_registers<T, TEAM, 1, FIRST>;
    if (groups <= 2) return gradients_in_registers<T, TEAM, 2, FIRST>;
    return gradients<T, TEAM, true, FIRST>;
}

template <bool FIRST, typename T>
static ls_status launch_gradients(const gated_operands<T> &p, void *stream, float *dweight) {
    const bool aligned = is_aligned(p.x) && is_aligned(p.weight) && is_aligned(p.gate) && is_aligned(p.dy) &&
                         is_aligned(p.y) && is_aligned(p.dgate) && is_aligned(p.sums);
    LS_TRY(for_rows<T>(p.E, aligned, [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        gradients_kernel<T> kernel = gradients<T, TEAM, false, FIRST>;
        if constexpr (decltype(packed)::value) kernel = kernel_for<T, TEAM, FIRST>(p.E);
        return launch("gated_norm_grad", stream, team<TEAM>::blocks(p.parts * p.groups), 0, kernel, p);
    }));
    return add_columns("gated_norm_grad", stream, p.parts, p.groups * p.E, p.sums, dweight);
}

template <typename T> static ls_status launch_gated_norm_grad(const ls_kernel_call *call, void *, void *stream) {
    gated_operands<T> p = operands_of<T>(call);
    float *dweight = output<float>(call, 1);
    p.dy = input<T>(call, 3);
    p.dgate = output<T>(call, 2);
    p.sums = (float *)call->workspace;
    p.parts = count_token_parts(call);
    return gate_is_first(call) ? launch_gradients<true>(p, stream, dweight)
                               : launch_gradients<false>(p, stream, dweight);
}

CUDA_ROWS(GATED_NORM, gated_norm, launch_gated_norm, nullptr)
CUDA_ROWS(GATED_NORM_GRAD, gated_norm_grad, launch_gated_norm_grad, workspace)
