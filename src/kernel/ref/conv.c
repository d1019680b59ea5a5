/*
 * conv: y[i] = sum over t of weight[t]*x[i + W-1 - t], or of weight[t]*x[i + t] if params.ahead, for each channel. x
 * has W-1 more tokens than y. conv_dw: dweight[t] += sum over batch and tokens of dy[i] times the x of the same
 * product. A reach limits t for each token. A bias is the last row of a weight. conv_silu_grad: the gradient of
 * silu(y), for which y is computed again.
 */
#include <math.h>

#include "kernel/ref/ref_impl.h"

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static double silu_slope(double x) { return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))); }

static ls_status prepare_conv(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CONV, LS_REAL, call);
}

/* Token i of batch b of a view [B,tokens,E]. */
static real *token(const ls_view *v, int64_t b, int64_t i) {
    return (real *)v->data + b * v->stride[0] + i * v->stride[1];
}

/* The row of a weight with W taps that has tap t. */
static int64_t row_of(const ls_kernel_call *call, int64_t t, int64_t W) {
    return ((const ls_conv_params *)call->params)->last_first ? W - 1 - t : t;
}

/* How many of W taps token i of batch b has. */
static int64_t taps_of(const ls_view *reach, bool ahead, int64_t b, int64_t i, int64_t W) {
    return reach->size[2] == 0 ? W : ls_min(W, 1 + (int64_t)token(reach, b, i)[ahead ? reach->stride[2] : 0]);
}

/* Element e of a token: the sum over its taps, plus the bias. */
static double convolved(const ls_kernel_call *call, const ls_view *reach, int64_t b, int64_t i, int64_t e) {
    const ls_conv_params *p = call->params;
    const ls_view *x = &call->in[0], *w = &call->in[1];
    const int64_t W = ls_conv_taps(p, w->size[0]), E = w->size[1], taps = taps_of(reach, p->ahead, b, i, W);
    const real *weight = w->data;
    double sum = p->biased && !p->ahead ? (double)weight[W * E + e] : 0;
    for (int64_t t = 0; t < taps; t++)
        sum += (double)weight[row_of(call, t, W) * E + e] * (double)token(x, b, p->ahead ? i + t : i + W - 1 - t)[e];
    return sum;
}

/* Computes rows of y, numbered over batch and tokens. */
static void convolve(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_conv_params *p = call->params;
    const ls_view *y = &call->out[0];
    for (int64_t row = first; row < last; row++) {
        const int64_t b = row / y->size[1], i = row % y->size[1];
        for (int64_t e = 0; e < y->size[2]; e++) {
            const double sum = convolved(call, &call->in[2], b, i, e);
            token(y, b, i)[e] = (real)(p->silu ? sum * sigmoid(sum) : sum);
        }
    }
}

/* Computes rows of dz. */
static void lead_back(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *dy = &call->in[2], *dz = &call->out[0];
    for (int64_t row = first; row < last; row++) {
        const int64_t b = row / dz->size[1], i = row % dz->size[1];
        for (int64_t e = 0; e < dz->size[2]; e++)
            token(dz, b, i)[e] =
                (real)((double)token(dy, b, i)[e] * silu_slope(convolved(call, &call->in[3], b, i, e)));
    }
}

static void run_conv(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[1], convolve, call);
}

static ls_status prepare_silu_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CONV_SILU_GRAD, LS_REAL, call);
}

static void run_silu_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[1], lead_back, call);
}

static ls_status prepare_dw(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_CONV_DW, LS_REAL, call);
}

/* Computes elements of dweight, numbered over taps and channels. */
static void correlate(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *x = &call->in[0], *dy = &call->in[1], *dw = &call->out[0];
    const ls_conv_params *p = call->params;
    const int64_t W = ls_conv_taps(p, dw->size[0]), E = dw->size[1];
    const bool ahead = p->ahead;
    for (int64_t k = first; k < last; k++) {
        const bool is_bias = k / E == W;
        const int64_t t = row_of(call, k / E, W), e = k % E;
        double sum = 0;
        for (int64_t b = 0; b < dy->size[0]; b++)
            for (int64_t i = 0; i < dy->size[1]; i++)
                if (is_bias)
                    sum += (double)token(dy, b, i)[e];
                else if (t < taps_of(&call->in[2], ahead, b, i, W))
                    sum += (double)token(dy, b, i)[e] * (double)token(x, b, ahead ? i + t : i + W - 1 - t)[e];
        ((real *)dw->data)[k] = (real)((double)((real *)dw->data)[k] + sum);
    }
}

static void run_dw(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), correlate, call);
}

const ls_kernel REF(conv) = {.id = LS_KERNEL_CONV, .dtype = LS_REAL, .prepare = prepare_conv, .run = run_conv};
const ls_kernel REF(conv_silu_grad) = {
    .id = LS_KERNEL_CONV_SILU_GRAD, .dtype = LS_REAL, .prepare = prepare_silu_grad, .run = run_silu_grad};
const ls_kernel REF(conv_dw) = {.id = LS_KERNEL_CONV_DW, .dtype = LS_REAL, .prepare = prepare_dw, .run = run_dw};
