/* activation and activation_grad: a function of one element; dy times the slope of that function. */
#include "kernel/ref/ref_impl.h"

/* Value and slope at x; c is the cap of softcap. */
typedef struct function {
    double (*value)(double x, double c);
    double (*slope)(double x, double c);
} function;

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* x Phi(x), where Phi is the distribution function of the standard normal (Hendrycks, Gimpel, arXiv 1606.08415) */
static double gelu(double x, double c) {
    (void)c;
    return 0.5 * x * erfc(-x * sqrt(0.5));
}
static double gelu_slope(double x, double c) {
    (void)c;
    return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

/* The approximation with tanh: x (1 + tanh(u))/2 = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static double twice_u(double x) { return 2.0 * sqrt(2.0 / acos(-1.0)) * x * (1.0 + 0.044715 * x * x); }
static double gelu_tanh(double x, double c) {
    (void)c;
    return x * sigmoid(twice_u(x));
}
static double gelu_tanh_slope(double x, double c) {
    (void)c;
    const double s = sigmoid(twice_u(x));
    return s + x * s * (1.0 - s) * 2.0 * sqrt(2.0 / acos(-1.0)) * (1.0 + 3.0 * 0.044715 * x * x);
}

static double relu(double x, double c) {
    (void)c;
    return x > 0 ? x : 0;
}
static double relu_slope(double x, double c) {
    (void)c;
    return x > 0 ? 1 : 0;
}

static double silu(double x, double c) {
    (void)c;
    return x * sigmoid(x);
}
static double silu_slope(double x, double c) {
    (void)c;
    const double s = sigmoid(x);
    return s * (1.0 + x * (1.0 - s));
}

static double softcap(double x, double c) { return c * tanh(x / c); }
static double softcap_slope(double x, double c) {
    const double t = tanh(x / c);
    return 1.0 - t * t;
}

static const function functions[LS_ACTIVATIONS] = {
    [LS_ACTIVATION_GELU] = {gelu, gelu_slope},          [LS_ACTIVATION_GELU_TANH] = {gelu_tanh, gelu_tanh_slope},
    [LS_ACTIVATION_RELU] = {relu, relu_slope},          [LS_ACTIVATION_SILU] = {silu, silu_slope},
    [LS_ACTIVATION_SOFTCAP] = {softcap, softcap_slope},
};

static ls_status prepare_activation(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ACTIVATION, LS_REAL, call);
}

static void forward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_activation_params *p = call->params;
    const real *x = call->in[0].data;
    real *y = call->out[0].data;
    for (int64_t i = first; i < last; i++) y[i] = (real)functions[p->kind].value((double)x[i], p->cap);
}

static void run_activation(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[0]), forward, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ACTIVATION_GRAD, LS_REAL, call);
}

static void backward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_activation_params *p = call->params;
    const real *dy = call->in[0].data, *x = call->in[1].data;
    real *dx = call->out[0].data;
    for (int64_t i = first; i < last; i++)
        dx[i] = (real)((double)dy[i] * functions[p->kind].slope((double)x[i], p->cap));
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->in[0]), backward, call);
}

const ls_kernel REF(activation) = {
    .id = LS_KERNEL_ACTIVATION, .dtype = LS_REAL, .prepare = prepare_activation, .run = run_activation};
const ls_kernel REF(activation_grad) = {
    .id = LS_KERNEL_ACTIVATION_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
