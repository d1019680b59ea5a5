/* SwiGLU (Shazeer, arXiv 2002.05202): silu(gate)*up, and its gradient; silu(x) = x*sigmoid(x). */
#include "kernel/cpu/gate.h"

/* n elements, at most one vector; n is a constant for all but the last. */
V_INLINE void forward(const element *gate, const element *up, element *out, int64_t n) {
    const v_f32 g = v_load(gate, n);
    v_store(out, g * gate_share(g) * v_load(up, n), n);
}

V_INLINE void gradient(const element *gate, const element *up, const element *dy, element *dgate, element *dup,
                       int64_t n) {
    const v_f32 g = v_load(gate, n), d = v_load(dy, n);
    const v_f32 s = gate_share(g);
    const v_f32 u = v_load(up, n);
    v_store(dgate, d * u * silu_slope(g, s), n);
    v_store(dup, d * g * s, n);
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *gate = call->in[0].data, *up = call->in[1].data;
    element *out = call->out[0].data;
    int64_t i = start;
    for (; i + V_LANES <= end; i += V_LANES) forward(gate + i, up + i, out + i, V_LANES);
    if (i < end) forward(gate + i, up + i, out + i, end - i);
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *gate = call->in[0].data, *up = call->in[1].data, *dy = call->in[2].data;
    element *dgate = call->out[0].data, *dup = call->out[1].data;
    int64_t i = start;
    for (; i + V_LANES <= end; i += V_LANES) gradient(gate + i, up + i, dy + i, dgate + i, dup + i, V_LANES);
    if (i < end) gradient(gate + i, up + i, dy + i, dgate + i, dup + i, end - i);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, forward_part);
}

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, gradient_part);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SWIGLU, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SWIGLU_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(swiglu) = {
    .id = LS_KERNEL_SWIGLU, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(swiglu_grad) = {
    .id = LS_KERNEL_SWIGLU_GRAD, LS_CPU_VARIANT, .prepare = prepare_gradient, .run = gradient_run};
