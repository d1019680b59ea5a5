/* A function of one element of each operand, over all elements. */
#ifndef LS_KERNEL_CUDA_ELEMENTWISE_H
#define LS_KERNEL_CUDA_ELEMENTWISE_H

#include "kernel/cuda/pack.h"

template <typename Y, int N, typename F, typename... X>
static __device__ __forceinline__ pack<Y, N> apply(F f, const pack<X, N> &...x) {
    pack<Y, N> y;
#pragma unroll
    for (int k = 0; k < N; k++) y.at[k] = from_float<Y>(f(to_float(x.at[k])...));
    return y;
}

/* Maps packs of N elements, then the remaining elements one by one. */
template <int N, typename F, typename Y, typename... X>
static __global__ void __launch_bounds__(CUDA_THREADS) map_elements(F f, int64_t n, Y *y, const X *...x) {
    const int64_t packs = n / N;
    for (EACH(i, packs)) store_pack<N>(y + i * N, apply<Y, N>(f, load_pack<N>(x + i * N)...));
    for (EACH(i, n - packs * N)) y[packs * N + i] = from_float<Y>(f(to_float(x[packs * N + i])...));
}

/* y[i] = f(x[i], ...) in f32. y may overwrite an x of the same type. */
template <typename F, typename Y, typename... X>
static ls_status map(const char *name, void *stream, F f, int64_t n, Y *y, const X *...x) {
    constexpr int N = pack_size<Y, X...>();
    void (*const packs)(F, int64_t, Y *, const X *...) = map_elements<N, F, Y, X...>;
    void (*const single)(F, int64_t, Y *, const X *...) = map_elements<1, F, Y, X...>;
    if ((is_aligned(y) && ... && is_aligned(x)))
        return launch(name, stream, blocks_for(ls_ceil_div(n, (int64_t)N)), 0, packs, f, n, y, x...);
    return launch(name, stream, blocks_for(n), 0, single, f, n, y, x...);
}

#endif
