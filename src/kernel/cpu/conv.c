/*
 * conv, conv_silu_grad and conv_dw: a short depth-wise convolution along tokens, in vectors over channels. The weight
 * is [W,E], so a tap is a contiguous row, as is the bias after them. Threads divide the tokens; in conv_dw they divide
 * the channels, so that one thread computes each sum over tokens: in f32 over STRETCH tokens, and these sums are added
 * in f64. A reach limits the taps of each token.
 */
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

/* Token i of batch b of a view [B,tokens,E]. */
V_INLINE element *token(const ls_view *v, int64_t b, int64_t i) {
    return (element *)v->data + b * v->stride[0] + i * v->stride[1];
}

/* The row of a weight with W taps that has tap t. */
V_INLINE int64_t row_of(const ls_kernel_call *call, int64_t t, int64_t W) {
    return ((const ls_conv_params *)call->params)->last_first ? W - 1 - t : t;
}

/* How many of W taps token i of batch b has. */
V_INLINE int64_t taps_of(const ls_view *reach, bool ahead, int64_t b, int64_t i, int64_t W) {
    if (reach->size[2] == 0) return W;
    return ls_min(W, 1 + (int64_t)element_to_f32(token(reach, b, i)[ahead ? reach->stride[2] : 0]));
}

/* The taps of one token, and the bias. */
typedef struct convolved {
    const element *weight, *bias, *first; /* weight of tap 0, and the x that it multiplies; bias NULL: none */
    int64_t taps, row, step;              /* row, step: distances from one tap to the next, in the weight and in x */
} convolved;

V_INLINE convolved convolved_of(const ls_kernel_call *call, const ls_view *reach, int64_t b, int64_t i) {
    const ls_conv_params *p = call->params;
    const ls_view *x = &call->in[0], *w = &call->in[1];
    const element *weight = w->data;
    const int64_t W = ls_conv_taps(p, w->size[0]), E = w->size[1];
    return (convolved){.weight = weight + row_of(call, 0, W) * E,
                       .bias = p->biased && !p->ahead ? weight + W * E : NULL,
                       .first = token(x, b, p->ahead ? i : i + W - 1),
                       .taps = taps_of(reach, p->ahead, b, i, W),
                       .row = p->last_first ? -E : E,
                       .step = p->ahead ? x->stride[1] : -x->stride[1]};
}

V_INLINE v_f32 sum_taps(const convolved *c, int64_t e, int64_t count) {
    v_f32 sum = c->bias != NULL ? v_load(c->bias + e, count) : (v_f32){0};
    for (int64_t t = 0; t < c->taps; t++)
        sum += v_load(c->weight + t * c->row + e, count) * v_load(c->first + t * c->step + e, count);
    return sum;
}

typedef v_f32 (*finish)(v_f32 z, const element *dy, int64_t count);

V_INLINE v_f32 as_it_is(v_f32 z, const element *dy, int64_t count) {
    (void)dy, (void)count;
    return z;
}

V_INLINE v_f32 silu(v_f32 z, const element *dy, int64_t count) {
    (void)dy, (void)count;
    return z * v_sigmoid(z);
}

V_INLINE v_f32 silu_grad(v_f32 z, const element *dy, int64_t count) {
    const v_f32 s = v_sigmoid(z);
    return v_load(dy, count) * (s * (1.0f + z * (1.0f - s)));
}

/* Computes tokens start .. end - 1, numbered over batch and sequence. dy: NULL if `f` does not read it. */
V_INLINE void convolve(const ls_kernel_call *call, const ls_view *dy, const ls_view *reach, int64_t start, int64_t end,
                       finish f) {
    const ls_view *y = &call->out[0];
    const int64_t E = y->size[2], N = y->size[1];
    for (int64_t row = start; row < end; row++) {
        const int64_t b = row / N, i = row % N;
        const convolved c = convolved_of(call, reach, b, i);
        element *out = token(y, b, i);
        const element *from = dy != NULL ? token(dy, b, i) : out;
        int64_t e = 0;
        for (; e + V_LANES <= E; e += V_LANES)
            v_store(out + e, f(sum_taps(&c, e, V_LANES), from + e, V_LANES), V_LANES);
        if (e < E) v_store(out + e, f(sum_taps(&c, e, E - e), from + e, E - e), E - e);
    }
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_conv_params *p = call->params;
    if (p->silu)
        convolve(call, NULL, &call->in[2], start, end, silu);
    else
        convolve(call, NULL, &call->in[2], start, end, as_it_is);
}

static void silu_grad_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    convolve(call, &call->in[2], &call->in[3], start, end, silu_grad);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *y = &call->out[0];
    run_elements(call, pool, y->size[0] * y->size[1], y->size[2], forward_part);
}

static void silu_grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *dz = &call->out[0];
    run_elements(call, pool, dz->size[0] * dz->size[1], dz->size[2], silu_grad_part);
}

/* A thread's part of the gradient of a weight: some channels, a few taps at a time, whose sums stay in registers. */
enum { STRETCH = 64, VECTORS = 2, CHANNELS = VECTORS * V_LANES, TAPS = 4 };

/* Adds a token to the sums of n taps, the first of which reads `x`. */
V_INLINE void add_token(v_f32 sum[TAPS][VECTORS], int64_t n, const element *dy, const element *x, int64_t step,
                        int64_t count) {
    v_f32 d[VECTORS];
    for (int v = 0; v < VECTORS; v++) d[v] = v_load(dy + v * V_LANES, count - v * V_LANES);
#pragma GCC unroll 4
    for (int64_t t = 0; t < TAPS; t++)
        if (t < n)
            for (int v = 0; v < VECTORS; v++)
                sum[t][v] += d[v] * v_load(x + t * step + v * V_LANES, count - v * V_LANES);
}

/* dweight of the taps from `tap` on, at most TAPS, and of count channels, at most CHANNELS: the sum over all tokens. */
V_INLINE void gradient_of_taps(const ls_kernel_call *call, int64_t W, int64_t tap, int64_t e, int64_t count) {
    const ls_view *x = &call->in[0], *dy = &call->in[1];
    const bool ahead = ((const ls_conv_params *)call->params)->ahead;
    const int64_t N = dy->size[1], E = call->out[0].size[1], step = ahead ? x->stride[1] : -x->stride[1];
    double total[TAPS][CHANNELS] = {{0}};
    for (int64_t b = 0; b < dy->size[0]; b++) {
        for (int64_t first = 0; first < N; first += STRETCH) {
            v_f32 sum[TAPS][VECTORS] = {{{0}}};
            const int64_t last = ls_min(N, first + STRETCH);
            for (int64_t i = first; i < last; i++) {
                const int64_t n = taps_of(&call->in[2], ahead, b, i, W) - tap;
                const element *at = token(x, b, ahead ? i + tap : i + W - 1 - tap) + e;
                if (n >= TAPS)
                    add_token(sum, TAPS, token(dy, b, i) + e, at, step, count);
                else
                    add_token(sum, n, token(dy, b, i) + e, at, step, count);
            }
            for (int t = 0; t < TAPS; t++)
                for (int l = 0; l < CHANNELS; l++) total[t][l] += (double)sum[t][l / V_LANES][l % V_LANES];
        }
    }
    for (int64_t t = 0; t < ls_min(TAPS, W - tap); t++) {
        float *dweight = (float *)call->out[0].data + row_of(call, tap + t, W) * E + e;
        for (int64_t l = 0; l < count; l++) dweight[l] += (float)total[t][l];
    }
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_conv_params *p = call->params;
    const ls_view *dy = &call->in[1], *dweight = &call->out[0];
    const int64_t W = ls_conv_taps(p, dweight->size[0]), E = dweight->size[1];
    for (int64_t block = start; block < end; block++) {
        const int64_t e = block * CHANNELS, count = ls_min(E - e, CHANNELS);
        for (int64_t tap = 0; tap < W; tap += TAPS) {
            if (count == CHANNELS)
                gradient_of_taps(call, W, tap, e, CHANNELS);
            else
                gradient_of_taps(call, W, tap, e, count);
        }
        for (int64_t b = 0; b < dy->size[0] && p->biased; b++)
            sum_rows((float *)dweight->data + W * E + e, dy->data, false, b * dy->stride[0] + e, dy->stride[1], NULL,
                     dy->size[1], count);
    }
}

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *dy = &call->in[1];
    const int64_t blocks = ls_ceil_div(call->out[0].size[1], CHANNELS);
    run_elements(call, pool, blocks, dy->size[0] * dy->size[1] * CHANNELS, gradient_part);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONV, call, state);
}

static ls_status prepare_silu_grad(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONV_SILU_GRAD, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONV_DW, call, state);
}

const ls_kernel LS_CPU_NAME(conv) = {
    .id = LS_KERNEL_CONV, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(conv_silu_grad) = {
    .id = LS_KERNEL_CONV_SILU_GRAD, LS_CPU_VARIANT, .prepare = prepare_silu_grad, .run = silu_grad_run};
const ls_kernel LS_CPU_NAME(conv_dw) = {
    .id = LS_KERNEL_CONV_DW, LS_CPU_VARIANT, .prepare = prepare_gradient, .run = gradient_run};
