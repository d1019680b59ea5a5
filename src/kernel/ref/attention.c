/*
 * attention: for each head and tile of queries, a first pass over the keys finds the largest logit, and a second
 * computes the sum of exponentials and the weighted values. If params say so, the result is then merged with the o and
 * lse in the outputs.
 */
#include <string.h>

#include "kernel/ref/attention_tile.h"

/* The workspace of a thread, for one tile of queries. */
typedef struct scratch {
    double *q, *k, *v, *o; /* [TILE_Q*D], [D*TILE_K], [TILE_K*E], [TILE_Q*E] */
} scratch;

static int64_t scratch_doubles(int64_t D, int64_t E) { return (TILE_Q + TILE_K) * (D + E); }

static scratch scratch_of(const problem *p, int thread) {
    scratch s;
    s.q = (double *)p->call->workspace + thread * scratch_doubles(p->D, p->E);
    s.k = s.q + TILE_Q * p->D;
    s.v = s.k + TILE_K * p->D;
    s.o = s.v + TILE_K * p->E;
    return s;
}

static size_t workspace(const ls_kernel_call *call) {
    return REF(thread_bytes)(call->threads, scratch_doubles(call->in[0].size[3], call->in[2].size[3]));
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION, LS_REAL, call);
}

typedef struct tile {
    int64_t b, h, q0, count;
    double most[TILE_Q], total[TILE_Q]; /* largest logit, sum of exp(logit - most) */
    bool seen[TILE_Q][TILE_K];
    tile_pairs logits;
} tile;

/* Logits of the tile with the keys from k0 on; false if the mask hides all these pairs. */
static bool logits_of(const problem *p, tile *t, const scratch *s, int64_t k0, int64_t k_count) {
    if (!REF(visible)(p, t->b, t->q0, t->count, k0, k_count, t->seen)) return false;
    REF(pack_columns)(&p->call->in[1], t->b, kv_head(p, t->h), k0, k_count, s->k);
    REF(dots)(s->q, t->count, s->k, p->D, t->logits);
    for (int64_t i = 0; i < t->count; i++)
        for (int64_t j = 0; j < k_count; j++) t->logits[i][j] = logit_of(p->params, t->logits[i][j]);
    return true;
}

static void find_largest(const problem *p, tile *t, const scratch *s) {
    for (int64_t i = 0; i < t->count; i++) t->most[i] = -INFINITY;
    for (int64_t k0 = 0; k0 < p->K; k0 += TILE_K) {
        const int64_t k_count = ls_min(TILE_K, p->K - k0);
        if (!logits_of(p, t, s, k0, k_count)) continue;
        for (int64_t i = 0; i < t->count; i++)
            for (int64_t j = 0; j < k_count; j++)
                if (t->seen[i][j] && !isnan(t->most[i]) && !(t->logits[i][j] <= t->most[i]))
                    t->most[i] = t->logits[i][j];
    }
}

static void sum_values(const problem *p, tile *t, const scratch *s) {
    memset(t->total, 0, sizeof t->total);
    memset(s->o, 0, sizeof(double) * (size_t)(TILE_Q * p->E));
    for (int64_t k0 = 0; k0 < p->K; k0 += TILE_K) {
        const int64_t k_count = ls_min(TILE_K, p->K - k0);
        if (!logits_of(p, t, s, k0, k_count)) continue;
        REF(pack_rows)(&p->call->in[2], t->b, kv_head(p, t->h), k0, k_count, s->v);
        for (int64_t i = 0; i < t->count; i++) {
            for (int64_t j = 0; j < k_count; j++) {
                if (!t->seen[i][j]) continue;
                const double weight = exp(t->logits[i][j] - t->most[i]);
                t->total[i] += weight;
                REF(add_weighted)(weight, s->v + j * p->E, p->E, s->o + i * p->E);
            }
        }
    }
}

static void store_tile(const problem *p, const tile *t, const scratch *s) {
    const ls_view *o = &p->call->out[0], *sums = &p->call->out[1];
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t row = t->q0 + i;
        real *out = (real *)o->data + t->b * o->stride[0] + row * o->stride[1] + t->h * o->stride[2];
        real *lse = (real *)sums->data + t->b * sums->stride[0] + t->h * sums->stride[1] + row;
        double *sum = s->o + i * p->E;
        const bool sees = t->most[i] != -INFINITY;
        const double block_lse = sees ? t->most[i] + log(t->total[i]) : -INFINITY;
        for (int64_t d = 0; d < p->E; d++) sum[d] = sees ? sum[d] / t->total[i] : 0;
        if (p->params->merge) {
            REF(merge_row)(sum, block_lse, p->E, out, lse);
        } else {
            for (int64_t d = 0; d < p->E; d++) out[d] = (real)sum[d];
            *lse = (real)block_lse;
        }
    }
}

static void attend(void *context, int i, int thread) {
    const problem *p = context;
    const int64_t tiles = ls_ceil_div(p->N, TILE_Q);
    tile t = {.b = i / (p->H * tiles), .h = i / tiles % p->H, .q0 = i % tiles * TILE_Q};
    t.count = ls_min(TILE_Q, p->N - t.q0);
    const scratch s = scratch_of(p, thread);
    REF(pack_rows)(&p->call->in[0], t.b, t.h, t.q0, t.count, s.q);
    find_largest(p, &t, &s);
    sum_values(p, &t, &s);
    store_tile(p, &t, &s);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    problem p = REF(problem_of)(call);
    ls_pool_run(pool, (int)(p.B * p.H * ls_ceil_div(p.N, TILE_Q)), attend, &p);
}

const ls_kernel REF(attention) = {
    .id = LS_KERNEL_ATTENTION, .dtype = LS_REAL, .workspace = workspace, .prepare = prepare, .run = run};
