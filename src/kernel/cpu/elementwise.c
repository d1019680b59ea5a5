/* Kernels with few operations per element: add, mul, scale, scale_by, combine. */
#include "kernel/cpu/cpu_impl.h"

static void add_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *a = call->in[0].data, *b = call->in[1].data;
    element *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        v_store(out + i, v_load(a + i, end - i) + v_load(b + i, end - i), end - i);
    }
}

static void mul_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *a = call->in[0].data, *b = call->in[1].data;
    element *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        v_store(out + i, v_load(a + i, end - i) * v_load(b + i, end - i), end - i);
    }
}

static void scale_range(const ls_kernel_call *call, float factor, int64_t start, int64_t end) {
    const element *x = call->in[0].data;
    element *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) v_store(out + i, v_load(x + i, end - i) * factor, end - i);
}

static void scale_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_scale_params *params = call->params;
    scale_range(call, (float)params->factor, start, end);
}

static void scale_by_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    scale_range(call, *(const float *)call->in[1].data, start, end);
}

static void combine_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_combine_params *p = call->params;
    const float a = (float)p->a, b = (float)p->b;
    const element *x = call->in[0].data;
    element *y = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES)
        v_store(y + i, a * v_load(x + i, end - i) + b * v_load(y + i, end - i), end - i);
}

static void add_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, add_part);
}

static void mul_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, mul_part);
}

static void scale_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, scale_part);
}

static void scale_by_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, scale_by_part);
}

static void combine_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, combine_part);
}

static ls_status prepare_add(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ADD, call, state);
}

static ls_status prepare_mul(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_MUL, call, state);
}

static ls_status prepare_scale(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SCALE, call, state);
}

static ls_status prepare_scale_by(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SCALE_BY, call, state);
}

static ls_status prepare_combine(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_COMBINE, call, state);
}

const ls_kernel LS_CPU_NAME(add) = {.id = LS_KERNEL_ADD, LS_CPU_VARIANT, .prepare = prepare_add, .run = add_run};
const ls_kernel LS_CPU_NAME(mul) = {.id = LS_KERNEL_MUL, LS_CPU_VARIANT, .prepare = prepare_mul, .run = mul_run};
const ls_kernel LS_CPU_NAME(scale) = {
    .id = LS_KERNEL_SCALE, LS_CPU_VARIANT, .prepare = prepare_scale, .run = scale_run};
const ls_kernel LS_CPU_NAME(scale_by) = {
    .id = LS_KERNEL_SCALE_BY, LS_CPU_VARIANT, .prepare = prepare_scale_by, .run = scale_by_run};
const ls_kernel LS_CPU_NAME(combine) = {
    .id = LS_KERNEL_COMBINE, LS_CPU_VARIANT, .prepare = prepare_combine, .run = combine_run};
