/*
 * step_control computes the values that all tensors of a step share; the kernels of optimisers update a range of
 * elements (contracts.c has their formulas).
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

/* --- one element -------------------------------------------------------------------------------------------------- */

/* The elements of one unit, and the values that apply to all of them. */
typedef struct unit {
    const ls_kernel_call *call;
    const double *control;
    double lr, decay;
    int64_t first, last;
} unit;

/* The gradient of element i, with all factors. */
static double gradient(const unit *u, int64_t i) {
    return (double)((const real *)u->call->in[0].data)[i] * u->control[LS_CONTROL_SCALE];
}

/* Sets parameter i, in the master and in its copy, the last output. */
static void set(const unit *u, int64_t i, double x) {
    real *master = u->call->out[0].data, *param = u->call->out[u->call->n_out - 1].data;
    master[i] = (real)x;
    param[i] = master[i];
}

static void adamw_unit(const unit *u) {
    const ls_adamw_params *p = u->call->params;
    const real *master = u->call->out[0].data;
    real *m = u->call->out[1].data, *v = u->call->out[2].data;
    for (int64_t i = u->first; i < u->last; i++) {
        const double g = gradient(u, i), x = (double)master[i];
        const double new_m = p->beta1 * (double)m[i] + (1.0 - p->beta1) * g;
        const double new_v = p->beta2 * (double)v[i] + (1.0 - p->beta2) * g * g;
        const double m_hat = new_m / u->control[LS_CONTROL_CORRECTION1];
        const double v_hat = new_v / u->control[LS_CONTROL_CORRECTION2];
        const double direction = m_hat / (sqrt(v_hat) + p->epsilon) + u->decay * x;
        m[i] = (real)new_m;
        v[i] = (real)new_v;
        set(u, i, x - u->lr * direction);
    }
}

static void sgd_unit(const unit *u) {
    const ls_sgd_params *p = u->call->params;
    const real *master = u->call->out[0].data;
    real *m = u->call->out[1].data;
    for (int64_t i = u->first; i < u->last; i++) {
        const double x = (double)master[i], g = gradient(u, i) + u->decay * x;
        const double new_m = p->momentum * (double)m[i] + g;
        m[i] = (real)new_m;
        set(u, i, x - u->lr * (p->nesterov ? g + p->momentum * new_m : new_m));
    }
}

static void lion_unit(const unit *u) {
    const ls_lion_params *p = u->call->params;
    const real *master = u->call->out[0].data;
    real *m = u->call->out[1].data;
    for (int64_t i = u->first; i < u->last; i++) {
        const double g = gradient(u, i), x = (double)master[i], old = (double)m[i];
        const double c = p->beta1 * old + (1.0 - p->beta1) * g;
        m[i] = (real)(p->beta2 * old + (1.0 - p->beta2) * g);
        set(u, i, x - u->lr * ((c > 0) - (c < 0) + u->decay * x));
    }
}

static void momentum_unit(const unit *u) {
    const ls_momentum_params *p = u->call->params;
    real *m = u->call->out[0].data, *direction = u->call->out[1].data;
    for (int64_t i = u->first; i < u->last; i++) {
        const double g = gradient(u, i), new_m = p->momentum * (double)m[i] + g;
        m[i] = (real)new_m;
        direction[i] = (real)(g + p->momentum * new_m);
    }
}

static void descend_unit(const unit *u) {
    const ls_descend_params *p = u->call->params;
    const real *direction = u->call->in[0].data, *master = u->call->out[0].data;
    for (int64_t i = u->first; i < u->last; i++) {
        const double x = (double)master[i];
        set(u, i, x - u->lr * (p->factor * (double)direction[i] + u->decay * x));
    }
}

/* --- all elements of a call --------------------------------------------------------------------------------------- */

typedef void (*unit_body)(const unit *u);

typedef struct update {
    const ls_kernel_call *call;
    unit_body body;
} update;

static void update_units(const void *context, int64_t first, int64_t last) {
    const update *all = context;
    const double *control = all->call->in[1].data;
    const int32_t *group = all->call->in[2].data;
    const ls_update_settings *settings = all->call->in[3].data;
    for (int64_t u = first; u < last; u++) {
        if (group[u] < 0) continue;
        const ls_update_settings *s = &settings[group[u]];
        all->body(&(unit){all->call, control, control[LS_CONTROL_LR] * s->rate, s->weight_decay, u * LS_FLAT_UNIT,
                          (u + 1) * LS_FLAT_UNIT});
    }
}

static void run_update(const ls_kernel_call *call, ls_pool *pool, unit_body body) {
    const double *control = call->in[1].data;
    if (control[LS_CONTROL_APPLY] == 0) return;
    ref_split(pool, ls_view_elements(&call->in[2]), update_units, &(update){call, body});
}

#define UPDATE(ID, name)                                                             \
    static ls_status prepare_##name(const ls_kernel_call *call, void **state) {      \
        *state = NULL;                                                               \
        return ls_kernel_check(LS_KERNEL_##ID, LS_REAL, call);                       \
    }                                                                                \
    static void run_##name(const ls_kernel_call *call, void *state, ls_pool *pool) { \
        (void)state;                                                                 \
        run_update(call, pool, name##_unit);                                         \
    }                                                                                \
    const ls_kernel REF(name) = {.id = LS_KERNEL_##ID, .dtype = LS_REAL, .prepare = prepare_##name, .run = run_##name}
UPDATE(ADAMW, adamw);
UPDATE(SGD, sgd);
UPDATE(LION, lion);
UPDATE(MOMENTUM, momentum);
UPDATE(DESCEND, descend);

const ls_kernel REF(step_control) = {
    .id = LS_KERNEL_STEP_CONTROL, .dtype = LS_REAL, .prepare = prepare_control, .run = run_control};
#if !LS_REAL_IS_F64 /* operands are f64 for any element type */
const ls_kernel REF(step_control_bf16) = {
    .id = LS_KERNEL_STEP_CONTROL, .dtype = LS_BF16, .prepare = prepare_control, .run = run_control};
#endif
