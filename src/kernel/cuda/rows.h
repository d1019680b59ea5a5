/*
 * Kernels in which a team of threads works on each row of a matrix: a warp if rows are short, so that no threads are
 * idle and no barrier of the block is needed, else a block. The elements that a thread adds, and their order, depend
 * only on the size of the row: a thread has the same groups of adjacent elements whether it reads them as packs or one
 * by one.
 */
#ifndef LS_KERNEL_CUDA_ROWS_H
#define LS_KERNEL_CUDA_ROWS_H

#include <type_traits>

#include "kernel/cuda/pack.h"

enum { WARP_THREADS = 32, MOST_OF_WARP = 1024 /* elements of a row */ };

/* A team of TEAM threads for each row. */
template <int TEAM> struct team {
    static_assert(TEAM == WARP_THREADS || TEAM == CUDA_THREADS, "a warp or a block");
    static __device__ int lane() { return (int)threadIdx.x % TEAM; }
    static __device__ int64_t first() { return ((int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x) / TEAM; }
    static __device__ int64_t step() { return (int64_t)gridDim.x * (CUDA_THREADS / TEAM); }
    /* Each thread of the team passes a number and gets the sum. */
    static __device__ float sum(float x) {
        if constexpr (TEAM == WARP_THREADS)
            return warp_sum(x);
        else
            return block_sum(x);
    }
    static int64_t blocks(int64_t rows) {
        return ls_min(MOST_BLOCKS, ls_ceil_div(rows, (int64_t)(CUDA_THREADS / TEAM)));
    }
};
/* The rows of a thread's team, and the first elements of its groups of N in a row. */
#define EACH_ROW(TEAM, i, rows)      \
    int64_t i = team<TEAM>::first(); \
    i < (rows);                      \
    i += team<TEAM>::step()
#define EACH_GROUP(TEAM, N, e, E)                  \
    int64_t e = (int64_t)team<TEAM>::lane() * (N); \
    e < (E);                                       \
    e += (int64_t)(TEAM) * (N)

/*
 * Elements e .. e + N - 1 of a row of E elements. PACKED: rows are aligned and consist of whole packs; else elements
 * behind the end are 0.
 */
template <bool PACKED, int N, typename T>
static __device__ __forceinline__ pack<float, N> load_group(const T *row, int64_t e, int64_t E) {
    if constexpr (PACKED) {
        return load_floats<N>(row + e);
    } else {
        pack<float, N> values;
#pragma unroll
        for (int k = 0; k < N; k++) values.at[k] = e + k < E ? to_float(row[e + k]) : 0;
        return values;
    }
}
template <bool PACKED, int N, typename T>
static __device__ __forceinline__ void store_group(T *row, int64_t e, int64_t E, const pack<float, N> &values) {
    if constexpr (PACKED) {
        store_floats<N>(row + e, values);
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (e + k < E) row[e + k] = from_float<T>(values.at[k]);
    }
}

/*
 * Calls f(TEAM, PACKED), both as std::integral_constant, for rows of E elements. aligned: all operands with such rows
 * are aligned.
 */
template <typename T, typename F> static ls_status for_rows(int64_t E, bool aligned, F f) {
    const std::integral_constant<int, WARP_THREADS> warp;
    const std::integral_constant<int, CUDA_THREADS> block;
    const std::true_type packed;
    const std::false_type single;
    if (aligned && E % pack_size<T>() == 0) return E <= MOST_OF_WARP ? f(warp, packed) : f(block, packed);
    return E <= MOST_OF_WARP ? f(warp, single) : f(block, single);
}

#endif
