/*
 * RMSNorm (Zhang, Sennrich, arXiv 1910.07467): y = x*rstd*w with w = offset + weight, rstd = 1/sqrt(mean(x^2) +
 * epsilon). Gradient: dx = rstd*(w*dy - x*rstd^2*mean(w*dy*x)), dweight = sum over rows of dy*x*rstd.
 */
#include <math.h>

#include "kernel/cpu/norm_grad.h"

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_norm_params *params = call->params;
    const float offset = (float)params->offset;
    const int64_t E = last_size(&call->in[0]);
    const element *weight = call->in[1].data;
    float *rstd = call->out[1].data;
    for (int64_t row = start; row < end; row++) {
        const element *x = (const element *)call->in[0].data + row * E;
        element *y = (element *)call->out[0].data + row * E;
        v_f32 squares[2] = {{0}, {0}};
        for (int64_t e = 0; e < E; e += 2 * V_LANES) {
            const v_f32 a = v_load(x + e, E - e), b = v_load(x + e + V_LANES, E - e - V_LANES);
            squares[0] += a * a;
            squares[1] += b * b;
        }
        const float scale = 1.0f / sqrtf(v_sum(squares[0] + squares[1]) / (float)E + (float)params->epsilon);
        rstd[row] = scale;
        for (int64_t e = 0; e < E; e += V_LANES) {
            v_store(y + e, v_load(x + e, E - e) * scale * (v_load(weight + e, E - e) + offset), E - e);
        }
    }
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), forward_part);
}

static void gradient_row(const ls_kernel_call *call, int64_t row, float *dweight) {
    const ls_norm_params *params = call->params;
    const float offset = (float)params->offset;
    const int64_t E = last_size(&call->in[0]);
    const element *weight = call->in[1].data, *x = (const element *)call->in[0].data + row * E;
    const element *dy = (const element *)call->in[3].data + row * E;
    element *dx = (element *)call->out[0].data + row * E;
    const float rstd = ((const float *)call->in[2].data)[row];
    v_f32 dots[2] = {{0}, {0}};
    for (int64_t e = 0; e < E; e += 2 * V_LANES) {
        const int64_t f = e + V_LANES;
        dots[0] += v_load(x + e, E - e) * (v_load(dy + e, E - e) * (v_load(weight + e, E - e) + offset));
        dots[1] += v_load(x + f, E - f) * (v_load(dy + f, E - f) * (v_load(weight + f, E - f) + offset));
    }
    const float mean = v_sum(dots[0] + dots[1]) / (float)E * rstd * rstd;
    for (int64_t e = 0; e < E; e += V_LANES) {
        const v_f32 xe = v_load(x + e, E - e), de = v_load(dy + e, E - e);
        v_store_f32(dweight + e, v_load_f32(dweight + e, E - e) + de * xe * rstd, E - e);
        v_store(dx + e, (de * (v_load(weight + e, E - e) + offset) - xe * mean) * rstd, E - e);
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
    return check_only(LS_KERNEL_RMSNORM, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_RMSNORM_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(rmsnorm) = {
    .id = LS_KERNEL_RMSNORM, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(rmsnorm_grad) = {.id = LS_KERNEL_RMSNORM_GRAD,
                                             LS_CPU_VARIANT,
                                             .workspace = gradient_workspace,
                                             .prepare = prepare_gradient,
                                             .run = gradient_run};
