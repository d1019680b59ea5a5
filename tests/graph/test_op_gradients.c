/*
 * Every differentiable op of the table against central differences in f64. A case builds its op from float inputs.
 * The loss is the op's output weighted by random numbers, so that every direction counts. The last test checks that
 * no op is missing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph_impl.h"
#include "support/kernel_call.h"
#include "support/meshes.h"
#include "support/spread.h"

enum { B = 2, S = 5, MOST = 4 };

typedef struct op_case {
    const char *op;
    int n_in; /* float inputs */
    ls_shape shape[MOST];
    ls_tensor (*build)(ls_graph *g, ls_tensor tokens, const ls_tensor *x);
} op_case;

static ls_tensor build_embedding(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_embedding(g, tokens, x[0]);
}
static ls_tensor build_linear(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear(g, x[0], x[1], x[2]);
}
static ls_tensor build_wide(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear_wide(g, x[0], x[1]);
}
static ls_tensor build_rmsnorm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_rmsnorm(g, x[0], x[1], 1e-5);
}
static ls_tensor build_rmsnorm_offset(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_rmsnorm_offset(g, x[0], x[1], 1e-5, 1);
}
static ls_tensor build_linear_transposed(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_linear_transposed(g, x[0], x[1], x[2]);
}
static ls_tensor build_split(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    ls_tensor part[3];
    ls_split(g, x[0], (int64_t[]){2, 3, 2}, part);
    return ls_mul(g, part[0], part[2]); /* the middle one has no gradient */
}
static ls_tensor build_join(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_tensor joined = ls_join(g, (ls_tensor[]){x[0], x[1], x[0]});
    return ls_mul(g, joined, joined);
}
static ls_tensor build_layernorm(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_layernorm(g, x[0], x[1], x[2], 1e-5);
}
static ls_tensor build_layernorm_no_bias(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_layernorm(g, x[0], x[1], LS_NO_TENSOR, 1e-5);
}
static ls_tensor build_rotate(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    const ls_rope rope = {.theta = 100};
    return ls_rotate(g, x[0], ls_rope_table(g, tokens, 4, &rope));
}
static ls_tensor build_swiglu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_swiglu(g, x[0], x[1]);
}
static ls_tensor build_gelu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gelu(g, x[0]);
}
static ls_tensor build_gelu_tanh(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_gelu_tanh(g, x[0]);
}
static ls_tensor build_relu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_relu(g, x[0]);
}
static ls_tensor build_silu(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_silu(g, x[0]);
}
static ls_tensor build_softcap(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_softcap(g, x[0], 1.5);
}
static ls_tensor build_shift(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_shift(g, x[0], 2);
}
static ls_tensor build_shift_back(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_shift(g, x[0], -1);
}
static ls_tensor build_conv(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_conv(g, x[0], x[1]);
}
static ls_tensor build_recurrence(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_recurrence(g, x[0], x[1]);
}
static ls_tensor build_add(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_add(g, x[0], ls_add(g, x[1], x[0]));
}
static ls_tensor build_mul(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_mul(g, x[0], ls_mul(g, x[1], x[0]));
}
static ls_tensor build_scale(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_scale(g, x[0], -1.75);
}
static ls_tensor build_cast(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_cast(g, x[0], LS_F64);
}
static ls_tensor build_reshape(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_merge_last(g, ls_mul(g, ls_split_last(g, x[0], 2, 3), ls_split_last(g, x[0], 2, 3)));
}
static ls_tensor build_cross_entropy(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    return ls_cross_entropy(g, x[0], tokens);
}
static ls_tensor build_sum(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    return ls_sum(g, ls_mul(g, x[0], x[0]));
}
static ls_tensor build_attention(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention(g, x[0], x[1], x[2], &mask, 0.6);
}

static ls_tensor build_capped_attention(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention_capped(g, x[0], x[1], x[2], &mask, 0.6, 0.8);
}

static ls_tensor build_attention_with_sink(ls_graph *g, ls_tensor tokens, const ls_tensor *x) {
    (void)tokens;
    const ls_mask mask = ls_mask_causal();
    return ls_attention_with_sink(g, x[0], x[1], x[2], x[3], &mask, 0.6, 0.8);
}

#define BY(...)                                                                \
    {                                                                          \
        .ndim = 2 + sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { \
            {B, LS_FACTOR_BATCH},                                              \
            {S, LS_FACTOR_SEQUENCE},                                           \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
#define PLAIN(...)                                                                       \
    {                                                                                    \
        .ndim = sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { __VA_ARGS__ } \
    }

static const op_case cases[] = {
    {"embedding", 1, {PLAIN({7, 0}, {3, 0})}, build_embedding},
    {"linear", 3, {BY({4, 0}), PLAIN({3, 0}, {4, 0}), PLAIN({3, 0})}, build_linear},
    {"linear", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_wide},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm},
    {"rmsnorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_rmsnorm_offset},
    {"linear", 3, {BY({6, 0}), PLAIN({6, 0}, {5, 0}), PLAIN({5, 0})}, build_linear_transposed},
    {"split", 1, {BY({7, 0})}, build_split},
    {"join", 2, {BY({2, 0}), BY({3, 0})}, build_join},
    {"layernorm", 3, {BY({6, 0}), PLAIN({6, 0}), PLAIN({6, 0})}, build_layernorm},
    {"layernorm", 2, {BY({6, 0}), PLAIN({6, 0})}, build_layernorm_no_bias},
    {"rotate", 1, {BY({2, 0}, {4, 0})}, build_rotate},
    {"swiglu", 2, {BY({4, 0}), BY({4, 0})}, build_swiglu},
    {"activation", 1, {BY({4, 0})}, build_gelu},
    {"activation", 1, {BY({4, 0})}, build_gelu_tanh},
    {"activation", 1, {BY({4, 0})}, build_relu},
    {"activation", 1, {BY({4, 0})}, build_silu},
    {"activation", 1, {BY({4, 0})}, build_softcap},
    {"shift", 1, {BY({2, 0}, {2, 0})}, build_shift},
    {"shift", 1, {BY({3, 0})}, build_shift_back},
    {"conv", 2, {BY({4, 0}), PLAIN({3, 0}, {4, 0})}, build_conv},
    {"recurrence", 2, {BY({3, 0}), BY({3, 0})}, build_recurrence},
    {"add", 2, {BY({4, 0}), BY({4, 0})}, build_add},
    {"mul", 2, {BY({4, 0}), BY({4, 0})}, build_mul},
    {"scale", 1, {BY({4, 0})}, build_scale},
    {"cast", 1, {BY({4, 0})}, build_cast},
    {"reshape", 1, {BY({6, 0})}, build_reshape},
    {"cross_entropy", 1, {BY({7, 0})}, build_cross_entropy},
    {"sum", 1, {BY({4, 0})}, build_sum},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_capped_attention},
    {"attention", 3, {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0})}, build_attention},
    {"attention",
     4,
     {BY({4, 0}, {3, 0}), BY({2, 0}, {3, 0}), BY({2, 0}, {3, 0}), PLAIN({4, 0})},
     build_attention_with_sink},
};

/* A case on one rank: the loss, and its gradients when they are asked for. */
typedef struct bench {
    const op_case *c;
    int32_t tokens[B * S];
    double *x[MOST], *grad[MOST], *weights;
    double loss;
    int64_t out_elements;
} bench;

static const char *const x_name[MOST] = {"x0", "x1", "x2", "x3"}, *const g_name[MOST] = {"g0", "g1", "g2", "g3"};

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
                               {"x1", b->x[1]},       {"x2", b->x[2]},   {"x3", b->x[3]}};
    const spread_array results[] = {
        {"loss", &b->loss}, {"g0", b->grad[0]}, {"g1", b->grad[1]}, {"g2", b->grad[2]}, {"g3", b->grad[3]}};
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
    for (int i = 0; i < B * S; i++) b.tokens[i] = (i * 3) % 7;
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
            fail_msg("%s: gradient of input %d differs from finite differences by %g", c->op, i, error);
        free(numeric);
    }
    for (int i = 0; i < c->n_in; i++) free(b.x[i]), free(b.grad[i]);
    free(b.weights);
}

static void test_all(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) check(&cases[i]);
}

static void test_none_left_out(void **state) {
    (void)state;
    for (int i = 0; ls_op_at(i) != NULL; i++) {
        if (ls_op_at(i)->gradient == NULL) continue;
        bool covered = false;
        for (size_t c = 0; c < LS_COUNT(cases); c++) covered |= strcmp(cases[c].op, ls_op_at(i)->name) == 0;
        if (!covered) fail_msg("op %s has a gradient rule and no case here", ls_op_at(i)->name);
    }
}

static void test_second_outputs_are_refused(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape shape = BY({4, 0}, {3, 0});
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
