/* add, mul, scale, scale_by, combine, normalize: few operations per element, rounded once. */
#include "kernel/ref/ref_impl.h"

static int64_t outputs(const ls_kernel_call *call) { return ls_view_elements(&call->out[0]); }

static ls_status prepare_add(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ADD, LS_REAL, call);
}

static void run_add(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *a = call->in[0].data, *b = call->in[1].data;
    real *y = call->out[0].data;
    for (int64_t i = 0, n = outputs(call); i < n; i++) y[i] = a[i] + b[i];
}

static ls_status prepare_mul(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_MUL, LS_REAL, call);
}

static void run_mul(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *a = call->in[0].data, *b = call->in[1].data;
    real *y = call->out[0].data;
    for (int64_t i = 0, n = outputs(call); i < n; i++) y[i] = a[i] * b[i];
}

static void multiply_by(const ls_kernel_call *call, double factor) {
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t i = 0, n = outputs(call); i < n; i++) y[i] = (real)((double)x[i] * factor);
}

static ls_status prepare_scale(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SCALE, LS_REAL, call);
}

static void run_scale(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    multiply_by(call, ((const ls_scale_params *)call->params)->factor);
}

static ls_status prepare_scale_by(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_SCALE_BY, LS_REAL, call);
}

static void run_scale_by(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    multiply_by(call, (double)*(const real *)call->in[1].data);
}

static ls_status prepare_combine(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_COMBINE, LS_REAL, call);
}

static void run_combine(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_combine_params *p = call->params;
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t i = 0, n = outputs(call); i < n; i++) y[i] = (real)(p->a * (double)x[i] + p->b * (double)y[i]);
}

static ls_status prepare_normalize(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_NORMALIZE, LS_REAL, call);
}

static void run_normalize(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const real *x = call->in[0].data;
    double squares = 0;
    for (int64_t i = 0, n = outputs(call); i < n; i++) squares += (double)x[i] * (double)x[i];
    const double norm = sqrt(squares);
    multiply_by(call, norm < 1e-30 ? 0 : 1 / norm);
}

const ls_kernel REF(add) = {.id = LS_KERNEL_ADD, .dtype = LS_REAL, .prepare = prepare_add, .run = run_add};
const ls_kernel REF(mul) = {.id = LS_KERNEL_MUL, .dtype = LS_REAL, .prepare = prepare_mul, .run = run_mul};
const ls_kernel REF(scale) = {.id = LS_KERNEL_SCALE, .dtype = LS_REAL, .prepare = prepare_scale, .run = run_scale};
const ls_kernel REF(scale_by) = {
    .id = LS_KERNEL_SCALE_BY, .dtype = LS_REAL, .prepare = prepare_scale_by, .run = run_scale_by};
const ls_kernel REF(combine) = {
    .id = LS_KERNEL_COMBINE, .dtype = LS_REAL, .prepare = prepare_combine, .run = run_combine};
const ls_kernel REF(normalize) = {
    .id = LS_KERNEL_NORMALIZE, .dtype = LS_REAL, .prepare = prepare_normalize, .run = run_normalize};
