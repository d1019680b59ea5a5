/*
 * cross_entropy: loss = lse - logits[label], lse = log(sum(exp(logits))), or as params say. Label -100 is ignored: loss
 * and gradient are 0. The host has checked that other labels lie in [0, V); with a part of the vocabulary they may be
 * LS_ID_ELSEWHERE.
 */
#include "kernel/ref/ref_impl.h"

typedef struct rows {
    const ls_kernel_call *call;
    int64_t V;
} rows;

static ls_status prepare_loss(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CROSS_ENTROPY, LS_REAL, call);
}

static double log_sum_exp(const real *x, int64_t n) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((double)x[i] > most) most = (double)x[i]; /* not fmax, which crashes gcc 12 for aarch64 in this place */
    if (most == -INFINITY) return -INFINITY;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - most);
    return most + log(sum);
}

static double sum_of(const real *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum;
}

static void losses(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const ls_cross_entropy_params *p = ls_cross_entropy_params_of(r->call->params);
    const int32_t *labels = r->call->in[1].data;
    real *loss = r->call->out[0].data, *lse = r->call->out[1].data;
    for (int64_t i = first; i < last; i++) {
        const real *logits = (const real *)r->call->in[0].data + i * r->V;
        const double total = log_sum_exp(logits, r->V);
        LS_ASSERT(labels[i] == LS_LABEL_IGNORED || (labels[i] >= LS_ID_ELSEWHERE && labels[i] < r->V));
        const double at_label = labels[i] >= 0 ? (double)logits[labels[i]] : 0;
        const double of_each = p->each != 0 ? p->each * sum_of(logits, r->V) : 0;
        const double square = p->z != 0 ? p->z * total * total : 0;
        loss[i] = labels[i] == LS_LABEL_IGNORED ? 0 : (real)(total - p->label * at_label - of_each + square);
        lse[i] = (real)total;
    }
}

static void run_loss(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    rows r = {call, ref_columns(&call->in[0])};
    ref_split(pool, ref_rows(&call->in[0]), losses, &r);
}

static ls_status prepare_merge(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CROSS_ENTROPY_MERGE, LS_REAL, call);
}

static void run_merge(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const int64_t P = call->in[0].size[0], N = call->in[0].size[2];
    const real *parts = call->in[0].data;
    const int32_t *labels = call->in[1].data;
    const double z = ls_cross_entropy_params_of(call->params)->z;
    real *loss = call->out[0].data, *lse = call->out[1].data;
    for (int64_t i = 0; i < N; i++) {
        double most = -INFINITY, sum = 0, at_label = 0;
        for (int64_t p = 0; p < P; p++) {
            const double part = (double)parts[(2 * p + 1) * N + i];
            if (part > most) most = part;
            at_label += part == -INFINITY ? 0 : part - (double)parts[2 * p * N + i];
        }
        for (int64_t p = 0; p < P && most != -INFINITY; p++) sum += exp((double)parts[(2 * p + 1) * N + i] - most);
        const double total = most == -INFINITY ? most : most + log(sum);
        const double square = z != 0 ? z * total * total : 0;
        loss[i] = labels[i] == LS_LABEL_IGNORED ? 0 : (real)(total - at_label + square);
        lse[i] = (real)total;
    }
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CROSS_ENTROPY_GRAD, LS_REAL, call);
}

static void gradients(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const int32_t *labels = r->call->in[1].data;
    const real *lse = r->call->in[2].data, *dloss = r->call->in[3].data;
    const ls_cross_entropy_params *of = ls_cross_entropy_params_of(r->call->params);
    for (int64_t i = first; i < last; i++) {
        const real *logits = (const real *)r->call->in[0].data + i * r->V;
        real *dlogits = (real *)r->call->out[0].data + i * r->V;
        const double slope = of->z != 0 ? 1 + 2 * of->z * (double)lse[i] : 1; /* derivative of the loss by lse */
        for (int64_t v = 0; v < r->V; v++) {
            const double p = exp((double)logits[v] - (double)lse[i]);
            const double d = (slope * p - of->each - (v == labels[i] ? of->label : 0.0)) * (double)dloss[i];
            dlogits[v] = labels[i] == LS_LABEL_IGNORED ? 0 : (real)d;
        }
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    rows r = {call, ref_columns(&call->in[0])};
    ref_split(pool, ref_rows(&call->in[0]), gradients, &r);
}

const ls_kernel REF(cross_entropy) = {
    .id = LS_KERNEL_CROSS_ENTROPY, .dtype = LS_REAL, .prepare = prepare_loss, .run = run_loss};
const ls_kernel REF(cross_entropy_merge) = {
    .id = LS_KERNEL_CROSS_ENTROPY_MERGE, .dtype = LS_REAL, .prepare = prepare_merge, .run = run_merge};
const ls_kernel REF(cross_entropy_grad) = {
    .id = LS_KERNEL_CROSS_ENTROPY_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
#if !LS_REAL_IS_F64
const ls_kernel REF(cross_entropy_merge_bf16) = {
    .id = LS_KERNEL_CROSS_ENTROPY_MERGE, .dtype = LS_BF16, .prepare = prepare_merge, .run = run_merge};
#endif
