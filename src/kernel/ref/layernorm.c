/*
 * layernorm: y = (x - mean) * rstd * weight (+ bias), rstd = 1/sqrt(variance + epsilon) of each row (Ba et al. 2016).
 */
#include "kernel/ref/ref_impl.h"

typedef struct rows {
    const ls_kernel_call *call;
    int64_t n, E;
} rows;

static rows rows_of(const ls_kernel_call *call) {
    return (rows){call, ref_rows(&call->in[0]), ref_columns(&call->in[0])};
}

static ls_status prepare_layernorm(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LAYERNORM, LS_REAL, call);
}

static void normalise(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const ls_norm_params *params = r->call->params;
    const real *weight = r->call->in[1].data, *bias = r->call->n_in > 2 ? r->call->in[2].data : NULL;
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)r->call->in[0].data + i * r->E;
        real *y = (real *)r->call->out[0].data + i * r->E;
        double sum = 0, squares = 0;
        for (int64_t e = 0; e < r->E; e++) sum += (double)x[e];
        const double mean = sum / (double)r->E;
        for (int64_t e = 0; e < r->E; e++) squares += ((double)x[e] - mean) * ((double)x[e] - mean);
        const double rstd = 1.0 / sqrt(squares / (double)r->E + params->epsilon);
        for (int64_t e = 0; e < r->E; e++)
            y[e] = (real)(((double)x[e] - mean) * rstd * (double)weight[e] + (bias != NULL ? (double)bias[e] : 0));
        ((real *)r->call->out[1].data)[i] = (real)mean;
        ((real *)r->call->out[2].data)[i] = (real)rstd;
    }
}

static void run_layernorm(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rows r = rows_of(call);
    ref_split(pool, r.n, normalise, &r);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LAYERNORM_GRAD, LS_REAL, call);
}

/* With h = (x - mean) rstd and g = w dy:  dx = rstd (g - mean(g) - h mean(g h)) */
static void grad_of_x(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const real *weight = r->call->in[1].data;
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)r->call->in[0].data + i * r->E;
        const real *dy = (const real *)r->call->in[4].data + i * r->E;
        real *dx = (real *)r->call->out[0].data + i * r->E;
        const double mean = (double)((const real *)r->call->in[2].data)[i];
        const double rstd = (double)((const real *)r->call->in[3].data)[i];
        double mean_g = 0, mean_gh = 0;
        for (int64_t e = 0; e < r->E; e++) {
            const double g = (double)weight[e] * (double)dy[e];
            mean_g += g;
            mean_gh += g * ((double)x[e] - mean) * rstd;
        }
        mean_g /= (double)r->E;
        mean_gh /= (double)r->E;
        for (int64_t e = 0; e < r->E; e++)
            dx[e] =
                (real)(rstd * ((double)weight[e] * (double)dy[e] - mean_g - ((double)x[e] - mean) * rstd * mean_gh));
    }
}

/* dweight[e] += sum over rows of dy (x - mean) rstd */
static void grad_of_weight(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const real *x = r->call->in[0].data, *mean = r->call->in[2].data, *rstd = r->call->in[3].data;
    const real *dy = r->call->in[4].data;
    real *dweight = r->call->out[1].data;
    for (int64_t e = first; e < last; e++) {
        double sum = 0;
        for (int64_t i = 0; i < r->n; i++)
            sum += (double)dy[i * r->E + e] * ((double)x[i * r->E + e] - (double)mean[i]) * (double)rstd[i];
        dweight[e] = (real)((double)dweight[e] + sum);
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rows r = rows_of(call);
    ref_split(pool, r.E, grad_of_weight, &r); /* first, because dx may overwrite dy */
    ref_split(pool, r.n, grad_of_x, &r);
}

const ls_kernel REF(layernorm) = {
    .id = LS_KERNEL_LAYERNORM, .dtype = LS_REAL, .prepare = prepare_layernorm, .run = run_layernorm};
const ls_kernel REF(layernorm_grad) = {
    .id = LS_KERNEL_LAYERNORM_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
