/*
 * Partial sums over cut tokens are added over the ranks where a non-linear op needs them and only there; a value
 * that all ranks hold is counted once; gradients are the same on every mesh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "support/kernel_call.h"
#include "support/meshes.h"
#include "support/spread.h"

enum { B = 4, S = 11, V = 6, E = 3, FLAT = 256 /* at 8 ranks, with padding */ };

typedef struct answer {
    double totals[LS_TOTALS], gradient[FLAT]; /* parameter after parameter */
} answer;

/*
 * s = sum of squares over all tokens (partial); p = s·s (needs the whole); y = W·p + bias (whole on every rank);
 * loss = sum(y) + a linear use of the partial s.
 */
static ls_tensor build_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    const ls_tensor w = ls_parameter(g, "w", 2, (int64_t[]){4, 1});
    const ls_tensor bias = ls_parameter(g, "bias", 1, (int64_t[]){4});
    const ls_tensor x = ls_embedding(g, tokens, table);
    const ls_tensor s = ls_sum(g, ls_mul(g, x, x));
    const ls_tensor p = ls_mul(g, s, s);
    const ls_tensor y = ls_linear(g, ls_reshape(g, p, 2, (int64_t[]){1, 1}), w, bias);
    return ls_add(g, ls_sum(g, y), ls_scale(g, s, 0.25));
}

static void solve(ls_mesh mesh, answer *out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = build_loss(g);
    const ls_shape one = {1, {{1, 0}}};
    const ls_tensor total = ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, LS_BIND_LOSS, LS_F64, &one);
    (void)ls_accumulate(g, loss, total);
    const ls_tensor seed = ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, LS_F64, &one);
    ls_derivative d = {.n_roots = 1, .root = {loss}, .seed = {seed}};
    const ls_status differentiated = ls_differentiate(g, &d);
    if (differentiated.code != LS_OK) fail_msg("%s", differentiated.text);
    int32_t tokens[B * S];
    double unit = 1;
    for (int i = 0; i < B * S; i++) tokens[i] = (i * 5 + i / 7) % V;
    const ls_target target = {.mesh = mesh, .strategy = "local", .threads = 1};
    const ls_job reduces = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_REDUCE, 0)};
    ls_image *image;
    const ls_status compiled = ls_compile(&reduces, &target, &image);
    if (compiled.code != LS_OK) fail_msg("%s", compiled.text);
    double *parameters = calloc((size_t)image->flat_elements, sizeof *parameters);
    double *gradient = calloc((size_t)image->flat_elements, sizeof *gradient);
    for (int f = 0; f < image->n_flats; f++)
        fill_normal(parameters + image->flats[f].start, image->flats[f].count, (uint64_t)f);
    const spread_array in[] = {{"tokens", tokens}, {LS_BIND_PARAMETERS, parameters}, {LS_BIND_SCALE, &unit}};
    const spread_array results[] = {{LS_BIND_RESULT, out->totals}};
    const spread_job job = {.job = reduces,
                            .target = target,
                            .update = true,
                            .in = in,
                            .n_in = 3,
                            .out = results,
                            .n_out = 1,
                            .gradient = gradient};
    const ls_status status = spread_run(&job);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    for (int64_t f = 0, at = 0; f < image->n_flats; at += image->flats[f++].count)
        memcpy(out->gradient + at, gradient + image->flats[f].start, sizeof *gradient * (size_t)image->flats[f].count);
    free(parameters);
    free(gradient);
    ls_image_destroy(image);
    ls_graph_destroy(g);
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    static const int meshes[][3] = {{1, 2, 1}, {1, 1, 3}, {2, 1, 1}, {4, 1, 1}, {2, 3, 1}, {2, 2, 2}, {1, 4, 2}};
    answer one = {{0}, {0}};
    solve(mesh_of(1, 1, 1), &one);
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        answer many = {{0}, {0}};
        solve(mesh_of_two_rings(meshes[m][0], meshes[m][1], meshes[m][2], 1), &many);
        const double loss = relative_error(many.totals, one.totals, 1, 1e-9);
        const double gradient = relative_error(many.gradient, one.gradient, FLAT, 1e-9);
        if (!(loss < 1e-13) || !(gradient < 1e-12))
            fail_msg("dp %d far %d near %d: loss differs by %g, gradient by %g", meshes[m][0], meshes[m][1],
                     meshes[m][2], loss, gradient);
    }
}

static void test_no_rule_is_an_error(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, 8);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    const ls_tensor merged = ls_reshape(g, x, 1, (int64_t[]){8 * E}); /* would tear the tokens of a rank apart */
    assert_int_equal(merged.id, 0);
    const ls_status status = ls_graph_status(g);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "op reshape"));
    assert_non_null(strstr(status.text, "a shape that keeps"));
    ls_graph_destroy(g);
}

static void test_bad_spread_is_refused(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    (void)ls_embedding(g, ls_tokens(g, "tokens", 3, 4), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0)};
    ls_image *image;
    const ls_target five = {.mesh = mesh_of(1, 5, 1), .strategy = "ring", .threads = 1};
    ls_status status = ls_compile(&job, &five, &image);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "4 tokens cannot be shared by 5 ranks"));
    const ls_target two = {.mesh = mesh_of(2, 1, 1), .strategy = "ring", .threads = 1};
    status = ls_compile(&job, &two, &image);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "3 sequences does not divide by dp=2"));
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),
        cmocka_unit_test(test_no_rule_is_an_error),
        cmocka_unit_test(test_bad_spread_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
