/*
 * The kernels of the linear recurrence of every instruction set, in f32, where numbers are delicate: keys that are
 * nearly equal, with beta near 1 and near 2, decays that end a state within a few tokens, strong decays followed by
 * weak ones, decays of elements of which some are strong, and decays of which none is weak, whose own gradients are a
 * ten-thousandth of the terms that a sum over tokens would cancel. Errors are against the reference in f64, relative to
 * the largest value: 1e-5, and 1e-4 where keys are nearly equal, as the triangular system is then badly conditioned.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/kernel_call.h"

enum { N = 300, D = 48, E = 40 };

typedef struct delicate {
    const char *name;
    bool delta;
    int64_t decay; /* last size: 1, or D */
    double least;  /* decays are at least this */
    double rate;   /* about the mean of what they are beyond it */
    bool uneven;   /* strong in the first half of 128 tokens, and weak in the second */
    double spread; /* of keys around one; 0: they are random */
    double beta, bound;
} delicate;

static const delicate cases[] = {
    {"plain", true, 1, 0, 0.1, false, 0, 0.5, 1e-5},
    {"nearly equal keys", true, 1, 0, 1e-3, false, 1e-3, 0.99, 1e-4},
    {"nearly equal keys, beta near 2", true, 1, 0, 1e-3, false, 1e-3, 1.99, 1e-4},
    {"strong decays", false, 1, 0, 20, true, 0, 1, 1e-5},
    {"strong decays, delta", true, 1, 0, 20, true, 0, 0.9, 1e-5},
    {"strong decays of elements", false, D, 0, 8, true, 0, 1, 1e-5},
    {"strong decays of elements, delta", true, D, 0, 8, true, 0, 0.9, 1e-5},
    {"weak decays of elements, delta", true, D, 0, 0.05, false, 0, 1, 1e-5},
    {"no weak decays", false, 1, 10, 2, false, 0, 1, 1e-5},
    {"no weak decays, delta", true, 1, 10, 2, false, 0, 0.9, 1e-5},
    {"no weak decays of elements", false, D, 10, 2, false, 0, 1, 1e-5},
    {"no weak decays of elements, delta", true, D, 10, 2, false, 0, 0.9, 1e-5},
};

enum { Q, K, V, DECAY, BETA, STARTS, DO, STATE, INPUTS };

static double random_at(int stream, int64_t i) { return ls_rng_normal(29, (uint64_t)stream, (uint64_t)i); }

/* Queries and keys have length 1. */
static void fill_keys(double *to, int stream, double spread) {
    for (int64_t n = 0; n < N; n++) {
        double norm = 0;
        for (int64_t d = 0; d < D; d++) {
            const double own = random_at(stream, n * D + d), shared = random_at(stream + 50, d);
            to[n * D + d] = spread > 0 ? shared + spread * own : own;
            norm += to[n * D + d] * to[n * D + d];
        }
        for (int64_t d = 0; d < D; d++) to[n * D + d] /= sqrt(norm);
    }
}

static double decay_at(const delicate *c, int64_t n, int64_t d) {
    const double weak = c->uneven && n % 128 >= 64 ? 1e-4 : 1;
    return -c->least - 2 * c->rate * weak * fabs(sin((double)(n * 7 + d * 3 + 1)));
}

/* An array in f64 and, rounded, in f32; both have the rounded values. */
typedef struct pair {
    double *exact;
    float *is;
    int64_t n;
    ls_view view;
} pair;

static pair make_pair(int ndim, const int64_t *size) {
    const ls_view view = ls_view_dense(NULL, LS_F32, ndim, size);
    const int64_t n = ls_view_elements(&view);
    return (pair){calloc((size_t)n + 1, sizeof(double)), calloc((size_t)n + 1, sizeof(float)), n, view};
}

static void round_pair(pair *p) {
    for (int64_t i = 0; i < p->n; i++) p->exact[i] = (double)(p->is[i] = (float)p->exact[i]);
}

static ls_view view_of(const pair *p, bool exact) {
    ls_view v = p->view;
    v.data = exact ? (void *)p->exact : (void *)p->is;
    v.dtype = exact ? LS_F64 : LS_F32;
    return v;
}

static void make_inputs(const delicate *c, pair in[INPUTS]) {
    const int64_t keys[] = {1, N, 1, D}, values[] = {1, N, 1, E}, decays[] = {1, N, 1, c->decay}, one[] = {1, N, 1, 1},
                  none[] = {1, N, 0}, state[] = {1, 1, D, E};
    in[Q] = make_pair(4, keys);
    in[K] = make_pair(4, keys);
    in[V] = make_pair(4, values);
    in[DECAY] = make_pair(4, decays);
    in[BETA] = make_pair(4, one);
    in[STARTS] = make_pair(3, none);
    in[DO] = make_pair(4, values);
    in[STATE] = make_pair(4, state);
    fill_keys(in[Q].exact, Q, 0);
    fill_keys(in[K].exact, K, c->spread);
    for (int64_t i = 0; i < N * E; i++) {
        in[V].exact[i] = random_at(V, i);
        in[DO].exact[i] = random_at(DO, i);
    }
    for (int64_t i = 0; i < N * c->decay; i++) in[DECAY].exact[i] = decay_at(c, i / c->decay, i % c->decay);
    for (int64_t i = 0; i < N; i++) in[BETA].exact[i] = c->beta;
    for (int64_t i = 0; i < D * E; i++) in[STATE].exact[i] = random_at(STATE, i);
    for (int i = 0; i < INPUTS; i++) round_pair(&in[i]);
}

static ls_kernel_call call_of(const ls_linear_recurrence_params *params, const pair *in, const int *inputs, int n_in,
                              const pair *out, int n_out, bool exact) {
    ls_kernel_call call = {.n_in = n_in, .n_out = n_out, .params = params};
    for (int i = 0; i < n_in; i++) {
        call.in[i] = view_of(&in[inputs[i]], exact);
        if (inputs[i] == STARTS) call.in[i].dtype = LS_I32;
    }
    for (int i = 0; i < n_out; i++) call.out[i] = view_of(&out[i], exact);
    return call;
}

static void expect_near(const delicate *c, const char *kernel, ls_isa isa, int o, const pair *p) {
    double largest = 0, error = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const double off = fabs((double)p->is[i] - p->exact[i]);
        largest = fmax(largest, fabs(p->exact[i]));
        if (!(off <= error)) error = off;
    }
    if (!(error <= c->bound * largest))
        fail_msg("%s, %s %s, result %d: off by %g of %g, more than %g of it", c->name, kernel, ls_isa_name(isa), o,
                 error, largest, c->bound);
}

static void check(const delicate *c, const char *kernel, const pair *in, const int *inputs, int n_in, pair *out,
                  int n_out) {
    const ls_linear_recurrence_params params = {.delta = c->delta};
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        for (int64_t i = 0; i < out[n_out - 1].n; i++) out[n_out - 1].exact[i] = 0; /* a state, which is read */
        round_pair(&out[n_out - 1]);
        run_kernel(kernel, LS_F64, LS_ISA_REF, 1, call_of(&params, in, inputs, n_in, out, n_out, true));
        run_kernel(kernel, LS_F32, isa, 1, call_of(&params, in, inputs, n_in, out, n_out, false));
        for (int o = 0; o < n_out; o++) expect_near(c, kernel, isa, o, &out[o]);
    }
}

static void free_pairs(pair *p, int n) {
    for (int i = 0; i < n; i++) free(p[i].exact), free(p[i].is);
}

static void test_results(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        pair in[INPUTS];
        make_inputs(&cases[i], in);
        static const int inputs[] = {Q, K, V, DECAY, BETA, STARTS};
        pair out[] = {make_pair(4, in[V].view.size), make_pair(4, in[STATE].view.size)};
        check(&cases[i], "linear_recurrence", in, inputs, 6, out, 2);
        free_pairs(out, 2);
        free_pairs(in, INPUTS);
    }
}

static void test_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        pair in[INPUTS];
        make_inputs(&cases[i], in);
        static const int inputs[] = {Q, K, V, DECAY, BETA, STARTS, DO, STATE};
        pair out[] = {make_pair(4, in[Q].view.size),    make_pair(4, in[K].view.size),
                      make_pair(4, in[V].view.size),    make_pair(4, in[DECAY].view.size),
                      make_pair(4, in[BETA].view.size), make_pair(4, in[STATE].view.size)};
        check(&cases[i], "linear_recurrence_grad", in, inputs, 8, out, 6);
        free_pairs(out, 6);
        free_pairs(in, INPUTS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
