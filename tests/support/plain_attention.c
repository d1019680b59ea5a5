#include "plain_attention.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "kernel_call.h"

enum { MOST_KEYS = 128 };

static bool term_shows(const ls_mask_term *t, int64_t q, int64_t k) {
    int document_q = 0, document_k = 0;
    switch (t->kind) {
    case LS_MASK_CAUSAL:
        return k <= q;
    case LS_MASK_WINDOW:
        return k <= q && (k > q - t->window || k < t->first);
    case LS_MASK_PREFIX:
        return k <= q || k < t->first;
    case LS_MASK_DOCUMENTS:
        while (t->ends[document_q + 1] <= q) document_q++;
        while (t->ends[document_k + 1] <= k) document_k++;
        return document_q == document_k;
    }
    return false;
}

bool plain_sees(const ls_mask *mask, int64_t q, int64_t k) {
    for (int i = 0; i < mask->n; i++) {
        if (!term_shows(&mask->term[i], q, k)) return false;
    }
    return true;
}

int64_t plain_value_size(const plain_sizes *n) { return n->E > 0 ? n->E : n->D; }

int64_t plain_input_count(const plain_sizes *n, int i) {
    const int64_t rows = n->B * n->S * (i == PLAIN_K || i == PLAIN_V ? n->Hkv : n->Hq);
    return rows * (i == PLAIN_V || i == PLAIN_GRAD_O ? plain_value_size(n) : n->D);
}

int64_t plain_output_count(const plain_sizes *n, int i) {
    if (i == PLAIN_LSE) return n->B * n->S * n->Hq;
    const int64_t rows = n->B * n->S * (i == PLAIN_DK || i == PLAIN_DV ? n->Hkv : n->Hq);
    return rows * (i == PLAIN_DV || i == PLAIN_O ? plain_value_size(n) : n->D);
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The row of a head of a token. */
static int64_t at(const plain_sizes *n, int64_t heads, int64_t b, int64_t s, int64_t h) {
    return (b * n->S + s) * heads + h;
}

/* Probabilities of one query's keys, and its lse. slope[k]: of the logit by scale·q·k. */
static double softmax(const plain_attention *a, int64_t b, int64_t s, int64_t h, double p[MOST_KEYS],
                      double slope[MOST_KEYS]) {
    const plain_sizes *n = &a->n;
    const double *q = a->in[PLAIN_Q] + at(n, n->Hq, b, s, h) * n->D;
    const double sink = a->sink != NULL ? a->sink[h] : -INFINITY;
    double most = sink;
    for (int64_t k = 0; k < n->S; k++) {
        p[k] = -INFINITY;
        slope[k] = 0;
        if (!plain_sees(&a->mask, s, k)) continue;
        p[k] = a->scale * dot(q, a->in[PLAIN_K] + at(n, n->Hkv, b, k, h / (n->Hq / n->Hkv)) * n->D, n->D);
        slope[k] = 1;
        if (a->softcap > 0) {
            const double t = tanh(p[k] / a->softcap);
            p[k] = a->softcap * t;
            slope[k] = (1 - t) * (1 + t);
        }
        most = fmax(most, p[k]);
    }
    double sum = a->sink != NULL ? exp(sink - most) : 0;
    for (int64_t k = 0; k < n->S; k++) {
        p[k] = isinf(p[k]) ? 0 : exp(p[k] - most);
        sum += p[k];
    }
    for (int64_t k = 0; k < n->S && sum > 0; k++) p[k] /= sum;
    return sum > 0 ? most + log(sum) : -INFINITY;
}

/* o = P v; dv += P do, dP = do·v, dS = P (dP - do·o), dq and dk from dS. */
static void one_row(plain_attention *a, int64_t b, int64_t s, int64_t h) {
    const plain_sizes *n = &a->n;
    const int64_t D = n->D, E = plain_value_size(n), row = at(n, n->Hq, b, s, h);
    const double *q = a->in[PLAIN_Q] + row * D, *grad_o = a->in[PLAIN_GRAD_O] + row * E;
    double *o = a->out[PLAIN_O] + row * E, *dq = a->out[PLAIN_DQ] + row * D, p[MOST_KEYS], slope[MOST_KEYS];
    a->out[PLAIN_LSE][(b * n->Hq + h) * n->S + s] = softmax(a, b, s, h, p, slope);
    for (int64_t k = 0; k < n->S; k++) {
        const double *v = a->in[PLAIN_V] + at(n, n->Hkv, b, k, h / (n->Hq / n->Hkv)) * E;
        for (int64_t d = 0; d < E && p[k] > 0; d++) o[d] += p[k] * v[d];
    }
    const double delta = dot(grad_o, o, E);
    for (int64_t k = 0; k < n->S; k++) {
        if (p[k] == 0) continue;
        const int64_t key = at(n, n->Hkv, b, k, h / (n->Hq / n->Hkv));
        const double ds = a->scale * slope[k] * p[k] * (dot(grad_o, a->in[PLAIN_V] + key * E, E) - delta);
        for (int64_t d = 0; d < E; d++) a->out[PLAIN_DV][key * E + d] += p[k] * grad_o[d];
        for (int64_t d = 0; d < D; d++) {
            a->out[PLAIN_DK][key * D + d] += ds * q[d];
            dq[d] += ds * a->in[PLAIN_K][key * D + d];
        }
    }
}

static double *draw(int64_t count, double spread, uint64_t stream) {
    double *x = malloc(sizeof *x * (size_t)count);
    LS_ASSERT(x != NULL);
    fill_normal(x, count, stream);
    for (int64_t i = 0; i < count; i++) x[i] = (double)ls_bf16_to_f32(ls_bf16_from_f32((float)(spread * x[i])));
    return x;
}

plain_attention plain_attention_make(plain_sizes n, const ls_mask *mask, plain_extras extras, double spread,
                                     uint64_t stream) {
    LS_ASSERT(n.S <= MOST_KEYS);
    plain_attention a = {.n = n, .mask = *mask, .scale = 1 / sqrt((double)n.D), .softcap = extras.softcap};
    stream *= PLAIN_INPUTS + 1;
    for (int i = 0; i < PLAIN_INPUTS; i++) {
        const double factor = i == PLAIN_Q || i == PLAIN_K ? spread : 1;
        a.in[i] = draw(plain_input_count(&n, i), factor, stream + (uint64_t)i);
    }
    if (extras.sink) a.sink = draw(n.Hq, 2, stream + PLAIN_INPUTS);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) a.out[i] = calloc((size_t)plain_output_count(&n, i), sizeof(double));
    for (int64_t b = 0; b < n.B; b++) {
        for (int64_t h = 0; h < n.Hq; h++) {
            for (int64_t s = 0; s < n.S; s++) one_row(&a, b, s, h);
        }
    }
    return a;
}

void plain_attention_free(plain_attention *a) {
    free(a->sink);
    for (int i = 0; i < PLAIN_INPUTS; i++) free(a->in[i]);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) free(a->out[i]);
}
