/*
 * Linear recurrences over many meshes, contiguous and zigzag, in f64: values and all gradients against one rank, and
 * these against the recurrence itself. Every kind of decay and update, with shared keys, keys of another size than
 * values and packed documents. Both verifiers accept the programs, chaos changes no bit, and what is sent does not
 * depend on the length of the sequence.
 */
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
    target->recurrence_way = way;
    const ls_status status = network_solve(n, target, LS_F64, LS_F64, out);
    if (status.code == LS_OK) return true;
    if (status.code != LS_UNSUPPORTED || strstr(status.text, "expected at least one on each") == NULL) must(status);
    target->recurrence_way = NULL;
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
            target.recurrence_way = ways[way];
            const ls_status status = network_verify(&linear_networks[k], &target, 1 + k % 2);
            if (status.code != LS_UNSUPPORTED) must(status);
        }
    }
}

static void test_chaos_changes_nothing(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        ls_target target = target_of(meshes[0], LS_LAYOUT_ZIGZAG);
        target.recurrence_way = ways[way];
        must(network_under_chaos(linear_network("packed_delta"), &target, 2));
    }
}

/* On devices that execute launches late, in memory of their own: the same bits. */
static void test_delays_change_nothing(void **state) {
    (void)state;
    static const char *const devices[] = {"delayed:1", "delayed:2:awaited"};
    const network *n = linear_network("packed_delta");
    for (int i = 0; i < WAYS * (int)LS_COUNT(devices); i++) {
        network_result calm, late;
        ls_target target = target_of(meshes[0], layout_of((size_t)i));
        target.recurrence_way = ways[i % WAYS];
        must(network_solve(n, &target, LS_F64, LS_F64, &calm));
        setenv("LONGSPAN_DEVICE", devices[i / WAYS], 1);
        must(network_solve(n, &target, LS_F64, LS_F64, &late));
        unsetenv("LONGSPAN_DEVICE");
        assert_true(late.loss == calm.loss);
        assert_memory_equal(late.gradient, calm.gradient, sizeof(double) * (size_t)calm.image->whole_elements);
        network_free(&calm);
        network_free(&late);
    }
}

static void test_types(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    ls_machine machine;
    ls_machine_detect(&machine);
    for (int k = 0; k < n_linear_networks * 2; k++) {
        const network *n = &linear_networks[k / 2];
        const ls_dtype T = types[k % 2];
        linear_bounds bounds = linear_bounds_of(n, T);
        ls_target target = target_of(meshes[k % 4], layout_of((size_t)(k / 2)));
        target.isa = machine.isa;
        network_result many;
        must(network_solve(n, &target, T, T, &many));
        char what[96];
        snprintf(what, sizeof what, "%s %s %s", n->name, ls_dtype_name(T), ls_layout_name(target.layout));
        linear_bounds_check(&bounds, &many, what);
        linear_bounds_free(&bounds);
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
            if (size[2] == 3 && (shares || strstr(status.text, "expected at most that many ranks") != NULL)) continue;
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

/* What a rank sends, in numbers, and the bytes that it maps. */
typedef struct exchange {
    double sent;
    size_t mapped;
} exchange;

/* Of a gated delta rule on zigzag parts, forward or with all gradients, of a sequence of so many tokens. */
static exchange exchange_of(const char *way, const int *mesh, int64_t tokens, bool gradients) {
    ls_graph *g = ls_graph_create(LS_F64);
    (void)ls_tokens(g, "tokens", BATCH, tokens);
    const ls_tensor in[] = {array_of(g, "q", tokens, KEYS, D), array_of(g, "k", tokens, KEYS, D),
                            array_of(g, "v", tokens, HEADS, E), array_of(g, "decay", tokens, HEADS, 0),
                            array_of(g, "beta", tokens, HEADS, 0)};
    const ls_linear_state rule = {.decay = in[3], .beta = in[4], .delta = true};
    ls_tensor o = ls_linear_recurrence(g, in[0], in[1], in[2], &rule);
    o = ls_named(g, o, "o");
    ls_derivative of = {.n_roots = 1, .root = {o}, .seed = {array_of(g, "do", tokens, HEADS, E)}, .n_wanted = 5};
    memcpy(of.wanted, in, sizeof in);
    if (gradients) must(ls_differentiate(g, &of));
    must(ls_graph_status(g));
    const ls_job job = {.graph = g,
                        .programs = ls_plain_programs(g, 0),
                        .fetch = gradients ? of.gradient : &o,
                        .n_fetch = gradients ? of.n_wanted : 1};
    ls_target target = target_of(mesh, LS_LAYOUT_ZIGZAG);
    target.recurrence_way = way;
    ls_image *image;
    must(ls_compile(&job, &target, &image));
    const exchange out = {(double)ls_program_measure(image, 0).bytes_sent / sizeof(double), ls_image_mapped(image)};
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return out;
}

/* With the gradients: as much again, or `backward` numbers, where it is another amount. */
static void expect_sent(const char *way, const int *mesh, int64_t tokens, double expected, double backward) {
    const double is = exchange_of(way, mesh, tokens, false).sent, both = exchange_of(way, mesh, tokens, true).sent;
    if (is != expected || both != expected + backward)
        fail_msg("%s, %lld tokens: %g numbers are sent, %g with gradients, expected %g and %g", way, (long long)tokens,
                 is, both, expected, expected + backward);
}

static void test_bytes(void **state) {
    (void)state;
    const int three[] = {1, 3, 1, 1}, six[] = {1, 2, 3, 1};
    for (int64_t tokens = 48; tokens <= 96; tokens *= 2) {
        for (int i = 0; i < 2; i++) {
            const int *mesh = i ? six : three;
            const double P = mesh[1] * mesh[2], runs = 2 * BATCH, state_size = D * E, factor = D * D,
                         n = (double)tokens / P;
            const double to_all = (P - 1) * runs * HEADS * (state_size + factor),
                         to_owners = (P - 1) / P * runs * HEADS * (2 * state_size + factor),
                         to_heads = (P - 1) / P * n * BATCH * (2 * KEYS * D + 2 * HEADS * E + 2 * HEADS),
                         heads_back = (P - 1) / P * n * BATCH * (4 * KEYS * D + 3 * HEADS * E + 4 * HEADS);
            expect_sent("maps", mesh, tokens, to_all, to_all);
            expect_sent("owners", mesh, tokens, to_owners, to_owners);
            expect_sent("heads", mesh, tokens, to_heads, heads_back);
        }
    }
    const double owners = exchange_of("owners", six, 96, false).sent, heads = exchange_of("heads", six, 96, false).sent;
    assert_true(exchange_of(NULL, six, 96, false).sent == (owners < heads ? owners : heads));
}

/* With as many tokens a rank, by owners and by heads what a rank maps does not grow with the ranks. */
static void test_memory_is_free_of_ranks(void **state) {
    (void)state;
    static const char *const free_of[] = {"owners", "heads"};
    for (size_t i = 0; i < LS_COUNT(free_of); i++) {
        const exchange two = exchange_of(free_of[i], (int[]){1, 2, 1, 1}, 128, true),
                       six = exchange_of(free_of[i], (int[]){1, 6, 1, 1}, 384, true);
        if (six.mapped > two.mapped + two.mapped / 50)
            fail_msg("%s: a rank of 6 maps %zu bytes, of 2 %zu", free_of[i], six.mapped, two.mapped);
    }
    assert_true(exchange_of("maps", (int[]){1, 6, 1, 1}, 384, true).mapped >
                exchange_of("maps", (int[]){1, 2, 1, 1}, 128, true).mapped);
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
        cmocka_unit_test(test_delays_change_nothing),   cmocka_unit_test(test_memory_is_free_of_ranks),
        cmocka_unit_test(test_heads_are_cut_along_tp),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wrong_rules_are_refused), cmocka_unit_test(test_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
