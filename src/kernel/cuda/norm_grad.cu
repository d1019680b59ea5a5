/*
 * Gradients of rmsnorm and layernorm. With h = (x - mean) rstd and g = (offset + weight) dy of a row:
 * dx = rstd (g - mean(g) - h mean(g h)), and dweight is the sum of h dy over the rows. For rmsnorm, mean and mean(g)
 * count as 0; for layernorm, offset is 0. Both results are computed in one pass, so that x and dy are read once: a team
 * has a part of the rows, and the sums of a part are in the workspace until those of all parts are added. When sums
 * were stored and loaded again at each row, an H200 moved 1.0 TB/s at E 4,096 (docs/lab/26-first-gpu.md).
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/rows.h"

/* Parts have few rows, so that many teams work; but if there are many rows, enough that sums are small beside rows. */
enum { LEAST_TEAMS = 128, TEAM_ROWS = 16 };

static int64_t count_teams(int64_t rows) {
    const int64_t teams = ls_min(MOST_PARTS, ls_ceil_div(rows, (int64_t)TEAM_ROWS));
    return ls_min(rows, ls_max(LEAST_TEAMS, teams));
}

static size_t workspace(const ls_kernel_call *call) {
    return sizeof(float) * (size_t)(count_teams(rows_of(&call->in[0])) * columns_of(&call->in[0]));
}

/* dx may overwrite x or dy. parts: float[teams][E]. */
template <typename T> struct norm_operands {
    const T *x, *weight, *dy;
    const float *mean, *rstd; /* mean: nullptr for rmsnorm */
    T *dx;
    float *parts;
    int64_t teams, rows, E;
    float offset;
};

template <bool CENTRED, int TEAM, typename T>
static __device__ __forceinline__ void mean_of_row(const norm_operands<T> &p, float &of_g, float &of_gh) {
    of_g = CENTRED ? team<TEAM>::sum(of_g) / (float)p.E : 0;
    of_gh = team<TEAM>::sum(of_gh) / (float)p.E;
}

/* Rows of any size: x and dy are read twice, and between two rows the sums of a part are kept in the workspace. */
template <typename T, int TEAM, bool PACKED, bool CENTRED>
static __global__ void __launch_bounds__(CUDA_THREADS) gradients(norm_operands<T> p) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, part, p.teams)) {
        float *sums = p.parts + part * p.E;
        const int64_t first = p.rows * part / p.teams, past = p.rows * (part + 1) / p.teams;
        for (int64_t i = first; i < past; i++) {
            const T *x = p.x + i * p.E, *dy = p.dy + i * p.E;
            const float m = CENTRED ? p.mean[i] : 0, r = p.rstd[i];
            float of_g = 0, of_gh = 0;
            for (EACH_GROUP(TEAM, N, e, p.E)) {
                const pack<float, N> a = load_group<PACKED, N>(x, e, p.E), d = load_group<PACKED, N>(dy, e, p.E);
                const pack<float, N> w = load_group<PACKED, N>(p.weight, e, p.E);
                for (int k = 0; k < N; k++) {
                    const float g = (p.offset + w.at[k]) * d.at[k];
                    of_g += g;
                    of_gh += g * (a.at[k] - m) * r;
                }
            }
            mean_of_row<CENTRED, TEAM>(p, of_g, of_gh);
            for (EACH_GROUP(TEAM, N, e, p.E)) {
                const pack<float, N> a = load_group<PACKED, N>(x, e, p.E), d = load_group<PACKED, N>(dy, e, p.E);
                const pack<float, N> w = load_group<PACKED, N>(p.weight, e, p.E);
                pack<float, N> result, sum = {};
                if (i > first) sum = load_group<PACKED, N>(sums, e, p.E);
                for (int k = 0; k < N; k++) {
                    const float h = (a.at[k] - m) * r;
                    result.at[k] = r * ((p.offset + w.at[k]) * d.at[k] - of_g - h * of_gh);
                    sum.at[k] += h * d.at[k];
                }
                store_group<PACKED, N>(p.dx + i * p.E, e, p.E, result);
                store_group<PACKED, N>(sums, e, p.E, sum);
            }
        }
    }
}

/*
 * Rows of at most GROUPS packs for each thread: x, dy, the weight and the sums of a part are kept in registers, so that
 * each row is moved once. The sums and their order are the same as in `gradients`.
 */
template <typename T, int TEAM, int GROUPS, bool CENTRED>
static __global__ void __launch_bounds__(CUDA_THREADS) gradients_in_registers(norm_operands<T> p) {
    constexpr int N = pack_size<T>();
    const int64_t e = (int64_t)team<TEAM>::lane() * N; /* and e + TEAM N, ... */
    /* Group j of a row; zeros behind its end. */
    const auto load = [&](const T *row, int j) -> pack<float, N> {
        if (e + j * TEAM * N >= p.E) return {};
        return load_floats<N>(row + e + j * TEAM * N);
    };
    pack<float, N> w[GROUPS], a[GROUPS], d[GROUPS], sum[GROUPS];
#pragma unroll
    for (int j = 0; j < GROUPS; j++) w[j] = load(p.weight, j);
    for (EACH_ROW(TEAM, part, p.teams)) {
        const int64_t first = p.rows * part / p.teams, past = p.rows * (part + 1) / p.teams;
#pragma unroll
        for (int j = 0; j < GROUPS; j++) sum[j] = {};
        for (int64_t i = first; i < past; i++) {
            const float m = CENTRED ? p.mean[i] : 0, r = p.rstd[i];
            float of_g = 0, of_gh = 0;
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                a[j] = load(p.x + i * p.E, j);
                d[j] = load(p.dy + i * p.E, j);
            }
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
#pragma unroll
                for (int k = 0; k < N; k++) {
                    const float g = (p.offset + w[j].at[k]) * d[j].at[k];
                    of_g += g;
                    of_gh += g * (a[j].at[k] - m) * r;
                }
            }
            mean_of_row<CENTRED, TEAM>(p, of_g, of_gh);
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                pack<float, N> result;
#pragma unroll
                for (int k = 0; k < N; k++) {
                    const float h = (a[j].at[k] - m) * r;
                    result.at[k] = r * ((p.offset + w[j].at[k]) * d[j].at[k] - of_g - h * of_gh);
                    sum[j].at[k] += h * d[j].at[k];
                }
                if (e + j * TEAM * N < p.E) store_floats(p.dx + i * p.E + e + j * TEAM * N, result);
            }
        }
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            if (e + j * TEAM * N < p.E) store_floats(p.parts + part * p.E + e + j * TEAM * N, sum[j]);
    }
}

template <typename T> using gradients_kernel = void (*)(norm_operands<T>);

/* The kernel for rows of E elements, which are packed, by teams of TEAM threads. */
template <typename T, int TEAM, bool CENTRED> static gradients_kernel<T> kernel_for(int64_t E) {
    const int64_t groups = ls_ceil_div(E, (int64_t)(TEAM * pack_size<T>()));
    if (groups <= 1) return gradients_in_registers<T, TEAM, 1, CENTRED>;
    if (groups <= 2) return gradients_in_registers<T, TEAM, 2, CENTRED>;
    if (groups <= 4) return gradients_in_registers<T, TEAM, 4, CENTRED>;
    return gradients<T, TEAM, true, CENTRED>;
}

template <bool CENTRED, typename T>
static ls_status launch_gradients(const char *name, void *stream, const norm_operands<T> &p, float *dweight) {
    const bool aligned = is_aligned(p.x) && is_aligned(p.weight) && is_aligned(p.dy) && is_aligned(p.dx);
    LS_TRY(for_rows<T>(p.E, aligned && is_aligned(p.parts), [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        gradients_kernel<T> kernel = gradients<T, TEAM, false, CENTRED>;
        if constexpr (decltype(packed)::value) kernel = kernel_for<T, TEAM, CENTRED>(p.E);
        return launch(name, stream, team<TEAM>::blocks(p.teams), 0, kernel, p);
    }));
    return add_columns(name, stream, p.teams, p.E, p.parts, dweight);
}

template <typename T> static norm_operands<T> norm_of(const ls_kernel_call *call, int rstd) {
    const int64_t rows = rows_of(&call->in[0]);
    return {.x = input<T>(call, 0),
            .weight = input<T>(call, 1),
            .dy = input<T>(call, rstd + 1),
            .mean = nullptr,
            .rstd = input<float>(call, rstd),
            .dx = output<T>(call, 0),
            .parts = (float *)call->workspace,
            .teams = count_teams(rows),
            .rows = rows,
            .E = columns_of(&call->in[0]),
            .offset = 0};
}

template <typename T> static ls_status launch_rmsnorm_grad(const ls_kernel_call *call, void *, void *stream) {
    norm_operands<T> p = norm_of<T>(call, 2);
    p.offset = (float)((const ls_norm_params *)call->params)->offset;
    return launch_gradients<false>("rmsnorm_grad", stream, p, output<float>(call, 1));
}

template <typename T> static ls_status launch_layernorm_grad(const ls_kernel_call *call, void *, void *stream) {
    norm_operands<T> p = norm_of<T>(call, 3);
    p.mean = input<float>(call, 2);
    return launch_gradients<true>("layernorm_grad", stream, p, output<float>(call, 1));
}

CUDA_ROWS(RMSNORM_GRAD, rmsnorm_grad, launch_rmsnorm_grad, workspace)
CUDA_ROWS(LAYERNORM_GRAD, layernorm_grad, launch_layernorm_grad, workspace)
