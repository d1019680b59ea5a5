/*
 * embedding_grad: dtable[ids[i]] += dy[i], in an order that depends only on the ids. Tokens are sorted by id. Parts of
 * the sorted tokens are summed in parallel, so that an id that most tokens have does not take longer than others. A
 * part adds the sum of each of its ids to the table, except for its head: its first tokens, if the part before ends
 * with tokens of the same id. After that, the heads of an id are added to the table one after the other.
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/pack.h"

/* A token and its id in one number. Keys are ordered by id, with LS_ID_ELSEWHERE last, then by token. */
typedef uint64_t key;
static __device__ __forceinline__ key key_of(int32_t id, int64_t token) { return (key)(uint32_t)id << 32 | (key)token; }
static __device__ __forceinline__ bool is_elsewhere(int64_t id) { return id > INT32_MAX; }
static __device__ __forceinline__ int64_t id_of(key k) { return (int64_t)(k >> 32); }
static __device__ __forceinline__ int64_t token_of(key k) { return (int64_t)(k & 0xffffffff); }

/* --- the order ---------------------------------------------------------------------------------------------------- */

enum { TILE = 512 };

/* Sorts each tile. All keys differ, so the place of a key is the number of smaller keys. */
static __global__ void __launch_bounds__(CUDA_THREADS) sort_tiles(const int32_t *ids, key *sorted, int64_t n) {
    __shared__ key keys[TILE];
    const int64_t start = (int64_t)blockIdx.x * TILE;
    const int count = n - start < TILE ? (int)(n - start) : TILE;
    for (int i = (int)threadIdx.x; i < count; i += CUDA_THREADS) keys[i] = key_of(ids[start + i], start + i);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += CUDA_THREADS) {
        int less = 0;
        for (int j = 0; j < count; j++) less += keys[j] < keys[i];
        sorted[start + less] = keys[i];
    }
}

/* Merges pairs of runs of `length` sorted keys. A key is placed behind the smaller keys of the other run. */
static __global__ void __launch_bounds__(CUDA_THREADS) merge_runs(const key *from, key *to, int64_t n, int64_t length) {
    for (EACH(i, n)) {
        const int64_t run = i / length, other = (run ^ 1) * length;
        const int64_t others = n - other < length ? n - other : length; /* not positive if the run is behind the end */
        const int64_t less = count_less(from + other, others, from[i]);
        to[run / 2 * 2 * length + i % length + less] = from[i];
    }
}

/* *sorted = a or b, whichever has the sorted keys in the end. */
static ls_status sort_tokens(const int32_t *ids, key *a, key *b, int64_t n, void *stream, const key **sorted) {
    LS_TRY(launch("embedding_grad", stream, ls_ceil_div(n, (int64_t)TILE), 0, sort_tiles, ids, a, n));
    for (int64_t length = TILE; length < n; length *= 2) {
        LS_TRY(launch("embedding_grad", stream, blocks_for(n), 0, merge_runs, (const key *)a, b, n, length));
        key *const next = b;
        b = a;
        a = next;
    }
    *sorted = a;
    return ls_ok();
}

/* --- the sums ----------------------------------------------------------------------------------------------------- */

struct sorted_tokens {
    const key *keys;
    int64_t n, parts, E, padding;
    __device__ int64_t start(int64_t part) const { return n * part / parts; }
    /* Whether the first tokens of the part have the id of the last ones of the part before. */
    __device__ bool has_head(int64_t part) const {
        return part > 0 && id_of(keys[start(part) - 1]) == id_of(keys[start(part)]);
    }
};

/* A thread's part and the first of its N columns. The grid has blocks over the columns for each part. */
struct work {
    int64_t part, e;
};
template <int N> static __device__ __forceinline__ work work_of(const sorted_tokens &t) {
    const int64_t across = gridDim.x / t.parts;
    return {blockIdx.x / across, (blockIdx.x % across * CUDA_THREADS + threadIdx.x) * N};
}

template <int N> static __device__ __forceinline__ void add_to(float *p, const pack<float, N> &values) {
    pack<float, N> sum = load_pack<N>(p);
#pragma unroll
    for (int k = 0; k < N; k++) sum.at[k] += values.at[k];
    store_pack<N>(p, sum);
}

template <typename T, int N>
static __global__ void __launch_bounds__(CUDA_THREADS)
    sum_ids(sorted_tokens t, const T *dy, float *dtable, float *heads) {
    const work w = work_of<N>(t);
    if (w.e >= t.E) return;
    bool head = t.has_head(w.part);
    pack<float, N> sum = {};
    for (int64_t i = t.start(w.part), past = t.start(w.part + 1); i < past; i++) {
        const int64_t id = id_of(t.keys[i]);
        const pack<float, N> row = load_floats<N>(dy + token_of(t.keys[i]) * t.E + w.e);
#pragma unroll
        for (int k = 0; k < N; k++) sum.at[k] += row.at[k];
        if (i + 1 < past && id_of(t.keys[i + 1]) == id) continue;
        if (head)
            store_pack<N>(heads + w.part * t.E + w.e, sum);
        else if (id != t.padding && !is_elsewhere(id))
            add_to<N>(dtable + id * t.E + w.e, sum);
        head = false;
        sum = {};
    }
}

/* The first part with a head of an id adds all heads of that id. */
template <int N>
static __global__ void __launch_bounds__(CUDA_THREADS) add_heads(sorted_tokens t, const float *heads, float *dtable) {
    const work w = work_of<N>(t);
    if (w.e >= t.E || !t.has_head(w.part)) return;
    const int64_t id = id_of(t.keys[t.start(w.part)]);
    const bool another_before = t.has_head(w.part - 1) && id_of(t.keys[t.start(w.part - 1)]) == id;
    if (another_before || id == t.padding || is_elsewhere(id)) return;
    pack<float, N> sum = {};
    for (int64_t part = w.part; part < t.parts && id_of(t.keys[t.start(part)]) == id; part++)
        add_to<N>(sum.at, load_pack<N>(heads + part * t.E + w.e));
    add_to<N>(dtable + id * t.E + w.e, sum);
}

template <typename T, int N>
static ls_status launch_sums(const sorted_tokens &t, const T *dy, float *dtable, float *heads, void *stream) {
    const int64_t blocks = t.parts * ls_ceil_div(t.E, (int64_t)N * CUDA_THREADS);
    LS_TRY(launch("embedding_grad", stream, blocks, 0, sum_ids<T, N>, t, dy, dtable, heads));
    if (t.parts == 1) return ls_ok();
    return launch("embedding_grad", stream, blocks, 0, add_heads<N>, t, (const float *)heads, dtable);
}

/* Workspace: float heads[parts][E], then two arrays key[n]. */
static size_t heads_bytes(int64_t n, int64_t E) { return ls_round_up(column_workspace(n, E), 64); }
static size_t workspace(const ls_kernel_call *call) {
    const int64_t n = ls_view_elements(&call->in[0]);
    return heads_bytes(n, call->out[0].size[1]) + 2 * sizeof(key) * (size_t)n;
}

template <typename T> static ls_status launch_embedding_grad(const ls_kernel_call *call, void *, void *stream) {
    enum { N = 4 };
    const int64_t n = ls_view_elements(&call->in[0]), E = call->out[0].size[1];
    const T *dy = input<T>(call, 1);
    float *dtable = output<float>(call, 0), *heads = (float *)call->workspace;
    key *const keys = (key *)((char *)call->workspace + heads_bytes(n, E));
    sorted_tokens t = {nullptr, n, count_parts(n), E, ((const ls_embedding_params *)call->params)->padding};
    LS_TRY(sort_tokens(input<int32_t>(call, 0), keys, keys + n, n, stream, &t.keys));
    if (E % N == 0 && is_aligned(dy) && is_aligned(dtable)) return launch_sums<T, N>(t, dy, dtable, heads, stream);
    return launch_sums<T, 1>(t, dy, dtable, heads, stream);
}

CUDA_ROWS(EMBEDDING_GRAD, embedding_grad, launch_embedding_grad, workspace)
