/*
 * A linear recurrence with gates over many meshes, contiguous and zigzag, in f64 against one rank: what a rank needs of
 * those in front of it comes by a scan. The values of one rank follow from the recurrence itself. The verifier accepts
 * the programs, chaos changes no bit, and what is sent does not depend on the length of the sequence.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/meshes.h"
#include "support/network.h"
#include "support/spread.h"

enum { B = 2, S = 37, E = 5, V = 9 };

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

/* Gates between -0.9 and 0.9. */
static ls_tensor layer(ls_graph *g, ls_tensor x, const char *gate, const char *value) {
    const ls_tensor gates = ls_softcap(g, ls_linear(g, x, matrix(g, gate, E, E), LS_NO_TENSOR), 0.9);
    const ls_tensor h = ls_recurrence(g, gates, ls_linear(g, x, matrix(g, value, E, E), LS_NO_TENSOR));
    return ls_add(g, x, ls_named(g, h, "%s states", gate));
}

/* Matrices of elements between -0.5 and 0.5 that mix two numbers. */
static ls_tensor mixing_layer(ls_graph *g, ls_tensor x, const char *gate, const char *value) {
    enum { K = 2 };
    const ls_tensor gates = ls_softcap(g, ls_linear(g, x, matrix(g, gate, K * K * E, E), LS_NO_TENSOR), 0.5),
                    given = ls_linear(g, x, matrix(g, value, K * E, E), LS_NO_TENSOR),
                    h = ls_recurrence(g, ls_reshape(g, gates, 5, (int64_t[]){B, S, K, K, E}),
                                      ls_split_last(g, given, K, E));
    ls_tensor part[K];
    ls_split(g, ls_merge_last(g, h), K, (int64_t[]){E, E}, part);
    return ls_add(g, x, ls_mul(g, part[0], part[1]));
}

typedef ls_tensor add_layer(ls_graph *g, ls_tensor x, const char *gate, const char *value);

static ls_tensor network_of(ls_graph *g, add_layer *add) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    ls_tensor x = ls_embedding(g, tokens, matrix(g, "table", V, E));
    x = add(g, x, "gate 1", "value 1");
    x = add(g, x, "gate 2", "value 2");
    const ls_tensor logits = ls_linear_wide(g, x, matrix(g, "head", V, E));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

static ls_tensor recurrent(ls_graph *g) { return network_of(g, layer); }
static ls_tensor mixing(ls_graph *g) { return network_of(g, mixing_layer); }

/* dp × far × near: there are no heads to cut. */
static const int meshes[][3] = {{1, 2, 1}, {1, 3, 1}, {1, 1, 4},  {1, 2, 3},
                                {2, 1, 1}, {2, 2, 2}, {1, 16, 1}, {1, 3, 6}};
static const int alone[] = {1, 1, 1};

static ls_target target_of(const int *mesh, ls_layout_kind layout) {
    return (ls_target){
        .mesh = mesh_of_two_rings(mesh[0], mesh[1], mesh[2], 1), .strategy = "local", .layout = layout, .threads = 1};
}

static ls_layout_kind layout_of(size_t i) { return i % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS; }

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void expect_same(const network *n) {
    network_result one, many;
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    must(network_solve(n, &single, LS_F64, LS_F64, &one));
    for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
        const ls_target target = target_of(meshes[m / 2], layout_of(m));
        const char *what;
        must(network_solve(n, &target, LS_F64, LS_F64, &many));
        const double difference = network_difference(&many, &one, &what);
        if (!(difference < 1e-12))
            fail_msg("%s, ranks %d %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh),
                     ls_layout_name(layout_of(m)), what, difference);
        network_free(&many);
    }
    network_free(&one);
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    const network numbers = {"recurrent", recurrent, .ids = V}, matrices = {"mixing", mixing, .ids = V};
    expect_same(&numbers);
    expect_same(&matrices);
}

static void test_programs_verify(void **state) {
    (void)state;
    const network numbers = {"recurrent", recurrent, .ids = V}, matrices = {"mixing", mixing, .ids = V};
    for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
        const ls_target target = target_of(meshes[m / 2], layout_of(m));
        must(network_verify(m < 4 ? &matrices : &numbers, &target, 1));
    }
}

static void test_chaos_changes_nothing(void **state) {
    (void)state;
    const network n = {"recurrent", recurrent, .ids = V};
    const ls_target target = target_of(meshes[3], LS_LAYOUT_ZIGZAG);
    must(network_under_chaos(&n, &target, 3));
}

/* f32 to 1e-5; bf16 to twice the error of one rank and a rounding more. */
static void test_types(void **state) {
    (void)state;
    const network n = {"recurrent", recurrent, .ids = V};
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    ls_machine machine;
    ls_machine_detect(&machine);
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        network_result exact;
        must(network_solve(&n, &single, LS_F64, types[t], &exact));
        const int results = exact.image->n_flats + 1;
        double *own = calloc((size_t)results, sizeof *own);
        must(network_own_errors(&n, types[t], 1, &exact, own));
        for (int i = 0; i < 2; i++) {
            network_result many;
            ls_target target = target_of(meshes[3], layout_of((size_t)i));
            target.isa = machine.isa;
            must(network_solve(&n, &target, types[t], types[t], &many));
            for (int k = 0; k < results; k++) {
                const double error = network_error_of_kind(&many, &exact, k - 1);
                const double bound = types[t] == LS_F32 ? fmax(1e-5, 2 * own[k]) : 2 * own[k] + ldexp(1, -9);
                if (!(error <= bound))
                    fail_msg("%s %s: result %d is off by %g, more than %g", ls_dtype_name(types[t]),
                             ls_layout_name(layout_of((size_t)i)), k - 1, error, bound);
            }
            network_free(&many);
        }
        free(own);
        network_free(&exact);
    }
}

/* --- states from arrays ------------------------------------------------------------------------------------------- */

static ls_graph *states_of(int64_t tokens, ls_tensor *h) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape shape = {3, {{B, LS_FACTOR_BATCH}, {tokens, LS_FACTOR_SEQUENCE}, {E, LS_FACTOR_NONE}}};
    (void)ls_tokens(g, "tokens", B, tokens);
    const ls_tensor gate = ls_graph_leaf(g, LS_ROLE_INPUT, "gate", LS_F64, &shape);
    const ls_tensor x = ls_graph_leaf(g, LS_ROLE_INPUT, "x", LS_F64, &shape);
    *h = ls_named(g, ls_recurrence(g, gate, x), "h");
    must(ls_graph_status(g));
    return g;
}

static void test_values(void **state) {
    (void)state;
    static double gate[B * S * E], x[B * S * E], h[B * S * E];
    for (int i = 0; i < B * S * E; i++) {
        gate[i] = sin(i * 0.7) * 1.1;
        x[i] = cos(i * 1.3);
    }
    for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
        ls_tensor out;
        ls_graph *g = states_of(S, &out);
        const spread_array in[] = {{"gate", gate}, {"x", x}}, results[] = {{"h", h}};
        const spread_job job = {.job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = &out, .n_fetch = 1},
                                .target = target_of(meshes[m / 2], layout_of(m)),
                                .in = in,
                                .n_in = 2,
                                .out = results,
                                .n_out = 1};
        must(spread_run(&job));
        for (int b = 0; b < B; b++) {
            for (int e = 0; e < E; e++) {
                double expected = 0;
                for (int i = 0; i < S; i++) {
                    const int at = (b * S + i) * E + e;
                    expected = gate[at] * expected + x[at];
                    if (!(fabs(h[at] - expected) < 1e-13))
                        fail_msg("mesh %zu %s: h[%d,%d,%d] is %g, expected %g", m / 2, ls_layout_name(layout_of(m)), b,
                                 i, e, h[at], expected);
                }
            }
        }
        ls_graph_destroy(g);
    }
}

/* Two maps of B*E factors and B*E states for each of the other ranks, whatever the length. */
static void test_bytes(void **state) {
    (void)state;
    for (int64_t tokens = 24; tokens <= 96; tokens *= 2) {
        ls_tensor out;
        ls_graph *g = states_of(tokens, &out);
        const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = &out, .n_fetch = 1};
        const ls_target target = target_of(meshes[1], LS_LAYOUT_ZIGZAG);
        ls_image *image;
        must(ls_compile(&job, &target, &image));
        assert_true(ls_program_measure(image, 0).bytes_sent == 2 * 2 * (2 * B * E) * sizeof(double));
        ls_image_destroy(image);
        ls_graph_destroy(g);
    }
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static ls_tensor packed(ls_graph *g) {
    static const int32_t ends[] = {0, 5, 12, 20, S};
    ls_mask mask = ls_mask_causal();
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    const ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", B, S), matrix(g, "table", V, 4));
    const ls_tensor h = ls_split_last(g, ls_named(g, ls_recurrence(g, x, x), "states"), 2, 2);
    return ls_sum(g, ls_attention(g, h, h, h, &mask, 0.5));
}

static void test_layouts_are_refused(void **state) {
    (void)state;
    network_result r;
    const network plain = {"plain", recurrent, .ids = V}, documents = {"packed", packed, .ids = V};
    ls_target target = target_of(meshes[1], LS_LAYOUT_STRIPED);
    ls_status status = network_solve(&plain, &target, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op recurrence \"gate 1 states\": the layout is striped"));
    target = target_of(meshes[1], LS_LAYOUT_DOCUMENTS); /* which has few runs here */
    target.strategy = "ring";
    status = network_solve(&documents, &target, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_OK);
    network_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),
        cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_chaos_changes_nothing),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
