/*
 * step_control computes what all tensors of a step share; adamw updates a run of them (Loshchilov, Hutter, ICLR 2019).
 */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_control(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_STEP_CONTROL, LS_REAL, call);
}

static void run_control(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const double *totals = call->in[0].data, *hyper = call->in[1].data;
    double *control = call->out[0].data;
    const double norm = sqrt(totals[LS_TOTAL_SQUARES]), clip = hyper[LS_HYPER_CLIP];
    control[LS_CONTROL_APPLY] = isfinite(totals[LS_TOTAL_LOSS]) && isfinite(norm) ? 1.0 : 0.0;
    control[LS_CONTROL_SCALE] = clip > 0 && norm > clip ? clip / norm : 1.0;
    control[LS_CONTROL_LR] = hyper[LS_HYPER_LR];
    control[LS_CONTROL_CORRECTION1] = 1.0 - pow(hyper[LS_HYPER_BETA1], hyper[LS_HYPER_STEP]);
    control[LS_CONTROL_CORRECTION2] = 1.0 - pow(hyper[LS_HYPER_BETA2], hyper[LS_HYPER_STEP]);
    control[LS_CONTROL_NORM] = norm;
}

static ls_status prepare_adamw(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ADAMW, LS_REAL, call);
}

static void update_unit(const ls_kernel_call *call, const ls_update_settings *settings, int64_t unit) {
    const ls_adamw_params *p = call->params;
    const real *grad = call->in[0].data;
    const double *control = call->in[1].data, lr = control[LS_CONTROL_LR] * settings->rate;
    real *master = call->out[0].data, *m = call->out[1].data, *v = call->out[2].data, *param = call->out[3].data;
    for (int64_t i = unit * LS_FLAT_UNIT; i < (unit + 1) * LS_FLAT_UNIT; i++) {
        const double g = (double)grad[i] * control[LS_CONTROL_SCALE], x = (double)master[i];
        const double new_m = p->beta1 * (double)m[i] + (1.0 - p->beta1) * g;
        const double new_v = p->beta2 * (double)v[i] + (1.0 - p->beta2) * g * g;
        const double m_hat = new_m / control[LS_CONTROL_CORRECTION1];
        const double v_hat = new_v / control[LS_CONTROL_CORRECTION2];
        const double direction = m_hat / (sqrt(v_hat) + p->epsilon) + settings->weight_decay * x;
        m[i] = (real)new_m;
        v[i] = (real)new_v;
        master[i] = (real)(x - lr * direction);
        param[i] = master[i];
    }
}

static void update_units(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int32_t *group = call->in[2].data;
    const ls_update_settings *settings = call->in[3].data;
    for (int64_t u = first; u < last; u++)
        if (group[u] >= 0) update_unit(call, &settings[group[u]], u);
}

static void run_adamw(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const double *control = call->in[1].data;
    if (control[LS_CONTROL_APPLY] == 0) return;
    ref_split(pool, ls_view_elements(&call->in[2]), update_units, call);
}

const ls_kernel REF(step_control) = {
    .id = LS_KERNEL_STEP_CONTROL, .dtype = LS_REAL, .prepare = prepare_control, .run = run_control};
const ls_kernel REF(adamw) = {.id = LS_KERNEL_ADAMW, .dtype = LS_REAL, .prepare = prepare_adamw, .run = run_adamw};
#if !LS_REAL_IS_F64 /* operands are f64 for any element type */
const ls_kernel REF(step_control_bf16) = {
    .id = LS_KERNEL_STEP_CONTROL, .dtype = LS_BF16, .prepare = prepare_control, .run = run_control};
#endif
