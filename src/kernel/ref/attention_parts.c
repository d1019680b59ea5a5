/*
 * The parts of attention on whole rows of scores: products of queries and keys, the softmax of rows and its gradient,
 * and the two weighted sums. Pairs are [B, heads, queries, keys]. A task is some rows of a result; each sum is made in
 * double by one thread, in a fixed order.
 */
#include "kernel/ref/attention_tile.h"

/* --- views -------------------------------------------------------------------------------------------------------- */

/* The elements of head h of a token, in values [B, tokens, heads, D]. */
static real *values_at(const ls_view *v, int64_t b, int64_t token, int64_t h) {
    return (real *)v->data + b * v->stride[0] + token * v->stride[1] + h * v->stride[2];
}

/* The numbers of query i of head h, one for each key, in pairs. */
static real *pairs_at(const ls_view *v, int64_t b, int64_t h, int64_t i) {
    return (real *)v->data + b * v->stride[0] + h * v->stride[1] + i * v->stride[2];
}

/* The number of query i of head h, in row sums [B, heads, queries]. */
static real *row_at(const ls_view *v, int64_t b, int64_t h, int64_t i) {
    return (real *)v->data + b * v->stride[0] + h * v->stride[1] + i * v->stride[2];
}

static int64_t key_head(const ls_kernel_call *call, int64_t h) {
    const ls_attention_params *p = call->params;
    return (p->first_q + h) / p->group - p->first_kv;
}

/* The (b, head, query) of row number `index` of pairs. */
typedef struct place {
    int64_t b, head, i;
} place;

static place place_of(const ls_view *pairs, int64_t index) {
    const int64_t H = pairs->size[1], N = pairs->size[2];
    return (place){index / (H * N), index / N % H, index % N};
}

static int64_t rows_of(const ls_view *pairs) { return pairs->size[0] * pairs->size[1] * pairs->size[2]; }

/* --- products and sums -------------------------------------------------------------------------------------------- */

enum { STRIP = 32 }; /* elements of a sum that are computed together */

static ls_status prepare_products(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_PRODUCTS, LS_REAL, call);
}

static void multiply(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t D = call->in[0].size[3], K = call->in[1].size[1];
    for (int64_t row = first; row < last; row++) {
        const place at = place_of(&call->out[0], row);
        const real *q = values_at(&call->in[0], at.b, at.i, at.head);
        real *out = pairs_at(&call->out[0], at.b, at.head, at.i);
        for (int64_t j = 0; j < K; j++) {
            const real *k = values_at(&call->in[1], at.b, j, key_head(call, at.head));
            double sum = 0;
            for (int64_t d = 0; d < D; d++) sum += (double)q[d] * (double)k[d];
            out[j] = (real)sum;
        }
    }
}

static void run_products(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, rows_of(&call->out[0]), multiply, call);
}

static ls_status prepare_weighted(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_WEIGHTED, LS_REAL, call);
}

static void add_strip(double weight, const real *x, int64_t count, double sum[STRIP]) {
    for (int64_t d = 0; d < count; d++) sum[d] += weight * (double)x[d];
}

static void store_strip(const double sum[STRIP], int64_t count, bool adds, real *out) {
    for (int64_t d = 0; d < count; d++) out[d] = (real)(adds ? (double)out[d] + sum[d] : sum[d]);
}

static void sum_keys(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const bool adds = ((const ls_attention_params *)call->params)->accumulate_dq;
    const int64_t D = call->in[1].size[3], K = call->in[1].size[1];
    for (int64_t row = first; row < last; row++) {
        const place at = place_of(&call->in[0], row);
        const real *weight = pairs_at(&call->in[0], at.b, at.head, at.i);
        for (int64_t d = 0; d < D; d += STRIP) {
            const int64_t count = ls_min(STRIP, D - d);
            double sum[STRIP] = {0};
            for (int64_t j = 0; j < K; j++)
                if (weight[j] != 0)
                    add_strip((double)weight[j], values_at(&call->in[1], at.b, j, key_head(call, at.head)) + d, count,
                              sum);
            store_strip(sum, count, adds, values_at(&call->out[0], at.b, at.i, at.head) + d);
        }
    }
}

static void run_weighted(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, rows_of(&call->in[0]), sum_keys, call);
}

static ls_status prepare_weighted_back(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_WEIGHTED_BACK, LS_REAL, call);
}

/* The sum for key j, elements d .. d + count - 1 of key head kv. */
static void sum_of_key(const ls_kernel_call *call, int64_t b, int64_t kv, int64_t j, int64_t d, int64_t count,
                       double sum[STRIP]) {
    const int64_t H = call->in[0].size[1], N = call->in[0].size[2];
    for (int64_t h = 0; h < H; h++) {
        if (key_head(call, h) != kv) continue;
        for (int64_t i = 0; i < N; i++) {
            const double weight = (double)pairs_at(&call->in[0], b, h, i)[j];
            if (weight != 0) add_strip(weight, values_at(&call->in[1], b, i, h) + d, count, sum);
        }
    }
}

static void sum_queries(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = call->out[0].size[1], J = call->out[0].size[2], D = call->out[0].size[3];
    for (int64_t key = first; key < last; key++) {
        const int64_t b = key / (K * J), j = key / J % K, kv = key % J;
        for (int64_t d = 0; d < D; d += STRIP) {
            const int64_t count = ls_min(STRIP, D - d);
            double sum[STRIP] = {0};
            sum_of_key(call, b, kv, j, d, count, sum);
            store_strip(sum, count, false, values_at(&call->out[0], b, j, kv) + d);
        }
    }
}

static void run_weighted_back(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *out = &call->out[0];
    ref_split(pool, out->size[0] * out->size[1] * out->size[2], sum_queries, call);
}

/* --- the softmax -------------------------------------------------------------------------------------------------- */

/* Whether query i of batch b sees a key at that position. */
static bool sees(const ls_view *spans, int64_t b, int64_t i, int32_t position) {
    const int64_t columns = spans->size[2];
    const int32_t *span = (const int32_t *)spans->data + (b * spans->size[1] + i) * columns;
    bool seen = false;
    for (int64_t w = 0; w < columns; w += 2) seen |= span[w] <= position && position < span[w + 1];
    return seen;
}

static ls_status prepare_softmax(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_SOFTMAX, LS_REAL, call);
}

static void softmax_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *spans = &call->in[1];
    const int32_t *kpos = call->in[2].data;
    const int64_t K = call->in[0].size[3];
    for (int64_t row = first; row < last; row++) {
        const place at = place_of(&call->in[0], row);
        const real *pairs = pairs_at(&call->in[0], at.b, at.head, at.i);
        real *weights = pairs_at(&call->out[0], at.b, at.head, at.i);
        double most = -INFINITY, total = 0;
        for (int64_t j = 0; j < K; j++) {
            if (isnan(most) || !sees(spans, at.b, at.i, kpos[j])) continue;
            const double logit = logit_of(call->params, (double)pairs[j]);
            if (!(logit <= most)) most = logit;
        }
        for (int64_t j = 0; j < K; j++) {
            const bool counts = most != -INFINITY && sees(spans, at.b, at.i, kpos[j]);
            if (counts) total += exp(logit_of(call->params, (double)pairs[j]) - most);
        }
        for (int64_t j = 0; j < K; j++) {
            const bool counts = most != -INFINITY && sees(spans, at.b, at.i, kpos[j]);
            weights[j] = (real)(counts ? exp(logit_of(call->params, (double)pairs[j]) - most) / total : 0);
        }
        *row_at(&call->out[1], at.b, at.head, at.i) = (real)(most != -INFINITY ? most + log(total) : -INFINITY);
    }
}

static void run_softmax(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, rows_of(&call->in[0]), softmax_rows, call);
}

static ls_status prepare_softmax_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_SOFTMAX_GRAD, LS_REAL, call);
}

static void grad_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int32_t *kpos = call->in[1].data;
    const int64_t K = call->out[0].size[3];
    for (int64_t row = first; row < last; row++) {
        const place at = place_of(&call->out[0], row);
        const double lse = (double)*row_at(&call->in[2], at.b, at.head, at.i),
                     delta = (double)*row_at(&call->in[3], at.b, at.head, at.i);
        real *pairs = pairs_at(&call->out[0], at.b, at.head, at.i),
             *weights = pairs_at(&call->out[1], at.b, at.head, at.i);
        for (int64_t j = 0; j < K; j++) {
            const bool counts = lse != -INFINITY && sees(&call->in[0], at.b, at.i, kpos[j]);
            const double logit = logit_of(call->params, (double)pairs[j]), weight = counts ? exp(logit - lse) : 0;
            const double slope = slope_of(call->params, logit);
            pairs[j] = (real)(counts ? weight * ((double)weights[j] - delta) * slope : 0);
            weights[j] = (real)weight;
        }
    }
}

static void run_softmax_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, rows_of(&call->out[0]), grad_rows, call);
}

const ls_kernel REF(attention_products) = {
    .id = LS_KERNEL_ATTENTION_PRODUCTS, .dtype = LS_REAL, .prepare = prepare_products, .run = run_products};
const ls_kernel REF(attention_weighted) = {
    .id = LS_KERNEL_ATTENTION_WEIGHTED, .dtype = LS_REAL, .prepare = prepare_weighted, .run = run_weighted};
const ls_kernel REF(attention_weighted_back) = {.id = LS_KERNEL_ATTENTION_WEIGHTED_BACK,
                                                .dtype = LS_REAL,
                                                .prepare = prepare_weighted_back,
                                                .run = run_weighted_back};
const ls_kernel REF(attention_softmax) = {
    .id = LS_KERNEL_ATTENTION_SOFTMAX, .dtype = LS_REAL, .prepare = prepare_softmax, .run = run_softmax};
const ls_kernel REF(attention_softmax_grad) = {
    .id = LS_KERNEL_ATTENTION_SOFTMAX_GRAD, .dtype = LS_REAL, .prepare = prepare_softmax_grad, .run = run_softmax_grad};
