/*
 * A hybrid whose attention is masked by packed documents, in every layout: those that follow the masks cut a rank's
 * part into many runs of neighbours, which convolutions, states and recurrent cells work through one by one, up to a
 * limit. Loss and all gradients are those of one rank in f64, by every way of the states; what is refused is so by one
 * line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/graph.h"
#include "support/meshes.h"
#include "support/network.h"

enum { B = 2, S = 211, LONG = 603, V = 9, E = 12, K = 3, H = 6, D = 3, WIDTH = 4 };

static const int32_t few[] = {0, 3, 61, 62, 130, S};
static int32_t many[LONG / 3 + 1]; /* of three tokens each */

static ls_tensor rows(ls_graph *g, ls_tensor x, const char *name, int64_t n) {
    return ls_linear(g, x, ls_parameter(g, name, 2, (int64_t[]){n, E}), LS_NO_TENSOR);
}

static ls_tensor gates(ls_graph *g, ls_tensor x, const char *name, double factor) {
    const ls_tensor raw = rows(g, x, name, H);
    const ls_map_step step[] = {
        {LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, factor}, {LS_MAP_MUL, 1, 2, 0, 0}};
    return ls_map(g, &raw, 1, &(ls_expression){.step = step, .n_steps = 3, .wide = 1, .n_results = 1});
}

static ls_tensor state_layer(ls_graph *g, ls_tensor x, ls_tensor places) {
    const ls_conv_form form = {.reach = ls_conv_reach(g, places, WIDTH)};
    const ls_tensor y = ls_silu(g, ls_conv_within(g, x, ls_parameter(g, "taps", 2, (int64_t[]){WIDTH, E}), &form));
    const ls_linear_state rule = {
        .decay = gates(g, y, "decay", -0.3), .beta = gates(g, y, "beta", 1), .places = places, .delta = true};
    const ls_tensor q = ls_softcap(g, rows(g, y, "q", K * D), 1), k = ls_softcap(g, rows(g, y, "k", K * D), 0.4),
                    v = ls_split_last(g, rows(g, y, "v", H * 2), H, 2);
    const ls_tensor o = ls_linear_recurrence(g, ls_split_last(g, q, K, D), ls_split_last(g, k, K, D), v, &rule);
    return ls_add(g, x, rows(g, ls_merge_last(g, ls_named(g, o, "state")), "o", E));
}

static ls_tensor cell_layer(ls_graph *g, ls_tensor x, ls_tensor places) {
    const ls_rnn_form form = {.kind = LS_RNN_LSTM, .places = places};
    const int64_t heads = 2, elements = E / heads, size[] = {heads, 4 * elements, elements};
    const ls_tensor given = ls_split_last(g, rows(g, x, "cell", 4 * E), heads, 4 * elements);
    return ls_add(g, x, ls_merge_last(g, ls_rnn(g, given, ls_parameter(g, "R", 3, size), &form)));
}

static ls_tensor hybrid(ls_graph *g, int64_t length, const int32_t *ends, int n_ends) {
    const ls_mask mask = {
        .n = 2, .term = {{.kind = LS_MASK_CAUSAL}, {.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = n_ends}}};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, length), places = ls_input_like(g, "places", tokens);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    x = state_layer(g, x, places);
    const ls_tensor heads = ls_split_last(g, x, 4, 3);
    x = ls_add(g, x, ls_merge_last(g, ls_attention(g, heads, heads, heads, &mask, 0.5)));
    x = ls_add(g, x, ls_recurrence(g, ls_scale(g, ls_softcap(g, x, 1), 0.5), ls_shift(g, x, 2)));
    x = cell_layer(g, x, places);
    const ls_tensor logits = ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

static ls_tensor with_few(ls_graph *g) { return hybrid(g, S, few, (int)LS_COUNT(few)); }
static ls_tensor with_many(ls_graph *g) { return hybrid(g, LONG, many, (int)LS_COUNT(many)); }

static const network network_few = {.name = "few documents", .loss = with_few, .ids = V},
                     network_many = {.name = "many documents", .loss = with_many, .ids = V};

static ls_target target_of(int ring, int ulysses, ls_layout_kind layout, const char *way) {
    return (ls_target){.mesh = mesh_of(1, ring, ulysses),
                       .strategy = ring > 1 ? (ulysses > 1 ? "usp" : "ring") : (ulysses > 1 ? "ulysses" : "local"),
                       .layout = layout,
                       .recurrence_way = way,
                       .threads = 1};
}

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

/* ring × ulysses */
static const int meshes[][2] = {{2, 1}, {3, 1}, {2, 2}, {5, 1}};
static const char *const ways[] = {"maps", "owners", "heads"};

static void test_layouts_that_follow_masks(void **state) {
    (void)state;
    network_result one, result;
    const ls_target alone = target_of(1, 1, LS_LAYOUT_CONTIGUOUS, NULL);
    int most = 0, solved = 0;
    must(network_solve(&network_few, &alone, LS_F64, LS_F64, &one));
    for (size_t i = 0; i < LS_COUNT(meshes) * 2 * LS_COUNT(ways); i++) {
        const int *mesh = meshes[i / 2 / LS_COUNT(ways)];
        const ls_layout_kind layout = i % 2 ? LS_LAYOUT_BALANCED : LS_LAYOUT_DOCUMENTS;
        ls_target target = target_of(mesh[0], mesh[1], layout, ways[i / 2 % LS_COUNT(ways)]);
        target.rnn_way = i / 2 % 2 ? "chain" : NULL;
        const ls_status status = network_solve(&network_few, &target, LS_F64, LS_F64, &result);
        if (status.code == LS_UNSUPPORTED && strstr(status.text, "heads of keys on") != NULL) continue;
        must(status);
        const char *what;
        const double difference = network_difference(&result, &one, &what);
        if (!(difference < 1e-12))
            fail_msg("ring %d, ulysses %d, %s by %s: %s differs by %g", mesh[0], mesh[1], ls_layout_name(layout),
                     target.recurrence_way, what, difference);
        most = (int)ls_max(most, ls_layout_most_runs(&result.image->layout));
        solved++;
        network_free(&result);
    }
    network_free(&one);
    if (most < 5) fail_msg("the layouts have at most %d runs a rank, expected 5 or more", most);
    assert_true(solved >= 20);
}

static void test_programs_verify(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const ls_target target = target_of(2, 1 + i / 2, i % 2 ? LS_LAYOUT_BALANCED : LS_LAYOUT_DOCUMENTS, ways[i % 3]);
        const ls_status status = network_verify(&network_few, &target, 1 + i % 2);
        if (status.code != LS_UNSUPPORTED) must(status);
    }
    const ls_target target = target_of(2, 1, LS_LAYOUT_DOCUMENTS, NULL);
    must(network_under_chaos(&network_few, &target, 2));
}

static void expect_refused(const network *n, const ls_target *target, const char *text) {
    network_result result;
    const ls_status status = network_solve(n, target, LS_F64, LS_F64, &result);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    if (strstr(status.text, text) == NULL) fail_msg("refused with \"%s\", expected \"%s\"", status.text, text);
}

static void test_refused(void **state) {
    (void)state;
    ls_target target = target_of(2, 1, LS_LAYOUT_STRIPED, NULL);
    expect_refused(&network_few, &target, "the layout is striped, where no token's neighbour lies on its own rank");
    for (size_t i = 0; i < LS_COUNT(many); i++) many[i] = (int32_t)(3 * i);
    target.layout = LS_LAYOUT_DOCUMENTS;
    expect_refused(&network_many, &target, "runs of neighbours, each of which is a call; expected at most 64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_that_follow_masks),
        cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
