/*
 * Finds which tiles of keys the queries of a tile see, without reading the spans of each query: once per call, warps
 * compute the outline of the spans of every 64 queries, and the range of the positions of every 128 keys. If a tile is
 * visited although no key of it is seen, this costs only time, because masks are tested for each pair.
 */
#ifndef LS_KERNEL_CUDA_ATTENTION_OUTLINE_H
#define LS_KERNEL_CUDA_ATTENTION_OUTLINE_H

#include "kernel/cuda/attention_problem.h"

enum { OUTLINE_QUERIES = 64, RANGE_KEYS = 128 };

/*
 * The outline of one pair [lo, hi) of OUTLINE_QUERIES queries: the positions [any_from, any_past) that some query may
 * see, and the positions [all_from, all_past) that all of them see.
 */
struct alignas(16) outline {
    int32_t any_from, any_past, all_from, all_past;
};

struct key_range {
    int32_t low, high; /* positions */
};

/* The arrays of both: [B, tiles of queries, W/2] and [tiles of keys]. */
struct outlines {
    outline *queries;
    key_range *keys;
};

static inline int64_t outline_tiles(const sight &see) { return ls_ceil_div(see.queries, (int64_t)OUTLINE_QUERIES); }
static inline int64_t range_tiles(const sight &see) { return ls_ceil_div(see.keys, (int64_t)RANGE_KEYS); }

/* Places the arrays in the workspace of a call, which has outlines_bytes for them. */
static inline outlines outlines_at(void *workspace, const sight &see, int64_t B) {
    outline *const queries = (outline *)workspace;
    return {queries, (key_range *)(queries + B * outline_tiles(see) * (see.W / 2))};
}
static inline size_t outlines_bytes(const sight &see, int64_t B) {
    return sizeof(outline) * (size_t)(B * outline_tiles(see) * (see.W / 2)) +
           sizeof(key_range) * (size_t)range_tiles(see);
}

/* --- made by a warp for each tile --------------------------------------------------------------------------------- */

static __device__ __forceinline__ int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static __device__ __forceinline__ int32_t most(int32_t a, int32_t b) { return a < b ? b : a; }
static __device__ __forceinline__ int32_t warp_least(int32_t x) {
    for (int step = 16; step > 0; step /= 2) x = least(x, __shfl_xor_sync(~0U, x, step));
    return x;
}
static __device__ __forceinline__ int32_t warp_most(int32_t x) { return ~warp_least(~x); }

static __global__ void outline_spans(sight see, int64_t B, outline *to) {
    const int64_t tiles = (see.queries + OUTLINE_QUERIES - 1) / OUTLINE_QUERIES, at = warp_number();
    if (at >= B * tiles) return;
    const int64_t first = at % tiles * OUTLINE_QUERIES;
    for (int w = 0; w < see.W; w += 2) {
        outline o = {INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX};
        for (int64_t i = first + threadIdx.x % 32; i < first + OUTLINE_QUERIES && i < see.queries; i += 32) {
            const int32_t *span = see.spans + (at / tiles * see.queries + i) * see.W + w;
            if (span[0] < span[1]) {
                o.any_from = least(o.any_from, span[0]);
                o.any_past = most(o.any_past, span[1]);
            }
            o.all_from = most(o.all_from, span[0]);
            o.all_past = least(o.all_past, span[1]);
        }
        o = {warp_least(o.any_from), warp_most(o.any_past), warp_most(o.all_from), warp_least(o.all_past)};
        if (threadIdx.x % 32 == 0) to[(at * see.W + w) / 2] = o;
    }
}

static __global__ void range_of_keys(sight see, key_range *to) {
    const int64_t at = warp_number();
    if (at * RANGE_KEYS >= see.keys) return;
    key_range r;
    position_range<RANGE_KEYS>(see.kpos, at * RANGE_KEYS, see.keys, &r.low, &r.high);
    if (threadIdx.x % 32 == 0) to[at] = r;
}

static inline ls_status make_outlines(const char *name, void *stream, const sight &see, int64_t B, const outlines &to) {
    LS_TRY(launch(name, stream, ls_ceil_div(B * outline_tiles(see), (int64_t)CUDA_WARPS), 0, outline_spans, see, B,
                  to.queries));
    return launch(name, stream, ls_ceil_div(range_tiles(see), (int64_t)CUDA_WARPS), 0, range_of_keys, see, to.keys);
}

/* --- used by all threads of a block ------------------------------------------------------------------------------- */

/* How much the queries with these outlines, of W/2 pairs, see of the keys in a range of positions. */
static __device__ __forceinline__ tile_sight look_at(const outline *o, int W, key_range keys) {
    bool any = false, all = false;
#pragma unroll 1
    for (int w = 0; w < W / 2; w++) {
        any |= o[w].any_from <= keys.high && keys.low < o[w].any_past;
        all |= o[w].all_from <= keys.low && keys.high < o[w].all_past;
    }
    return all ? EVERYTHING : any ? SOMETHING : NOTHING;
}

/* The function `look` of next_tile: how much the 2 OUTLINE_QUERIES queries from `first` on see of a tile of keys. */
static __device__ __forceinline__ auto looks_at_keys(const sight &see, const outlines &seen, int b, int64_t first) {
    const int64_t tiles = (see.queries + OUTLINE_QUERIES - 1) / OUTLINE_QUERIES;
    const outline *own = seen.queries + (b * tiles + first / OUTLINE_QUERIES) * (see.W / 2);
    const bool two = first + OUTLINE_QUERIES < see.queries;
    return [&see, own, two, keys = seen.keys](int tile) {
        const tile_sight one = look_at(own, see.W, keys[tile]),
                         other = two ? look_at(own + see.W / 2, see.W, keys[tile]) : one;
        return one == other ? one : SOMETHING;
    };
}

/* Visits the tiles of which something is seen. A warp looks at 32 tiles at a time; left: bits of those not visited. */
struct tile_cursor {
    int first;
    unsigned left, whole;
    __device__ __forceinline__ int tile() const { return first + __ffs((int)left) - 1; }
    __device__ __forceinline__ bool is_whole() const { return whole >> (__ffs((int)left) - 1) & 1U; }
};
static constexpr tile_cursor BEFORE_TILES = {-32, 0, 0};

/* Goes on to the next of n tiles; look(tile) says how much of it is seen. false: there is none. */
template <typename Look> static __device__ __forceinline__ bool next_tile(tile_cursor *c, int n, Look look) {
    c->left &= c->left - 1;
    while (c->left == 0) {
        c->first += 32;
        if (c->first >= n) return false;
        const int own = c->first + (int)threadIdx.x % 32;
        const tile_sight seen = own < n ? look(own) : NOTHING;
        c->left = __ballot_sync(~0U, seen != NOTHING);
        c->whole = __ballot_sync(~0U, seen == EVERYTHING);
    }
    return true;
}

#endif
