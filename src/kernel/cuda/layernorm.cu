/*
 * layernorm: y = (x - mean) * rstd * weight (+ bias), rstd = 1/sqrt(variance + epsilon) of each row (arXiv 1607.06450).
 */
#include "kernel/cuda/rows.h"

/* bias may be nullptr. y may overwrite x: a row is written after the sums over it. */
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

CUDA_ROWS(LAYERNORM, layernorm, launch_layernorm, nullptr)
