/*
 * recurrence: each channel's state goes from token to token. recurrence_map: what some tokens make of any state, for
 * ranks that do not know it yet. recurrence_follow: several of these maps, one after the other.
 */
#include "kernel/ref/ref_impl.h"

static bool is_backwards(const ls_kernel_call *call) { return ((const ls_recurrence_params *)call->params)->backwards; }

/* Channel e of token i of batch b of a view [B,N,E]. */
static real *at(const ls_view *v, int64_t b, int64_t i, int64_t e) {
    return (real *)v->data + b * v->stride[0] + i * v->stride[1] + e;
}

static ls_status prepare_recurrence(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE, LS_REAL, call);
}

/* Channels, numbered over the batch. */
static void recur(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *gate = &call->in[0], *x = &call->in[1], *h = &call->out[0];
    const int64_t N = h->size[1], E = h->size[2];
    for (int64_t k = first; k < last; k++) {
        const int64_t b = k / E, e = k % E;
        double state = (double)((const real *)call->in[2].data)[k];
        for (int64_t n = 0; n < N; n++) {
            const int64_t i = is_backwards(call) ? N - 1 - n : n;
            state = (double)*at(gate, b, i, e) * state + (double)*at(x, b, i, e);
            *at(h, b, i, e) = (real)state;
        }
    }
}

static void run_recurrence(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[2], recur, call);
}

static ls_status prepare_map(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE_MAP, LS_REAL, call);
}

static void map(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *gate = &call->in[0], *x = &call->in[1];
    const int64_t N = x->size[1], E = x->size[2], channels = x->size[0] * E;
    real *out = call->out[0].data;
    for (int64_t k = first; k < last; k++) {
        const int64_t b = k / E, e = k % E;
        double factor = 1, state = 0;
        for (int64_t n = 0; n < N; n++) {
            const int64_t i = is_backwards(call) ? N - 1 - n : n;
            factor *= (double)*at(gate, b, i, e);
            state = (double)*at(gate, b, i, e) * state + (double)*at(x, b, i, e);
        }
        out[k] = (real)factor;
        out[channels + k] = (real)state;
    }
}

static void run_map(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->in[1].size[0] * call->in[1].size[2], map, call);
}

static ls_status prepare_follow(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE_FOLLOW, LS_REAL, call);
}

static void follow(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *maps = &call->in[0];
    const int64_t M = maps->size[0], E = maps->size[3];
    for (int64_t k = first; k < last; k++) {
        real *state = (real *)call->out[0].data + k;
        double sum = (double)*state;
        for (int64_t m = 0; m < M; m++) {
            const real *at_map = (const real *)maps->data + (is_backwards(call) ? M - 1 - m : m) * maps->stride[0] +
                                 k / E * maps->stride[2] + k % E;
            sum = (double)at_map[0] * sum + (double)at_map[maps->stride[1]];
        }
        *state = (real)sum;
    }
}

static void run_follow(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), follow, call);
}

const ls_kernel REF(recurrence) = {
    .id = LS_KERNEL_RECURRENCE, .dtype = LS_REAL, .prepare = prepare_recurrence, .run = run_recurrence};
const ls_kernel REF(recurrence_map) = {
    .id = LS_KERNEL_RECURRENCE_MAP, .dtype = LS_REAL, .prepare = prepare_map, .run = run_map};
const ls_kernel REF(recurrence_follow) = {
    .id = LS_KERNEL_RECURRENCE_FOLLOW, .dtype = LS_REAL, .prepare = prepare_follow, .run = run_follow};
