/* rnn: recurrent cells, token by token; rnn_grad: the gradient, from the last token to the first. */
#include "kernel/ref/rnn.h"

#include <string.h>

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RNN, LS_REAL, call);
}

/* For each head of a sequence, the states in front of and behind a token. */
static size_t workspace(const ls_kernel_call *call) {
    const rnn_views v = rnn_views_of(call, &call->out[0]);
    return (size_t)(v.B * v.H * 2 * v.size) * sizeof(double);
}

static void forward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const rnn_views v = rnn_views_of(call, &call->out[0]);
    for (int64_t i = first; i < last; i++) {
        const int64_t b = i / v.H, h = i % v.H;
        double *before = (double *)call->workspace + i * 2 * v.size, *after = before + v.size;
        real *state = (real *)call->out[1].data + i * v.size;
        for (int64_t s = 0; s < v.size; s++) before[s] = (double)state[s];
        for (int64_t n = 0; n < v.N; n++) {
            rnn_step(&v, b, n, h, before, after);
            for (int64_t d = 0; d < v.D; d++) rnn_at(v.y, b, n, h)[d] = (real)after[d];
            if (!rnn_leaves_state(&v, b, n)) memcpy(before, after, (size_t)v.size * sizeof *after);
        }
        for (int64_t s = 0; s < v.size; s++) state[s] = (real)before[s];
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[2], forward, call);
}

/* --- the gradient ------------------------------------------------------------------------------------------------- */

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_RNN_GRAD, LS_REAL, call);
}

/* Memory of a head, in double. */
typedef struct rooms {
    double *states;          /* [N+1][size]: states in front of each token, and behind the last */
    double *d, *dbefore;     /* [size] */
    double *dw;              /* [rows of w][D]: of one token */
    double *dweight, *dbias; /* [rows][D], [rows]: sums over tokens and sequences */
} rooms;

static int64_t room_of(const rnn_views *v) {
    return (v->N + 3) * v->size + ls_max(v->cell->gates, v->cell->numbers) * v->D + v->rows * (v->D + 1);
}

static rooms rooms_at(const rnn_views *v, double *at) {
    rooms r;
    r.states = at;
    r.d = r.states + (v->N + 1) * v->size;
    r.dbefore = r.d + v->size;
    r.dw = r.dbefore + v->size;
    r.dweight = r.dw + ls_max(v->cell->gates, v->cell->numbers) * v->D;
    r.dbias = r.dweight + v->rows * v->D;
    return r;
}

static size_t grad_workspace(const ls_kernel_call *call) {
    const rnn_views v = rnn_views_of(call, &call->in[4]);
    return (size_t)(v.H * room_of(&v)) * sizeof(double);
}

/*
 * Adds dw of a token to the gradients of the weight and bias, and adds the part through w to the gradient of the
 * previous y.
 */
static void through_weight(const rnn_views *v, const rooms *r, int64_t h, const double *before) {
    const real *weight = (const real *)v->weight->data + h * v->rows * v->D;
    for (int64_t i = 0; i < v->cell->numbers * v->D; i++) r->dweight[i] += r->dw[i];
    for (int64_t row = 0; row < v->rows && v->cell->numbers == 0; row++) {
        r->dbias[row] += r->dw[row];
        for (int64_t j = 0; j < v->D; j++) {
            r->dweight[row * v->D + j] += r->dw[row] * before[j];
            r->dbefore[j] += r->dw[row] * (double)weight[row * v->D + j];
        }
    }
}

static void back_token(const rnn_views *v, const ls_kernel_call *call, const rooms *r, int64_t b, int64_t n,
                       int64_t h) {
    const double *before = r->states + n * v->size;
    real *dx = rnn_at(&call->out[0], b, n, h);
    for (int64_t d = 0; d < v->D; d++) r->d[d] += (double)rnn_at(&call->in[5], b, n, h)[d];
    for (int64_t d = 0; d < v->D; d++) {
        const rnn_element e = rnn_element_of(v, b, n, h, d, before);
        double after[RNN_MOST_STATES], of_x[RNN_MOST_GATES], of_w[RNN_MOST_NUMBERS], of_before[RNN_MOST_STATES];
        for (int s = 0; s < v->cell->states; s++) after[s] = r->d[s * v->D + d];
        v->cell->back(e.x, e.w, e.before, after, of_x, of_w, of_before);
        for (int g = 0; g < v->cell->gates; g++) dx[g * v->D + d] = (real)of_x[g];
        for (int i = 0; i < (v->cell->numbers > 0 ? v->cell->numbers : v->cell->gates); i++)
            r->dw[i * v->D + d] = of_w[i];
        for (int s = 0; s < v->cell->states; s++) r->dbefore[s * v->D + d] = of_before[s];
    }
    through_weight(v, r, h, before);
    for (int64_t i = 0; i < v->size; i++) r->d[i] = rnn_begins(v, b, n) ? 0 : r->dbefore[i];
}

static void grad(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const rnn_views v = rnn_views_of(call, &call->in[4]);
    for (int64_t h = first; h < last; h++) {
        const rooms r = rooms_at(&v, (double *)call->workspace + h * room_of(&v));
        memset(r.dweight, 0, (size_t)(v.rows * (v.D + 1)) * sizeof(double));
        for (int64_t b = 0; b < v.B; b++) {
            const real *front = (const real *)call->in[6].data + (b * v.H + h) * v.size;
            real *dstate = (real *)call->out[3].data + (b * v.H + h) * v.size;
            for (int64_t i = 0; i < v.size; i++) r.states[i] = (double)front[i];
            for (int64_t n = 0; n < v.N; n++) {
                double *after = r.states + (n + 1) * v.size;
                rnn_step(&v, b, n, h, r.states + n * v.size, after);
                for (int64_t d = 0; d < v.D; d++) after[d] = (double)rnn_at(v.y, b, n, h)[d];
            }
            for (int64_t i = 0; i < v.size; i++) r.d[i] = (double)dstate[i];
            for (int64_t n = v.N - 1; n >= 0; n--) back_token(&v, call, &r, b, n, h);
            for (int64_t i = 0; i < v.size; i++) dstate[i] = (real)r.d[i];
        }
        real *dweight = (real *)call->out[1].data + h * v.rows * v.D, *dbias = (real *)call->out[2].data + h * v.rows;
        for (int64_t i = 0; i < v.rows * v.D; i++) dweight[i] += (real)r.dweight[i];
        for (int64_t i = 0; i < v.rows && v.bias->size[1] > 0; i++) dbias[i] += (real)r.dbias[i];
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->in[4].size[2], grad, call);
}

const ls_kernel REF(rnn) = {
    .id = LS_KERNEL_RNN, .dtype = LS_REAL, .workspace = workspace, .prepare = prepare, .run = run};
const ls_kernel REF(rnn_grad) = {
    .id = LS_KERNEL_RNN_GRAD, .dtype = LS_REAL, .workspace = grad_workspace, .prepare = prepare_grad, .run = run_grad};
