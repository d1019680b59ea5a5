/* rmsnorm: y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + epsilon) of each row (arXiv 1910.07467). */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/rows.h"

/* y may lie where x lies: a row is written after the sum over it. */
template <typename T, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS)
    normalise(const T *x, const T *weight, T *y, float *rstd, int64_t rows, int64_t E, float epsilon, float offset) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, rows)) {
        float squares = 0;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E);
            for (int k = 0; k < N; k++) squares += a.at[k] * a.at[k];
        }
        const float r = 1 / sqrtf(team<TEAM>::sum(squares) / (float)E + epsilon);
        if (team<TEAM>::lane() == 0) rstd[i] = r;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E), w = load_group<PACKED, N>(weight, e, E);
            pack<float, N> result;
            for (int k = 0; k < N; k++) result.at[k] = a.at[k] * r * (offset + w.at[k]);
            store_group<PACKED, N>(y + i * E, e, E, result);
        }
    }
}

template <typename T> static ls_status launch_rmsnorm(const ls_kernel_call *call, void *, void *stream) {
    const ls_norm_params p = *(const ls_norm_params *)call->params;
    const int64_t rows = rows_of(&call->in[0]), E = columns_of(&call->in[0]);
    const T *x = input<T>(call, 0), *weight = input<T>(call, 1);
    T *y = output<T>(call, 0);
    return for_rows<T>(E, is_aligned(x) && is_aligned(weight) && is_aligned(y), [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("rmsnorm", stream, team<TEAM>::blocks(rows), 0, normalise<T, TEAM, PACKED>, x, weight, y,
                      output<float>(call, 1), rows, E, (float)p.epsilon, (float)p.offset);
    });
}

/* With w = offset + weight: dx = rstd * (w dy) - x * rstd^3 * mean(w dy x). dx may lie where x or dy lies. */
template <typename T, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS)
    grad_of_x(const T *x, const T *weight, const float *rstd, const T *dy, T *dx, int64_t rows, int64_t E,
              float offset) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, rows)) {
        float product = 0;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E), w = load_group<PACKED, N>(weight, e, E);
            const pack<float, N> d = load_group<PACKED, N>(dy + i * E, e, E);
            for (int k = 0; k < N; k++) product += (offset + w.at[k]) * d.at[k] * a.at[k];
        }
        const float r = rstd[i], factor = r * r * r * team<TEAM>::sum(product) / (float)E;
        for (EACH_GROUP(TEAM, N, e, E)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E), w = load_group<PACKED, N>(weight, e, E);
            const pack<float, N> d = load_group<PACKED, N>(dy + i * E, e, E);
            pack<float, N> result;
            for (int k = 0; k < N; k++) result.at[k] = r * (offset + w.at[k]) * d.at[k] - a.at[k] * factor;
            store_group<PACKED, N>(dx + i * E, e, E, result);
        }
    }
}

template <typename T> struct weight_term {
    const T *x, *dy;
    const float *rstd;
    int64_t E;
    __device__ float operator()(int64_t i, int64_t e) const {
        return to_float(dy[i * E + e]) * to_float(x[i * E + e]) * rstd[i];
    }
};

/* dweight first: dx may overwrite dy. */
template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const float offset = (float)((const ls_norm_params *)call->params)->offset;
    const int64_t rows = rows_of(&call->in[0]), E = columns_of(&call->in[0]);
    const T *x = input<T>(call, 0), *weight = input<T>(call, 1), *dy = input<T>(call, 3);
    const float *rstd = input<float>(call, 2);
    T *dx = output<T>(call, 0);
    const weight_term<T> term = {x, dy, rstd, E};
    LS_TRY(sum_columns("rmsnorm_grad", stream, term, rows, E, call->workspace));
    LS_TRY(add_columns("rmsnorm_grad", stream, rows, E, call->workspace, output<float>(call, 1)));
    const bool aligned = is_aligned(x) && is_aligned(weight) && is_aligned(dy) && is_aligned(dx);
    return for_rows<T>(E, aligned, [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("rmsnorm_grad", stream, team<TEAM>::blocks(rows), 0, grad_of_x<T, TEAM, PACKED>, x, weight, rstd,
                      dy, dx, rows, E, offset);
    });
}

CUDA_ROWS(RMSNORM, rmsnorm, launch_rmsnorm, nullptr)
CUDA_ROWS(RMSNORM_GRAD, rmsnorm_grad, launch_grad, rows_workspace)
