/*
 * gated_norm: a norm of each row with a gate behind it, y = a rstd weight silu(gate) with a = x, or in front of it,
 * y = a rstd weight with a = x silu(gate); rstd = 1/sqrt(mean(a^2) + epsilon). Rows of a token are its groups, each
 * with a weight of its own.
 */
#include "kernel/ref/ref_impl.h"

typedef struct rows {
    const ls_kernel_call *call;
    int64_t n, E, groups;
} rows;

/* One element: x, the gate's silu and its slope, the weight, and what is normed. */
typedef struct point {
    double x, silu, slope, weight, normed;
} point;

static rows rows_of(const ls_kernel_call *call) {
    return (rows){call, ref_rows(&call->in[0]), ref_columns(&call->in[0]), ref_rows(&call->in[1])};
}

static bool gate_first(const rows *r) { return ((const ls_gated_norm_params *)r->call->params)->gate_first; }

static point point_at(const rows *r, int64_t row, int64_t e) {
    const ls_view *in = r->call->in;
    const double gate = (double)((const real *)in[2].data)[row * r->E + e], share = 1.0 / (1.0 + exp(-gate));
    point p = {.x = (double)((const real *)in[0].data)[row * r->E + e],
               .silu = gate * share,
               .slope = share * (1.0 + gate * (1.0 - share)),
               .weight = (double)((const real *)in[1].data)[row % r->groups * r->E + e]};
    p.normed = gate_first(r) ? p.x * p.silu : p.x;
    return p;
}

static double rstd_of(const rows *r, int64_t row) {
    double squares = 0;
    for (int64_t e = 0; e < r->E; e++) {
        const double a = point_at(r, row, e).normed;
        squares += a * a;
    }
    return 1.0 / sqrt(squares / (double)r->E + ((const ls_gated_norm_params *)r->call->params)->epsilon);
}

static void normalise(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    for (int64_t i = first; i < last; i++) {
        const double rstd = rstd_of(r, i);
        for (int64_t e = 0; e < r->E; e++) {
            const point p = point_at(r, i, e);
            ((real *)r->call->out[0].data)[i * r->E + e] =
                (real)(p.normed * rstd * p.weight * (gate_first(r) ? 1.0 : p.silu));
        }
    }
}

/* The gradient of what the weight gives, before the gate if that comes behind. */
static double behind_weight(const rows *r, const point *p, int64_t row, int64_t e) {
    const double dy = (double)((const real *)r->call->in[3].data)[row * r->E + e];
    return gate_first(r) ? dy : dy * p->silu;
}

/* With g = weight b of the gradient b behind the weight: da = rstd g - a rstd^3 mean(g a), and by it x and the gate. */
static void of_rows(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    real *dx = r->call->out[0].data, *dgate = r->call->out[2].data;
    for (int64_t i = first; i < last; i++) {
        const double rstd = rstd_of(r, i);
        double factor = 0;
        for (int64_t e = 0; e < r->E; e++) {
            const point p = point_at(r, i, e);
            factor += behind_weight(r, &p, i, e) * p.weight * p.normed;
        }
        factor *= rstd * rstd * rstd / (double)r->E;
        for (int64_t e = 0; e < r->E; e++) {
            const point p = point_at(r, i, e);
            const double dy = (double)((const real *)r->call->in[3].data)[i * r->E + e];
            const double da = rstd * p.weight * behind_weight(r, &p, i, e) - p.normed * factor;
            dx[i * r->E + e] = (real)(gate_first(r) ? da * p.silu : da);
            dgate[i * r->E + e] = (real)((gate_first(r) ? da * p.x : dy * p.x * rstd * p.weight) * p.slope);
        }
    }
}

/* Of each group: dweight += the sum over its rows. */
static void of_weight(const void *context, int64_t first, int64_t last) {
    const rows *r = context;
    for (int64_t group = first; group < last; group++) {
        double *sum = (double *)r->call->workspace + group * r->E;
        real *dweight = (real *)r->call->out[1].data + group * r->E;
        for (int64_t e = 0; e < r->E; e++) sum[e] = 0;
        for (int64_t i = group; i < r->n; i += r->groups) {
            const double rstd = rstd_of(r, i);
            for (int64_t e = 0; e < r->E; e++) {
                const point p = point_at(r, i, e);
                sum[e] += behind_weight(r, &p, i, e) * p.normed * rstd;
            }
        }
        for (int64_t e = 0; e < r->E; e++) dweight[e] = (real)((double)dweight[e] + sum[e]);
    }
}

static ls_status prepare_norm(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_GATED_NORM, LS_REAL, call);
}

static void run_norm(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rows r = rows_of(call);
    ref_split(pool, r.n, normalise, &r);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_GATED_NORM_GRAD, LS_REAL, call);
}

static size_t grad_workspace(const ls_kernel_call *call) {
    return sizeof(double) * (size_t)ls_view_elements(&call->in[1]);
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rows r = rows_of(call);
    ref_split(pool, r.groups, of_weight, &r); /* first, because the others may overwrite what it reads */
    ref_split(pool, r.n, of_rows, &r);
}

const ls_kernel REF(gated_norm) = {
    .id = LS_KERNEL_GATED_NORM, .dtype = LS_REAL, .prepare = prepare_norm, .run = run_norm};
const ls_kernel REF(gated_norm_grad) = {.id = LS_KERNEL_GATED_NORM_GRAD,
                                        .dtype = LS_REAL,
                                        .workspace = grad_workspace,
                                        .prepare = prepare_grad,
                                        .run = run_grad};
