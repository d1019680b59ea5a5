/*
 * linear_recurrence, token by token; linear_recurrence_map: the effect of some tokens on any state;
 * linear_recurrence_follow: applies several of these maps, one after the other.
 */
#include "kernel/ref/linear_recurrence.h"

/* --- results from a state ----------------------------------------------------------------------------------------- */

static lr_views forward_views(const ls_kernel_call *call) {
    return lr_sizes((lr_views){.q = &call->in[0],
                               .k = &call->in[1],
                               .v = &call->in[2],
                               .decay = &call->in[3],
                               .beta = &call->in[4],
                               .places = &call->in[5],
                               .params = call->params});
}

/* For each head of a batch: a state in double, and what a token writes. */
static size_t forward_workspace(const ls_kernel_call *call) {
    const lr_views x = forward_views(call);
    return (size_t)(x.B * x.H * (x.D + 1) * x.E) * sizeof(double);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LINEAR_RECURRENCE, LS_REAL, call);
}

static void forward(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const lr_views x = forward_views(call);
    for (int64_t i = first; i < last; i++) {
        const int64_t b = i / x.H, h = i % x.H;
        double *S = (double *)call->workspace + i * (x.D + 1) * x.E, *written = S + x.D * x.E;
        real *state = (real *)call->out[1].data + i * x.D * x.E;
        for (int64_t d = 0; d < x.D * x.E; d++) S[d] = (double)state[d];
        for (int64_t n = 0; n < x.N; n++) {
            const lr_token t = lr_token_at(&x, b, n, h);
            if (!x.params->unmasked) lr_step(&x, &t, S, x.E, written);
            real *o = lr_at(&call->out[0], b, n, h);
            for (int64_t e = 0; e < x.E; e++) o[e] = (real)lr_read(t.q, S, x.D, x.E, e);
        }
        for (int64_t d = 0; d < x.D * x.E; d++) state[d] = (real)S[d];
    }
}

static void run_forward(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const lr_views x = forward_views(call);
    ref_split(pool, x.B * x.H, forward, call);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static lr_views map_views(const ls_kernel_call *call) {
    return lr_sizes((lr_views){.k = &call->in[0],
                               .v = &call->in[1],
                               .decay = &call->in[2],
                               .beta = &call->in[3],
                               .places = &call->in[4],
                               .params = call->params});
}

static size_t map_workspace(const ls_kernel_call *call) {
    const lr_views x = map_views(call);
    return (size_t)(x.B * x.H * ((x.D + 1) * lr_map_width(&x) + x.D)) * sizeof(double);
}

static ls_status prepare_map(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LINEAR_RECURRENCE_MAP, LS_REAL, call);
}

static void store_map(const lr_views *x, const double *S, const double *factor, int64_t factors, real *map) {
    const int64_t width = lr_map_width(x);
    for (int64_t d = 0; d < x->D; d++)
        for (int64_t e = 0; e < x->E; e++) map[d * x->E + e] = (real)S[d * width + e];
    for (int64_t i = 0; i < factors; i++)
        map[x->D * x->E + i] = (real)(x->params->delta ? S[i / x->D * width + x->E + i % x->D] : factor[i]);
}

static void map(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const lr_views x = map_views(call);
    const int64_t width = lr_map_width(&x), room = (x.D + 1) * width + x.D, size = call->out[0].size[2];
    for (int64_t i = first; i < last; i++) {
        double *S = (double *)call->workspace + i * room, *written = S + x.D * width, *factor = written + width;
        lr_begin_map(&x, S, factor);
        for (int64_t n = 0; n < x.N; n++) {
            const lr_token t = lr_token_at(&x, i / x.H, n, i % x.H);
            lr_step(&x, &t, S, width, written);
            for (int64_t d = 0; d < x.D; d++) factor[d] *= lr_factor(&t, d);
        }
        store_map(&x, S, factor, size - x.D * x.E, (real *)call->out[0].data + i * size);
    }
}

static void run_map(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const lr_views x = map_views(call);
    ref_split(pool, x.B * x.H, map, call);
}

/* --- maps one after the other ------------------------------------------------------------------------------------- */

static size_t follow_workspace(const ls_kernel_call *call) {
    return (size_t)ls_view_elements(&call->out[0]) * sizeof(double);
}

static ls_status prepare_follow(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LINEAR_RECURRENCE_FOLLOW, LS_REAL, call);
}

/* Element (d, e) of M S + U. */
static double applied(const ls_kernel_call *call, const real *at, const real *S, int64_t d, int64_t e) {
    const ls_linear_recurrence_params *p = call->params;
    const int64_t D = call->out[0].size[2], E = call->out[0].size[3], factors = call->in[0].size[3] - D * E;
    const real *M = at + D * E;
    double sum = (double)at[d * E + e];
    if (!p->delta) return sum + (double)M[factors == 1 ? 0 : d] * (double)S[d * E + e];
    for (int64_t j = 0; j < D; j++) sum += (double)M[p->transposed ? j * D + d : d * D + j] * (double)S[j * E + e];
    return sum;
}

static void follow(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *maps = &call->in[0], *out = &call->out[0];
    const int64_t H = out->size[1], E = out->size[3], size = out->size[2] * E, n = maps->size[0];
    for (int64_t i = first; i < last; i++) {
        real *S = (real *)out->data + i * size;
        double *next = (double *)call->workspace + i * size;
        for (int64_t m = 0; m < n; m++) {
            const int64_t at = ((const ls_linear_recurrence_params *)call->params)->backwards ? n - 1 - m : m;
            const real *from = lr_at(maps, at, i / H, i % H);
            for (int64_t s = 0; s < size; s++) next[s] = applied(call, from, S, s / E, s % E);
            for (int64_t s = 0; s < size; s++) S[s] = (real)next[s];
        }
    }
}

static void run_follow(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[1], follow, call);
}

const ls_kernel REF(linear_recurrence) = {.id = LS_KERNEL_LINEAR_RECURRENCE,
                                          .dtype = LS_REAL,
                                          .workspace = forward_workspace,
                                          .prepare = prepare_forward,
                                          .run = run_forward};
const ls_kernel REF(linear_recurrence_map) = {.id = LS_KERNEL_LINEAR_RECURRENCE_MAP,
                                              .dtype = LS_REAL,
                                              .workspace = map_workspace,
                                              .prepare = prepare_map,
                                              .run = run_map};
const ls_kernel REF(linear_recurrence_follow) = {.id = LS_KERNEL_LINEAR_RECURRENCE_FOLLOW,
                                                 .dtype = LS_REAL,
                                                 .workspace = follow_workspace,
                                                 .prepare = prepare_follow,
                                                 .run = run_follow};
