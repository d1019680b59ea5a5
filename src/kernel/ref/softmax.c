/* softmax and its gradient, row by row in double. */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_softmax(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SOFTMAX, LS_REAL, call);
}

static void softmax_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = ref_columns(&call->in[0]);
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)call->in[0].data + i * K;
        real *y = (real *)call->out[0].data + i * K;
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < K; k++) most = (double)x[k] > most ? (double)x[k] : most;
        for (int64_t k = 0; k < K; k++) sum += exp((double)x[k] - most);
        for (int64_t k = 0; k < K; k++) y[k] = (real)(exp((double)x[k] - most) / sum);
    }
}

static void run_softmax(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), softmax_rows, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SOFTMAX_GRAD, LS_REAL, call);
}

static void grad_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int64_t K = ref_columns(&call->in[0]);
    for (int64_t i = first; i < last; i++) {
        const real *y = (const real *)call->in[0].data + i * K, *dy = (const real *)call->in[1].data + i * K;
        real *dx = (real *)call->out[0].data + i * K;
        double sum = 0;
        for (int64_t k = 0; k < K; k++) sum += (double)y[k] * (double)dy[k];
        for (int64_t k = 0; k < K; k++) dx[k] = (real)((double)y[k] * ((double)dy[k] - sum));
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[0]), grad_rows, call);
}

const ls_kernel REF(softmax) = {
    .id = LS_KERNEL_SOFTMAX, .dtype = LS_REAL, .prepare = prepare_softmax, .run = run_softmax};
const ls_kernel REF(softmax_grad) = {
    .id = LS_KERNEL_SOFTMAX_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
