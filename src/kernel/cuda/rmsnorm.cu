/* rmsnorm: y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + epsilon) of each row (arXiv 1910.07467). */
#include "kernel/cuda/rows.h"

/* y may overwrite x: a row is written after the sum over it. */
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

CUDA_ROWS(RMSNORM, rmsnorm, launch_rmsnorm, nullptr)
