/* reduce: sums over one dimension, in double. */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_reduce(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_REDUCE, LS_REAL, call);
}

static void sum_elements(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t R = call->in[0].size[1], I = call->in[0].size[2];
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t i = first; i < last; i++) {
        const real *from = x + i / I * R * I + i % I;
        double sum = (double)y[i];
        for (int64_t r = 0; r < R; r++) sum += (double)from[r * I];
        y[i] = (real)sum;
    }
}

static void run_reduce(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), sum_elements, call);
}

const ls_kernel REF(reduce) = {.id = LS_KERNEL_REDUCE, .dtype = LS_REAL, .prepare = prepare_reduce, .run = run_reduce};
