/*
 * conv and conv_dw: a short depth-wise convolution along tokens, in vectors over channels. The weight is [W,E], so a
 * tap is a contiguous row. Threads split the tokens in conv and the channels in conv_dw, so that a sum over tokens is
 * computed by one thread: in f32 over STRETCH tokens; these sums are added in f64. With a reach, a token has no further
 * taps.
 */
#include "kernel/cpu/cpu_impl.h"

/* Token i of batch b of a view [B,tokens,E]. */
V_INLINE element *token(const ls_view *v, int64_t b, int64_t i) {
    return (element *)v->data + b * v->stride[0] + i * v->stride[1];
}

/* The row of a weight that has tap t of W. */
V_INLINE int64_t row_of(const ls_kernel_call *call, int64_t t, int64_t W) {
    return ((const ls_conv_params *)call->params)->last_first ? W - 1 - t : t;
}

/* The taps that token i of batch b has, of W. */
V_INLINE int64_t taps_of(const ls_view *reach, bool ahead, int64_t b, int64_t i, int64_t W) {
    if (reach->size[2] == 0) return W;
    return ls_min(W, 1 + (int64_t)element_to_f32(token(reach, b, i)[ahead ? reach->stride[2] : 0]));
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_conv_params *params = call->params;
    const ls_view *x = &call->in[0], *y = &call->out[0];
    const int64_t W = call->in[1].size[0], E = y->size[2], N = y->size[1];
    const element *weight = call->in[1].data;
    for (int64_t row = start; row < end; row++) {
        const int64_t b = row / N, i = row % N;
        const int64_t taps = taps_of(&call->in[2], params->ahead, b, i, W);
        element *out = token(y, b, i);
        for (int64_t e = 0; e < E; e += V_LANES) {
            v_f32 sum = {0};
            for (int64_t t = 0; t < taps; t++) {
                const element *at = token(x, b, params->ahead ? i + t : i + W - 1 - t);
                sum += v_load(weight + row_of(call, t, W) * E + e, E - e) * v_load(at + e, E - e);
            }
            v_store(out + e, sum, E - e);
        }
    }
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *y = &call->out[0];
    run_elements(call, pool, y->size[0] * y->size[1], y->size[2], forward_part);
}

/* dweight of one tap and one vector of channels: the sum over all tokens. */
static void gradient_block(const ls_kernel_call *call, int64_t t, int64_t e, int64_t count) {
    enum { STRETCH = 64 };
    const ls_view *x = &call->in[0], *dy = &call->in[1];
    const int64_t W = call->out[0].size[0], E = call->out[0].size[1], N = dy->size[1];
    const bool ahead = ((const ls_conv_params *)call->params)->ahead;
    const int64_t tap = ahead ? t : W - 1 - t;
    double total[V_LANES] = {0};
    for (int64_t b = 0; b < dy->size[0]; b++) {
        for (int64_t first = 0; first < N; first += STRETCH) {
            v_f32 sum = {0};
            const int64_t last = ls_min(N, first + STRETCH);
            for (int64_t i = first; i < last; i++)
                if (t < taps_of(&call->in[2], ahead, b, i, W))
                    sum += v_load(token(dy, b, i) + e, count) * v_load(token(x, b, i + tap) + e, count);
            for (int l = 0; l < V_LANES; l++) total[l] += (double)sum[l];
        }
    }
    float *dweight = (float *)call->out[0].data + row_of(call, t, W) * E + e;
    for (int64_t l = 0; l < ls_min(count, V_LANES); l++) dweight[l] += (float)total[l];
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t W = call->out[0].size[0], E = call->out[0].size[1];
    for (int64_t block = start; block < end; block++) {
        const int64_t e = block * V_LANES;
        for (int64_t t = 0; t < W; t++) gradient_block(call, t, e, E - e);
    }
}

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *dy = &call->in[1];
    const int64_t blocks = ls_ceil_div(call->out[0].size[1], V_LANES);
    run_elements(call, pool, blocks, dy->size[0] * dy->size[1] * V_LANES, gradient_part);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONV, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONV_DW, call, state);
}

const ls_kernel LS_CPU_NAME(conv) = {
    .id = LS_KERNEL_CONV, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(conv_dw) = {
    .id = LS_KERNEL_CONV_DW, LS_CPU_VARIANT, .prepare = prepare_gradient, .run = gradient_run};
