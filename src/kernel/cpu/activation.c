/*
 * activation and activation_grad: gelu exact or with tanh (Hendrycks, Gimpel, arXiv 1606.08415), relu, silu, the soft
 * cap. The table `bodies` has one row per function; each function is inlined into a loop of its own.
 */
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

typedef v_f32 (*function)(v_f32 x, float cap);

/* The distribution function of the standard normal. */
V_INLINE v_f32 normal_cdf(v_f32 x) { return 0.5f + 0.5f * v_erf(x * 0.70710678118654752f); }

V_INLINE v_f32 gelu(v_f32 x, float cap) {
    (void)cap;
    return x * normal_cdf(x);
}
V_INLINE v_f32 gelu_slope(v_f32 x, float cap) {
    (void)cap;
    return normal_cdf(x) + x * 0.39894228040143268f * v_exp(x * x * -0.5f);
}

/* (1 + tanh(u))/2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static const float twice_root = 1.5957691216057308f; /* 2 sqrt(2/pi) */
V_INLINE v_f32 tanh_share(v_f32 x) { return v_sigmoid(x * (twice_root + twice_root * 0.044715f * x * x)); }

V_INLINE v_f32 gelu_tanh(v_f32 x, float cap) {
    (void)cap;
    return x * tanh_share(x);
}
V_INLINE v_f32 gelu_tanh_slope(v_f32 x, float cap) {
    (void)cap;
    const v_f32 s = tanh_share(x);
    return s + x * s * (1.0f - s) * (twice_root + twice_root * 3.0f * 0.044715f * x * x);
}

V_INLINE v_f32 relu(v_f32 x, float cap) {
    (void)cap;
    return v_select(x <= 0.0f, v_set(0.0f), x); /* NaN stays */
}
V_INLINE v_f32 relu_slope(v_f32 x, float cap) {
    (void)cap;
    return v_select(x > 0.0f, v_set(1.0f), v_set(0.0f));
}

V_INLINE v_f32 silu(v_f32 x, float cap) {
    (void)cap;
    return x * v_sigmoid(x);
}
V_INLINE v_f32 silu_slope(v_f32 x, float cap) {
    (void)cap;
    const v_f32 s = v_sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

V_INLINE v_f32 softcap(v_f32 x, float cap) { return cap * v_tanh(x * (1.0f / cap)); }
V_INLINE v_f32 softcap_slope(v_f32 x, float cap) {
    const v_f32 t = v_tanh(x * (1.0f / cap));
    return 1.0f - t * t;
}

V_INLINE void values(const ls_kernel_call *call, int64_t start, int64_t end, function f) {
    const float cap = (float)((const ls_activation_params *)call->params)->cap;
    const element *x = call->in[0].data;
    element *y = call->out[0].data;
    int64_t i = start;
    for (; i + V_LANES <= end; i += V_LANES) v_store(y + i, f(v_load(x + i, V_LANES), cap), V_LANES);
    if (i < end) v_store(y + i, f(v_load(x + i, end - i), cap), end - i);
}

V_INLINE void slopes(const ls_kernel_call *call, int64_t start, int64_t end, function f) {
    const float cap = (float)((const ls_activation_params *)call->params)->cap;
    const element *dy = call->in[0].data;
    const bool wide = call->in[1].dtype == LS_F32;
    element *dx = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) {
        const v_f32 x = v_load_either(call->in[1].data, wide, i, end - i);
        v_store(dx + i, v_load(dy + i, end - i) * f(x, cap), end - i);
    }
}

static void gelu_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    values(call, start, end, gelu);
}
static void gelu_grad_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    slopes(call, start, end, gelu_slope);
}
static void gelu_tanh_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    values(call, start, end, gelu_tanh);
}
static void gelu_tanh_grad_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    slopes(call, start, end, gelu_tanh_slope);
}
static void relu_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    values(call, start, end, relu);
}
static void relu_grad_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    slopes(call, start, end, relu_slope);
}
static void silu_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    values(call, start, end, silu);
}
static void silu_grad_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    slopes(call, start, end, silu_slope);
}
static void softcap_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    values(call, start, end, softcap);
}
static void softcap_grad_part(const void *call, int part, int64_t start, int64_t end) {
    (void)part;
    slopes(call, start, end, softcap_slope);
}

static const struct {
    ls_cpu_body forward, gradient;
} bodies[LS_ACTIVATIONS] = {
    [LS_ACTIVATION_GELU] = {gelu_part, gelu_grad_part},
    [LS_ACTIVATION_GELU_TANH] = {gelu_tanh_part, gelu_tanh_grad_part},
    [LS_ACTIVATION_RELU] = {relu_part, relu_grad_part},
    [LS_ACTIVATION_SILU] = {silu_part, silu_grad_part},
    [LS_ACTIVATION_SOFTCAP] = {softcap_part, softcap_grad_part},
};

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_activation_params *params = call->params;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, bodies[params->kind].forward);
}

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_activation_params *params = call->params;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, bodies[params->kind].gradient);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ACTIVATION, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ACTIVATION_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(activation) = {
    .id = LS_KERNEL_ACTIVATION, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(activation_grad) = {
    .id = LS_KERNEL_ACTIVATION_GRAD, LS_CPU_VARIANT, .prepare = prepare_gradient, .run = gradient_run};
