/*
 * Every differentiable op of the table against central differences in f64. A case builds its op from float inputs
 * (support/op_cases.h). The loss is the op's output weighted by random numbers, so that every direction counts. The
 * last test checks that no op is missing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"
#include "support/meshes.h"
#include "support/op_cases.h"
#include "support/spread.h"

enum { B = OP_CASE_B, S = OP_CASE_S, MOST = OP_CASE_INPUTS };

/* A case on one rank: the loss, and its gradients when they are asked for. */
typedef struct bench {
    const op_case *c;
    int32_t tokens[B * S];
    double *x[MOST], *grad[MOST], *weights;
    double loss;
    int64_t out_elements;
} bench;

static const char *const x_name[MOST] = {"x0", "x1", "x2", "x3", "x4"}, *const g_name[MOST] = {"g0", "g1", "g2", "g3",
                                                                                               "g4"};

static void evaluate(bench *b, bool gradients) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    ls_tensor x[MOST];
    for (int i = 0; i < b->c->n_in; i++) x[i] = ls_graph_leaf(g, LS_ROLE_INPUT, x_name[i], LS_F64, &b->c->shape[i]);
    const ls_tensor y = b->c->build(g, tokens, x);
    assert_int_equal(ls_graph_status(g).code, LS_OK);
    const ls_shape out = ls_graph_tensor(g, y)->shape, one = {1, {{1, 0}}};
    b->out_elements = ls_shape_elements(&out);
    if (b->weights == NULL) {
        b->weights = malloc(sizeof(double) * (size_t)b->out_elements);
        fill_normal(b->weights, b->out_elements, 99);
    }
    const ls_tensor w = ls_graph_leaf(g, LS_ROLE_INPUT, "w", LS_F64, &out);
    const ls_tensor seed = ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, LS_F64, &one);
    const ls_tensor loss = ls_named(g, ls_sum(g, ls_mul(g, y, w)), "loss");
    ls_tensor fetch[1 + MOST] = {loss};
    int n_fetch = 1;
    if (gradients) {
        ls_derivative d = {.n_roots = 1, .root = {loss}, .seed = {seed}, .n_wanted = b->c->n_in};
        memcpy(d.wanted, x, sizeof x);
        const ls_status status = ls_differentiate(g, &d);
        if (status.code != LS_OK) fail_msg("%s", status.text);
        for (int i = 0; i < b->c->n_in; i++) fetch[n_fetch++] = ls_named(g, d.gradient[i], "%s", g_name[i]);
    }
    double unit = 1;
    const spread_array in[] = {{"tokens", b->tokens}, {"w", b->weights}, {LS_BIND_SCALE, &unit}, {"x0", b->x[0]},
                               {"x1", b->x[1]},       {"x2", b->x[2]},   {"x3", b->x[3]},        {"x4", b->x[4]}};
    const spread_array results[] = {{"loss", &b->loss}, {"g0", b->grad[0]}, {"g1", b->grad[1]},
                                    {"g2", b->grad[2]}, {"g3", b->grad[3]}, {"g4", b->grad[4]}};
    const spread_job job = {
        .job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = fetch, .n_fetch = n_fetch},
        .target = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1},
        .in = in,
        .n_in = 3 + b->c->n_in,
        .out = results,
        .n_out = n_fetch};
    const ls_status status = spread_run(&job);
    if (status.code != LS_OK) fail_msg("%s: %s", b->c->op, status.text);
    ls_graph_destroy(g);
}

static void check(const op_case *c) {
    bench b = {.c = c};
    for (int i = 0; i < B * S; i++) b.tokens[i] = (i * 3) % OP_CASE_IDS;
    if (strcmp(c->op, "cross_entropy") == 0) b.tokens[3] = -100;
    for (int i = 0; i < c->n_in; i++) {
        const int64_t n = ls_shape_elements(&c->shape[i]);
        b.x[i] = malloc(sizeof(double) * (size_t)n);
        b.grad[i] = malloc(sizeof(double) * (size_t)n);
        fill_normal(b.x[i], n, (uint64_t)i);
    }
    evaluate(&b, true);
    for (int i = 0; i < c->n_in; i++) {
        const int64_t n = ls_shape_elements(&c->shape[i]);
        double *numeric = malloc(sizeof(double) * (size_t)n), norm = 0;
        for (int64_t j = 0; j < n; j++) {
            const double at = b.x[i][j], h = 1e-5;
            b.x[i][j] = at + h;
            evaluate(&b, false);
            const double up = b.loss;
            b.x[i][j] = at - h;
            evaluate(&b, false);
            numeric[j] = (up - b.loss) / (2 * h);
            b.x[i][j] = at;
            norm += fabs(numeric[j]);
        }
        assert_true(norm > 0);
        const double error = relative_error(b.grad[i], numeric, n, 1e-6);
        if (!(error < 1e-7))
            fail_msg("%s %d: gradient of input %d differs from finite differences by %g", c->op, (int)(c - op_cases), i,
                     error);
        free(numeric);
    }
    for (int i = 0; i < c->n_in; i++) free(b.x[i]), free(b.grad[i]);
    free(b.weights);
}

static void test_all(void **state) {
    (void)state;
    for (int i = 0; i < n_op_cases; i++) check(&op_cases[i]);
}

static void test_none_left_out(void **state) {
    (void)state;
    for (int i = 0; ls_op_at(i) != NULL; i++) {
        if (ls_op_at(i)->gradient == NULL) continue;
        bool covered = false;
        for (int c = 0; c < n_op_cases; c++) covered |= strcmp(op_cases[c].op, ls_op_at(i)->name) == 0;
        if (!covered) fail_msg("op %s has a gradient rule and no case here", ls_op_at(i)->name);
    }
}

static void test_second_outputs_are_refused(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape shape = {4, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {4, 0}, {3, 0}}};
    const ls_mask mask = ls_mask_causal();
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", LS_F64, &shape);
    const ls_tensor o = ls_attention(g, q, q, q, &mask, 0.5);
    const ls_tensor loss = ls_add(g, ls_sum(g, o), ls_sum(g, ls_attention_lse(g, o)));
    const ls_shape one = {1, {{1, 0}}};
    const ls_tensor seed = ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, LS_F64, &one);
    ls_derivative d = {.n_roots = 1, .root = {loss}, .seed = {seed}, .n_wanted = 1, .wanted = {q}};
    const ls_status status = ls_differentiate(g, &d);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op attention has no gradient rule for its output 1"));
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_none_left_out),
        cmocka_unit_test(test_second_outputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
