/*
 * The gradient of attention by warp-group products (compute capability 9.0), in two kernels without atomic additions,
 * as in attention_grad.cu. A block has 128 rows of its own, 64 for each of its two warp groups. In the first kernel the
 * rows are queries, and a block visits tiles of 128 keys, for dq. In the second the rows are keys, and a block visits
 * tiles of 64 queries of each query head, for dk and dv. So the weights and their gradients, which a thread computes
 * from the sums of a tile's first two products, are already in registers as the left operands of the other products.
 *
 * While a tile is computed, the next one is copied to shared memory. Products are begun as soon as their operands are
 * there, and waited for as late as possible, so that a warp group computes exponentials while products of both groups
 * run.
 */
#include "kernel/cuda/attention_grad.h"
#include "kernel/cuda/attention_outline.h"
#include "kernel/cuda/tiles_sm90.h"

#include <math.h>

static constexpr int GROUP_THREADS = 128, GROUP_ROWS = 64, ROWS = CUDA_THREADS / GROUP_THREADS * GROUP_ROWS,
                     QUERIES = OUTLINE_QUERIES, KEYS = RANGE_KEYS;
static_assert(ROWS == RANGE_KEYS && ROWS == 2 * OUTLINE_QUERIES);
static constexpr float LOG2_E = 1.44269504088896341F;

/* Logits in units of log2 are factor * product, or with a soft cap most * tanh(factor * product). */
struct sm90_problem {
    grad_problem of;
    outlines seen;
    float factor, most;
};

/*
 * Shared memory of a block: the block's own rows of two operands (q and do, or k and v), and two stages of tiles of the
 * other two operands; if these are q and do, also the lse and delta of their queries.
 */
template <int D, int COLUMNS> struct grad_shared {
    bf16 *memory;
    static constexpr size_t bytes() {
        return sizeof(bf16) * (2 * ROWS + 4 * COLUMNS) * D + sizeof(float) * 4 * QUERIES;
    }
    __device__ explicit grad_shared(unsigned char *at) : memory((bf16 *)at) {}
    __device__ bf16 *own(int operand) const { return memory + operand * ROWS * D; }
    __device__ bf16 *tile_of(int stage, int operand) const {
        return memory + (2 * ROWS + (2 * stage + operand) * COLUMNS) * D;
    }
    /* The numbers (number_of) of a tile's queries, then their deltas. */
    __device__ float *numbers(int stage) const { return (float *)tile_of(2, 0) + 2 * stage * QUERIES; }
};

/* The first row of the thread's warp among the block's own rows. */
static __device__ __forceinline__ int warp_row() { return (int)threadIdx.x / 32 * 16; }

/* --- warp-group products ------------------------------------------------------------------------------------------ */

/* Begins x = the group's rows times those of a tile. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void begin_products(float (&x)[COLUMNS / 8][4], const bf16 *own, const bf16 *tile) {
    const int row = (int)threadIdx.x / GROUP_THREADS * GROUP_ROWS;
    __syncwarp(); /* all lanes of a warp must execute these instructions together */
    ls_products_fence(x);
    const uint64_t a = summed_elements<ROWS>(own, row, 0), b = summed_elements<COLUMNS>(tile, 0, 0);
#pragma unroll
    for (int d = 0; d < D; d += 16)
        ls_multiply<LS_SUMMED_SIDE_BY_SIDE, LS_SUMMED_SIDE_BY_SIDE>(x, further(a, element_bytes<ROWS>(d)),
                                                                    further(b, element_bytes<COLUMNS>(d)), d > 0);
    ls_products_commit();
}

/* a = x rounded to bf16, in the layout of the left operand of begin_sums. */
template <int N> static __device__ __forceinline__ void pack_rows(unsigned (&a)[N / 2][4], const float (&x)[N][4]) {
#pragma unroll
    for (int c = 0; c < N / 2; c++) {
        const float *low = x[2 * c], *high = x[2 * c + 1];
        a[c][0] = pack(low[0], low[1]);
        a[c][1] = pack(low[2], low[3]);
        a[c][2] = pack(high[0], high[1]);
        a[c][3] = pack(high[2], high[3]);
    }
}

/* Begins sum += a times a tile; row c of the tile is multiplied by column c of a. */
template <int D, int COLUMNS>
static __device__ __forceinline__ void begin_sums(float (&sum)[D / 8][4], unsigned (&a)[COLUMNS / 16][4],
                                                  const bf16 *tile) {
    __syncwarp(); /* as above: lanes may have made a by different branches */
    ls_products_fence(sum, a);
    const uint64_t b = summed_rows<COLUMNS>(tile, 0, 0);
#pragma unroll
    for (int c = 0; c < COLUMNS / 16; c++)
        ls_multiply<LS_OTHERS_SIDE_BY_SIDE>(sum, a[c], further(b, 16 * c * ROW_BYTES), true);
    ls_products_commit();
}

/* Waits for x; BOTH: also for dp, whose product was begun after that of x. */
template <bool BOTH, int N>
static __device__ __forceinline__ void wait_for_products(float (&x)[N][4], float (&dp)[N][4]) {
    __syncwarp(); /* as above: lanes may have looked for different pairs */
    if constexpr (BOTH)
        ls_products_wait<0>(x, dp);
    else
        ls_products_wait<1>(x);
}

/* Waits until all warps are here and the tile requested last is visible to all of them. */
static __device__ __forceinline__ void await_tile() {
    ls_copy_wait<0>();
    ls_shared_fence();
    __syncthreads();
}

/* --- weights and gradients ---------------------------------------------------------------------------------------- */

/* The pairs of a thread whose query does not see the key: bit 4 (n % 8) + i of word n / 8. */
template <int WORDS, typename Seen>
static __device__ __forceinline__ void find_hidden(unsigned (&hidden)[WORDS], Seen is_seen) {
#pragma unroll
    for (int word = 0; word < WORDS; word++) {
#pragma unroll 4
        for (int e = 0; e < 32; e++) hidden[word] |= (unsigned)!is_seen(8 * word + e / 4, e % 4) << e;
    }
}
template <int N> static __device__ __forceinline__ void hide(float (&x)[N][4], const unsigned (&hidden)[N / 8]) {
    EACH_SUM(N, n, i) {
        if (hidden[n / 8] >> (4 * (n % 8) + i) & 1U) x[n][i] = 0;
    }
}

/*
 * x, the products of q and k, which must be complete, become weights. number(n, i), delta(n, i): number_of, in units of
 * log2, and delta of the pair's query. With a soft cap, dp, the product of do and v, becomes the gradient of x divided
 * by the weight and the scale; without one, make_gradients does this.
 */
template <bool CAPPED, int N, typename Number, typename Delta>
static __device__ __forceinline__ void make_weights(const sm90_problem &p, float (&x)[N][4], float (&dp)[N][4],
                                                    Number number, Delta delta) {
    if constexpr (CAPPED) {
        EACH_SUM(N, n, i) x[n][i] = tanhf(p.factor * x[n][i]);
        EACH_SUM(N, n, i) dp[n][i] = (dp[n][i] - delta(n, i)) * (1 - x[n][i] * x[n][i]);
        EACH_SUM(N, n, i) x[n][i] = ls_exp2(p.most * x[n][i] - number(n, i));
    } else {
        EACH_SUM(N, n, i) x[n][i] = ls_exp2(p.factor * x[n][i] - number(n, i));
    }
}

/* dp becomes the gradient of the products of q and k, without the factor p.scale: the sums are multiplied by it. */
template <bool CAPPED, int N, typename Delta>
static __device__ __forceinline__ void make_gradients(float (&dp)[N][4], const float (&weights)[N][4], Delta delta) {
    EACH_SUM(N, n, i) dp[n][i] = weights[n][i] * (CAPPED ? dp[n][i] : dp[n][i] - delta(n, i));
}

/* --- dq ----------------------------------------------------------------------------------------------------------- */

template <int D>
static __device__ __forceinline__ void load_keys(const grad_problem &p, const grad_shared<D, KEYS> &shared, int stage,
                                                 int b, int kv, int64_t key) {
    load_panels<D, KEYS>(shared.tile_of(stage, 0), p.k.at(b, 0, kv), p.k.token, key, p.see.keys, p.D);
    load_panels<D, KEYS>(shared.tile_of(stage, 1), p.v.at(b, 0, kv), p.v.token, key, p.see.keys, p.E);
}

template <int D, bool CAPPED>
static __device__ __forceinline__ void make_dq(const sm90_problem &problem, unsigned char *memory) {
    const grad_problem &p = problem.of;
    const grad_shared<D, KEYS> shared(memory);
    /* with a causal mask the last queries see the most keys, so they begin first */
    const int heads = p.B * p.H, block = (int)(gridDim.x - 1 - blockIdx.x), h = block % heads % p.H,
              b = block % heads / p.H, kv = (p.first_q + h) / p.group - p.first_kv;
    const int64_t i = (int64_t)(block / heads) * ROWS;
    const int tiles = (int)((p.see.keys + KEYS - 1) / KEYS);
    const auto look = looks_at_keys(p.see, problem.seen, b, i);
    load_panels<D, ROWS>(shared.own(0), p.q.at(b, 0, h), p.q.token, i, p.see.queries, p.D);
    load_panels<D, ROWS>(shared.own(1), p.dout.at(b, 0, h), p.dout.token, i, p.see.queries, p.E);
    float number[2], delta[2], dq[D / 8][4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        number[half] = number_of(p, b, i + warp_row() + pair_row(2 * half), h) * LOG2_E;
        delta[half] = delta_of(p, b, i + warp_row() + pair_row(2 * half), h);
    }
    tile_cursor at = BEFORE_TILES;
    bool goes_on = next_tile(&at, tiles, look);
    if (goes_on) load_keys<D>(p, shared, 0, b, kv, (int64_t)at.tile() * KEYS);
    ls_copy_commit();
    for (int stage = 0; goes_on; stage ^= 1) {
        await_tile();
        float x[KEYS / 8][4], dp[KEYS / 8][4];
        begin_products<D, KEYS>(x, shared.own(0), shared.tile_of(stage, 0));
        begin_products<D, KEYS>(dp, shared.own(1), shared.tile_of(stage, 1));
        const int64_t key = (int64_t)at.tile() * KEYS;
        const bool masked = !at.is_whole() || key + KEYS > p.see.keys;
        unsigned hidden[KEYS / 64] = {};
        if (masked)
            find_hidden(hidden, [&](int n, int e) {
                return is_seen(p.see, b, i + warp_row() + pair_row(e), key + pair_column(n, e));
            });
        goes_on = next_tile(&at, tiles, look);
        if (goes_on) load_keys<D>(p, shared, stage ^ 1, b, kv, (int64_t)at.tile() * KEYS);
        ls_copy_commit();
        wait_for_products<CAPPED>(x, dp);
        const auto delta_at = [&](int, int e) { return delta[e / 2]; };
        make_weights<CAPPED>(
            problem, x, dp, [&](int, int e) { return number[e / 2]; }, delta_at);
        ls_products_wait<0>(dp);
        make_gradients<CAPPED>(dp, x, delta_at);
        if (masked) hide(dp, hidden);
        unsigned ds[KEYS / 16][4];
        pack_rows(ds, dp);
        begin_sums<D, KEYS>(dq, ds, shared.tile_of(stage, 0));
        ls_products_wait<0>(dq, ds);
    }
    ls_copy_wait<0>();
    write_rows<D>(dq, p.scale, p.dq, b, h, i + warp_row(), p.see.queries, p.D, p.adds_dq);
}

/* --- dk, dv ------------------------------------------------------------------------------------------------------- */

/* A tile of queries of head h; the heads to visit end with past - 1. */
struct query_cursor {
    int h, past;
    tile_cursor tiles;
    __device__ __forceinline__ int64_t query() const { return (int64_t)tiles.tile() * QUERIES; }
};

/* A cursor in front of the first tile of the query heads that read a KV head. */
static __device__ __forceinline__ query_cursor before_queries(const grad_problem &p, int kv) {
    const int first = (p.first_kv + kv) * p.group - p.first_q, past = first + p.group;
    return {first < 0 ? 0 : first, past < p.H ? past : p.H, BEFORE_TILES};
}

/* Goes on to the next tile of which some query sees some of the keys; false: there is none. */
static __device__ __forceinline__ bool next_queries(const sm90_problem &problem, query_cursor *c, int b,
                                                    const key_range *keys) {
    const sight &see = problem.of.see;
    const int tiles = (int)((see.queries + QUERIES - 1) / QUERIES);
    for (; c->h < c->past; c->h++, c->tiles = BEFORE_TILES) {
        if (next_tile(&c->tiles, tiles, [&](int t) {
                return look_at(problem.seen.queries + ((int64_t)b * tiles + t) * (see.W / 2), see.W, *keys);
            }))
            return true;
    }
    return false;
}

template <int D>
static __device__ __forceinline__ void load_queries(const grad_problem &p, const grad_shared<D, QUERIES> &shared,
                                                    int stage, int b, int h, int64_t query) {
    load_panels<D, QUERIES>(shared.tile_of(stage, 0), p.q.at(b, 0, h), p.q.token, query, p.see.queries, p.D);
    load_panels<D, QUERIES>(shared.tile_of(stage, 1), p.dout.at(b, 0, h), p.dout.token, query, p.see.queries, p.E);
}

/* The value of a tile's queries that this thread stores for the others: the number of one query, or its delta. */
static __device__ __forceinline__ float own_number(const grad_problem &p, int b, int h, int64_t query) {
    query += threadIdx.x % QUERIES;
    return threadIdx.x < QUERIES ? number_of(p, b, query, h) * LOG2_E : delta_of(p, b, query, h);
}
static __device__ __forceinline__ void keep_number(float *numbers, float own) {
    if (threadIdx.x < 2 * QUERIES) numbers[threadIdx.x] = own;
}
/* The stored value of the query of pair (n, i). */
static __device__ __forceinline__ float number_at(const float *numbers, int n, int i) {
    const float2 two = ((const float2 *)numbers)[4 * n + threadIdx.x % 4];
    return i % 2 ? two.y : two.x;
}

template <int D, bool CAPPED>
static __device__ __forceinline__ void make_dkv(const sm90_problem &problem, unsigned char *memory) {
    const grad_problem &p = problem.of;
    const grad_shared<D, QUERIES> shared(memory);
    /* with a causal mask the most queries see the first keys, so they begin first */
    const int heads = p.B * p.J, block = (int)blockIdx.x, tile = block / heads, kv = block % heads % p.J,
              b = block % heads / p.J;
    const int64_t j = (int64_t)tile * ROWS;
    const key_range *own = problem.seen.keys + tile;
    load_panels<D, ROWS>(shared.own(0), p.k.at(b, 0, kv), p.k.token, j, p.see.keys, p.D);
    load_panels<D, ROWS>(shared.own(1), p.v.at(b, 0, kv), p.v.token, j, p.see.keys, p.E);
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    query_cursor at = before_queries(p, kv);
    bool goes_on = next_queries(problem, &at, b, own);
    if (goes_on) {
        load_queries<D>(p, shared, 0, b, at.h, at.query());
        keep_number(shared.numbers(0), own_number(p, b, at.h, at.query()));
    }
    ls_copy_commit();
    for (int stage = 0; goes_on; stage ^= 1) {
        await_tile();
        float x[QUERIES / 8][4], dp[QUERIES / 8][4];
        begin_products<D, QUERIES>(x, shared.own(0), shared.tile_of(stage, 0));
        begin_products<D, QUERIES>(dp, shared.own(1), shared.tile_of(stage, 1));
        const int64_t query = at.query();
        const bool masked = !at.tiles.is_whole() || query + QUERIES > p.see.queries || j + ROWS > p.see.keys;
        unsigned hidden[QUERIES / 64] = {};
        if (masked)
            find_hidden(hidden, [&](int n, int e) {
                return is_seen(p.see, b, query + pair_column(n, e), j + warp_row() + pair_row(e));
            });
        goes_on = next_queries(problem, &at, b, own);
        float of_next = 0;
        if (goes_on) {
            load_queries<D>(p, shared, stage ^ 1, b, at.h, at.query());
            of_next = own_number(p, b, at.h, at.query());
        }
        ls_copy_commit();
        wait_for_products<CAPPED>(x, dp);
        const float *numbers = shared.numbers(stage), *deltas = numbers + QUERIES;
        const auto delta_at = [&](int n, int e) { return number_at(deltas, n, e); };
        make_weights<CAPPED>(
            problem, x, dp, [&](int n, int e) { return number_at(numbers, n, e); }, delta_at);
        if (masked) hide(x, hidden);
        unsigned weights[QUERIES / 16][4], ds[QUERIES / 16][4];
        pack_rows(weights, x);
        begin_sums<D, QUERIES>(dv, weights, shared.tile_of(stage, 1));
        ls_products_wait<1>(dp);
        make_gradients<CAPPED>(dp, x, delta_at);
        if (masked) hide(dp, hidden);
        pack_rows(ds, dp);
        begin_sums<D, QUERIES>(dk, ds, shared.tile_of(stage, 0));
        keep_number(shared.numbers(stage ^ 1), of_next);
        ls_products_wait<0>(dk, dv, weights, ds);
    }
    ls_copy_wait<0>();
    write_rows<D>(dk, p.scale, p.dk, b, kv, j + warp_row(), p.see.keys, p.D, p.adds_dkv);
    write_rows<D>(dv, 1, p.dv, b, kv, j + warp_row(), p.see.keys, p.E, p.adds_dkv);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

/* A multiprocessor has one block at a time: with more, a thread would have too few registers for its sums. */
template <int D, bool CAPPED>
static __global__ void __launch_bounds__(CUDA_THREADS, 1) grad_of_queries(sm90_problem p) {
    LS_DYNAMIC_SHARED(memory);
    if constexpr (LS_HAS_WARP_GROUPS) make_dq<D, CAPPED>(p, memory);
}
template <int D, bool CAPPED> static __global__ void __launch_bounds__(CUDA_THREADS, 1) grad_of_keys(sm90_problem p) {
    LS_DYNAMIC_SHARED(memory);
    if constexpr (LS_HAS_WARP_GROUPS) make_dkv<D, CAPPED>(p, memory);
}

static bool supports(const ls_kernel_call *call) { return grad_fits_tiles(call) && widest_head(call) <= 128; }

static size_t workspace(const ls_kernel_call *call) { return outlines_bytes(sight_of(call), call->in[0].size[0]); }

static ls_status prepare(const ls_kernel_call *call, void **state) {
    LS_TRY((cuda_check<LS_KERNEL_ATTENTION_GRAD, LS_BF16>(call, state)));
    LS_TRY(check_warp_groups("attention_grad"));
    return check_shared("attention_grad",
                        widest_head(call) <= 64 ? grad_shared<64, KEYS>::bytes() : grad_shared<128, KEYS>::bytes());
}

template <int D, bool CAPPED> static ls_status launch_for(const sm90_problem &p, void *stream) {
    constexpr size_t of_queries = grad_shared<D, KEYS>::bytes(), of_keys = grad_shared<D, QUERIES>::bytes();
    const grad_problem &of = p.of;
    LS_TRY((allow_shared("attention_grad", grad_of_queries<D, CAPPED>)));
    LS_TRY((allow_shared("attention_grad", grad_of_keys<D, CAPPED>)));
    LS_TRY(make_outlines("attention_grad", stream, of.see, of.B, p.seen));
    LS_TRY(launch("attention_grad", stream, ls_ceil_div(of.see.queries, (int64_t)ROWS) * of.H * of.B, of_queries,
                  grad_of_queries<D, CAPPED>, p));
    return launch("attention_grad", stream, ls_ceil_div(of.see.keys, (int64_t)ROWS) * of.J * of.B, of_keys,
                  grad_of_keys<D, CAPPED>, p);
}

static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const grad_problem of = grad_problem_of(call);
    const bool capped = of.softcap > 0;
    const sm90_problem p = {.of = of,
                            .seen = outlines_at(call->workspace, of.see, of.B),
                            .factor = capped ? of.scale / of.softcap : of.scale * LOG2_E,
                            .most = of.softcap * LOG2_E};
    if (widest_head(call) <= 64) return capped ? launch_for<64, true>(p, stream) : launch_for<64, false>(p, stream);
    return capped ? launch_for<128, true>(p, stream) : launch_for<128, false>(p, stream);
}

CUDA_ROW_OF(ls_cuda_bf16_attention_grad_sm90, ATTENTION_GRAD, LS_BF16, launch_grad, workspace, supports, prepare, true)
