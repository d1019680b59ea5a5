/*
 * recurrence: each element has a state of one or a few numbers, which goes from token to token. recurrence_map: the
 * effect of some tokens on any state, for ranks that do not know the state yet. recurrence_follow: applies several of
 * these maps, one after the other.
 */
#include "kernel/ref/ref_impl.h"

static bool is_backwards(const ls_kernel_call *call) { return ((const ls_recurrence_params *)call->params)->backwards; }

/*
 * Advances the state of element e by token n, where n counts in the order of the steps; returns the token's index in
 * the sequence.
 */
static int64_t step(const ls_kernel_call *call, int64_t b, int64_t n, int64_t e, bool with_x, double *state) {
    const ls_view *gate = &call->in[0], *x = &call->in[1];
    const bool back = is_backwards(call);
    const int64_t K = x->size[2], i = back ? x->size[1] - 1 - n : n, row = gate->stride[back ? 3 : 2],
                  column = gate->stride[back ? 2 : 3];
    const real *of_gate = (const real *)gate->data + b * gate->stride[0] + i * gate->stride[1] + e,
               *of_x = (const real *)x->data + b * x->stride[0] + i * x->stride[1] + e;
    double next[LS_RECURRENCE_STATES];
    for (int64_t r = 0; r < K; r++) {
        next[r] = with_x ? (double)of_x[r * x->stride[2]] : 0;
        for (int64_t c = 0; c < K; c++) next[r] += (double)of_gate[r * row + c * column] * state[c];
    }
    for (int64_t r = 0; r < K; r++) state[r] = next[r];
    return i;
}

static ls_status prepare_recurrence(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE, LS_REAL, call);
}

/* Elements first .. last - 1, numbered over the batch. */
static void recur(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *h = &call->out[0];
    const int64_t N = h->size[1], K = h->size[2], E = h->size[3];
    for (int64_t k = first; k < last; k++) {
        const int64_t b = k / E, e = k % E;
        double state[LS_RECURRENCE_STATES];
        for (int64_t s = 0; s < K; s++) state[s] = (double)((const real *)call->in[2].data)[(b * K + s) * E + e];
        for (int64_t n = 0; n < N; n++) {
            const int64_t i = step(call, b, n, e, true, state);
            real *to = (real *)h->data + b * h->stride[0] + i * h->stride[1] + e;
            for (int64_t s = 0; s < K; s++) to[s * h->stride[2]] = (real)state[s];
        }
    }
}

static void run_recurrence(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[3], recur, call);
}

static ls_status prepare_map(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE_MAP, LS_REAL, call);
}

/*
 * Maps of elements, term by term: the result of a state that is 1 in one place, without x; and of the state 0, with x.
 */
static void map(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t B = call->in[1].size[0], N = call->in[1].size[1], K = call->in[1].size[2], E = call->in[1].size[3];
    real *out = call->out[0].data;
    for (int64_t k = first; k < last; k++) {
        const int64_t term = k / (B * E), b = k / E % B, e = k % E;
        double state[LS_RECURRENCE_STATES] = {0};
        if (term < K) state[term] = 1;
        for (int64_t n = 0; n < N; n++) (void)step(call, b, n, e, term == K, state);
        for (int64_t s = 0; s < K; s++) out[((term * B + b) * K + s) * E + e] = (real)state[s];
    }
}

static void run_map(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *x = &call->in[1];
    ref_split(pool, (x->size[2] + 1) * x->size[0] * x->size[3], map, call);
}

static ls_status prepare_follow(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RECURRENCE_FOLLOW, LS_REAL, call);
}

static void follow(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *maps = &call->in[0], *out = &call->out[0];
    const int64_t M = maps->size[0], K = out->size[1], E = out->size[2];
    for (int64_t k = first; k < last; k++) {
        const int64_t b = k / E, e = k % E;
        real *state = (real *)out->data + b * K * E + e;
        double now[LS_RECURRENCE_STATES], next[LS_RECURRENCE_STATES];
        for (int64_t s = 0; s < K; s++) now[s] = (double)state[s * E];
        for (int64_t m = 0; m < M; m++) {
            const real *of_map = (const real *)maps->data + (is_backwards(call) ? M - 1 - m : m) * maps->stride[0] +
                                 b * maps->stride[2] + e;
            for (int64_t s = 0; s < K; s++) {
                next[s] = (double)of_map[K * maps->stride[1] + s * maps->stride[3]];
                for (int64_t c = 0; c < K; c++)
                    next[s] += (double)of_map[c * maps->stride[1] + s * maps->stride[3]] * now[c];
            }
            for (int64_t s = 0; s < K; s++) now[s] = next[s];
        }
        for (int64_t s = 0; s < K; s++) state[s * E] = (real)now[s];
    }
}

static void run_follow(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[2], follow, call);
}

const ls_kernel REF(recurrence) = {
    .id = LS_KERNEL_RECURRENCE, .dtype = LS_REAL, .prepare = prepare_recurrence, .run = run_recurrence};
const ls_kernel REF(recurrence_map) = {
    .id = LS_KERNEL_RECURRENCE_MAP, .dtype = LS_REAL, .prepare = prepare_map, .run = run_map};
const ls_kernel REF(recurrence_follow) = {
    .id = LS_KERNEL_RECURRENCE_FOLLOW, .dtype = LS_REAL, .prepare = prepare_follow, .run = run_follow};
