/*
 * attention_delta and attention_grad. With P = exp(logit - lse), and dS = P (dO·v - delta) times the slope of the logit
 * in q·k, which is scale if logits are not capped:
 *
 *   dq = dS k   ·   dk = dS^T q   ·   dv = P^T dO
 *
 * A task computes dq of a tile of queries, or dk and dv of a tile of keys (over all queries of all heads that read it).
 * So each sum is computed by one thread in a fixed order.
 */
#include <string.h>

#include "kernel/ref/attention_tile.h"

static ls_status prepare_delta(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_DELTA, LS_REAL, call);
}

static void run_delta(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_view *o = &call->in[0];
    const int64_t B = o->size[0], N = o->size[1], H = o->size[2], D = o->size[3];
    const real *a = o->data, *b = call->in[1].data;
    real *delta = call->out[0].data;
    for (int64_t row = 0; row < B * N * H; row++) {
        double sum = 0;
        for (int64_t d = 0; d < D; d++) sum += (double)a[row * D + d] * (double)b[row * D + d];
        delta[(row / (N * H) * H + row % H) * N + row / H % N] = (real)sum;
    }
}

/* in[5..7]: do, lse, delta; out[0..2]: dq, dk, dv. */
enum { IN_Q, IN_K, IN_V, IN_DO = 5, IN_LSE, IN_DELTA };
enum { OUT_DQ, OUT_DK, OUT_DV };

/* One tile of queries of head h against one tile of keys. */
typedef struct pair {
    int64_t b, h, q0, q_count, k0, k_count;
    bool seen[TILE_Q][TILE_K];
    tile_pairs P, dS;
} pair;

/*
 * A thread's workspace: rows of q and do, k and v transposed, k as rows, and sums of at most TILE_K rows for dk and dv.
 */
typedef struct scratch {
    double *q, *dO, *k_columns, *v_columns, *k, *sum_k, *sum_v;
} scratch;

static int64_t scratch_doubles(int64_t D, int64_t E) { return (TILE_Q + 3 * TILE_K) * D + (TILE_Q + 2 * TILE_K) * E; }

static scratch scratch_of(const problem *p, int thread) {
    scratch s;
    s.q = (double *)p->call->workspace + thread * scratch_doubles(p->D, p->E);
    s.dO = s.q + TILE_Q * p->D;
    s.k_columns = s.dO + TILE_Q * p->E;
    s.v_columns = s.k_columns + TILE_K * p->D;
    s.k = s.v_columns + TILE_K * p->E;
    s.sum_k = s.k + TILE_K * p->D;
    s.sum_v = s.sum_k + TILE_K * p->D;
    return s;
}

static size_t workspace(const ls_kernel_call *call) {
    return REF(thread_bytes)(call->threads, scratch_doubles(call->in[IN_Q].size[3], call->in[IN_V].size[3]));
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_GRAD, LS_REAL, call);
}

static void load_queries(const problem *p, const pair *t, const scratch *s) {
    REF(pack_rows)(&p->call->in[IN_Q], t->b, t->h, t->q0, t->q_count, s->q);
    REF(pack_rows)(&p->call->in[IN_DO], t->b, t->h, t->q0, t->q_count, s->dO);
}

static void load_keys(const problem *p, const pair *t, int64_t kv, const scratch *s) {
    REF(pack_columns)(&p->call->in[IN_K], t->b, kv, t->k0, t->k_count, s->k_columns);
    REF(pack_columns)(&p->call->in[IN_V], t->b, kv, t->k0, t->k_count, s->v_columns);
}

/* lse or delta of the pair's head, beginning with the pair's first query. */
static const real *row_values(const ls_view *view, const pair *t) {
    return (const real *)view->data + t->b * view->stride[0] + t->h * view->stride[1] + t->q0;
}

/* P and dS of the pair, 0 where the mask hides the key. Queries, keys and `seen` must have been set. */
static void weights_of(const problem *p, pair *t, const scratch *s) {
    const real *lse = row_values(&p->call->in[IN_LSE], t), *delta = row_values(&p->call->in[IN_DELTA], t);
    REF(dots)(s->q, t->q_count, s->k_columns, p->D, t->P);
    REF(dots)(s->dO, t->q_count, s->v_columns, p->E, t->dS);
    for (int64_t i = 0; i < t->q_count; i++) {
        for (int64_t j = 0; j < t->k_count; j++) {
            const bool counts = t->seen[i][j] && lse[i] != -INFINITY;
            const double logit = logit_of(p->params, t->P[i][j]);
            const double slope = slope_of(p->params, logit);
            t->P[i][j] = counts ? exp(logit - (double)lse[i]) : 0;
            t->dS[i][j] = counts ? t->P[i][j] * (t->dS[i][j] - (double)delta[i]) * slope : 0;
        }
    }
}

/* Writes `sum` to the rows from `first` on of head h of a view [B, rows, heads, D], or adds it there. */
static void store_rows(const ls_view *view, int64_t b, int64_t h, int64_t first, int64_t count, const double *sum,
                       bool accumulate) {
    const int64_t D = view->size[3];
    for (int64_t i = 0; i < count; i++) {
        real *row = (real *)view->data + b * view->stride[0] + (first + i) * view->stride[1] + h * view->stride[2];
        for (int64_t d = 0; d < D; d++) row[d] = (real)(accumulate ? (double)row[d] + sum[i * D + d] : sum[i * D + d]);
    }
}

/* Task i: one tile of queries of one head, over all keys. */
static void grad_of_queries(void *context, int i, int thread) {
    const problem *p = context;
    const int64_t tiles = ls_ceil_div(p->N, TILE_Q);
    const scratch s = scratch_of(p, thread);
    pair t = {.b = i / (p->H * tiles), .h = i / tiles % p->H, .q0 = i % tiles * TILE_Q};
    t.q_count = ls_min(TILE_Q, p->N - t.q0);
    load_queries(p, &t, &s);
    memset(s.sum_k, 0, sizeof(double) * (size_t)(TILE_K * p->D));
    for (t.k0 = 0; t.k0 < p->K; t.k0 += TILE_K) {
        t.k_count = ls_min(TILE_K, p->K - t.k0);
        if (!REF(visible)(p, t.b, t.q0, t.q_count, t.k0, t.k_count, t.seen)) continue;
        load_keys(p, &t, kv_head(p, t.h), &s);
        REF(pack_rows)(&p->call->in[IN_K], t.b, kv_head(p, t.h), t.k0, t.k_count, s.k);
        weights_of(p, &t, &s);
        for (int64_t q = 0; q < t.q_count; q++)
            for (int64_t j = 0; j < t.k_count; j++)
                if (t.dS[q][j] != 0) REF(add_weighted)(t.dS[q][j], s.k + j * p->D, p->D, s.sum_k + q * p->D);
    }
    store_rows(&p->call->out[OUT_DQ], t.b, t.h, t.q0, t.q_count, s.sum_k, p->params->accumulate_dq);
}

/* Task i: one tile of keys of one KV head, over all queries of the heads that read it. */
static void grad_of_keys(void *context, int i, int thread) {
    const problem *p = context;
    const int64_t tiles = ls_ceil_div(p->K, TILE_K), kv = i / tiles % p->J;
    const scratch s = scratch_of(p, thread);
    pair t = {.b = i / (p->J * tiles), .k0 = i % tiles * TILE_K};
    t.k_count = ls_min(TILE_K, p->K - t.k0);
    load_keys(p, &t, kv, &s);
    memset(s.sum_k, 0, sizeof(double) * (size_t)(TILE_K * (p->D + p->E))); /* sum_k and sum_v are adjacent */
    for (t.h = 0; t.h < p->H; t.h++) {
        if (kv_head(p, t.h) != kv) continue;
        for (t.q0 = 0; t.q0 < p->N; t.q0 += TILE_Q) {
            t.q_count = ls_min(TILE_Q, p->N - t.q0);
            if (!REF(visible)(p, t.b, t.q0, t.q_count, t.k0, t.k_count, t.seen)) continue;
            load_queries(p, &t, &s);
            weights_of(p, &t, &s);
            for (int64_t q = 0; q < t.q_count; q++) {
                for (int64_t j = 0; j < t.k_count; j++) {
                    if (t.P[q][j] == 0 && t.dS[q][j] == 0) continue;
                    REF(add_weighted)(t.P[q][j], s.dO + q * p->E, p->E, s.sum_v + j * p->E);
                    REF(add_weighted)(t.dS[q][j], s.q + q * p->D, p->D, s.sum_k + j * p->D);
                }
            }
        }
    }
    store_rows(&p->call->out[OUT_DK], t.b, kv, t.k0, t.k_count, s.sum_k, p->params->accumulate_dkv);
    store_rows(&p->call->out[OUT_DV], t.b, kv, t.k0, t.k_count, s.sum_v, p->params->accumulate_dkv);
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    problem p = REF(problem_of)(call);
    ls_pool_run(pool, (int)(p.B * p.H * ls_ceil_div(p.N, TILE_Q)), grad_of_queries, &p);
    ls_pool_run(pool, (int)(p.B * p.J * ls_ceil_div(p.K, TILE_K)), grad_of_keys, &p);
}

const ls_kernel REF(attention_delta) = {
    .id = LS_KERNEL_ATTENTION_DELTA, .dtype = LS_REAL, .prepare = prepare_delta, .run = run_delta};
const ls_kernel REF(attention_grad) = {
    .id = LS_KERNEL_ATTENTION_GRAD, .dtype = LS_REAL, .workspace = workspace, .prepare = prepare_grad, .run = run_grad};
