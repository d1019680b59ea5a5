/* take_along, its gradient, and topk; each row is independent. */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_take(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_TAKE_ALONG, LS_REAL, call);
}

static void take(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = ref_columns(&call->in[0]), J = ref_columns(&call->in[1]);
    const int32_t *ids = call->in[1].data;
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t e = first * J; e < last * J; e++) y[e] = ids[e] >= 0 && ids[e] < K ? x[e / J * K + ids[e]] : (real)NAN;
}

static void run_take(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), take, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_TAKE_ALONG_GRAD, LS_REAL, call);
}

static void add_at(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = ref_columns(&call->out[0]), J = ref_columns(&call->in[0]);
    const int32_t *ids = call->in[0].data;
    const real *dy = call->in[1].data;
    real *dx = call->out[0].data;
    for (int64_t e = first * J; e < last * J; e++)
        if (ids[e] >= 0 && ids[e] < K) dx[e / J * K + ids[e]] += dy[e];
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), add_at, call);
}

static ls_status prepare_topk(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_TOPK, LS_REAL, call);
}

/* Whether element a of x comes before element b. */
static bool comes_first(const real *x, int64_t a, int64_t b) {
    if (isnan(x[a]) || isnan(x[b])) return isnan(x[a]) && (!isnan(x[b]) || a < b);
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* The next element in descending order after element `after`; -1: the first of all. */
static int64_t next_of(const real *x, int64_t K, int64_t after) {
    int64_t best = -1;
    for (int64_t k = 0; k < K; k++)
        if ((after < 0 || comes_first(x, after, k)) && (best < 0 || comes_first(x, k, best))) best = k;
    return best;
}

static void sort_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = ref_columns(&call->in[0]), J = ref_columns(&call->out[0]);
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[0].data + i * K;
        for (int64_t j = 0, at = -1; j < J; j++) {
            at = next_of(x, K, at);
            ((real *)call->out[0].data)[i * J + j] = x[at];
            ((int32_t *)call->out[1].data)[i * J + j] = (int32_t)at;
        }
    }
}

static void run_topk(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), sort_rows, call);
}

const ls_kernel REF(take_along) = {
    .id = LS_KERNEL_TAKE_ALONG, .dtype = LS_REAL, .prepare = prepare_take, .run = run_take};
const ls_kernel REF(take_along_grad) = {
    .id = LS_KERNEL_TAKE_ALONG_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
const ls_kernel REF(topk) = {.id = LS_KERNEL_TOPK, .dtype = LS_REAL, .prepare = prepare_topk, .run = run_topk};
