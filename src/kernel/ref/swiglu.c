/* swiglu: silu(gate) * up, silu(x) = x * sigmoid(x) (Shazeer 2020). */
#include "kernel/ref/ref_impl.h"

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static ls_status prepare_swiglu(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SWIGLU, LS_REAL, call);
}

static void forward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const real *gate = call->in[0].data, *up = call->in[1].data;
    real *y = call->out[0].data;
    for (int64_t i = first; i < last; i++) {
        const double g = (double)gate[i];
        y[i] = (real)(g * sigmoid(g) * (double)up[i]);
    }
}

static void run_swiglu(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[0]), forward, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SWIGLU_GRAD, LS_REAL, call);
}

static void backward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const real *gate = call->in[0].data, *up = call->in[1].data, *dy = call->in[2].data;
    real *dgate = call->out[0].data, *dup = call->out[1].data;
    for (int64_t i = first; i < last; i++) {
        const double g = (double)gate[i], u = (double)up[i], d = (double)dy[i], s = sigmoid(g);
        dgate[i] = (real)(d * u * s * (1.0 + g * (1.0 - s)));
        dup[i] = (real)(d * g * s);
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[0]), backward, call);
}

const ls_kernel REF(swiglu) = {.id = LS_KERNEL_SWIGLU, .dtype = LS_REAL, .prepare = prepare_swiglu, .run = run_swiglu};
const ls_kernel REF(swiglu_grad) = {
    .id = LS_KERNEL_SWIGLU_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
