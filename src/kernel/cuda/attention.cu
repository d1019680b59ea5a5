/*
 * Attention on tensor cores: a block has 128 queries of a head, 16 for each warp. It visits the tiles of 64 keys of
 * which some query sees a key, with the running maximum and sum of FlashAttention-2 (Dao, arXiv 2307.08691). While a
 * tile is computed, the next one is copied to shared memory. A tile is not masked if all queries see all of its keys.
 */
#include "kernel/cuda/attention_forward.h"
#include "kernel/cuda/attention_tiles.h"

static constexpr int QUERIES = 16 * CUDA_WARPS, KEYS = 64;

/* Shared memory of a block. */
template <int D> struct forward_shared {
    bf16 *q;
    static constexpr size_t bytes(int W) {
        return (size_t)tile<D>::bytes(QUERIES + 4 * KEYS) + sizeof(int32_t) * QUERIES * (size_t)W;
    }
    __device__ explicit forward_shared(unsigned char *memory) : q((bf16 *)memory) {}
    __device__ bf16 *k(int stage) const { return q + (QUERIES + 2 * stage * KEYS) * tile<D>::PITCH; }
    __device__ bf16 *v(int stage) const { return k(stage) + KEYS * tile<D>::PITCH; }
    __device__ int32_t *spans() const { return (int32_t *)k(2); }
};

/* The queries of a thread: rows g and g + 8 of its warp. Results are relative to the largest logit so far. */
template <int D> struct running {
    float o[D / 8][4]; /* in the layout of the sums of ls_mma */
    float most[2], sum[2];
};

/*
 * Makes logits of the products; -inf if the query does not see the key. first: first key of the tile. Conditions that
 * are the same for all pairs are tested before the loops.
 */
static __device__ __forceinline__ void mask_logits(const forward_problem &p, const int32_t *spans, int row,
                                                   int64_t first, bool masked, float x[KEYS / 8][4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if (p.softcap > 0) {
        EACH_SUM(KEYS / 8, n, i) x[n][i] = p.softcap * tanhf(p.scale * x[n][i] / p.softcap);
    } else {
        EACH_SUM(KEYS / 8, n, i) x[n][i] *= p.scale;
    }
    if (!masked) return;
    EACH_SUM(KEYS / 8, n, i) {
        const int64_t key = first + 8 * n + 2 * t + i % 2;
        const int32_t *own = spans + (row + g + i / 2 * 8) * p.see.W;
        if (key >= p.see.keys || !sees(own, p.see.W, p.see.kpos[key])) x[n][i] = -INFINITY;
    }
}

/* Makes weights of the logits, and rescales the sums so far to the new maximum. */
template <int D> static __device__ __forceinline__ void weigh(running<D> *r, float x[KEYS / 8][4]) {
    float most[2], base[2], sum[2] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) most[half] = r->most[half];
    EACH_SUM(KEYS / 8, n, i) most[i / 2] = fmaxf(most[i / 2], x[n][i]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int step = 1; step < 4; step *= 2) most[half] = fmaxf(most[half], __shfl_xor_sync(~0U, most[half], step));
        base[half] = most[half] == -INFINITY ? 0 : most[half];
    }
    EACH_SUM(KEYS / 8, n, i) {
        x[n][i] = expf(x[n][i] - base[i / 2]);
        sum[i / 2] += x[n][i];
    }
    float fade[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        fade[half] = expf(r->most[half] - base[half]);
        r->most[half] = most[half];
        r->sum[half] = r->sum[half] * fade[half] + sum[half];
    }
    EACH_SUM(D / 8, n, i) r->o[n][i] *= fade[i / 2];
}

template <int D> static __global__ void __launch_bounds__(CUDA_THREADS) attend(forward_problem p) {
    LS_DYNAMIC_SHARED(memory);
    const forward_shared<D> shared(memory);
    const int64_t across = (p.see.queries + QUERIES - 1) / QUERIES;
    const int64_t i = blockIdx.x % across * QUERIES, h = blockIdx.x / across % p.H, b = blockIdx.x / across / p.H;
    const int n = p.see.queries - i < QUERIES ? (int)(p.see.queries - i) : QUERIES;
    const int64_t kv = (p.first_q + h) / p.group - p.first_kv;
    const bf16 *k = p.k.at(b, 0, kv), *v = p.v.at(b, 0, kv);
    for (int s = threadIdx.x; s < QUERIES * p.see.W; s += CUDA_THREADS) /* rows past the last query see nothing */
        shared.spans()[s] = s < n * p.see.W ? p.see.spans[(b * p.see.queries + i) * p.see.W + s] : 0;
    load_tile<D, QUERIES>(shared.q, p.q.at(b, 0, h), p.q.token, i, p.see.queries, p.D);
    __syncthreads();

    running<D> r = {};
#pragma unroll
    for (int half = 0; half < 2; half++) r.most[half] = -INFINITY;
    tile_sight seen = NOTHING, next_seen = NOTHING;
    int64_t at = next_keys<KEYS, QUERIES>(p.see, shared.spans(), n, 0, &seen);
    if (at < p.see.keys) {
        load_tile<D, KEYS>(shared.k(0), k, p.k.token, at, p.see.keys, p.D);
        load_tile<D, KEYS>(shared.v(0), v, p.v.token, at, p.see.keys, p.E);
    }
    ls_copy_commit();
    for (int stage = 0; at < p.see.keys; stage ^= 1) {
        const int64_t next = next_keys<KEYS, QUERIES>(p.see, shared.spans(), n, at + KEYS, &next_seen);
        if (next < p.see.keys) {
            load_tile<D, KEYS>(shared.k(stage ^ 1), k, p.k.token, next, p.see.keys, p.D);
            load_tile<D, KEYS>(shared.v(stage ^ 1), v, p.v.token, next, p.see.keys, p.E);
        }
        ls_copy_commit();
        ls_copy_wait<1>();
        __syncthreads();
        const int row = threadIdx.x / 32 * 16;
        float x[KEYS / 8][4];
        multiply_rows<D, KEYS>(shared.q, shared.k(stage), row, x);
        mask_logits(p, shared.spans(), row, at, seen != EVERYTHING || at + KEYS > p.see.keys, x);
        weigh<D>(&r, x);
        add_products<D, KEYS>(r.o, x, shared.v(stage));
        __syncthreads(); /* before the tile is overwritten */
        at = next;
        seen = next_seen;
    }
    ls_copy_wait<0>();
    const int64_t row = i + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) store_row(p, r.o, half, r.most[half], r.sum[half], b, row + 8 * half, h);
}

/* --- the launch --------------------------------------------------------------------------------------------------- */

static size_t shared_bytes(const ls_kernel_call *call) {
    const int64_t D = widest_head(call);
    const int W = (int)call->in[3].size[2];
    return D <= 64    ? forward_shared<64>::bytes(W)
           : D <= 128 ? forward_shared<128>::bytes(W)
                      : forward_shared<256>::bytes(W);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    LS_TRY((cuda_check<LS_KERNEL_ATTENTION, LS_BF16>(call, state)));
    return check_shared("attention", shared_bytes(call));
}

template <int D> static ls_status launch_for(const forward_problem &p, int64_t B, void *stream) {
    const size_t shared = forward_shared<D>::bytes(p.see.W);
    LS_TRY(allow_shared("attention", attend<D>));
    return launch("attention", stream, ls_ceil_div(p.see.queries, (int64_t)QUERIES) * p.H * B, shared, attend<D>, p);
}

static ls_status launch_attention(const ls_kernel_call *call, void *, void *stream) {
    const forward_problem p = forward_problem_of(call);
    const int64_t B = call->in[0].size[0], D = widest_head(call);
    if (D <= 64) return launch_for<64>(p, B, stream);
    return D <= 128 ? launch_for<128>(p, B, stream) : launch_for<256>(p, B, stream);
}

CUDA_ROW_OF(ls_cuda_bf16_attention, ATTENTION, LS_BF16, launch_attention, nullptr, fits_forward, prepare, true)
