/*
 * Recurrent cells over many meshes, contiguous and zigzag, in f64: values and all gradients against one rank, by each
 * way. Every kind, with packed documents, biases and odd numbers of heads. Both verifiers accept the programs, chaos
 * changes no bit, and what is sent is as the decision page says.
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
#include "support/rnns.h"

/* dp × far × near × ulysses */
static const int meshes[][4] = {{1, 2, 1, 1}, {1, 3, 1, 1}, {1, 1, 4, 1}, {1, 2, 3, 1}, {2, 1, 1, 1},
                                {2, 2, 2, 1}, {1, 1, 1, 2}, {1, 8, 1, 1}, {1, 2, 1, 2}, {1, 1, 1, 7}};
static const int alone[] = {1, 1, 1, 1};

static ls_layout_kind layout_of(size_t i) { return i % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS; }

static ls_target target_of(const int *mesh, ls_layout_kind layout) {
    return (ls_target){.mesh = mesh_of_two_rings(mesh[0], mesh[1], mesh[2], mesh[3]),
                       .strategy = "local",
                       .layout = layout,
                       .threads = 1};
}

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

enum { WAYS = 2 };
static const char *const ways[WAYS] = {"chain", "heads"};

static void test_same_on_every_mesh(void **state) {
    (void)state;
    int solved[WAYS] = {0};
    for (int k = 0; k < n_rnn_networks; k++) {
        const network *n = &rnn_networks[k];
        network_result one, many;
        const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
        must(network_solve(n, &single, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
            for (int way = 0; way < WAYS; way++) {
                ls_target target = target_of(meshes[m / 2], layout_of(m));
                target.rnn_way = ways[way];
                const ls_status status = network_solve(n, &target, LS_F64, LS_F64, &many);
                if (status.code == LS_UNSUPPORTED && strstr(status.text, "expected at least one on each")) continue;
                must(status);
                const char *what;
                const double difference = network_difference(&many, &one, &what);
                if (!(difference < 1e-12))
                    fail_msg("%s, ranks %d %s by %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh),
                             ls_layout_name(layout_of(m)), ways[way], what, difference);
                solved[way]++;
                network_free(&many);
            }
        }
        network_free(&one);
    }
    assert_int_equal(solved[0], n_rnn_networks * (int)LS_COUNT(meshes) * 2);
    if (solved[1] < 60) fail_msg("%d programs by heads, expected 60 or more", solved[1]);
}

static void test_programs_verify(void **state) {
    (void)state;
    for (int k = 0; k < n_rnn_networks; k++) {
        for (int way = 0; way < WAYS; way++) {
            ls_target target = target_of(meshes[(k + way) % 2], layout_of((size_t)k / 2));
            target.rnn_way = ways[way];
            const ls_status status = network_verify(&rnn_networks[k], &target, 1 + k % 2);
            if (status.code != LS_UNSUPPORTED) must(status);
        }
    }
}

static void test_chaos_changes_nothing(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        ls_target target = target_of(meshes[0], LS_LAYOUT_ZIGZAG);
        target.rnn_way = ways[way];
        must(network_under_chaos(&rnn_networks[4], &target, 3));
    }
}

/* f32 to 1e-5, or twice the error of one rank; bf16 to twice that and a rounding more. */
static void test_types(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    ls_machine machine;
    ls_machine_detect(&machine);
    for (int k = 0; k < n_rnn_networks * 2; k++) {
        const network *n = &rnn_networks[k / 2];
        const ls_dtype T = types[k % 2];
        network_result exact, many;
        must(network_solve(n, &single, LS_F64, T, &exact));
        const int results = exact.image->n_flats + 1;
        double *own = calloc((size_t)results, sizeof *own);
        must(network_own_errors(n, T, 1, &exact, own));
        ls_target target = target_of(meshes[k % 4], layout_of((size_t)(k / 2)));
        target.isa = machine.isa;
        must(network_solve(n, &target, T, T, &many));
        for (int i = 0; i < results; i++) {
            const double error = network_error_of_kind(&many, &exact, i - 1);
            const double bound = T == LS_F32 ? fmax(1e-5, 2 * own[i]) : 2 * own[i] + ldexp(1, -9);
            if (!(error <= bound))
                fail_msg("%s %s %s: result %d is off by %g, more than %g", n->name, ls_dtype_name(T),
                         ls_layout_name(target.layout), i - 1, error, bound);
        }
        free(own);
        network_free(&exact);
        network_free(&many);
    }
}

/* --- heads along tp, and less memory ------------------------------------------------------------------------------ */

/* ring × ulysses × tp */
static const int with_tp[][3] = {{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 1, 3}, {3, 1, 2}};

static void test_heads_are_cut_along_tp(void **state) {
    (void)state;
    int cut = 0;
    for (int k = 0; k < n_rnn_networks; k++) {
        const network *n = &rnn_networks[k];
        network_result one, many;
        const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
        must(network_solve(n, &single, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(with_tp); m++) {
            const int *size = with_tp[m];
            ls_target target = {.mesh = mesh_with_tp(1, size[0], size[1], size[2]),
                                .strategy = "local",
                                .layout = layout_of(m + (size_t)k),
                                .shard = &ls_shard_modes[LS_SHARD_OPTIMIZER + m % 3],
                                .threads = 1};
            if (m % 2) target.saving = (ls_saving){.drop = 100, .tile = LS_TILE_ALL, .tile_rows = 5};
            const char *what;
            const ls_status status = network_solve(n, &target, LS_F64, LS_F64, &many);
            if (strstr(status.text, "expected at most that many ranks") != NULL) continue;
            if (status.code != LS_OK) fail_msg("%s, tp %d: %s", n->name, size[2], status.text);
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s, ranks %d, tp %d, %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh), size[2],
                         ls_layout_name(target.layout), what, difference);
            cut++;
            network_free(&many);
        }
        network_free(&one);
    }
    if (cut < 30) fail_msg("%d programs with tp, expected 30 or more", cut);
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

enum { HEADS = 6, D = 4, BATCH = 2, GATES = 4, STATES = 4 };

/* In numbers, an sLSTM forward, of a sequence of so many tokens. */
static double sent(const char *way, const int *mesh, ls_layout_kind layout, int64_t tokens) {
    ls_graph *g = ls_graph_create(LS_F64);
    (void)ls_tokens(g, "tokens", BATCH, tokens);
    const ls_shape shape = {
        4, {{BATCH, LS_FACTOR_BATCH}, {tokens, LS_FACTOR_SEQUENCE}, {HEADS, LS_FACTOR_NONE}, {GATES * D, 0}}};
    const ls_rnn_form form = {.kind = LS_RNN_SLSTM};
    ls_tensor y = ls_rnn(g, ls_graph_leaf(g, LS_ROLE_INPUT, "x", LS_F64, &shape),
                         ls_parameter(g, "R", 3, (int64_t[]){HEADS, GATES * D, D}), &form);
    y = ls_named(g, y, "y");
    must(ls_graph_status(g));
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = &y, .n_fetch = 1};
    ls_target target = target_of(mesh, layout);
    target.rnn_way = way;
    target.rank = ls_mesh_ranks(&target.mesh) > 1 ? 1 : 0;
    ls_image *image;
    must(ls_compile(&job, &target, &image));
    const double bytes = (double)ls_program_measure(image, 0).bytes_sent;
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return bytes / sizeof(double);
}

static void test_bytes(void **state) {
    (void)state;
    const int three[] = {1, 3, 1, 1};
    const double of_state = BATCH * HEADS * D * STATES, P = 3;
    for (int64_t tokens = 48; tokens <= 96; tokens *= 2) {
        const double n = BATCH * (double)tokens / P;
        assert_true(sent("chain", three, LS_LAYOUT_CONTIGUOUS, tokens) == of_state);
        assert_true(sent("chain", three, LS_LAYOUT_ZIGZAG, tokens) == 2 * of_state);
        assert_true(sent("heads", three, LS_LAYOUT_ZIGZAG, tokens) == (P - 1) / P * n * HEADS * D * (GATES + 1));
    }
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void expect_refused(const char *text, int64_t rows, const ls_rnn_form *form) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = ls_split_last(
        g, ls_embedding(g, ls_tokens(g, "tokens", 2, 8), ls_parameter(g, "t", 2, (int64_t[]){3, 24})), 2, 12);
    (void)ls_rnn(g, x, ls_parameter(g, "R", 3, (int64_t[]){2, rows, 4}), form);
    const ls_status status = ls_graph_status(g);
    assert_int_equal(status.code, LS_INVALID);
    if (strstr(status.text, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", status.text, text);
    ls_graph_destroy(g);
}

static void test_wrong_forms_are_refused(void **state) {
    (void)state;
    expect_refused("its form is NULL", 12, NULL);
    expect_refused("its form is of no kind", 12, &(ls_rnn_form){.kind = LS_RNN_KINDS});
    expect_refused("expected f32[2,12,4]", 11, &(ls_rnn_form){.kind = LS_RNN_GRU});
    expect_refused("expected f32[2,3,4]", 12, &(ls_rnn_form){.kind = LS_RNN_DIAGONAL_GRU});
}

static void test_layouts_are_refused(void **state) {
    (void)state;
    network_result r;
    const ls_target target = target_of(meshes[1], LS_LAYOUT_STRIPED);
    const ls_status status = network_solve(&rnn_networks[0], &target, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op rnn \"cells 0\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),      cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_chaos_changes_nothing),   cmocka_unit_test(test_types),
        cmocka_unit_test(test_heads_are_cut_along_tp),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wrong_forms_are_refused), cmocka_unit_test(test_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
