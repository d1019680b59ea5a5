/* SwiGLU (Shazeer, arXiv 2002.05202): silu(gate)*up, and its gradient; silu(x) = x*sigmoid(x). */
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vexp.h"

V_INLINE v_f32 sigmoid(v_f32 x) { return 1.0f / (1.0f + v_exp(-x)); }

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *gate = call->in[0].data, *up = call->in[1].data;
    element *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        const v_f32 g = v_load(gate + i, end - i), u = v_load(up + i, end - i);
        v_store(out + i, g * sigmoid(g) * u, end - i);
    }
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *gate = call->in[0].data, *up = call->in[1].data, *dy = call->in[2].data;
    element *dgate = call->out[0].data, *dup = call->out[1].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        const v_f32 g = v_load(gate + i, end - i), u = v_load(up + i, end - i), d = v_load(dy + i, end - i);
        const v_f32 s = sigmoid(g);
        v_store(dgate + i, d * u * s * (1.0f + g * (1.0f - s)), end - i);
        v_store(dup + i, d * g * s, end - i);
    }
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
    return check_only("swiglu", call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only("swiglu_grad", call, state);
}

const ls_kernel LS_CPU_NAME(swiglu) = {.name = "swiglu",
                                       .dtype = LS_CPU_DTYPE,
                                       .isa = LS_CPU_LEVEL,
                                       .prepare = prepare_forward,
                                       .run = forward_run};
const ls_kernel LS_CPU_NAME(swiglu_grad) = {.name = "swiglu_grad",
                                            .dtype = LS_CPU_DTYPE,
                                            .isa = LS_CPU_LEVEL,
                                            .prepare = prepare_gradient,
                                            .run = gradient_run};
