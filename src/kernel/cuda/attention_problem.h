/* Shared by the attention kernels: strided operands, and which keys of a tile the queries of a block see. */
#ifndef LS_KERNEL_CUDA_ATTENTION_PROBLEM_H
#define LS_KERNEL_CUDA_ATTENTION_PROBLEM_H

#include "kernel/cuda/cuda_impl.h"

/* A view [B,N,H,D] whose elements of a head are contiguous, or [B,H,N]; strides in elements. */
template <typename T> struct heads {
    T *data;
    int64_t batch, token, head;
    __device__ __forceinline__ T *at(int64_t b, int64_t i, int64_t h) const {
        return data + b * batch + i * token + h * head;
    }
};

template <typename T> static heads<T> heads_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[2]};
}
/* The view of an lse or a delta [B,H,N]. */
template <typename T> static heads<T> rows_of_heads(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[2], v->stride[1]};
}

/* The larger of D, the elements of a head of q and k, and E, those of v and the results: the width of all tiles. */
static inline int64_t widest_head(const ls_kernel_call *call) {
    const int64_t D = call->in[0].size[3], E = call->in[2].size[3];
    return D > E ? D : E;
}

/* The number of this warp among the warps of all blocks. */
static __device__ __forceinline__ int64_t warp_number() { return (int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32; }

/* Which keys the queries see, as in the contract: query i sees those at positions within its pairs [lo, hi). */
struct sight {
    const int32_t *spans, *kpos; /* [B,N,W], [K] */
    int W;
    int64_t queries, keys;
};

enum { MOST_SPAN_COLUMNS = 16 }; /* for kernels that keep spans in shared memory */

static inline sight sight_of(const ls_kernel_call *call) {
    const ls_view *spans = &call->in[3];
    return {(const int32_t *)spans->data, (const int32_t *)call->in[4].data, (int)spans->size[2], spans->size[1],
            call->in[4].size[0]};
}

/* --- sight -------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ bool sees(const int32_t *spans, int W, int32_t position) {
    bool is = false;
#pragma unroll 1 /* the function is inlined for each pair of a tile */
    for (int w = 0; w < W; w += 2) is |= spans[w] <= position && position < spans[w + 1];
    return is;
}

/* How much the queries of a block see of the keys of a tile. */
enum tile_sight { NOTHING, SOMETHING, EVERYTHING };

/* The smallest and the largest position of KEYS keys from `first` on; computed by a warp. */
template <int KEYS>
static __device__ __forceinline__ void position_range(const int32_t *kpos, int64_t first, int64_t n, int32_t *low,
                                                      int32_t *high) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (int k = threadIdx.x % 32; k < KEYS; k += 32) {
        if (first + k >= n) continue;
        const int32_t p = kpos[first + k];
        least = p < least ? p : least;
        most = p > most ? p : most;
    }
    for (int step = 16; step > 0; step /= 2) {
        const int32_t l = __shfl_xor_sync(~0U, least, step), m = __shfl_xor_sync(~0U, most, step);
        least = l < least ? l : least;
        most = m > most ? m : most;
    }
    *low = least;
    *high = most;
}

/*
 * How much the block's n queries see of the keys at positions low .. high; called by all threads of the block. Thread t
 * tests query t % ROWS. spans: those of the block's queries.
 */
template <int ROWS>
static __device__ __forceinline__ tile_sight look(const int32_t *spans, int W, int n, int32_t low, int32_t high) {
    const int row = threadIdx.x % ROWS;
    bool any = false, all = row >= n;
    for (int w = 0; w < W && row < n; w += 2) {
        any |= spans[row * W + w] <= high && low < spans[row * W + w + 1];
        all |= spans[row * W + w] <= low && high < spans[row * W + w + 1];
    }
    if (!__syncthreads_or(any)) return NOTHING;
    return __syncthreads_and(all) ? EVERYTHING : SOMETHING;
}

/* --- logits ------------------------------------------------------------------------------------------------------- */

/*
 * The first key of the next tile of KEYS keys, from `first` on, of which one of n queries sees some key; if there is
 * none, the number of keys or more. Called by all threads of the block.
 */
template <int KEYS, int QUERIES>
static __device__ __forceinline__ int64_t next_keys(const sight &see, const int32_t *spans, int n, int64_t first,
                                                    tile_sight *seen) {
    for (; first < see.keys; first += KEYS) {
        int32_t low, high;
        position_range<KEYS>(see.kpos, first, see.keys, &low, &high);
        *seen = look<QUERIES>(spans, see.W, n, low, high);
        if (*seen != NOTHING) break;
    }
    return first;
}

/* The lse over two sets of keys, and the share of each set in the merged result. A set without keys has lse -inf. */
struct merged {
    float lse, own, before;
};
static __device__ __forceinline__ merged merge(float own, float before) {
    const float most = fmaxf(own, before), base = most == -INFINITY ? 0 : most;
    const float a = expf(own - base), b = expf(before - base), both = a + b;
    if (both == 0) return {-INFINITY, 0, 0};
    return {base + logf(both), a / both, b / both};
}

static __device__ __forceinline__ float logit(float product, float scale, float softcap) {
    const float x = scale * product;
    return softcap > 0 ? softcap * tanhf(x / softcap) : x;
}

/* The weight of a key, and the gradient of the product of query and key. */
struct pair_gradient {
    float weight, dproduct;
};
static __device__ __forceinline__ pair_gradient pair_of(float qk, float dov, float lse, float delta, float scale,
                                                        float softcap) {
    const float x = logit(qk, scale, softcap);
    const float weight = lse == -INFINITY ? 0 : expf(x - lse),
                slope = softcap > 0 ? 1 - (x / softcap) * (x / softcap) : 1;
    return {weight, weight * (dov - delta) * slope * scale};
}

#endif
