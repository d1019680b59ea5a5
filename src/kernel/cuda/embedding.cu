/*
 * Kernels that work on whole rows: embedding copies rows of a table by id; cache_write copies rows into a cache;
 * deal_rows copies the rows that have an id, and collect_rows copies them back to their places; scale_rows multiplies
 * rows by rows of a table. local_ids converts ids of a whole table to ids of a part of the table.
 */
#include "kernel/cuda/rows.h"

/*
 * Row `from` of the source is copied to row `to` of the destination. to -1: nothing is copied; from -1: `to` becomes 0.
 */
struct row_pair {
    int64_t from, to;
};

/* Copies row f(i).from of x to row f(i).to of y. A warp copies a row. */
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

/* The host has checked that ids are in [0, V); if the table is a part of one, they may be LS_ID_ELSEWHERE. */
struct by_id {
    const int32_t *ids;
    __device__ row_pair operator()(int64_t i) const { return {ids[i], i}; }
};
template <typename T> static ls_status launch_embedding(const ls_kernel_call *call, void *, void *stream) {
    return launch_rows("embedding", stream, by_id{input<int32_t>(call, 0)}, input<T>(call, 1), output<T>(call, 0),
                       ls_view_elements(&call->in[0]), call->in[1].size[1]);
}

/* Row i of the M rows of a sequence goes to the place of its position among the cache's K positions, which ascend. */
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

/*
 * places[i] = the number of ids before i that are not negative, or -1 if ids[i] is negative. There is a single block;
 * each of its threads has neighbouring ids. numbers: as in the contract of deal_rows; nullptr: not needed.
 */
static __global__ void __launch_bounds__(CUDA_THREADS)
    find_places(const int32_t *ids, int32_t *places, int64_t n, int32_t *numbers, int64_t room) {
    __shared__ int32_t counts[CUDA_THREADS];
    const int64_t first = n * threadIdx.x / CUDA_THREADS, past = n * (threadIdx.x + 1) / CUDA_THREADS;
    int32_t count = 0, place = 0, all = 0;
    for (int64_t i = first; i < past; i++) count += ids[i] >= 0;
    counts[threadIdx.x] = count;
    __syncthreads();
    for (int t = 0; t < CUDA_THREADS; t++) {
        if (t < (int)threadIdx.x) place += counts[t];
        all += counts[t];
    }
    for (int64_t i = first; i < past; i++) {
        places[i] = ids[i] >= 0 ? place++ : -1;
        if (numbers != nullptr && places[i] >= 0 && places[i] < room) numbers[1 + places[i]] = ids[i];
    }
    if (numbers == nullptr) return;
    if (threadIdx.x == 0) numbers[0] = all;
    for (int64_t r = all + (int64_t)threadIdx.x; r < room; r += CUDA_THREADS) numbers[1 + r] = LS_ID_ELSEWHERE;
}

static size_t workspace_of_places(const ls_kernel_call *call) {
    return sizeof(int32_t) * (size_t)ls_view_elements(&call->in[0]);
}

struct to_places {
    const int32_t *places;
    int64_t room;
    __device__ row_pair operator()(int64_t i) const { return {i, places[i] < room ? places[i] : -1}; }
};
template <typename T> static ls_status launch_deal_rows(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->in[0]), room = call->out[1].size[0];
    int32_t *places = (int32_t *)call->workspace;
    LS_TRY(launch("deal_rows", stream, 1, 0, find_places, input<int32_t>(call, 0), places, n, output<int32_t>(call, 0),
                  room));
    return launch_rows("deal_rows", stream, to_places{places, room}, input<T>(call, 1), output<T>(call, 1), n,
                       call->out[1].size[1]);
}

struct from_places {
    const int32_t *places;
    __device__ row_pair operator()(int64_t i) const { return {places[i], places[i] >= 0 ? i : -1}; }
};
template <typename T> static ls_status launch_collect_rows(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->in[0]);
    int32_t *places = (int32_t *)call->workspace, *none = nullptr;
    LS_TRY(launch("collect_rows", stream, 1, 0, find_places, input<int32_t>(call, 0), places, n, none, (int64_t)0));
    return launch_rows("collect_rows", stream, from_places{places}, input<T>(call, 1), output<T>(call, 0), n,
                       call->in[1].size[1]);
}

/* y may overwrite x. */
template <typename T, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS)
    multiply_rows(const int32_t *ids, const T *x, const T *table, T *y, int64_t rows, int64_t E) {
    constexpr int N = pack_size<T>();
    for (EACH_ROW(TEAM, i, rows)) {
        for (EACH_GROUP(TEAM, N, e, E)) {
            pack<float, N> result = {};
            if (ids[i] >= 0) {
                const pack<float, N> a = load_group<PACKED, N>(x + i * E, e, E),
                                     b = load_group<PACKED, N>(table + ids[i] * E, e, E);
                for (int k = 0; k < N; k++) result.at[k] = a.at[k] * b.at[k];
            }
            store_group<PACKED, N>(y + i * E, e, E, result);
        }
    }
}
template <typename T> static ls_status launch_scale_rows(const ls_kernel_call *call, void *, void *stream) {
    const int64_t rows = ls_view_elements(&call->in[0]), E = call->in[2].size[1];
    const T *x = input<T>(call, 1), *table = input<T>(call, 2);
    T *y = output<T>(call, 0);
    return for_rows<T>(E, is_aligned(x) && is_aligned(table) && is_aligned(y), [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("scale_rows", stream, team<TEAM>::blocks(rows), 0, multiply_rows<T, TEAM, PACKED>,
                      input<int32_t>(call, 0), x, table, y, rows, E);
    });
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
CUDA_ROWS(DEAL_ROWS, deal_rows, launch_deal_rows, workspace_of_places)
CUDA_ROWS(COLLECT_ROWS, collect_rows, launch_collect_rows, workspace_of_places)
CUDA_ROWS(SCALE_ROWS, scale_rows, launch_scale_rows, nullptr)
