/*
 * The gradient of attention on tensor cores, in two kernels without atomic additions: a block of the one has 128
 * queries of a head and goes over tiles of 32 keys for dq, a block of the other has 128 keys of a KV head and goes over
 * tiles of 32 queries of each of its query heads for dk and dv. Both make the weights again from lse (FlashAttention-2,
 * Dao, arXiv 2307.08691). While a tile is worked on, the next one is on its way to shared memory.
 */
#include "kernel/cuda/attention_problem.h"
#include "kernel/cuda/attention_tiles.h"

#include <math.h>

static constexpr int ROWS = 16 * CUDA_WARPS, COLUMNS = 32;

struct grad_problem {
    heads<const bf16> q, k, v, dout;
    heads<const float> lse, delta;
    heads<float> dq, dk, dv;
    sight see;
    int H, J, D, group, first_q, first_kv;
    bool adds_dq, adds_dkv;
    float scale, softcap;
};

/*
 * Shared memory of a block: its own rows of two operands (queries and gradients of results, or keys and values), and
 * two stages of tiles of the others. Of the queries of a tile, or of the block, their numbers.
 */
template <int D> struct grad_shared {
    bf16 *own[2], *tile_of[2][2]; /* [stage][operand] */
    static constexpr size_t bytes() { return (size_t)tile<D>::bytes(2 * ROWS + 4 * COLUMNS); }
    __device__ explicit grad_shared(unsigned char *memory) {
        bf16 *at = (bf16 *)memory;
        for (int o = 0; o < 2; o++) own[o] = at + o * ROWS * tile<D>::PITCH;
        at += 2 * ROWS * tile<D>::PITCH;
        for (int t = 0; t < 4; t++) tile_of[t / 2][t % 2] = at + t * COLUMNS * tile<D>::PITCH;
    }
};

/*
 * The products of 16 of the block's rows with a tile, of both operands, when the tile is there; the next one may be on
 * its way.
 */
template <int D>
static __device__ __forceinline__ void multiply_tile(const grad_shared<D> &shared, int stage, int row,
                                                     float x[COLUMNS / 8][4], float dp[COLUMNS / 8][4]) {
    ls_copy_commit();
    ls_copy_wait<1>();
    __syncthreads();
    multiply_rows<D, COLUMNS>(shared.own[0], shared.tile_of[stage][0], row, x);
    multiply_rows<D, COLUMNS>(shared.own[1], shared.tile_of[stage][1], row, dp);
}

/* One of the pairs that a thread has of products of 16 rows with COLUMNS: its row and column. */
static __device__ __forceinline__ int pair_row(int i) { return threadIdx.x % 32 / 4 + i / 2 * 8; }
static __device__ __forceinline__ int pair_column(int n, int i) { return 8 * n + 2 * (int)(threadIdx.x % 4) + i % 2; }

/* Writes 16 rows of sums, from row `first` on, of which there are n in all. */
template <int D>
static __device__ __forceinline__ void write_rows(const float sum[D / 8][4], heads<float> to, int64_t b, int64_t h,
                                                  int64_t first, int64_t n_rows, int d_of_head, bool adds) {
    for (int i = 0; i < 4; i++) {
        const int64_t row = first + pair_row(i);
        if (row >= n_rows) continue;
        float *at = to.at(b, row, h);
        for (int n = 0; n < D / 8; n++) {
            const int d = pair_column(n, i);
            if (d < d_of_head) at[d] = (adds ? at[d] : 0) + sum[n][i];
        }
    }
}

/* Whether the query sees the key; neither needs to be there. */
static __device__ __forceinline__ bool is_seen(const sight &see, int64_t b, int64_t query, int64_t key) {
    return query < see.queries && key < see.keys &&
           sees(see.spans + (b * see.queries + query) * see.W, see.W, see.kpos[key]);
}

/* --- dq ----------------------------------------------------------------------------------------------------------- */

template <int D> static __global__ void __launch_bounds__(CUDA_THREADS) grad_of_queries(grad_problem p) {
    LS_DYNAMIC_SHARED(memory);
    const grad_shared<D> shared(memory);
    const int64_t across = (p.see.queries + ROWS - 1) / ROWS;
    const int64_t i = blockIdx.x % across * ROWS, h = blockIdx.x / across % p.H, b = blockIdx.x / across / p.H;
    const int64_t kv = (p.first_q + h) / p.group - p.first_kv;
    const int n = p.see.queries - i < ROWS ? (int)(p.see.queries - i) : ROWS;
    const int32_t *spans = p.see.spans + (b * p.see.queries + i) * p.see.W;
    const bf16 *k = p.k.at(b, 0, kv), *v = p.v.at(b, 0, kv);
    load_tile<D, ROWS>(shared.own[0], p.q.at(b, 0, h), p.q.token, i, p.see.queries, p.D);
    load_tile<D, ROWS>(shared.own[1], p.dout.at(b, 0, h), p.dout.token, i, p.see.queries, p.D);
    const int row = threadIdx.x / 32 * 16;
    float lse[2], delta[2], dq[D / 8][4] = {};
    for (int half = 0; half < 2; half++) {
        const int64_t query = i + row + pair_row(2 * half);
        lse[half] = query < p.see.queries ? *p.lse.at(b, query, h) : -INFINITY;
        delta[half] = query < p.see.queries ? *p.delta.at(b, query, h) : 0;
    }
    tile_sight seen = NOTHING, next_seen = NOTHING;
    int64_t at = next_keys<COLUMNS, ROWS>(p.see, spans, n, 0, &seen);
    if (at < p.see.keys) {
        load_tile<D, COLUMNS>(shared.tile_of[0][0], k, p.k.token, at, p.see.keys, p.D);
        load_tile<D, COLUMNS>(shared.tile_of[0][1], v, p.v.token, at, p.see.keys, p.D);
    }
    ls_copy_commit();
    for (int stage = 0; at < p.see.keys; stage ^= 1) {
        const int64_t next = next_keys<COLUMNS, ROWS>(p.see, spans, n, at + COLUMNS, &next_seen);
        if (next < p.see.keys) {
            load_tile<D, COLUMNS>(shared.tile_of[stage ^ 1][0], k, p.k.token, next, p.see.keys, p.D);
            load_tile<D, COLUMNS>(shared.tile_of[stage ^ 1][1], v, p.v.token, next, p.see.keys, p.D);
        }
        float x[COLUMNS / 8][4], dp[COLUMNS / 8][4];
        multiply_tile(shared, stage, row, x, dp);
        const bool masked = seen != EVERYTHING || at + COLUMNS > p.see.keys;
        for (int c = 0; c < COLUMNS / 8; c++) {
            for (int e = 0; e < 4; e++) {
                const bool is = !masked || is_seen(p.see, b, i + row + pair_row(e), at + pair_column(c, e));
                x[c][e] = is ? pair_of(x[c][e], dp[c][e], lse[e / 2], delta[e / 2], p.scale, p.softcap).dproduct : 0;
            }
        }
        add_products<D, COLUMNS>(dq, x, shared.tile_of[stage][0]);
        __syncthreads(); /* before the tile is overwritten */
        at = next;
        seen = next_seen;
    }
    ls_copy_wait<0>();
    write_rows<D>(dq, p.dq, b, h, i + row, p.see.queries, p.D, p.adds_dq);
}

/* --- dk, dv ------------------------------------------------------------------------------------------------------- */

/* A tile of queries of a head; h past the last head: there is none. */
struct query_tile {
    int64_t h, i;
    tile_sight seen;
};

/* The next one from there on of which some query sees some key at positions low .. high. */
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
    load_tile<D, COLUMNS>(shared.tile_of[stage][0], p.q.at(b, 0, t.h), p.q.token, t.i, p.see.queries, p.D);
    load_tile<D, COLUMNS>(shared.tile_of[stage][1], p.dout.at(b, 0, t.h), p.dout.token, t.i, p.see.queries, p.D);
}

template <int D> static __global__ void __launch_bounds__(CUDA_THREADS) grad_of_keys(grad_problem p) {
    LS_DYNAMIC_SHARED(memory);
    const grad_shared<D> shared(memory);
    const int64_t across = (p.see.keys + ROWS - 1) / ROWS;
    const int64_t j = blockIdx.x % across * ROWS, kv = blockIdx.x / across % p.J, b = blockIdx.x / across / p.J;
    load_tile<D, ROWS>(shared.own[0], p.k.at(b, 0, kv), p.k.token, j, p.see.keys, p.D);
    load_tile<D, ROWS>(shared.own[1], p.v.at(b, 0, kv), p.v.token, j, p.see.keys, p.D);
    const int row = threadIdx.x / 32 * 16;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    int32_t low, high;
    position_range<ROWS>(p.see.kpos, j, p.see.keys, &low, &high);
    query_tile at = next_queries(p, b, kv, {0, 0, NOTHING}, low, high);
    load_queries(p, shared, 0, b, at);
    ls_copy_commit();
    for (int stage = 0; at.h < p.H; stage ^= 1) {
        const query_tile next = next_queries(p, b, kv, {at.h, at.i + COLUMNS, NOTHING}, low, high);
        load_queries(p, shared, stage ^ 1, b, next);
        float x[COLUMNS / 8][4], dp[COLUMNS / 8][4];
        multiply_tile(shared, stage, row, x, dp);
        const bool masked = at.seen != EVERYTHING || at.i + COLUMNS > p.see.queries || j + ROWS > p.see.keys;
        for (int c = 0; c < COLUMNS / 8; c++) {
            for (int e = 0; e < 4; e++) {
                const int64_t query = at.i + pair_column(c, e);
                const bool is = !masked || is_seen(p.see, b, query, j + row + pair_row(e));
                const pair_gradient g = is ? pair_of(x[c][e], dp[c][e], *p.lse.at(b, query, at.h),
                                                     *p.delta.at(b, query, at.h), p.scale, p.softcap)
                                           : pair_gradient{0, 0};
                x[c][e] = g.weight;
                dp[c][e] = g.dproduct;
            }
        }
        add_products<D, COLUMNS>(dv, x, shared.tile_of[stage][1]);
        add_products<D, COLUMNS>(dk, dp, shared.tile_of[stage][0]);
        __syncthreads(); /* before the tile is overwritten */
        at = next;
    }
    ls_copy_wait<0>();
    write_rows<D>(dk, p.dk, b, kv, j + row, p.see.keys, p.D, p.adds_dkv);
    write_rows<D>(dv, p.dv, b, kv, j + row, p.see.keys, p.D, p.adds_dkv);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

static bool supports(const ls_kernel_call *call) {
    bool fits = fits_tiles(&call->in[5]);
    for (int i = 0; i < 3; i++) fits &= fits_tiles(&call->in[i]) && call->out[i].stride[3] == 1;
    return fits;
}

template <int D> static ls_status launch_for(const grad_problem &p, int64_t B, void *stream) {
    LS_TRY(allow_shared("attention_grad", grad_of_queries<D>, grad_shared<D>::bytes()));
    LS_TRY(allow_shared("attention_grad", grad_of_keys<D>, grad_shared<D>::bytes()));
    LS_TRY(launch("attention_grad", stream, ls_ceil_div(p.see.queries, (int64_t)ROWS) * p.H * B,
                  grad_shared<D>::bytes(), grad_of_queries<D>, p));
    return launch("attention_grad", stream, ls_ceil_div(p.see.keys, (int64_t)ROWS) * p.J * B, grad_shared<D>::bytes(),
                  grad_of_keys<D>, p);
}

static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    const ls_view *q = &call->in[0];
    const grad_problem p = {.q = heads_of<const bf16>(q),
                            .k = heads_of<const bf16>(&call->in[1]),
                            .v = heads_of<const bf16>(&call->in[2]),
                            .dout = heads_of<const bf16>(&call->in[5]),
                            .lse = rows_of_heads<const float>(&call->in[6]),
                            .delta = rows_of_heads<const float>(&call->in[7]),
                            .dq = heads_of<float>(&call->out[0]),
                            .dk = heads_of<float>(&call->out[1]),
                            .dv = heads_of<float>(&call->out[2]),
                            .see = sight_of(call),
                            .H = (int)q->size[2],
                            .J = (int)call->in[1].size[2],
                            .D = (int)q->size[3],
                            .group = params->group,
                            .first_q = params->first_q,
                            .first_kv = params->first_kv,
                            .adds_dq = params->accumulate_dq,
                            .adds_dkv = params->accumulate_dkv,
                            .scale = (float)params->scale,
                            .softcap = (float)params->softcap};
    const int64_t B = q->size[0];
    if (p.D <= 64) return launch_for<64>(p, B, stream);
    return p.D <= 128 ? launch_for<128>(p, B, stream) : launch_for<256>(p, B, stream);
}

CUDA_ROW_FOR(ls_cuda_bf16_attention_grad, ATTENTION_GRAD, LS_BF16, launch_grad, nullptr, supports)
