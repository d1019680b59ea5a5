/*
 * Attention on the tensor cores of compute capability 9.0: a block has 128 queries of a head, 64 for each warp group.
 * It visits the tiles of 128 keys of which some query sees a key, with the running maximum and sum of FlashAttention-2
 * (Dao, arXiv 2307.08691). While a tile's weights are computed, the products of the previous tile's weights and values
 * run (FlashAttention-3, arXiv 2407.08608), and the keys of the next tile and the values of this tile are copied to
 * shared memory. Under a causal mask, the blocks with the most keys begin first.
 */
#include "kernel/cuda/attention_forward.h"
#include "kernel/cuda/attention_outline.h"
#include "kernel/cuda/tiles_sm90.h"

static constexpr int QUERIES = 2 * OUTLINE_QUERIES, KEYS = RANGE_KEYS, GROUP_QUERIES = 64;
/* FAR: from here on, neighbouring f32 numbers are more than 1 apart. */
static constexpr float LOG2_E = 1.4426950408889634F, LN_2 = 0.6931471805599453F, FAR = 1 << 24;

struct sm90_problem {
    forward_problem of;
    outlines seen;
};

/* Shared memory of a block. */
template <int D> struct forward_shared {
    bf16 *q;
    static constexpr size_t bytes(int W) {
        return sizeof(bf16) * D * (QUERIES + 4 * KEYS) + sizeof(int32_t) * QUERIES * (size_t)W;
    }
    __device__ explicit forward_shared(unsigned char *memory) : q((bf16 *)memory) {}
    __device__ bf16 *k(int stage) const { return q + (QUERIES + stage * KEYS) * D; }
    __device__ bf16 *v(int stage) const { return k(2 + stage); }
    __device__ int32_t *spans() const { return (int32_t *)k(4); }
};

/* The queries of a thread: rows g and g + 8 of its warp. Results are relative to the largest x so far, times `unit`. */
template <int D> struct running {
    float o[D / 8][4];
    float most[2], sum[2];
};

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* The factor `unit`: make_logits leaves numbers x, and a weight is 2^(unit x). */
static __device__ __forceinline__ float unit_of(const forward_problem &p) {
    return p.softcap > 0 || p.scale <= 0 ? 1 : p.scale * LOG2_E;
}

/*
 * Makes logits of the products x of a warp's rows, from `row` of the block on, with the tile from key `at` on. masked:
 * they become -inf if the query does not see the key.
 */
static __device__ __forceinline__ void make_logits(const forward_problem &p, const int32_t *spans, int row, int64_t at,
                                                   bool masked, float (&x)[KEYS / 8][4]) {
    if (p.softcap > 0) {
        const float inner = 2 * LOG2_E * p.scale / p.softcap, outer = LOG2_E * p.softcap;
        EACH_SUM(KEYS / 8, n, i) x[n][i] = outer - __fdividef(2 * outer, 1 + ls_exp2(inner * x[n][i])); /* tanh */
    } else if (p.scale <= 0) {
        EACH_SUM(KEYS / 8, n, i) x[n][i] *= p.scale * LOG2_E;
    }
    if (!masked) return;
    const int g = (int)threadIdx.x % 32 / 4, first = 2 * ((int)threadIdx.x % 4);
    const int there = (int)min(p.see.keys - at, (int64_t)KEYS) - first;
    const int32_t *positions = p.see.kpos + at + first;
    constexpr int PART = 32;
    uint64_t seen = 0; /* a bit for each sum; found for a part of the tile at a time, to save registers */
#pragma unroll 1
    for (int from = 0; from < KEYS; from += PART) {
        unsigned bits = 0;
#pragma unroll 1
        for (int w = 0; w < p.see.W; w += 2) {
            const int32_t *one = spans + (row + g) * p.see.W + w, *other = one + 8 * p.see.W;
            const int32_t begin[2] = {one[0], other[0]}, end[2] = {one[1], other[1]};
            EACH_SUM(PART / 8, n, i) {
                const int key = from + 8 * n + i % 2;
                const int32_t position = key < there ? __ldg(positions + key) : INT32_MAX; /* no pair has it */
                bits |= (unsigned)(begin[i / 2] <= position && position < end[i / 2]) << (4 * n + i);
            }
        }
        seen |= (uint64_t)bits << (from / 2);
    }
    EACH_SUM(KEYS / 8, n, i) if ((seen >> (4 * n + i) & 1) == 0) x[n][i] = -INFINITY;
}

/*
 * Makes weights of the logits. Sums so far must then be multiplied by `fade`; r->sum already is. base: the largest
 * logit, times unit, rounded. If base is far from 0, the other products must be rounded like base before base is
 * subtracted: the extra digits that a fused multiply-add keeps would overflow as a power of 2.
 */
template <int D>
static __device__ __forceinline__ void weigh(running<D> *r, float unit, float (&x)[KEYS / 8][4], float fade[2]) {
    float most[2] = {r->most[0], r->most[1]}, base[2], sum[2] = {};
    EACH_SUM(KEYS / 8, n, i) most[i / 2] = fmaxf(most[i / 2], x[n][i]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int step = 1; step < 4; step *= 2) most[half] = fmaxf(most[half], __shfl_xor_sync(~0U, most[half], step));
        base[half] = most[half] == -INFINITY ? 0 : __fmul_rn(most[half], unit);
        fade[half] = ls_exp2(__fmul_rn(r->most[half], unit) - base[half]);
        r->most[half] = most[half];
    }
    if (fmaxf(fabsf(base[0]), fabsf(base[1])) >= FAR) {
        EACH_SUM(KEYS / 8, n, i) x[n][i] = __fmul_rn(x[n][i], unit);
        unit = 1;
    }
    EACH_SUM(KEYS / 8, n, i) {
        x[n][i] = ls_exp2(fmaf(x[n][i], unit, -base[i / 2]));
        sum[i / 2] += x[n][i];
    }
#pragma unroll
    for (int half = 0; half < 2; half++) r->sum[half] = r->sum[half] * fade[half] + sum[half];
}

/* Rounds weights to bf16, in the layout in which ls_multiply takes `a` in registers. */
static __device__ __forceinline__ void pack_weights(const float (&x)[KEYS / 8][4], unsigned (&weights)[KEYS / 16][4]) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) weights[k][i] = pack(x[2 * k + i / 2][i % 2 * 2], x[2 * k + i / 2][i % 2 * 2 + 1]);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Begins x = the products of 64 queries, from `row` of the block on, with the keys of a tile. */
template <int D>
static __device__ __forceinline__ void begin_logits(float (&x)[KEYS / 8][4], const bf16 *q, int row, const bf16 *k) {
    const uint64_t a = summed_elements<QUERIES>(q, row, 0), b = summed_elements<KEYS>(k, 0, 0);
#pragma unroll
    for (int d = 0; d < D; d += 16)
        ls_multiply<LS_SUMMED_SIDE_BY_SIDE, LS_SUMMED_SIDE_BY_SIDE>(x, further(a, element_bytes<QUERIES>(d)),
                                                                    further(b, element_bytes<KEYS>(d)), d > 0);
    ls_products_commit();
}

/* Begins o += weights times the values of a tile. */
template <int D>
static __device__ __forceinline__ void begin_results(float (&o)[D / 8][4], const unsigned (&weights)[KEYS / 16][4],
                                                     const bf16 *v) {
    const uint64_t b = summed_rows<KEYS>(v, 0, 0);
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        ls_multiply<LS_OTHERS_SIDE_BY_SIDE>(o, weights[k], further(b, 16 * k * ROW_BYTES), true);
    ls_products_commit();
}

/* Waits until all threads are here, and what they have copied is visible to the products of all of them. */
static __device__ __forceinline__ void wait_for_tiles() {
    ls_copy_wait<0>();
    ls_shared_fence();
    __syncthreads();
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

template <int D> static __global__ void __launch_bounds__(CUDA_THREADS, 1) attend_by_groups(sm90_problem problem) {
    if (!LS_HAS_WARP_GROUPS) return;
    LS_DYNAMIC_SHARED(memory);
    const forward_problem &p = problem.of;
    const forward_shared<D> shared(memory);
    const unsigned across = (unsigned)((p.see.queries + QUERIES - 1) / QUERIES), heads = gridDim.x / across;
    const int64_t i = (int64_t)(across - 1 - blockIdx.x / heads) * QUERIES;
    const int h = (int)(blockIdx.x % heads) % p.H, b = (int)(blockIdx.x % heads) / p.H;
    const int n = p.see.queries - i < QUERIES ? (int)(p.see.queries - i) : QUERIES;
    const int kv = (p.first_q + h) / p.group - p.first_kv, tiles = (int)((p.see.keys + KEYS - 1) / KEYS);
    const bf16 *k = p.k.at(b, 0, kv), *v = p.v.at(b, 0, kv);
    const auto look = looks_at_keys(p.see, problem.seen, b, i);
    for (int s = threadIdx.x; s < QUERIES * p.see.W; s += CUDA_THREADS) /* rows beyond the last query see nothing */
        shared.spans()[s] = s < n * p.see.W ? p.see.spans[(b * p.see.queries + i) * p.see.W + s] : 0;
    tile_cursor cursor = BEFORE_TILES;
    bool goes_on = next_tile(&cursor, tiles, look);
    load_panels<D, QUERIES>(shared.q, p.q.at(b, 0, h), p.q.token, i, p.see.queries, p.D);
    if (goes_on) load_panels<D, KEYS>(shared.k(0), k, p.k.token, (int64_t)cursor.tile() * KEYS, p.see.keys, p.D);
    load_panels<D, KEYS>(shared.v(1), v, p.v.token, 0, 0, p.E); /* zeros: there is no previous tile */
    ls_copy_commit();

    const int group = __shfl_sync(~0U, (int)threadIdx.x / 128, 0), row = (int)threadIdx.x / 32 * 16;
    const float unit = unit_of(p);
    running<D> r = {};
    r.most[0] = r.most[1] = -INFINITY;
    unsigned weights[KEYS / 16][4] = {};
    int stage = 0;
    while (goes_on) {
        float x[KEYS / 8][4], fade[2];
        wait_for_tiles(); /* the keys of this tile, and the values of the previous one */
        ls_products_fence(x, r.o, weights);
        begin_logits<D>(x, shared.q, group * GROUP_QUERIES, shared.k(stage));
        begin_results<D>(r.o, weights, shared.v(stage ^ 1));
        const int64_t at = (int64_t)cursor.tile() * KEYS;
        const bool masked = !cursor.is_whole() || at + KEYS > p.see.keys;
        load_panels<D, KEYS>(shared.v(stage), v, p.v.token, at, p.see.keys, p.E);
        goes_on = next_tile(&cursor, tiles, look);
        if (goes_on)
            load_panels<D, KEYS>(shared.k(stage ^ 1), k, p.k.token, (int64_t)cursor.tile() * KEYS, p.see.keys, p.D);
        ls_copy_commit();
        ls_products_wait<1>(x);
        make_logits(p, shared.spans(), row, at, masked, x);
        weigh<D>(&r, unit, x, fade);
        /*
         * Few tiles have a new maximum. The branch also keeps the assembler from waiting before it makes the weights.
         */
        if (__any_sync(~0U, fade[0] != 1 || fade[1] != 1)) {
            ls_products_wait<0>(r.o, weights);
            EACH_SUM(D / 8, d, e) r.o[d][e] *= fade[e / 2];
        }
        ls_products_wait<0>(r.o, weights);
        pack_weights(x, weights);
        stage ^= 1;
    }
    wait_for_tiles();
    ls_products_fence(r.o, weights);
    begin_results<D>(r.o, weights, shared.v(stage ^ 1));
    ls_products_wait<0>(r.o, weights);
#pragma unroll
    for (int half = 0; half < 2; half++)
        store_row(p, r.o, half, r.most[half] * unit * LN_2, r.sum[half], b, i + row + threadIdx.x % 32 / 4 + 8 * half,
                  h);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

static bool supports(const ls_kernel_call *call) { return fits_forward(call) && widest_head(call) <= 128; }

static size_t workspace(const ls_kernel_call *call) { return outlines_bytes(sight_of(call), call->in[0].size[0]); }

static ls_status prepare(const ls_kernel_call *call, void **state) {
    const int W = (int)call->in[3].size[2];
    LS_TRY((cuda_check<LS_KERNEL_ATTENTION, LS_BF16>(call, state)));
    LS_TRY(check_warp_groups("attention"));
    return check_shared("attention",
                        widest_head(call) <= 64 ? forward_shared<64>::bytes(W) : forward_shared<128>::bytes(W));
}

template <int D> static ls_status launch_for(const sm90_problem &p, int64_t B, void *stream) {
    const sight &see = p.of.see;
    const size_t shared = forward_shared<D>::bytes(see.W);
    LS_TRY(allow_shared("attention", attend_by_groups<D>));
    LS_TRY(make_outlines("attention", stream, see, B, p.seen));
    return launch("attention", stream, ls_ceil_div(see.queries, (int64_t)QUERIES) * p.of.H * B, shared,
                  attend_by_groups<D>, p);
}

static ls_status launch_attention(const ls_kernel_call *call, void *, void *stream) {
    const forward_problem of = forward_problem_of(call);
    const int64_t B = call->in[0].size[0];
    const sm90_problem p = {of, outlines_at(call->workspace, of.see, B)};
    return widest_head(call) <= 64 ? launch_for<64>(p, B, stream) : launch_for<128>(p, B, stream);
}

CUDA_ROW_OF(ls_cuda_bf16_attention_sm90, ATTENTION, LS_BF16, launch_attention, workspace, supports, prepare, true)
