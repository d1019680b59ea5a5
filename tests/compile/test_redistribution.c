/*
 * Tensors that nodes need otherwise than they are spread: what is cut is gathered, what is whole is cut, partial sums
 * are reduced and scattered. Loss and all gradients in f64 agree with one rank to 1e-12, on every layout, and the
 * verifiers accept the programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "support/meshes.h"
#include "support/network.h"

enum { B = 4, S = 11, V = 7 };

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

/* [B,S,width] */
static ls_tensor tokens(ls_graph *g, int64_t width) {
    return ls_embedding(g, ls_tokens(g, "tokens", B, S), matrix(g, "table", V, width));
}

/* [B,S]: a number for each token. */
static ls_tensor numbers(ls_graph *g) {
    const ls_tensor labels = ls_tokens(g, "labels", B, S);
    const ls_tensor logits = ls_embedding(g, ls_tokens(g, "others", B, S), matrix(g, "logits", V, V));
    return ls_cast(g, ls_cross_entropy(g, logits, labels), g->dtype);
}

static ls_tensor squares(ls_graph *g, ls_tensor x) { return ls_sum(g, ls_cast(g, ls_mul(g, x, x), g->accumulator)); }

/* The weights are cut: they are gathered; their gradient is a partial sum that becomes cut. */
static ls_tensor weigh_by_cut(ls_graph *g) { return squares(g, ls_linear(g, tokens(g, S), numbers(g), LS_NO_TENSOR)); }

/* The same with tokens that all ranks have. */
static ls_tensor whole_by_cut(ls_graph *g) {
    return squares(g, ls_linear(g, matrix(g, "p", 3, S), numbers(g), LS_NO_TENSOR));
}

static ls_tensor convolve_by_cut(ls_graph *g) { return squares(g, ls_conv(g, tokens(g, S), numbers(g))); }

static ls_tensor look_up_in_cut(ls_graph *g) {
    return squares(g, ls_embedding(g, ls_tokens(g, "rows", B, S), numbers(g)));
}

/* One tensor, cut for some nodes and whole for others, whose gradients meet. */
static ls_tensor both(ls_graph *g) {
    const ls_tensor t = numbers(g);
    const ls_tensor y = ls_linear(g, matrix(g, "p", 3, S), t, LS_NO_TENSOR);
    const ls_tensor z = ls_linear(g, ls_mul(g, y, y), ls_parameter(g, "q", 2, (int64_t[]){5, B}), LS_NO_TENSOR);
    return ls_add(g, squares(g, z), squares(g, ls_mul(g, t, t)));
}

static const network cases[] = {
    {.name = "weigh by cut", .loss = weigh_by_cut, .ids = V},
    {.name = "whole by cut", .loss = whole_by_cut, .ids = V},
    {.name = "convolve by cut", .loss = convolve_by_cut, .ids = V},
    {.name = "look up in cut", .loss = look_up_in_cut, .ids = B},
    {.name = "cut and whole", .loss = both, .ids = V},
};

/* The target's result is that of one rank, and its programs are proved. */
static void check(const network *n, const ls_target *target, const network_result *one) {
    char mesh[64];
    ls_mesh_print(&target->mesh, mesh, sizeof mesh);
    const char *layout = ls_layout_name(target->layout), *what;
    network_result many;
    ls_status status = network_solve(n, target, LS_F64, LS_F64, &many);
    if (status.code != LS_OK) fail_msg("%s, %s, %s: %s", n->name, mesh, layout, status.text);
    const double difference = network_difference(&many, one, &what);
    if (!(difference < 1e-12)) fail_msg("%s, %s, %s: %s differs by %g", n->name, mesh, layout, what, difference);
    network_free(&many);
    status = network_verify(n, target, 1);
    if (status.code != LS_OK) fail_msg("%s, %s, %s: %s", n->name, mesh, layout, status.text);
}

/* On all meshes and layouts, and modes of --shard in turn. */
static void check_all(ls_saving saving) {
    static const int meshes[][4] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}, {4, 1, 1, 1}, {2, 2, 1, 1},
                                    {1, 2, 2, 1}, {2, 3, 1, 1}, {1, 1, 1, 3}, {1, 2, 1, 2}, {2, 1, 2, 2}};
    static const ls_layout_kind layouts[] = {LS_LAYOUT_CONTIGUOUS, LS_LAYOUT_ZIGZAG, LS_LAYOUT_STRIPED};
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const network *n = &cases[c];
        const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
        network_result one;
        const ls_status status = network_solve(n, &alone, LS_F64, LS_F64, &one);
        if (status.code != LS_OK) fail_msg("%s on one rank: %s", n->name, status.text);
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            for (size_t l = 0; l < LS_COUNT(layouts); l++) {
                if (n->loss == convolve_by_cut && layouts[l] == LS_LAYOUT_STRIPED) continue; /* no neighbours */
                const ls_target target = {.mesh = mesh_with_tp(meshes[m][0], meshes[m][1], meshes[m][2], meshes[m][3]),
                                          .strategy = "usp",
                                          .layout = layouts[l],
                                          .threads = 1,
                                          .shard = &ls_shard_modes[(m + l) % LS_SHARD_MODES],
                                          .saving = saving};
                check(n, &target, &one);
            }
        }
        network_free(&one);
    }
}

static void test_against_one_rank(void **state) {
    (void)state;
    check_all((ls_saving){0});
}

/* What is made of tokens may be weights, of which each tile needs all, and have a gradient to which each tile adds. */
static void test_tiled(void **state) {
    (void)state;
    check_all((ls_saving){.tile = LS_TILE_ALL, .tile_rows = 3});
}

/* What travels in bf16 is added in f32: errors are those of rounding, which one rank has as well. */
static void test_bf16(void **state) {
    (void)state;
    static const int meshes[][3] = {{2, 1, 1}, {1, 3, 1}, {2, 2, 1}};
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const network *n = &cases[c];
        const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
        network_result exact, many;
        double own[8];
        ls_status status = network_solve(n, &alone, LS_F64, LS_BF16, &exact);
        if (status.code != LS_OK) fail_msg("%s on one rank: %s", n->name, status.text);
        assert_true(exact.image->n_flats < (int)LS_COUNT(own));
        status = network_own_errors(n, LS_BF16, 1, &exact, own);
        if (status.code != LS_OK) fail_msg("%s in bf16 on one rank: %s", n->name, status.text);
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_target target = {.mesh = mesh_of(meshes[m][0], meshes[m][1], meshes[m][2]),
                                      .strategy = "usp",
                                      .threads = 1,
                                      .isa = LS_ISA_BASE};
            status = network_solve(n, &target, LS_BF16, LS_BF16, &many);
            if (status.code != LS_OK) fail_msg("%s in bf16, mesh %zu: %s", n->name, m, status.text);
            for (int i = -1; i < exact.image->n_flats; i++) {
                const double error = network_error(&many, &exact, i);
                if (!(error <= 2 * own[1 + i] + 1e-3))
                    fail_msg("%s, mesh %zu: result %d is off by %g, one rank by %g", n->name, m, i, error, own[1 + i]);
            }
            network_free(&many);
        }
        network_free(&exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_one_rank), cmocka_unit_test(test_tiled),
                                       cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
