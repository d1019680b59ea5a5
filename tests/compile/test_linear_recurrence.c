/*
 * Linear recurrences over many meshes, contiguous and zigzag, in f64: values and all gradients against one rank, and
 * these against the recurrence itself. Every kind of decay and update, with shared keys, keys of another size than
 * values and packed documents. Both verifiers accept the programs, chaos changes no bit, and what is sent does not
 * depend on the length of the sequence.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/linear_recurrences.h"
#include "support/meshes.h"
#include "support/network.h"

/* dp × far × near × ulysses */
static const int meshes[][4] = {{1, 2, 1, 1}, {1, 3, 1, 1}, {1, 1, 4, 1},  {1, 2, 3, 1}, {2, 1, 1, 1},
                                {2, 2, 2, 1}, {1, 1, 1, 2}, {1, 16, 1, 1}, {1, 3, 1, 3}};
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

enum { WAYS = 3 };
static const char *const ways[WAYS] = {"maps", "owners", "heads"};

/* By that way; where there are too few heads for it, by the one that the compiler takes. Returns whether it could. */
static bool solve_by(const network *n, ls_target *target, const char *way, network_result *out) {
    target->linear_way = way;
    const ls_status status = network_solve(n, target, LS_F64, LS_F64, out);
    if (status.code == LS_OK) return true;
    if (status.code != LS_UNSUPPORTED || strstr(status.text, "expected at least one on each") == NULL) must(status);
    target->linear_way = NULL;
    must(network_solve(n, target, LS_F64, LS_F64, out));
    return false;
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    int solved[WAYS] = {0};
    for (int k = 0; k < n_linear_networks; k++) {
        const network *n = &linear_networks[k];
        const bool masked = strcmp(n->name, "unmasked") != 0;
        network_result one, many;
        const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
        must(network_solve(n, &single, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
            ls_target target = target_of(meshes[m / 2], layout_of(m));
            const char *what;
            const size_t way = masked ? ((size_t)k + m / 2 + m) % WAYS : 0;
            solved[way] += solve_by(n, &target, ways[way], &many);
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s, ranks %d %s by %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh),
                         ls_layout_name(layout_of(m)), ways[way], what, difference);
            network_free(&many);
        }
        network_free(&one);
    }
    for (int way = 0; way < WAYS; way++)
        if (solved[way] < 15) fail_msg("%d programs by %s, expected 15 or more", solved[way], ways[way]);
}

static void test_programs_verify(void **state) {
    (void)state;
    for (int k = 0; k < n_linear_networks; k++) {
        ls_target target = target_of(meshes[k % 2], layout_of((size_t)k / 2));
        for (int way = 0; way < WAYS; way++) {
            target.linear_way = ways[way];
            const ls_status status = network_verify(&linear_networks[k], &target, 1 + k % 2);
            if (status.code != LS_UNSUPPORTED) must(status);
        }
    }
}

static void test_chaos_changes_nothing(void **state) {
    (void)state;
    ls_target target = target_of(meshes[0], LS_LAYOUT_ZIGZAG);
    target.linear_way = "owners";
    must(network_under_chaos(&linear_networks[n_linear_networks - 1], &target, 3));
}

/* f32 to 1e-5; bf16 to twice the error of one rank and a rounding more. */
static void test_types(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    ls_machine machine;
    ls_machine_detect(&machine);
    for (int k = 0; k < n_linear_networks * 2; k++) {
        const network *n = &linear_networks[k / 2];
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
    for (int k = 0; k < n_linear_networks; k++) {
        const network *n = &linear_networks[k];
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
            const bool shares = strstr(status.text, "heads of keys are cut over more ranks along tp") != NULL;
            if (size[2] == 3 && (shares || strstr(status.text, "expected at most so many ranks") != NULL)) continue;
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
    assert_true(cut >= n_linear_networks * (int)LS_COUNT(with_tp) - n_linear_networks / 2 - 2);
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

enum { HEADS = 12, KEYS = 6, D = 4, E = 3, BATCH = 2 };

static ls_tensor array_of(ls_graph *g, const char *name, int64_t tokens, int64_t heads, int64_t elements) {
    const ls_shape shape = {
        elements > 0 ? 4 : 3,
        {{BATCH, LS_FACTOR_BATCH}, {tokens, LS_FACTOR_SEQUENCE}, {heads, LS_FACTOR_NONE}, {elements, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, LS_F64, &shape);
}

/* In numbers, a gated delta rule on zigzag parts: forward, of a sequence of so many tokens. */
static double sent(const char *way, const int *mesh, int64_t tokens) {
    ls_graph *g = ls_graph_create(LS_F64);
    (void)ls_tokens(g, "tokens", BATCH, tokens);
    const ls_linear_state rule = {
        .decay = array_of(g, "decay", tokens, HEADS, 0), .beta = array_of(g, "beta", tokens, HEADS, 0), .delta = true};
    ls_tensor o = ls_linear_recurrence(g, array_of(g, "q", tokens, KEYS, D), array_of(g, "k", tokens, KEYS, D),
                                       array_of(g, "v", tokens, HEADS, E), &rule);
    o = ls_named(g, o, "o");
    must(ls_graph_status(g));
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = &o, .n_fetch = 1};
    ls_target target = target_of(mesh, LS_LAYOUT_ZIGZAG);
    target.linear_way = way;
    ls_image *image;
    must(ls_compile(&job, &target, &image));
    const double bytes = (double)ls_program_measure(image, 0).bytes_sent;
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return bytes / sizeof(double);
}

static void expect_sent(const char *way, const int *mesh, int64_t tokens, double expected) {
    const double is = sent(way, mesh, tokens);
    if (is != expected)
        fail_msg("%s, %lld tokens: %g numbers are sent, expected %g", way, (long long)tokens, is, expected);
}

static void test_bytes(void **state) {
    (void)state;
    const int three[] = {1, 3, 1, 1}, six[] = {1, 2, 3, 1};
    for (int64_t tokens = 48; tokens <= 96; tokens *= 2) {
        for (int i = 0; i < 2; i++) {
            const int *mesh = i ? six : three;
            const double P = mesh[1] * mesh[2], runs = 2 * BATCH, state_size = D * E, factor = D * D,
                         n = (double)tokens / P;
            expect_sent("maps", mesh, tokens, (P - 1) * runs * HEADS * (state_size + factor));
            expect_sent("owners", mesh, tokens, (P - 1) / P * runs * HEADS * (2 * state_size + factor));
            expect_sent("heads", mesh, tokens, (P - 1) / P * n * BATCH * (2 * KEYS * D + 2 * HEADS * E + 2 * HEADS));
        }
    }
    expect_sent(NULL, six, 96,
                sent("owners", six, 96) < sent("heads", six, 96) ? sent("owners", six, 96) : sent("heads", six, 96));
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void expect_refused(const char *text, const ls_linear_state *rule, int64_t value_heads) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor x = ls_input_typed(g, "x", LS_F32, ls_tokens(g, "tokens", 2, 8));
    const ls_tensor wide =
        ls_broadcast(g, ls_reshape(g, x, 3, (int64_t[]){2, 8, 1}), 1U << 2,
                     ls_embedding(g, ls_tokens(g, "more", 2, 8), ls_parameter(g, "t", 2, (int64_t[]){3, 12})));
    const ls_tensor k = ls_split_last(g, wide, 2, 6), v = ls_split_last(g, wide, value_heads, 12 / value_heads);
    (void)ls_linear_recurrence(g, k, k, v, rule);
    const ls_status status = ls_graph_status(g);
    assert_int_equal(status.code, LS_INVALID);
    if (strstr(status.text, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", status.text, text);
    ls_graph_destroy(g);
}

static void test_wrong_rules_are_refused(void **state) {
    (void)state;
    expect_refused("its rule is NULL", NULL, 2);
    expect_refused("a delta rule without beta", &(ls_linear_state){.delta = true}, 2);
    expect_refused("a multiple of the 2 of the keys", &(ls_linear_state){.delta = false}, 3);
    expect_refused("unmasked with a delta rule", &(ls_linear_state){.delta = true, .unmasked = true}, 2);
}

static void test_layouts_are_refused(void **state) {
    (void)state;
    network_result r;
    const ls_target target = target_of(meshes[1], LS_LAYOUT_STRIPED);
    const ls_status status = network_solve(&linear_networks[0], &target, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op linear_recurrence \"states 0\": the layout is striped"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),      cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_chaos_changes_nothing),   cmocka_unit_test(test_types),
        cmocka_unit_test(test_heads_are_cut_along_tp),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wrong_rules_are_refused), cmocka_unit_test(test_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
