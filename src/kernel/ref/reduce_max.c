/* reduce_max and its gradient. */
#include "kernel/ref/ref_impl.h"

/* Whether x is larger than `than`; NaN is larger than numbers. */
static bool is_larger(real x, real than) { return x > than || (isnan(x) && !isnan(than)); }

static bool is_equal(real x, real y) { return x == y || (isnan(x) && isnan(y)); }

static ls_status prepare_max(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_REDUCE_MAX, LS_REAL, call);
}

/* The index in x of element r = 0 of the i-th maximum. */
static int64_t start_of(const ls_kernel_call *call, int64_t i) {
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    return i / I * R * I + i % I;
}

/* The first of the largest elements. */
static int64_t find_largest(const ls_kernel_call *call, const real *x) {
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    int64_t best = 0;
    for (int64_t r = 1; r < R; r++)
        if (is_larger(x[r * I], x[best * I])) best = r;
    return best;
}

static void largest(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[0].data + start_of(call, i);
        ((real *)call->out[0].data)[i] = x[find_largest(call, x) * call->in[0].size[2]];
    }
}

static void run_max(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), largest, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_REDUCE_MAX_GRAD, LS_REAL, call);
}

static void gradients(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const bool shared = ((const ls_reduce_max_params *)call->params)->shared;
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[0].data + start_of(call, i);
        real *dx = (real *)call->out[0].data + start_of(call, i);
        const int64_t best = find_largest(call, x);
        int64_t equal = 0;
        for (int64_t r = 0; r < R; r++) equal += is_equal(x[r * I], x[best * I]);
        const double part = (double)((const real *)call->in[1].data)[i] / (double)(shared ? equal : 1);
        for (int64_t r = 0; r < R; r++)
            dx[r * I] = (real)((shared ? is_equal(x[r * I], x[best * I]) : r == best) ? part : 0);
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[1]), gradients, call);
}

const ls_kernel REF(reduce_max) = {
    .id = LS_KERNEL_REDUCE_MAX, .dtype = LS_REAL, .prepare = prepare_max, .run = run_max};
const ls_kernel REF(reduce_max_grad) = {
    .id = LS_KERNEL_REDUCE_MAX_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
