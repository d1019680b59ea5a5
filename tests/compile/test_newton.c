/*
 * Diagonal cells by Newton's method: values and gradients are those of the cell token by token, over ranks and
 * documents; and states that have not converged are counted and spoil the loss.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/newton.h"
#include "support/meshes.h"
#include "support/network.h"

enum { B = 2, S = 37, V = 9, EMBEDDING = 6, H = 2, D = 5 };

typedef enum question { LOSS, UNCONVERGED } question;

/* steps 0: token by token. */
typedef struct form {
    ls_rnn_kind kind;
    int steps;
    bool documents;
    question question;
} form;

/* Of the layer's graph; *count G[1]: how many states have not converged, if there is anything to count. */
static ls_tensor layer_of(ls_graph *g, const form *f, ls_tensor places, ls_tensor x, int layer, ls_tensor *count) {
    const int64_t numbers = f->kind == LS_RNN_DIAGONAL_GRU ? 3 : 5; /* both kinds have three gates */
    const ls_tensor in = ls_parameter_named(g, 2, (int64_t[]){H * 3 * D, EMBEDDING}, "in %d", layer),
                    weight = ls_parameter_named(g, 3, (int64_t[]){H, numbers, D}, "weight %d", layer),
                    out = ls_parameter_named(g, 2, (int64_t[]){EMBEDDING, H * D}, "out %d", layer),
                    of_heads = ls_split_last(g, ls_linear(g, x, in, LS_NO_TENSOR), H, 3 * D),
                    documents = f->documents ? places : LS_NO_TENSOR;
    const ls_newton_form newton = {.kind = f->kind, .steps = f->steps, .bound = 1e-13, .places = documents};
    const ls_rnn_form chain = {.kind = f->kind, .places = documents};
    const ls_tensor y =
        f->steps > 0 ? ls_rnn_newton(g, of_heads, weight, &newton, count, NULL) : ls_rnn(g, of_heads, weight, &chain);
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, y), out, LS_NO_TENSOR));
}

static ls_tensor network_of(ls_graph *g, const form *f) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), places = ls_input_like(g, "places", tokens);
    ls_tensor count = LS_NO_TENSOR, x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, EMBEDDING}));
    const int layers = f->question == LOSS ? 2 : 1;
    const ls_tensor first = x;
    for (int layer = 0; layer < layers; layer++) x = layer_of(g, f, places, x, layer, &count);
    const ls_tensor head = ls_parameter(g, "head", 2, (int64_t[]){V, EMBEDDING});
    if (f->question == LOSS)
        return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, head), ls_input_like(g, "labels", tokens)));
    return ls_add(g, count, ls_scale(g, ls_sum(g, ls_linear_wide(g, first, head)), 0));
}

#define NETWORK(name, ...)                       \
    static ls_tensor build_##name(ls_graph *g) { \
        static const form f = {__VA_ARGS__};     \
        return network_of(g, &f);                \
    }                                            \
    static const network name = {#name, build_##name, .ids = V};
#define KIND(name, kind)                                     \
    NETWORK(name##_chain, kind, 0, false, LOSS)              \
    NETWORK(name##_newton, kind, 8, false, LOSS)             \
    NETWORK(packed_##name##_chain, kind, 0, true, LOSS)      \
    NETWORK(packed_##name##_newton, kind, 8, true, LOSS)     \
    NETWORK(name##_in_one_step, kind, 1, false, LOSS)        \
    NETWORK(name##_count_of_one, kind, 1, true, UNCONVERGED) \
    NETWORK(name##_count_of_eight, kind, 8, true, UNCONVERGED)

KIND(gru, LS_RNN_DIAGONAL_GRU)
KIND(lstm, LS_RNN_DIAGONAL_LSTM)

static ls_target target_of(const int *mesh, ls_layout_kind layout) {
    return (ls_target){.mesh = mesh_of_two_rings(mesh[0], mesh[1], mesh[2], mesh[3]),
                       .strategy = "local",
                       .layout = layout,
                       .threads = 1};
}

static const int alone[] = {1, 1, 1, 1};
static const int meshes[][4] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}, {1, 2, 2, 1},
                                {2, 2, 1, 1}, {1, 1, 1, 2}, {1, 8, 1, 1}};

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void expect_same(const network *one_by_one, const network *at_once) {
    network_result one, many;
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    must(network_solve(one_by_one, &single, LS_F64, LS_F64, &one));
    for (size_t m = 0; m < 2 * LS_COUNT(meshes); m++) {
        const ls_target target = target_of(meshes[m / 2], m % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS);
        const char *what;
        must(network_solve(at_once, &target, LS_F64, LS_F64, &many));
        const double difference = network_difference(&many, &one, &what);
        if (!(difference < 1e-12))
            fail_msg("%s, %d ranks, %s: %s differs by %g", at_once->name, ls_mesh_ranks(&target.mesh),
                     ls_layout_name(target.layout), what, difference);
        network_free(&many);
    }
    network_free(&one);
}

static void test_as_token_by_token(void **state) {
    (void)state;
    expect_same(&gru_chain, &gru_newton);
    expect_same(&packed_gru_chain, &packed_gru_newton);
    expect_same(&lstm_chain, &lstm_newton);
    expect_same(&packed_lstm_chain, &packed_lstm_newton);
}

static void test_programs_verify(void **state) {
    (void)state;
    const ls_target target = target_of(meshes[1], LS_LAYOUT_ZIGZAG);
    must(network_verify(&packed_gru_newton, &target, 1));
    must(network_verify(&packed_lstm_newton, &target, 1));
}

static double loss_of(const network *n, const int *mesh) {
    network_result r;
    const ls_target target = target_of(mesh, LS_LAYOUT_CONTIGUOUS);
    must(network_solve(n, &target, LS_F64, LS_F64, &r));
    const double loss = r.loss;
    network_free(&r);
    return loss;
}

static void expect_counted(const network *in_one, const network *of_one, const network *of_eight) {
    assert_true(isnan(loss_of(in_one, alone)));
    assert_true(isnan(loss_of(in_one, meshes[1])));
    const double missed = loss_of(of_one, alone);
    assert_true(missed > 10 && missed <= B * S * H * D);
    assert_true(loss_of(of_one, meshes[2]) == missed);
    assert_true(loss_of(of_eight, alone) == 0);
    assert_true(loss_of(of_eight, meshes[2]) == 0);
}

static void test_unconverged_is_not_silent(void **state) {
    (void)state;
    expect_counted(&gru_in_one_step, &gru_count_of_one, &gru_count_of_eight);
    expect_counted(&lstm_in_one_step, &lstm_count_of_one, &lstm_count_of_eight);
}

static void test_refused(void **state) {
    (void)state;
    network_result r;
    const ls_target target = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    const ls_status status = network_solve(&gru_newton, &target, LS_BF16, LS_BF16, &r);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "rnn_newton: the graph is bf16"));
}

static void test_calls_refused(void **state) {
    (void)state;
    static const struct {
        int steps, foreign; /* foreign: what is added to the weight's number */
        bool counted;
        double bound;
        const char *said;
    } calls[] = {{0, 0, true, 1e-6, "0 steps"},
                 {1 << 30, 0, true, 1e-6, "1 to 1000"},
                 {3, 0, true, 0, "a bound of 0, expected"},
                 {3, 0, true, NAN, "a bound of nan, expected"},
                 {3, 0, true, INFINITY, "a bound of inf, expected 1 to 1000 and a finite number of at least 4.8e-07"},
                 {3, 0, true, 4e-7, "a bound of 4e-07, expected"},
                 {3, 0, false, 1e-6, "unconverged is NULL"},
                 {3, 1 << 20, true, 1e-6, "is no tensor of this graph"}};
    for (size_t i = 0; i < LS_COUNT(calls); i++) {
        ls_graph *g = ls_graph_create(LS_F32);
        ls_tensor count = LS_NO_TENSOR, weight = ls_parameter(g, "weight", 3, (int64_t[]){2, 3, 4});
        const ls_tensor x =
            ls_embedding(g, ls_tokens(g, "tokens", 2, 8), ls_parameter(g, "table", 2, (int64_t[]){5, 24}));
        weight.id += calls[i].foreign;
        const ls_newton_form newton = {.kind = LS_RNN_DIAGONAL_GRU, .steps = calls[i].steps, .bound = calls[i].bound};
        const ls_tensor y =
            ls_rnn_newton(g, ls_split_last(g, x, 2, 12), weight, &newton, calls[i].counted ? &count : NULL, NULL);
        assert_int_equal(y.id, 0);
        assert_int_equal(ls_graph_status(g).code, LS_INVALID);
        assert_non_null(strstr(ls_graph_status(g).text, calls[i].said));
        ls_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_token_by_token), cmocka_unit_test(test_programs_verify),
                                       cmocka_unit_test(test_unconverged_is_not_silent), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_calls_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
