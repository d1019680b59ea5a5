/*
 * Kernels that copy whole rows: embedding, from the rows of a table by id, and cache_write, to those of a cache; and
 * local_ids, ids among the rows of a part of a table.
 */
#include "kernel/cuda/rows.h"

/* Which row goes to which; to -1: to none; from -1: it becomes 0. */
struct row_pair {
    int64_t from, to;
};

/* Row f(i).from of x becomes row f(i).to of y. A warp copies a row. */
template <int N, typename T, typename F>
static __global__ void __launch_bounds__(CUDA_THREADS) copy_rows(F f, const T *x, T *y, int64_t rows, int64_t E) {
    for (EACH_ROW(WARP_THREADS, i, rows)) {
        const row_pair pair = f(i);
        if (pair.to < 0) continue;
        for (EACH_GROUP(WARP_THREADS, N, e, E)) {
            pack<T, N> row = {};
            if (pair.from >= 0) row = load_pack<N>(x + pair.from * E + e);
            store_pack<N>(y + pair.to * E + e, row);
        }
    }
}

template <typename T, typename F>
static ls_status launch_rows(const char *name, void *stream, F f, const T *x, T *y, int64_t rows, int64_t E) {
    constexpr int N = pack_size<T>();
    const int64_t blocks = team<WARP_THREADS>::blocks(rows);
    if (E % N == 0 && is_aligned(x) && is_aligned(y))
        return launch(name, stream, blocks, 0, copy_rows<N, T, F>, f, x, y, rows, E);
    return launch(name, stream, blocks, 0, copy_rows<1, T, F>, f, x, y, rows, E);
}

/* The host has checked that ids lie in [0, V); of a part of a table they may be LS_ID_ELSEWHERE. */
struct by_id {
    const int32_t *ids;
    __device__ row_pair operator()(int64_t i) const { return {ids[i], i}; }
};
template <typename T> static ls_status launch_embedding(const ls_kernel_call *call, void *, void *stream) {
    return launch_rows("embedding", stream, by_id{input<int32_t>(call, 0)}, input<T>(call, 1), output<T>(call, 0),
                       ls_view_elements(&call->in[0]), call->in[1].size[1]);
}

/* Row i of M in each sequence goes to the place of its position among the K of the cache, which ascend. */
struct by_position {
    const int32_t *positions, *kpos;
    int64_t M, K;
    __device__ row_pair operator()(int64_t i) const {
        const int64_t place = count_less(kpos, K, positions[i]);
        return {i, place < K && kpos[place] == positions[i] ? i / M * K + place : -1};
    }
};
template <typename T> static ls_status launch_cache_write(const ls_kernel_call *call, void *, void *stream) {
    const ls_view *x = &call->in[0];
    const by_position f = {input<int32_t>(call, 1), input<int32_t>(call, 2), x->size[1], call->in[2].size[0]};
    return launch_rows("cache_write", stream, f, input<T>(call, 0), output<T>(call, 0), x->size[0] * x->size[1],
                       x->size[2] * x->size[3]);
}

static __global__ void __launch_bounds__(CUDA_THREADS)
    make_local(const int32_t *ids, const int32_t *part, int32_t *local, int64_t padding, int64_t n) {
    for (EACH(i, n)) {
        const int32_t at = ids[i] - part[0];
        const bool here = at >= 0 && at < part[1] && ids[i] != padding;
        local[i] = ids[i] == LS_LABEL_IGNORED ? ids[i] : here ? at : LS_ID_ELSEWHERE;
    }
}
template <typename T> static ls_status launch_local_ids(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->in[0]);
    return launch("local_ids", stream, blocks_for(n), 0, make_local, input<int32_t>(call, 0), input<int32_t>(call, 1),
                  output<int32_t>(call, 0), ((const ls_embedding_params *)call->params)->padding, n);
}

CUDA_ROWS(LOCAL_IDS, local_ids, launch_local_ids, nullptr)
CUDA_ROWS(EMBEDDING, embedding, launch_embedding, nullptr)
CUDA_ROWS(CACHE_WRITE, cache_write, launch_cache_write, nullptr)
