/* rmsnorm: y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + epsilon) of each row (Zhang, Sennrich 2019). */
#include "kernel/ref/ref_impl.h"

typedef struct rows {
    const ls_kernel_call *call;
    int64_t n, E;
} rows;

static ls_status prepare_rmsnorm(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RMSNORM, LS_REAL, call);
}

static void normalise(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const ls_norm_params *params = r->call->params;
    const real *weight = r->call->in[1].data;
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)r->call->in[0].data + i * r->E;
        real *y = (real *)r->call->out[0].data + i * r->E;
        double squares = 0;
        for (int64_t e = 0; e < r->E; e++) squares += (double)x[e] * (double)x[e];
        const double rstd = 1.0 / sqrt(squares / (double)r->E + params->epsilon);
        for (int64_t e = 0; e < r->E; e++) y[e] = (real)((double)x[e] * rstd * (params->offset + (double)weight[e]));
        ((real *)r->call->out[1].data)[i] = (real)rstd;
    }
}

static void run_rmsnorm(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    rows r = {call, ref_rows(&call->in[0]), ref_columns(&call->in[0])};
    ref_split(pool, r.n, normalise, &r);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RMSNORM_GRAD, LS_REAL, call);
}

/* With w = offset + weight: dx = rstd * (w dy) - x * rstd^3 * mean(w dy x) */
static void grad_of_x(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const ls_norm_params *params = r->call->params;
    const double offset = params->offset;
    const real *weight = r->call->in[1].data;
    for (int64_t i = first; i < last; i++) {
        const real *x = (const real *)r->call->in[0].data + i * r->E;
        const real *dy = (const real *)r->call->in[3].data + i * r->E;
        real *dx = (real *)r->call->out[0].data + i * r->E;
        const double rstd = (double)((const real *)r->call->in[2].data)[i];
        double factor = 0; /* of x: rstd^3 * mean(w dy x) */
        for (int64_t e = 0; e < r->E; e++) factor += (offset + (double)weight[e]) * (double)dy[e] * (double)x[e];
        factor *= rstd * rstd * rstd / (double)r->E;
        for (int64_t e = 0; e < r->E; e++)
            dx[e] = (real)(rstd * (offset + (double)weight[e]) * (double)dy[e] - (double)x[e] * factor);
    }
}

/* dweight[e] += sum over rows of dy * x * rstd */
static void grad_of_weight(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    const real *x = r->call->in[0].data, *rstd = r->call->in[2].data, *dy = r->call->in[3].data;
    real *dweight = r->call->out[1].data;
    for (int64_t e = first; e < last; e++) {
        double sum = 0;
        for (int64_t i = 0; i < r->n; i++) sum += (double)dy[i * r->E + e] * (double)x[i * r->E + e] * (double)rstd[i];
        dweight[e] = (real)((double)dweight[e] + sum);
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    rows r = {call, ref_rows(&call->in[0]), ref_columns(&call->in[0])};
    ref_split(pool, r.E, grad_of_weight, &r); /* first, because dx may overwrite dy */
    ref_split(pool, r.n, grad_of_x, &r);
}

const ls_kernel REF(rmsnorm) = {
    .id = LS_KERNEL_RMSNORM, .dtype = LS_REAL, .prepare = prepare_rmsnorm, .run = run_rmsnorm};
const ls_kernel REF(rmsnorm_grad) = {
    .id = LS_KERNEL_RMSNORM_GRAD, .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
