/*
 * Adjacent elements that a thread reads or writes at once. With 16 bytes for each thread, more bytes are under way at a
 * time, and a kernel needs fewer instructions.
 */
#ifndef LS_KERNEL_CUDA_PACK_H
#define LS_KERNEL_CUDA_PACK_H

#include "kernel/cuda/cuda_impl.h"

static constexpr size_t PACK_BYTES = 16;

template <typename T, int N> struct alignas(N * sizeof(T) < PACK_BYTES ? N * sizeof(T) : PACK_BYTES) pack { T at[N]; };

/* How many elements of the narrowest of the types a pack has. */
template <typename... T> static constexpr __host__ __device__ int pack_size() {
    size_t narrowest = PACK_BYTES;
    for (const size_t bytes : {sizeof(T)...}) narrowest = bytes < narrowest ? bytes : narrowest;
    return (int)(PACK_BYTES / narrowest);
}

static inline bool is_aligned(const void *p) { return (uintptr_t)p % PACK_BYTES == 0; }

/* p must be a multiple of the pack's size in bytes. */
template <int N, typename T> static __device__ __forceinline__ pack<T, N> load_pack(const T *p) {
    return *(const pack<T, N> *)p;
}
template <int N, typename T> static __device__ __forceinline__ void store_pack(T *p, const pack<T, N> &values) {
    *(pack<T, N> *)p = values;
}

/* The same as f32; store_floats rounds f32 to T. */
template <int N, typename T> static __device__ __forceinline__ pack<float, N> load_floats(const T *p) {
    const pack<T, N> from = load_pack<N>(p);
    pack<float, N> values;
#pragma unroll
    for (int k = 0; k < N; k++) values.at[k] = to_float(from.at[k]);
    return values;
}
template <int N, typename T> static __device__ __forceinline__ void store_floats(T *p, const pack<float, N> &values) {
    pack<T, N> to;
#pragma unroll
    for (int k = 0; k < N; k++) to.at[k] = from_float<T>(values.at[k]);
    store_pack<N>(p, to);
}

#endif
