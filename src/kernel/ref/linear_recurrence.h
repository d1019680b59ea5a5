/* Shared by the reference kernels of the linear recurrence: the tokens of one head, and the step of one token. */
#ifndef LS_KERNEL_REF_LINEAR_RECURRENCE_H
#define LS_KERNEL_REF_LINEAR_RECURRENCE_H

#include "kernel/ref/ref_impl.h"

/* Views of a call; views that the call does not have are NULL. */
typedef struct lr_views {
    const ls_view *q, *k, *v, *decay, *beta, *places, *grad_o;
    const ls_linear_recurrence_params *params;
    int64_t B, N, K, H, D, E;
} lr_views;

static inline lr_views lr_sizes(lr_views x) {
    x.B = x.k->size[0];
    x.N = x.k->size[1];
    x.K = x.k->size[2];
    x.D = x.k->size[3];
    x.H = x.decay->size[2];
    x.E = (x.v != NULL ? x.v : x.grad_o)->size[3];
    return x;
}

/*
 * The number of columns of a state [U | M] that includes its map; or of U alone, if M is a diagonal, which is kept
 * apart.
 */
static inline int64_t lr_map_width(const lr_views *x) { return x->E + (x->params->delta ? x->D : 0); }

/* Sets such a state to the one before any token: U = 0 and M = 1. factor [D]: the diagonal. */
static inline void lr_begin_map(const lr_views *x, double *S, double *factor) {
    const int64_t width = lr_map_width(x);
    for (int64_t d = 0; d < x->D; d++) {
        for (int64_t e = 0; e < width; e++) S[d * width + e] = e == x->E + d ? 1 : 0;
        factor[d] = 1;
    }
}

/* One token of a head. If the call has no grad_o or v, these pointers are not set. */
typedef struct lr_token {
    const real *q, *k, *v, *grad_o; /* D or E elements, dense */
    const real *decay;              /* `kind` elements */
    int64_t kind;
    double beta;
    bool start;
} lr_token;

static inline real *lr_at(const ls_view *v, int64_t b, int64_t n, int64_t h) {
    return (real *)v->data + b * v->stride[0] + n * v->stride[1] + h * v->stride[2];
}

static inline lr_token lr_token_at(const lr_views *x, int64_t b, int64_t n, int64_t h) {
    const int64_t key = h / (x->H / x->K);
    lr_token t = {.k = lr_at(x->k, b, n, key), .decay = lr_at(x->decay, b, n, h), .kind = x->decay->size[3], .beta = 1};
    if (x->q != NULL) t.q = lr_at(x->q, b, n, key);
    if (x->v != NULL) t.v = lr_at(x->v, b, n, h);
    if (x->grad_o != NULL) t.grad_o = lr_at(x->grad_o, b, n, h);
    if (x->beta->size[3] > 0) t.beta = (double)*lr_at(x->beta, b, n, h);
    if (x->places->size[2] > 0)
        t.start = ((const int32_t *)x->places->data)[b * x->places->stride[0] + n * x->places->stride[1]] == 0;
    return t;
}

/* The factor by which row d of the state is multiplied. */
static inline double lr_factor(const lr_token *t, int64_t d) {
    if (t->start) return 0;
    return t->kind == 0 ? 1 : exp((double)t->decay[t->kind == 1 ? 0 : d]);
}

/* The sum over rows d of k[d] * S[d][e]. */
static inline double lr_read(const real *k, const double *S, int64_t D, int64_t width, int64_t e) {
    double sum = 0;
    for (int64_t d = 0; d < D; d++) sum += (double)k[d] * S[d * width + e];
    return sum;
}

/* Advances S [D,width] by one token; in the columns from E on, v is 0. written [width]: what the token wrote. */
static inline void lr_step(const lr_views *x, const lr_token *t, double *S, int64_t width, double *written) {
    for (int64_t d = 0; d < x->D && !x->params->unmasked; d++)
        for (int64_t e = 0; e < width; e++) S[d * width + e] *= lr_factor(t, d);
    for (int64_t e = 0; e < width; e++) {
        const double value = e < x->E ? (double)t->v[e] : 0;
        written[e] = t->beta * (value - (x->params->delta ? lr_read(t->k, S, x->D, width, e) : 0));
    }
    for (int64_t d = 0; d < x->D; d++)
        for (int64_t e = 0; e < width; e++) S[d * width + e] += (double)t->k[d] * written[e];
}

#endif
