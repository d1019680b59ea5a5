/*
 * linear_recurrence_grad: the gradient, token by token from the last to the first. The states in front of every
 * SEGMENT-th token are kept, and those within a segment are computed again. linear_recurrence_back: the effect of some
 * tokens on the gradient of any state behind them.
 */
#include "kernel/ref/linear_recurrence.h"

#include <string.h>

enum { SEGMENT = 64 };

/* Memory of a head, in double. */
typedef struct rooms {
    double *starts;        /* [segments][D*E]: states in front of segments */
    double *states;        /* [SEGMENT + 1][D*E]: states within a segment */
    double *decayed;       /* [D*E]: a state after the decay of the next token */
    double *dS, *dwritten; /* [D*E], [E] */
    double *written;       /* [E] */
    double *dq, *dk;       /* [N*D]: sums over the value heads that share a key head */
} rooms;

static int64_t segments_of(const lr_views *x) { return ls_ceil_div(x->N, SEGMENT) + 1; }

static int64_t room_of(const lr_views *x) {
    return (segments_of(x) + SEGMENT + 3) * x->D * x->E + 2 * x->E + 2 * x->N * x->D;
}

static rooms rooms_at(const lr_views *x, double *at) {
    rooms r;
    r.starts = at;
    r.states = r.starts + segments_of(x) * x->D * x->E;
    r.decayed = r.states + (SEGMENT + 1) * x->D * x->E;
    r.dS = r.decayed + x->D * x->E;
    r.dwritten = r.dS + x->D * x->E;
    r.written = r.dwritten + x->E;
    r.dq = r.written + x->E;
    r.dk = r.dq + x->N * x->D;
    return r;
}

static lr_views grad_views(const ls_kernel_call *call) {
    return lr_sizes((lr_views){.q = &call->in[0],
                               .k = &call->in[1],
                               .v = &call->in[2],
                               .decay = &call->in[3],
                               .beta = &call->in[4],
                               .places = &call->in[5],
                               .grad_o = &call->in[6],
                               .params = call->params});
}

static size_t grad_workspace(const ls_kernel_call *call) {
    const lr_views x = grad_views(call);
    return (size_t)(x.B * x.K * room_of(&x)) * sizeof(double);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LINEAR_RECURRENCE_GRAD, LS_REAL, call);
}

/* Computes the states in front of all segments, from the state in front of the first token. */
static void keep_starts(const lr_views *x, const rooms *r, int64_t b, int64_t h, const real *state) {
    const int64_t size = x->D * x->E;
    double *S = r->states;
    for (int64_t i = 0; i < size; i++) S[i] = (double)state[i];
    for (int64_t n = 0; n < x->N; n++) {
        if (n % SEGMENT == 0) memcpy(r->starts + n / SEGMENT * size, S, (size_t)size * sizeof *S);
        const lr_token t = lr_token_at(x, b, n, h);
        if (!x->params->unmasked) lr_step(x, &t, S, x->E, r->written);
    }
}

/* states[i] becomes the state in front of token first + i. */
static void make_states(const lr_views *x, const rooms *r, int64_t b, int64_t h, int64_t first, int64_t past) {
    const int64_t size = x->D * x->E;
    memcpy(r->states, r->starts + first / SEGMENT * size, (size_t)size * sizeof *r->states);
    for (int64_t n = first; n < past; n++) {
        double *S = r->states + (n - first + 1) * size;
        memcpy(S, S - size, (size_t)size * sizeof *S);
        const lr_token t = lr_token_at(x, b, n, h);
        if (!x->params->unmasked) lr_step(x, &t, S, x->E, r->written);
    }
}

/*
 * The gradient through what the token writes, k (beta (v - k A))^T: dk, dv and dbeta. A: the decayed previous state. dS
 * becomes the gradient of A.
 */
static void through_write(const lr_views *x, const lr_token *t, const double *A, const rooms *r, double *dk, real *dv,
                          real *dbeta) {
    const bool delta = x->params->delta;
    double sum = 0;
    for (int64_t e = 0; e < x->E; e++) r->dwritten[e] = lr_read(t->k, r->dS, x->D, x->E, e);
    for (int64_t e = 0; e < x->E; e++) {
        const double found = (double)t->v[e] - (delta ? lr_read(t->k, A, x->D, x->E, e) : 0);
        r->written[e] = t->beta * found;
        sum += r->dwritten[e] * found;
        dv[e] = (real)(t->beta * r->dwritten[e]);
    }
    if (dbeta != NULL) *dbeta = (real)sum;
    for (int64_t d = 0; d < x->D; d++) {
        for (int64_t e = 0; e < x->E; e++) {
            dk[d] += r->dS[d * x->E + e] * r->written[e];
            if (delta) dk[d] -= t->beta * r->dwritten[e] * A[d * x->E + e];
        }
    }
    for (int64_t d = 0; d < x->D && delta; d++)
        for (int64_t e = 0; e < x->E; e++) r->dS[d * x->E + e] -= t->beta * (double)t->k[d] * r->dwritten[e];
}

/* dS, the gradient of the decayed state A, becomes that of the previous state; also the gradient of the decay. */
static void through_decay(const lr_views *x, const lr_token *t, const double *A, const rooms *r, real *ddecay) {
    double all = 0;
    for (int64_t d = 0; d < x->D; d++) {
        double sum = 0;
        for (int64_t e = 0; e < x->E; e++) {
            sum += r->dS[d * x->E + e] * A[d * x->E + e];
            r->dS[d * x->E + e] *= lr_factor(t, d);
        }
        all += sum;
        if (t->kind == x->D) ddecay[d] = (real)sum;
    }
    if (t->kind == 1) *ddecay = (real)all;
}

/* The gradient of token n, from the states in front of it and behind it. */
static void token_back(const ls_kernel_call *call, const lr_views *x, const rooms *r, int64_t b, int64_t n, int64_t h,
                       const double *S, const double *behind) {
    const lr_token t = lr_token_at(x, b, n, h);
    double *dq = r->dq + n * x->D, *dk = r->dk + n * x->D;
    for (int64_t d = 0; d < x->D; d++) {
        for (int64_t e = 0; e < x->E; e++) {
            dq[d] += behind[d * x->E + e] * (double)t.grad_o[e];
            if (!x->params->unmasked) r->dS[d * x->E + e] += (double)t.q[d] * (double)t.grad_o[e];
        }
    }
    for (int64_t i = 0; i < x->D * x->E; i++) r->decayed[i] = S[i] * lr_factor(&t, i / x->E);
    real *dbeta = call->out[4].size[3] > 0 ? lr_at(&call->out[4], b, n, h) : NULL;
    through_write(x, &t, r->decayed, r, dk, lr_at(&call->out[2], b, n, h), dbeta);
    if (!x->params->unmasked) through_decay(x, &t, r->decayed, r, lr_at(&call->out[3], b, n, h));
}

static void head_back(const ls_kernel_call *call, const lr_views *x, const rooms *r, int64_t b, int64_t h) {
    const int64_t size = x->D * x->E, at = (b * x->H + h) * size;
    real *dstate = (real *)call->out[5].data + at;
    for (int64_t i = 0; i < size; i++) r->dS[i] = (double)dstate[i];
    keep_starts(x, r, b, h, (const real *)call->in[7].data + at);
    for (int64_t first = (x->N - 1) / SEGMENT * SEGMENT; first >= 0; first -= SEGMENT) {
        const int64_t past = ls_min(x->N, first + SEGMENT);
        make_states(x, r, b, h, first, past);
        for (int64_t n = past - 1; n >= first; n--) {
            const double *S = r->states + (n - first) * size;
            token_back(call, x, r, b, n, h, S, S + size);
        }
    }
    for (int64_t i = 0; i < size; i++) dstate[i] = (real)r->dS[i];
}

/* For key heads first .. last - 1, numbered over the batch. */
static void grad(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const lr_views x = grad_views(call);
    const int64_t group = x.H / x.K;
    for (int64_t i = first; i < last; i++) {
        const int64_t b = i / x.K, key = i % x.K;
        const rooms r = rooms_at(&x, (double *)call->workspace + i * room_of(&x));
        for (int64_t d = 0; d < 2 * x.N * x.D; d++) r.dq[d] = 0; /* dk lies behind dq */
        for (int64_t h = key * group; h < (key + 1) * group; h++) head_back(call, &x, &r, b, h);
        for (int64_t d = 0; d < x.N * x.D; d++) {
            lr_at(&call->out[0], b, d / x.D, key)[d % x.D] = (real)r.dq[d];
            lr_at(&call->out[1], b, d / x.D, key)[d % x.D] = (real)r.dk[d];
        }
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const lr_views x = grad_views(call);
    ref_split(pool, x.B * x.K, grad, call);
}

/* --- maps of gradients -------------------------------------------------------------------------------------------- */

static lr_views back_views(const ls_kernel_call *call) {
    return lr_sizes((lr_views){.q = &call->in[0],
                               .k = &call->in[1],
                               .decay = &call->in[2],
                               .beta = &call->in[3],
                               .places = &call->in[4],
                               .grad_o = &call->in[5],
                               .params = call->params});
}

static size_t back_workspace(const ls_kernel_call *call) {
    const lr_views x = back_views(call);
    return (size_t)(x.B * x.H * (x.D * lr_map_width(&x) + x.D)) * sizeof(double);
}

static ls_status prepare_back(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LINEAR_RECURRENCE_BACK, LS_REAL, call);
}

/* Moves dS [D,width] from behind the token to in front of it; in the columns from E on, gradients of results are 0. */
static void step_back(const lr_views *x, const lr_token *t, double *dS, int64_t width) {
    for (int64_t e = 0; e < width; e++) {
        for (int64_t d = 0; d < x->D && e < x->E; d++) dS[d * width + e] += (double)t->q[d] * (double)t->grad_o[e];
        const double taken = x->params->delta ? t->beta * lr_read(t->k, dS, x->D, width, e) : 0;
        for (int64_t d = 0; d < x->D; d++) {
            dS[d * width + e] -= (double)t->k[d] * taken;
            if (!x->params->unmasked) dS[d * width + e] *= lr_factor(t, d);
        }
    }
}

static void back(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const lr_views x = back_views(call);
    const int64_t width = lr_map_width(&x), size = call->out[0].size[2], factors = size - x.D * x.E;
    for (int64_t i = first; i < last; i++) {
        double *dS = (double *)call->workspace + i * x.D * (width + 1), *factor = dS + x.D * width;
        lr_begin_map(&x, dS, factor);
        for (int64_t n = x.N - 1; n >= 0; n--) {
            const lr_token t = lr_token_at(&x, i / x.H, n, i % x.H);
            step_back(&x, &t, dS, width);
            for (int64_t d = 0; d < x.D; d++) factor[d] *= lr_factor(&t, d);
        }
        real *map = (real *)call->out[0].data + i * size;
        for (int64_t s = 0; s < x.D * x.E; s++) map[s] = (real)dS[s / x.E * width + s % x.E];
        for (int64_t s = 0; s < factors; s++) /* the columns from E on are M transposed */
            map[x.D * x.E + s] = (real)(x.params->delta ? dS[s % x.D * width + x.E + s / x.D] : factor[s]);
    }
}

static void run_back(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const lr_views x = back_views(call);
    ref_split(pool, x.B * x.H, back, call);
}

const ls_kernel REF(linear_recurrence_grad) = {.id = LS_KERNEL_LINEAR_RECURRENCE_GRAD,
                                               .dtype = LS_REAL,
                                               .workspace = grad_workspace,
                                               .prepare = prepare_grad,
                                               .run = run_grad};
const ls_kernel REF(linear_recurrence_back) = {.id = LS_KERNEL_LINEAR_RECURRENCE_BACK,
                                               .dtype = LS_REAL,
                                               .workspace = back_workspace,
                                               .prepare = prepare_back,
                                               .run = run_back};
