/*
 * layernorm: y = (x - mean) * rstd * weight (+ bias), rstd = 1/sqrt(variance + epsilon) of each row (arXiv 1607.06450).
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/rows.h"

/* bias may be nullptr. y may lie where x lies: a row is written after the sums over it. */
template <typename T, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS)
    normalise(const T *x, const T *weight, const T *bias, T *y, float *mean, float *rstd, int64_t rows, int64_t E,
              float epsilon) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, rows)) {
        const T *from = x + i * E;
        float sum = 0, squares = 0;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(from, e, E);
            for (int k = 0; k < N; k++) sum += a.at[k];
        }
        const float m = team<TEAM>::sum(sum) / (float)E;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(from, e, E);
            for (int k = 0; k < N; k++) squares += e + k < E ? (a.at[k] - m) * (a.at[k] - m) : 0;
        }
        const float r = 1 / sqrtf(team<TEAM>::sum(squares) / (float)E + epsilon);
        if (team<TEAM>::lane() == 0) mean[i] = m, rstd[i] = r;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(from, e, E), w = load_group<PACKED, N>(weight, e, E);
            const pack<float, N> b = bias != nullptr ? load_group<PACKED, N>(bias, e, E) : pack<float, N>{};
            pack<float, N> result;
            for (int k = 0; k < N; k++) result.at[k] = (a.at[k] - m) * r * w.at[k] + b.at[k];
            store_group<PACKED, N>(y + i * E, e, E, result);
        }
    }
}

template <typename T> static ls_status launch_layernorm(const ls_kernel_call *call, void *, void *stream) {
    const float epsilon = (float)((const ls_norm_params *)call->params)->epsilon;
    const int64_t rows = rows_of(&call->in[0]), E = columns_of(&call->in[0]);
    const T *x = input<T>(call, 0), *weight = input<T>(call, 1), *bias = call->n_in > 2 ? input<T>(call, 2) : nullptr;
    T *y = output<T>(call, 0);
    const bool aligned = is_aligned(x) && is_aligned(weight) && is_aligned(bias) && is_aligned(y);
    return for_rows<T>(E, aligned, [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("layernorm", stream, team<TEAM>::blocks(rows), 0, normalise<T, TEAM, PACKED>, x, weight, bias, y,
                      output<float>(call, 1), output<float>(call, 2), rows, E, epsilon);
    });
}

/* With h = (x - mean) rstd and g = w dy: dx = rstd (g - mean(g) - h mean(g h)). dx may lie where x or dy lies. */
template <typename T, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS)
    grad_of_x(const T *x, const T *weight, const float *mean, const float *rstd, const T *dy, T *dx, int64_t rows,
              int64_t E) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, rows)) {
        const float m = mean[i], r = rstd[i];
        float of_g = 0, of_gh = 0;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E), w = load_group<PACKED, N>(weight, e, E);
            const pack<float, N> d = load_group<PACKED, N>(dy + i * E, e, E);
            for (int k = 0; k < N; k++) {
                const float g = w.at[k] * d.at[k];
                of_g += g;
                of_gh += g * (a.at[k] - m) * r;
            }
        }
        of_g = team<TEAM>::sum(of_g) / (float)E;
        of_gh = team<TEAM>::sum(of_gh) / (float)E;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E), w = load_group<PACKED, N>(weight, e, E);
            const pack<float, N> d = load_group<PACKED, N>(dy + i * E, e, E);
            pack<float, N> result;
            for (int k = 0; k < N; k++) result.at[k] = r * (w.at[k] * d.at[k] - of_g - (a.at[k] - m) * r * of_gh);
            store_group<PACKED, N>(dx + i * E, e, E, result);
        }
    }
}

template <typename T> struct weight_term {
    const T *x, *dy;
    const float *mean, *rstd;
    int64_t E;
    __device__ float operator()(int64_t i, int64_t e) const {
        return to_float(dy[i * E + e]) * (to_float(x[i * E + e]) - mean[i]) * rstd[i];
    }
};

/* dweight first: dx may overwrite dy. */
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const int64_t rows = rows_of(&call->in[0]), E = columns_of(&call->in[0]);
    const T *x = input<T>(call, 0), *weight = input<T>(call, 1), *dy = input<T>(call, 4);
    const float *mean = input<float>(call, 2), *rstd = input<float>(call, 3);
    T *dx = output<T>(call, 0);
    const weight_term<T> term = {x, dy, mean, rstd, E};
    LS_TRY(sum_columns("layernorm_grad", stream, term, rows, E, call->workspace));
    LS_TRY(add_columns("layernorm_grad", stream, rows, E, call->workspace, output<float>(call, 1)));
    const bool aligned = is_aligned(x) && is_aligned(weight) && is_aligned(dy) && is_aligned(dx);
    return for_rows<T>(E, aligned, [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("layernorm_grad", stream, team<TEAM>::blocks(rows), 0, grad_of_x<T, TEAM, PACKED>, x, weight,
                      mean, rstd, dy, dx, rows, E);
    });
}

CUDA_ROWS(LAYERNORM, layernorm, launch_layernorm, nullptr)
CUDA_ROWS(LAYERNORM_GRAD, layernorm_grad, launch_grad, rows_workspace)
