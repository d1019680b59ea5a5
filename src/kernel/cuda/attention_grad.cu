/*
 * The gradient of attention on tensor cores, in two kernels without atomic additions. A block of the first kernel has
 * 128 queries of a head and visits tiles of 32 keys, for dq. A block of the second has 128 keys of a KV head and visits
 * tiles of 32 queries of each query head that reads the KV head, for dk and dv. Both recompute the weights from lse
 * (FlashAttention-2, Dao, arXiv 2307.08691). While a tile is computed, the next one is copied to shared memory.
 */
#include "kernel/cuda/attention_grad.h"

#include <math.h>

/* BLOCKS_AT_ONCE: blocks on a multiprocessor. With more, a thread would have too few registers for its sums. */
static constexpr int ROWS = 16 * CUDA_WARPS, COLUMNS = 32, BLOCKS_AT_ONCE = 1;

/*
 * Shared memory of a block: the block's own rows of two operands (q and do, or k and v), and two stages of tiles of the
 * other two operands; if these are q and do, also the lse and delta of their queries.
 */
template <int D> struct grad_shared {
    bf16 *memory;
    static constexpr size_t bytes() {
        return (size_t)tile<D>::bytes(2 * ROWS + 4 * COLUMNS) + sizeof(float) * 4 * COLUMNS;
    }
    __device__ explicit grad_shared(unsigned char *at) : memory((bf16 *)at) {}
    __device__ bf16 *own(int operand) const { return memory + operand * ROWS * tile<D>::PITCH; }
    __device__ bf16 *tile_of(int stage, int operand) const {
        return memory + (2 * ROWS + (2 * stage + operand) * COLUMNS) * tile<D>::PITCH;
    }
    /* The numbers (number_of) of a tile's queries, then their deltas. */
    __device__ float *numbers(int stage) const { return (float *)tile_of(2, 0) + 2 * stage * COLUMNS; }
};

/*
 * Waits for a tile, then computes the products of 16 of the block's rows with it, for both operands. The copy of the
 * next tile may still be under way.
 */
template <int D>
static __device__ __forceinline__ void multiply_tile(const grad_shared<D> &shared, int stage, int row,
                                                     float x[COLUMNS / 8][4], float dp[COLUMNS / 8][4]) {
    ls_copy_commit();
    ls_copy_wait<1>();
    __syncthreads();
    multiply_rows<D, COLUMNS>(shared.own(0), shared.tile_of(stage, 0), row, x);
    multiply_rows<D, COLUMNS>(shared.own(1), shared.tile_of(stage, 1), row, dp);
}

/*
 * The products of a tile: x, of q and k, become weights; dp, of do and v, become gradients of x. Conditions that are
 * the same for all pairs are tested before the loops. number(n, i), delta(n, i): number_of and delta of the pair's
 * query.
 */
template <typename Number, typename Delta, typename Seen>
static __device__ __forceinline__ void make_gradients(const grad_problem &p, float x[COLUMNS / 8][4],
                                                      float dp[COLUMNS / 8][4], Number number, Delta delta, bool masked,
                                                      Seen is_seen) {
    if (p.softcap > 0) {
        EACH_SUM(COLUMNS / 8, n, i) {
            const float curve = tanhf(p.scale * x[n][i] / p.softcap);
            x[n][i] = p.softcap * curve;
            dp[n][i] = (dp[n][i] - delta(n, i)) * (1 - curve * curve) * p.scale;
        }
    } else {
        EACH_SUM(COLUMNS / 8, n, i) {
            x[n][i] *= p.scale;
            dp[n][i] = (dp[n][i] - delta(n, i)) * p.scale;
        }
    }
    if (masked) {
        EACH_SUM(COLUMNS / 8, n, i) {
            if (is_seen(n, i)) continue;
            x[n][i] = -INFINITY;
            dp[n][i] = 0;
        }
    }
    EACH_SUM(COLUMNS / 8, n, i) {
        x[n][i] = expf(x[n][i] - number(n, i));
        dp[n][i] *= x[n][i];
    }
}

/* --- dq ----------------------------------------------------------------------------------------------------------- */

template <int D>
static __global__ void __launch_bounds__(CUDA_THREADS, BLOCKS_AT_ONCE) grad_of_queries(grad_problem p) {
    LS_DYNAMIC_SHARED(memory);
    const grad_shared<D> shared(memory);
    const int64_t across = (p.see.queries + ROWS - 1) / ROWS;
    const int64_t i = blockIdx.x % across * ROWS, h = blockIdx.x / across % p.H, b = blockIdx.x / across / p.H;
    const int64_t kv = (p.first_q + h) / p.group - p.first_kv;
    const int rows = p.see.queries - i < ROWS ? (int)(p.see.queries - i) : ROWS;
    const int32_t *spans = p.see.spans + (b * p.see.queries + i) * p.see.W;
    const bf16 *k = p.k.at(b, 0, kv), *v = p.v.at(b, 0, kv);
    load_tile<D, ROWS>(shared.own(0), p.q.at(b, 0, h), p.q.token, i, p.see.queries, p.D);
    load_tile<D, ROWS>(shared.own(1), p.dout.at(b, 0, h), p.dout.token, i, p.see.queries, p.E);
    const int row = threadIdx.x / 32 * 16;
    float number[2], delta[2], dq[D / 8][4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        number[half] = number_of(p, b, i + row + pair_row(2 * half), h);
        delta[half] = delta_of(p, b, i + row + pair_row(2 * half), h);
    }
    tile_sight seen = NOTHING, next_seen = NOTHING;
    int64_t at = next_keys<COLUMNS, ROWS>(p.see, spans, rows, 0, &seen);
    if (at < p.see.keys) {
        load_tile<D, COLUMNS>(shared.tile_of(0, 0), k, p.k.token, at, p.see.keys, p.D);
        load_tile<D, COLUMNS>(shared.tile_of(0, 1), v, p.v.token, at, p.see.keys, p.E);
    }
    ls_copy_commit();
    for (int stage = 0; at < p.see.keys; stage ^= 1) {
        const int64_t next = next_keys<COLUMNS, ROWS>(p.see, spans, rows, at + COLUMNS, &next_seen);
        if (next < p.see.keys) {
            load_tile<D, COLUMNS>(shared.tile_of(stage ^ 1, 0), k, p.k.token, next, p.see.keys, p.D);
            load_tile<D, COLUMNS>(shared.tile_of(stage ^ 1, 1), v, p.v.token, next, p.see.keys, p.E);
        }
        float x[COLUMNS / 8][4], dp[COLUMNS / 8][4];
        multiply_tile(shared, stage, row, x, dp);
        const bool masked = seen != EVERYTHING || at + COLUMNS > p.see.keys;
        make_gradients(
            p, x, dp, [&](int, int e) { return number[e / 2]; }, [&](int, int e) { return delta[e / 2]; }, masked,
            [&](int n, int e) { return is_seen(p.see, b, i + row + pair_row(e), at + pair_column(n, e)); });
        add_products<D, COLUMNS>(dq, dp, shared.tile_of(stage, 0));
        __syncthreads(); /* before the tile is overwritten */
        at = next;
        seen = next_seen;
    }
    ls_copy_wait<0>();
    write_rows<D>(dq, 1, p.dq, b, h, i + row, p.see.queries, p.D, p.adds_dq);
}

/* --- dk, dv ------------------------------------------------------------------------------------------------------- */

/* A tile of queries of a head; h past the last head: there is none. */
struct query_tile {
    int64_t h, i;
    tile_sight seen;
};

/* The first tile from `from` on of which some query sees some key at positions low .. high. */
static __device__ __forceinline__ query_tile next_queries(const grad_problem &p, int64_t b, int64_t kv, query_tile from,
                                                          int32_t low, int32_t high) {
    for (; from.h < p.H; from.h++, from.i = 0) {
        if ((p.first_q + from.h) / p.group - p.first_kv != kv) continue;
        for (; from.i < p.see.queries; from.i += COLUMNS) {
            const int n = p.see.queries - from.i < COLUMNS ? (int)(p.see.queries - from.i) : COLUMNS;
            from.seen = look<COLUMNS>(p.see.spans + (b * p.see.queries + from.i) * p.see.W, p.see.W, n, low, high);
            if (from.seen != NOTHING) return from;
        }
    }
    return from;
}

template <int D>
static __device__ __forceinline__ void load_queries(const grad_problem &p, const grad_shared<D> &shared, int stage,
                                                    int64_t b, query_tile t) {
    if (t.h >= p.H) return;
    load_tile<D, COLUMNS>(shared.tile_of(stage, 0), p.q.at(b, 0, t.h), p.q.token, t.i, p.see.queries, p.D);
    load_tile<D, COLUMNS>(shared.tile_of(stage, 1), p.dout.at(b, 0, t.h), p.dout.token, t.i, p.see.queries, p.E);
}

/* The value of a tile's queries that this thread stores for the others: the number of one query, or its delta. */
static __device__ __forceinline__ float own_number(const grad_problem &p, int64_t b, query_tile t) {
    const int64_t query = t.i + threadIdx.x % COLUMNS;
    if (t.h >= p.H || threadIdx.x >= 2 * COLUMNS) return 0;
    return threadIdx.x < COLUMNS ? number_of(p, b, query, t.h) : delta_of(p, b, query, t.h);
}

template <int D> static __global__ void __launch_bounds__(CUDA_THREADS, BLOCKS_AT_ONCE) grad_of_keys(grad_problem p) {
    LS_DYNAMIC_SHARED(memory);
    const grad_shared<D> shared(memory);
    const int64_t across = (p.see.keys + ROWS - 1) / ROWS;
    const int64_t j = blockIdx.x % across * ROWS, kv = blockIdx.x / across % p.J, b = blockIdx.x / across / p.J;
    load_tile<D, ROWS>(shared.own(0), p.k.at(b, 0, kv), p.k.token, j, p.see.keys, p.D);
    load_tile<D, ROWS>(shared.own(1), p.v.at(b, 0, kv), p.v.token, j, p.see.keys, p.E);
    const int row = threadIdx.x / 32 * 16;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    int32_t low, high;
    position_range<ROWS>(p.see.kpos, j, p.see.keys, &low, &high);
    query_tile at = next_queries(p, b, kv, {0, 0, NOTHING}, low, high);
    load_queries(p, shared, 0, b, at);
    if (threadIdx.x < 2 * COLUMNS) shared.numbers(0)[threadIdx.x] = own_number(p, b, at);
    ls_copy_commit();
    for (int stage = 0; at.h < p.H; stage ^= 1) {
        const query_tile next = next_queries(p, b, kv, {at.h, at.i + COLUMNS, NOTHING}, low, high);
        const float *numbers = shared.numbers(stage), of_next = own_number(p, b, next);
        load_queries(p, shared, stage ^ 1, b, next);
        float x[COLUMNS / 8][4], dp[COLUMNS / 8][4];
        multiply_tile(shared, stage, row, x, dp);
        const bool masked = at.seen != EVERYTHING || at.i + COLUMNS > p.see.queries || j + ROWS > p.see.keys;
        make_gradients(
            p, x, dp, [&](int n, int e) { return numbers[pair_column(n, e)]; },
            [&](int n, int e) { return numbers[COLUMNS + pair_column(n, e)]; }, masked,
            [&](int n, int e) { return is_seen(p.see, b, at.i + pair_column(n, e), j + row + pair_row(e)); });
        add_products<D, COLUMNS>(dv, x, shared.tile_of(stage, 1));
        add_products<D, COLUMNS>(dk, dp, shared.tile_of(stage, 0));
        if (threadIdx.x < 2 * COLUMNS) shared.numbers(stage ^ 1)[threadIdx.x] = of_next;
        __syncthreads(); /* before the tile is overwritten */
        at = next;
    }
    ls_copy_wait<0>();
    write_rows<D>(dk, 1, p.dk, b, kv, j + row, p.see.keys, p.D, p.adds_dkv);
    write_rows<D>(dv, 1, p.dv, b, kv, j + row, p.see.keys, p.E, p.adds_dkv);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

static ls_status prepare(const ls_kernel_call *call, void **state) {
    const int64_t D = widest_head(call);
    LS_TRY((cuda_check<LS_KERNEL_ATTENTION_GRAD, LS_BF16>(call, state)));
    return check_shared("attention_grad", D <= 64    ? grad_shared<64>::bytes()
                                          : D <= 128 ? grad_shared<128>::bytes()
                                                     : grad_shared<256>::bytes());
}

template <int D> static ls_status launch_for(const grad_problem &p, void *stream) {
    LS_TRY(allow_shared("attention_grad", grad_of_queries<D>));
    LS_TRY(allow_shared("attention_grad", grad_of_keys<D>));
    LS_TRY(launch("attention_grad", stream, ls_ceil_div(p.see.queries, (int64_t)ROWS) * p.H * p.B,
                  grad_shared<D>::bytes(), grad_of_queries<D>, p));
    return launch("attention_grad", stream, ls_ceil_div(p.see.keys, (int64_t)ROWS) * p.J * p.B, grad_shared<D>::bytes(),
                  grad_of_keys<D>, p);
}

static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const grad_problem p = grad_problem_of(call);
    const int64_t D = widest_head(call);
    if (D <= 64) return launch_for<64>(p, stream);
    return D <= 128 ? launch_for<128>(p, stream) : launch_for<256>(p, stream);
}

CUDA_ROW_OF(ls_cuda_bf16_attention_grad, ATTENTION_GRAD, LS_BF16, launch_grad, nullptr, grad_fits_tiles, prepare, true)
