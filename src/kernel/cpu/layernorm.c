/*
 * LayerNorm (Ba, Kiros, Hinton, arXiv 1607.06450): h = (x - mean)*rstd, y = h*weight (+ bias). A second pass computes
 * the variance from the differences from the mean, so that rows with a large mean lose no accuracy.
 * Gradient, with g = weight*dy: dx = rstd*(g - mean(g) - h*mean(g*h)), dweight = sum over rows of dy*h.
 */
#include <math.h>

#include "kernel/cpu/norm_grad.h"

/* x - mean; 0 in lanes from `count` on. */
V_INLINE v_f32 centred(const element *x, float mean, int64_t count) {
    v_f32 v = v_load(x, count) - mean;
    for (int64_t i = count; i < V_LANES; i++) v[i] = 0;
    return v;
}

/* Short sums in f32, added in f64, so that a sum that nearly cancels is accurate. */
static float mean_of(const element *x, int64_t E) {
    enum { STRETCH = 16 * V_LANES };
    double total = 0;
    for (int64_t first = 0; first < E; first += STRETCH) {
        v_f32 sum = {0};
        const int64_t last = ls_min(E, first + STRETCH);
        for (int64_t e = first; e < last; e += V_LANES) sum += v_load(x + e, last - e);
        total += (double)v_sum(sum);
    }
    return (float)(total / (double)E);
}

static void forward_row(const element *x, const element *weight, const element *bias, int64_t E, double epsilon,
                        element *y, float *mean_out, float *rstd_out) {
    const float mean = mean_of(x, E);
    v_f32 squares = {0};
    for (int64_t e = 0; e < E; e += V_LANES) {
        const v_f32 c = centred(x + e, mean, E - e);
        squares += c * c;
    }
    const float variance = v_sum(squares) / (float)E;
    const float rstd = 1.0f / sqrtf(variance + (float)epsilon);
    for (int64_t e = 0; e < E; e += V_LANES) {
        const v_f32 b = bias != NULL ? v_load(bias + e, E - e) : v_set(0);
        v_store(y + e, (v_load(x + e, E - e) - mean) * rstd * v_load(weight + e, E - e) + b, E - e);
    }
    *mean_out = mean;
    *rstd_out = rstd;
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_norm_params *params = call->params;
    const int64_t E = last_size(&call->in[0]);
    const element *x = call->in[0].data, *weight = call->in[1].data;
    const element *bias = call->n_in > 2 ? call->in[2].data : NULL;
    element *y = call->out[0].data;
    float *mean = call->out[1].data, *rstd = call->out[2].data;
    for (int64_t row = start; row < end; row++)
        forward_row(x + row * E, weight, bias, E, params->epsilon, y + row * E, mean + row, rstd + row);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), forward_part);
}

static void gradient_row(const ls_kernel_call *call, int64_t row, float *dweight) {
    const int64_t E = last_size(&call->in[0]);
    const element *weight = call->in[1].data, *x = (const element *)call->in[0].data + row * E;
    const element *dy = (const element *)call->in[4].data + row * E;
    element *dx = (element *)call->out[0].data + row * E;
    const float mean = ((const float *)call->in[2].data)[row], rstd = ((const float *)call->in[3].data)[row];
    v_f32 sums = {0}, dots = {0}; /* lanes beyond E load dy as 0, so they add nothing */
    for (int64_t e = 0; e < E; e += V_LANES) {
        const v_f32 g = v_load(dy + e, E - e) * v_load(weight + e, E - e);
        sums += g;
        dots += g * ((v_load(x + e, E - e) - mean) * rstd);
    }
    const float mean_g = v_sum(sums) / (float)E, mean_gh = v_sum(dots) / (float)E;
    for (int64_t e = 0; e < E; e += V_LANES) {
        const v_f32 d = v_load(dy + e, E - e), h = (v_load(x + e, E - e) - mean) * rstd;
        v_store_f32(dweight + e, v_load_f32(dweight + e, E - e) + d * h, E - e);
        v_store(dx + e, (d * v_load(weight + e, E - e) - mean_g - h * mean_gh) * rstd, E - e);
    }
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    norm_rows(context, part, start, end, gradient_row);
}

static size_t gradient_workspace(const ls_kernel_call *call) { return norm_workspace(call); }

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    norm_gradient(call, pool, gradient_part);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LAYERNORM, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LAYERNORM_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(layernorm) = {
    .id = LS_KERNEL_LAYERNORM, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(layernorm_grad) = {.id = LS_KERNEL_LAYERNORM_GRAD,
                                               LS_CPU_VARIANT,
                                               .workspace = gradient_workspace,
                                               .prepare = prepare_gradient,
                                               .run = gradient_run};
