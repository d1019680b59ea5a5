/*
 * The parts of attention on whole rows of scores: products of queries and keys, the softmax of rows and its gradient,
 * and the two weighted sums; in f32, the only type that they are called with. Pairs are [B, heads, queries, keys].
 * Factors of 0 are left out of weighted sums, whatever the other factor is, so no kernel for matrix products will do.
 */
#include "kernel/cuda/attention_problem.h"

#include <math.h>

/* --- products of tiles -------------------------------------------------------------------------------------------- */

/* A block computes TILE x TILE sums, a thread those of every LANES-th row and column, in steps of STEP terms. */
static constexpr int TILE = 64, STEP = 16, LANES = 16, EACH_LANE = TILE / LANES;
static constexpr int PITCH = TILE + 2; /* in shared memory: the terms of a line lie in different banks */
static_assert(LANES * LANES == CUDA_THREADS, "a thread for each row and column of lanes");

/* Some rows of the first factor, or columns of the second. Either terms or lines are adjacent (the other one is 1). */
struct lines {
    const float *data;
    int64_t count, line, term; /* how many lines there are; from a line, and from a term, to the next */
};

/* Terms k .. k + STEP - 1 of TILE lines from `first` on; 0 beyond the operand. */
template <bool ADJACENT_TERMS>
static __device__ __forceinline__ void load_step(float to[STEP * PITCH], const lines &x, int64_t terms, int64_t first,
                                                 int64_t k) {
    for (int at = threadIdx.x; at < STEP * TILE; at += CUDA_THREADS) {
        const int l = ADJACENT_TERMS ? at / STEP : at % TILE, e = ADJACENT_TERMS ? at % STEP : at / TILE;
        const bool is = first + l < x.count && k + e < terms;
        to[e * PITCH + l] = is ? x.data[(first + l) * x.line + (k + e) * x.term] : 0;
    }
}

/* The row or column of a tile in which a thread has sum number i. */
static __device__ __forceinline__ int row_of(int i) { return threadIdx.x / LANES + i * LANES; }
static __device__ __forceinline__ int column_of(int i) { return threadIdx.x % LANES + i * LANES; }

/*
 * Adds the products over all terms of the tile from row m and column n on. SKIPS: a factor of a that is 0 contributes
 * nothing. Sums of steps are added in f64: a score of 1e3 must not be off by more than its rounding, and sums over
 * tokens are long.
 */
template <bool A_ADJACENT, bool B_ADJACENT, bool SKIPS>
static __device__ __forceinline__ void add_products(const lines &a, const lines &b, int64_t terms, int64_t m, int64_t n,
                                                    double sum[EACH_LANE][EACH_LANE]) {
    __shared__ float a_tile[STEP * PITCH], b_tile[STEP * PITCH];
    for (int64_t k = 0; k < terms; k += STEP) {
        __syncthreads(); /* all threads have finished the previous step */
        load_step<A_ADJACENT>(a_tile, a, terms, m, k);
        load_step<B_ADJACENT>(b_tile, b, terms, n, k);
        __syncthreads();
        float of_step[EACH_LANE][EACH_LANE] = {};
#pragma unroll
        for (int e = 0; e < STEP; e++) {
#pragma unroll
            for (int i = 0; i < EACH_LANE; i++) {
                const float factor = a_tile[e * PITCH + row_of(i)];
#pragma unroll
                for (int j = 0; j < EACH_LANE; j++)
                    if (!SKIPS || factor != 0) of_step[i][j] += factor * b_tile[e * PITCH + column_of(j)];
            }
        }
#pragma unroll
        for (int i = 0; i < EACH_LANE; i++)
#pragma unroll
            for (int j = 0; j < EACH_LANE; j++) sum[i][j] += of_step[i][j];
    }
}

/* Stores the sums of a tile in rows [M,N] that begin `row` elements apart. */
static __device__ __forceinline__ void store_tile(float *to, int64_t row, int64_t M, int64_t N, int64_t m, int64_t n,
                                                  bool adds, const double sum[EACH_LANE][EACH_LANE]) {
#pragma unroll
    for (int i = 0; i < EACH_LANE; i++)
#pragma unroll
        for (int j = 0; j < EACH_LANE; j++) {
            if (m + row_of(i) >= M || n + column_of(j) >= N) continue;
            float *at = to + (m + row_of(i)) * row + n + column_of(j);
            *at = (float)(adds ? (double)*at + sum[i][j] : sum[i][j]);
        }
}

/* --- the operands ------------------------------------------------------------------------------------------------- */

/* queries: values [B,N,H,D]; keys: values [B,K,J,D]. One of the three is the result. */
struct scores_problem {
    heads<float> pairs, queries, keys;
    int64_t B, H, J, N, K, D;
    int group, first_q, first_kv;
    bool adds;

    __device__ int64_t key_head(int64_t h) const { return (first_q + h) / group - first_kv; }
    /* The first query head that uses key head j or a later one, of those that exist. */
    __device__ int64_t first_user(int64_t j) const {
        const int64_t h = (j + first_kv) * group - first_q;
        return h < 0 ? 0 : h < H ? h : H;
    }
};

static scores_problem problem_of(const ls_kernel_call *call, const ls_view *pairs, const ls_view *queries,
                                 const ls_view *keys) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    return {.pairs = rows_of_heads<float>(pairs),
            .queries = heads_of<float>(queries),
            .keys = heads_of<float>(keys),
            .B = pairs->size[0],
            .H = pairs->size[1],
            .J = keys->size[2],
            .N = pairs->size[2],
            .K = pairs->size[3],
            .D = keys->size[3],
            .group = params->group,
            .first_q = params->first_q,
            .first_kv = params->first_kv,
            .adds = params->accumulate_dq};
}

/* The tile of a block, of the M x N sums of a head of each sequence. */
struct tile_place {
    int64_t b, head, m, n;
};
static __device__ __forceinline__ tile_place place_of_block(int64_t H, int64_t M, int64_t N) {
    const int64_t down = (M + TILE - 1) / TILE, across = (N + TILE - 1) / TILE;
    const int64_t of_head = blockIdx.x % (down * across), head = blockIdx.x / (down * across);
    return {head / H, head % H, of_head / across * TILE, of_head % across * TILE};
}
static int64_t count_tiles(int64_t B, int64_t H, int64_t M, int64_t N) {
    return B * H * ls_ceil_div(M, (int64_t)TILE) * ls_ceil_div(N, (int64_t)TILE);
}

/* --- products and weighted sums ----------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(CUDA_THREADS) multiply(scores_problem p) {
    const tile_place at = place_of_block(p.H, p.N, p.K);
    double sum[EACH_LANE][EACH_LANE] = {};
    add_products<true, true, false>({p.queries.at(at.b, 0, at.head), p.N, p.queries.token, 1},
                                    {p.keys.at(at.b, 0, p.key_head(at.head)), p.K, p.keys.token, 1}, p.D, at.m, at.n,
                                    sum);
    store_tile(p.pairs.at(at.b, 0, at.head), p.pairs.token, p.N, p.K, at.m, at.n, false, sum);
}

static __global__ void __launch_bounds__(CUDA_THREADS) sum_keys(scores_problem p) {
    const tile_place at = place_of_block(p.H, p.N, p.D);
    double sum[EACH_LANE][EACH_LANE] = {};
    add_products<true, false, true>({p.pairs.at(at.b, 0, at.head), p.N, p.pairs.token, 1},
                                    {p.keys.at(at.b, 0, p.key_head(at.head)), p.D, 1, p.keys.token}, p.K, at.m, at.n,
                                    sum);
    store_tile(p.queries.at(at.b, 0, at.head), p.queries.token, p.N, p.D, at.m, at.n, p.adds, sum);
}

/* Over the query heads that use a key head, one after the other. */
static __global__ void __launch_bounds__(CUDA_THREADS) sum_queries(scores_problem p) {
    const tile_place at = place_of_block(p.J, p.K, p.D);
    double sum[EACH_LANE][EACH_LANE] = {};
    for (int64_t h = p.first_user(at.head); h < p.first_user(at.head + 1); h++)
        add_products<false, false, true>({p.pairs.at(at.b, 0, h), p.K, 1, p.pairs.token},
                                         {p.queries.at(at.b, 0, h), p.D, 1, p.queries.token}, p.N, at.m, at.n, sum);
    store_tile(p.keys.at(at.b, 0, at.head), p.keys.token, p.K, p.D, at.m, at.n, false, sum);
}

static ls_status launch_products(const ls_kernel_call *call, void *, void *stream) {
    const scores_problem p = problem_of(call, &call->out[0], &call->in[0], &call->in[1]);
    return launch("attention_products", stream, count_tiles(p.B, p.H, p.N, p.K), 0, multiply, p);
}

static ls_status launch_weighted(const ls_kernel_call *call, void *, void *stream) {
    const scores_problem p = problem_of(call, &call->in[0], &call->out[0], &call->in[1]);
    return launch("attention_weighted", stream, count_tiles(p.B, p.H, p.N, p.D), 0, sum_keys, p);
}

static ls_status launch_weighted_back(const ls_kernel_call *call, void *, void *stream) {
    const scores_problem p = problem_of(call, &call->in[0], &call->in[1], &call->out[0]);
    return launch("attention_weighted_back", stream, count_tiles(p.B, p.J, p.K, p.D), 0, sum_queries, p);
}

/* --- the softmax -------------------------------------------------------------------------------------------------- */

/* pairs is an input of softmax, and a result of its gradient; lse the other way round. */
struct softmax_problem {
    heads<float> pairs, weights, lse;
    heads<const float> delta;
    sight see;
    int64_t B, H;
    float scale, softcap;
};

static softmax_problem softmax_of(const ls_kernel_call *call, const ls_view *pairs, const ls_view *weights,
                                  const ls_view *lse, const ls_view *spans, const ls_view *kpos) {
    const ls_attention_params *params = (const ls_attention_params *)call->params;
    softmax_problem p = {};
    p.pairs = rows_of_heads<float>(pairs);
    p.weights = rows_of_heads<float>(weights);
    p.lse = rows_of_heads<float>(lse);
    p.see = {(const int32_t *)spans->data, (const int32_t *)kpos->data, (int)spans->size[2], pairs->size[2],
             pairs->size[3]};
    p.B = pairs->size[0];
    p.H = pairs->size[1];
    p.scale = (float)params->scale;
    p.softcap = (float)params->softcap;
    return p;
}

/* A row of pairs, and the spans of its query. */
struct score_row {
    int64_t b, h, i;
    const int32_t *spans;
};
static __device__ __forceinline__ score_row row_at(const softmax_problem &p, int64_t at) {
    const int64_t i = at % p.see.queries, h = at / p.see.queries % p.H, b = at / p.see.queries / p.H;
    return {b, h, i, p.see.spans + (b * p.see.queries + i) * p.see.W};
}

/*
 * A block for each row. A thread first stores the logits of its keys, with -inf for those that are not seen; then their
 * weights. If a logit is NaN, so is the sum, whatever the largest logit is.
 */
static __global__ void __launch_bounds__(CUDA_THREADS) softmax_rows(softmax_problem p) {
    for (int64_t at = blockIdx.x; at < p.B * p.H * p.see.queries; at += gridDim.x) {
        const score_row r = row_at(p, at);
        const float *pairs = p.pairs.at(r.b, r.i, r.h);
        float *weights = p.weights.at(r.b, r.i, r.h), most = -INFINITY, sum = 0;
        for (int64_t j = threadIdx.x; j < p.see.keys; j += CUDA_THREADS) {
            const bool seen = sees(r.spans, p.see.W, p.see.kpos[j]);
            weights[j] = seen ? logit(pairs[j], p.scale, p.softcap) : -INFINITY;
            most = fmaxf(most, weights[j]);
        }
        most = block_max(most);
        for (int64_t j = threadIdx.x; j < p.see.keys; j += CUDA_THREADS) {
            weights[j] = weights[j] == -INFINITY ? 0 : expf(weights[j] - most);
            sum += weights[j];
        }
        sum = block_sum(sum);
        for (int64_t j = threadIdx.x; j < p.see.keys; j += CUDA_THREADS)
            if (weights[j] != 0) weights[j] /= sum;
        if (threadIdx.x == 0) *p.lse.at(r.b, r.i, r.h) = sum == 0 ? -INFINITY : most + logf(sum);
    }
}

/* A block for each row. */
static __global__ void __launch_bounds__(CUDA_THREADS) softmax_gradients(softmax_problem p) {
    for (int64_t at = blockIdx.x; at < p.B * p.H * p.see.queries; at += gridDim.x) {
        const score_row r = row_at(p, at);
        const float lse = *p.lse.at(r.b, r.i, r.h), delta = *p.delta.at(r.b, r.i, r.h);
        float *pairs = p.pairs.at(r.b, r.i, r.h), *weights = p.weights.at(r.b, r.i, r.h);
        for (int64_t j = threadIdx.x; j < p.see.keys; j += CUDA_THREADS) {
            const bool counts = lse != -INFINITY && sees(r.spans, p.see.W, p.see.kpos[j]);
            pair_gradient g = {0, 0};
            if (counts) g = pair_of(pairs[j], weights[j], lse, delta, p.scale, p.softcap);
            pairs[j] = g.dproduct;
            weights[j] = g.weight;
        }
    }
}

static int64_t blocks_of(const softmax_problem &p) { return ls_min(MOST_BLOCKS, p.B * p.H * p.see.queries); }

static ls_status launch_softmax(const ls_kernel_call *call, void *, void *stream) {
    const softmax_problem p = softmax_of(call, &call->in[0], &call->out[0], &call->out[1], &call->in[1], &call->in[2]);
    return launch("attention_softmax", stream, blocks_of(p), 0, softmax_rows, p);
}

static ls_status launch_softmax_grad(const ls_kernel_call *call, void *, void *stream) {
    softmax_problem p = softmax_of(call, &call->out[0], &call->out[1], &call->in[2], &call->in[0], &call->in[1]);
    p.delta = rows_of_heads<const float>(&call->in[3]);
    return launch("attention_softmax_grad", stream, blocks_of(p), 0, softmax_gradients, p);
}

CUDA_ROW(ls_cuda_f32_attention_products, ATTENTION_PRODUCTS, LS_F32, launch_products, nullptr)
CUDA_ROW(ls_cuda_f32_attention_weighted, ATTENTION_WEIGHTED, LS_F32, launch_weighted, nullptr)
CUDA_ROW(ls_cuda_f32_attention_weighted_back, ATTENTION_WEIGHTED_BACK, LS_F32, launch_weighted_back, nullptr)
CUDA_ROW(ls_cuda_f32_attention_softmax, ATTENTION_SOFTMAX, LS_F32, launch_softmax, nullptr)
CUDA_ROW(ls_cuda_f32_attention_softmax_grad, ATTENTION_SOFTMAX_GRAD, LS_F32, launch_softmax_grad, nullptr)
