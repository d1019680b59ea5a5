/*
 * The parts of attention on whole rows of scores, put together, against the kernels attention and attention_grad: masks
 * of several spans, heads that share keys and a share of heads that begins within a group, soft caps, queries that see
 * nothing, logits of ±1e3; what a query does not see may be NaN. In f64 by the reference, in f32 by src/kernel/cuda,
 * compiled for this host.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"
#include "support/kernel_call.h"

enum {
    B = 2,
    N = 9,
    H = 5,
    K = 13,
    J = 3,
    D = 37,
    QS = B * N * H * D,
    KS = B * K * J * D,
    PAIRS = B * H * N * K,
    ROWS = B * H * N
};

typedef struct arrays {
    double q[QS], k[KS], v[KS], grad_o[QS];
    int32_t spans[B * N * 4], kpos[K];
    double delta[ROWS];
} arrays;

typedef struct results {
    double o[QS], lse[ROWS], dq[QS], dk[KS], dv[KS];
} results;

/* Each query sees a run of positions and one of the first; the third of each sequence sees nothing. */
static void make(arrays *a, double spread) {
    fill_normal(a->q, QS, 1);
    fill_normal(a->k, KS, 2);
    fill_normal(a->v, KS, 3);
    fill_normal(a->grad_o, QS, 4);
    fill_normal(a->delta, ROWS, 5);
    for (int i = 0; i < QS; i++) a->q[i] *= spread;
    for (int i = 0; i < KS; i++) a->k[i] *= spread;
    for (int j = 0; j < K; j++) a->kpos[j] = (j * 5) % K;
    for (int i = 0; i < B * N; i++) {
        const bool blind = i % N == 2;
        memcpy(a->spans + (ptrdiff_t)i * 4, (int32_t[]){0, blind ? 0 : 1, blind ? 4 : 2 + i % 3, blind ? 4 : 5 + i % N},
               4 * sizeof(int32_t));
    }
}

static ls_attention_params params_of(double softcap) {
    return (ls_attention_params){.scale = 0.2, .softcap = softcap, .group = 2, .first_q = 1};
}

static void by_attention(const arrays *a, double softcap, results *r) {
    ls_attention_params params = params_of(softcap);
    ls_kernel_call call = {.n_in = 5,
                           .in = {VIEW((void *)a->q, LS_F64, B, N, H, D), VIEW((void *)a->k, LS_F64, B, K, J, D),
                                  VIEW((void *)a->v, LS_F64, B, K, J, D), VIEW((void *)a->spans, LS_I32, B, N, 4),
                                  VIEW((void *)a->kpos, LS_I32, K)},
                           .n_out = 2,
                           .out = {VIEW(r->o, LS_F64, B, N, H, D), VIEW(r->lse, LS_F64, B, H, N)},
                           .params = &params};
    run_kernel("attention", LS_F64, LS_ISA_REF, 1, call);
    call.n_in = 8;
    call.in[5] = VIEW((void *)a->grad_o, LS_F64, B, N, H, D);
    call.in[6] = VIEW(r->lse, LS_F64, B, H, N);
    call.in[7] = VIEW((void *)a->delta, LS_F64, B, H, N);
    call.n_out = 3;
    call.out[0] = VIEW(r->dq, LS_F64, B, N, H, D);
    call.out[1] = VIEW(r->dk, LS_F64, B, K, J, D);
    call.out[2] = VIEW(r->dv, LS_F64, B, K, J, D);
    run_kernel("attention_grad", LS_F64, LS_ISA_REF, 1, call);
}

typedef void (*run_call)(const char *name, const ls_kernel_call *call);

static void run_reference(const char *name, const ls_kernel_call *call) {
    run_kernel(name, LS_F64, LS_ISA_REF, 2, *call);
}

/* From its first element to its last one, gaps included. */
static int64_t extent(const ls_view *v) {
    int64_t last = 0;
    for (int d = 0; d < v->ndim; d++) last += (v->size[d] - 1) * v->stride[d];
    return last + 1;
}

/* A view of the same form, of what the view of doubles holds. */
static ls_view narrowed(const ls_view *v) {
    ls_view narrow = *v;
    if (v->dtype != LS_F64) return narrow;
    const int64_t n = extent(v);
    float *data = malloc(sizeof *data * (size_t)n);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)((const double *)v->data)[i];
    narrow.dtype = LS_F32;
    narrow.data = data;
    return narrow;
}

static void run_cuda(const char *name, const ls_kernel_call *call) {
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel_request request = {
        .id = ls_kernel_named(name), .dtype = LS_F32, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF};
    const ls_kernel *kernel = ls_kernel_choose(tables, 1, &request);
    assert_non_null(kernel);
    ls_kernel_call narrow = *call;
    for (int i = 0; i < call->n_in; i++) narrow.in[i] = narrowed(&call->in[i]);
    for (int i = 0; i < call->n_out; i++) narrow.out[i] = narrowed(&call->out[i]);
    call_kernel_on(kernel, 1, narrow);
    for (int i = 0; i < call->n_out; i++) {
        for (int64_t k = 0; k < extent(&call->out[i]); k++)
            ((double *)call->out[i].data)[k] = (double)((const float *)narrow.out[i].data)[k];
        free(narrow.out[i].data);
    }
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].dtype == LS_F64) free(narrow.in[i].data);
}

/* Who computes, and by how much a result may be off: of logits of ±1e3 f32 knows a weight to 1e-4. */
static const struct {
    const char *name;
    run_call run;
    double most, most_of_large;
} variants[] = {{"ref", run_reference, 1e-13, 1e-13}, {"cuda", run_cuda, 2e-6, 2e-4}};

static void run(run_call by, const char *name, const ls_attention_params *params, int n_in, const ls_view in[],
                int n_out, const ls_view out[]) {
    ls_kernel_call call = {.n_in = n_in, .n_out = n_out, .params = params};
    for (int i = 0; i < n_in; i++) call.in[i] = in[i];
    for (int i = 0; i < n_out; i++) call.out[i] = out[i];
    by(name, &call);
}

/* Columns of pairs that lie with gaps, as ranges of a longer row do. */
static ls_view columns(double *data) {
    ls_view view = VIEW(data, LS_F64, B, H, N, K + 3);
    view.size[3] = K;
    return view;
}

static void by_parts(run_call by, const arrays *a, double softcap, results *r) {
    static double pairs[PAIRS / K * (K + 3)], weights[PAIRS / K * (K + 3)];
    const ls_attention_params params = params_of(softcap);
    const ls_view q = VIEW((void *)a->q, LS_F64, B, N, H, D), k = VIEW((void *)a->k, LS_F64, B, K, J, D),
                  v = VIEW((void *)a->v, LS_F64, B, K, J, D), grad_o = VIEW((void *)a->grad_o, LS_F64, B, N, H, D);
    const ls_view spans = VIEW((void *)a->spans, LS_I32, B, N, 4), kpos = VIEW((void *)a->kpos, LS_I32, K);
    const ls_view lse = VIEW(r->lse, LS_F64, B, H, N), delta = VIEW((void *)a->delta, LS_F64, B, H, N);
    fill_nan(pairs, (int64_t)LS_COUNT(pairs));
    fill_nan(weights, (int64_t)LS_COUNT(weights));
    const ls_view s = columns(pairs), w = columns(weights);
    run(by, "attention_products", &params, 2, (ls_view[]){q, k}, 1, &s);
    run(by, "attention_softmax", &params, 3, (ls_view[]){s, spans, kpos}, 2, (ls_view[]){w, lse});
    run(by, "attention_weighted", &params, 2, (ls_view[]){w, v}, 1, (ls_view[]){VIEW(r->o, LS_F64, B, N, H, D)});
    run(by, "attention_products", &params, 2, (ls_view[]){grad_o, v}, 1, &w);
    run(by, "attention_softmax_grad", &params, 4, (ls_view[]){spans, kpos, lse, delta}, 2, (ls_view[]){s, w});
    run(by, "attention_weighted_back", &params, 2, (ls_view[]){w, grad_o}, 1,
        (ls_view[]){VIEW(r->dv, LS_F64, B, K, J, D)});
    run(by, "attention_weighted", &params, 2, (ls_view[]){s, k}, 1, (ls_view[]){VIEW(r->dq, LS_F64, B, N, H, D)});
    run(by, "attention_weighted_back", &params, 2, (ls_view[]){s, q}, 1, (ls_view[]){VIEW(r->dk, LS_F64, B, K, J, D)});
}

static void compare(const results *is, const results *expected, double most, const char *what) {
    const struct {
        const char *name;
        const double *is, *expected;
        int64_t n;
    } all[] = {{"o", is->o, expected->o, QS},
               {"dq", is->dq, expected->dq, QS},
               {"dk", is->dk, expected->dk, KS},
               {"dv", is->dv, expected->dv, KS}};
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        const double error = largest_error(all[i].is, all[i].expected, all[i].n);
        if (!(error <= most)) fail_msg("%s, %s is off by %g", what, all[i].name, error);
    }
    for (int i = 0; i < ROWS; i++)
        if (is->lse[i] != expected->lse[i] && !(fabs(is->lse[i] - expected->lse[i]) <= most * fabs(expected->lse[i])))
            fail_msg("%s, lse %d is %g, expected %g", what, i, is->lse[i], expected->lse[i]);
}

static void test_together(void **state) {
    (void)state;
    static const struct { double spread, softcap; } cases[] = {{1, 0}, {1, 1.5}, {12, 0}, {12, 2}};
    static arrays a;
    static results parts, whole;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        make(&a, cases[i].spread);
        by_attention(&a, cases[i].softcap, &whole);
        for (size_t v = 0; v < LS_COUNT(variants); v++) {
            char what[64];
            snprintf(what, sizeof what, "%s, spread %g, soft cap %g", variants[v].name, cases[i].spread,
                     cases[i].softcap);
            by_parts(variants[v].run, &a, cases[i].softcap, &parts);
            compare(&parts, &whole, cases[i].spread > 1 ? variants[v].most_of_large : variants[v].most, what);
        }
    }
}

/* The key at the last position is seen by nobody: as a NaN it changes nothing else, and its own gradient is 0. */
static void check_hidden(run_call by) {
    static arrays a;
    static results finite, hidden;
    make(&a, 1);
    for (int i = 0; i < B * N; i++) a.spans[i * 4 + 3] = (int32_t)ls_min(a.spans[i * 4 + 3], K - 1);
    by_parts(by, &a, 0, &finite);
    int last = 0;
    while (a.kpos[last] != K - 1) last++;
    for (int b = 0; b < B; b++) fill_nan(a.k + (ptrdiff_t)(b * K + last) * J * D, J * D);
    for (int b = 0; b < B; b++) fill_nan(a.v + (ptrdiff_t)(b * K + last) * J * D, J * D);
    by_parts(by, &a, 0, &hidden);
    assert_memory_equal(hidden.o, finite.o, sizeof hidden.o);
    assert_memory_equal(hidden.dq, finite.dq, sizeof hidden.dq);
    assert_memory_equal(hidden.dk, finite.dk, sizeof hidden.dk);
    assert_memory_equal(hidden.dv, finite.dv, sizeof hidden.dv);
    for (int i = 0; i < J * D; i++) assert_true(hidden.dv[last * J * D + i] == 0);
}

static void test_hidden(void **state) {
    (void)state;
    for (size_t v = 0; v < LS_COUNT(variants); v++) check_hidden(variants[v].run);
}

/*
 * A query that is NaN: where it sees a key, its o and lse are not finite; else they are 0 and -inf, as without it.
 * Other queries have the same bits.
 */
static void check_nan(run_call by) {
    static arrays a;
    static results finite, nan;
    make(&a, 1);
    by_parts(by, &a, 0, &finite);
    fill_nan(a.q, H * D);
    fill_nan(a.q + (ptrdiff_t)2 * H * D, H * D);
    by_parts(by, &a, 0, &nan);
    for (int i = 0; i < H * D; i++) assert_true(isnan(nan.o[i]));
    for (int h = 0; h < H; h++) {
        assert_true(isnan(nan.lse[h * N]));
        assert_true(nan.lse[h * N + 2] == -INFINITY);
    }
    assert_memory_equal(nan.o + H * D, finite.o + H * D, sizeof finite.o - H * D * sizeof(double));
    assert_memory_equal(nan.dq + H * D, finite.dq + H * D, sizeof finite.dq - H * D * sizeof(double));
}

static void test_nan(void **state) {
    (void)state;
    for (size_t v = 0; v < LS_COUNT(variants); v++) check_nan(variants[v].run);
}

static void test_refused(void **state) {
    (void)state;
    static arrays a;
    static double pairs[PAIRS];
    ls_attention_params params = params_of(0);
    params.first_q = 2; /* the last query head would read a fourth key head */
    const ls_status status =
        prepare_kernel("attention_products", LS_F64, LS_ISA_REF,
                       (ls_kernel_call){.n_in = 2,
                                        .in = {VIEW(a.q, LS_F64, B, N, H, D), VIEW(a.k, LS_F64, B, K, J, D)},
                                        .n_out = 1,
                                        .out = {VIEW(pairs, LS_F64, B, H, N, K)},
                                        .params = &params});
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "query heads 2 to 6 in groups of 2 read key heads 1 to 3 of 3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
