/*
 * Each op in a small network over many meshes in f64 against one rank: token-wise layers, learned positions, and
 * ops along the sequence, with shifts and convolutions longer than a rank's part. The verifier accepts the
 * programs, and all ranks compile the same frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/meshes.h"
#include "support/network.h"

enum { B = 2, S = 13, E = 5, V = 9 };

static ls_tensor vector(ls_graph *g, const char *name, int64_t n) { return ls_parameter(g, name, 1, &n); }

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

static ls_tensor embedded(ls_graph *g, ls_tensor *tokens) {
    *tokens = ls_tokens(g, "tokens", B, S);
    return ls_embedding(g, *tokens, matrix(g, "table", V, E));
}

/* A loss of y, capped as Gemma-2 caps its logits. */
static ls_tensor loss_of(ls_graph *g, ls_tensor tokens, ls_tensor y) {
    const ls_tensor logits = ls_softcap(g, ls_linear_wide(g, y, matrix(g, "head", V, E)), 2.5);
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

static ls_tensor norms(ls_graph *g) {
    ls_tensor tokens, x = embedded(g, &tokens);
    x = ls_layernorm(g, x, vector(g, "weight 1", E), vector(g, "bias 1", E), 1e-5);
    x = ls_add(g, x, ls_layernorm(g, x, vector(g, "weight 2", E), LS_NO_TENSOR, 1e-5));
    return loss_of(g, tokens, x);
}

/* Gates behind and in front of norms, of one group and of several. */
static ls_tensor gated_norms(ls_graph *g) {
    ls_tensor tokens, x = embedded(g, &tokens);
    const ls_tensor gate = ls_linear(g, x, matrix(g, "gate", E, E), LS_NO_TENSOR);
    x = ls_add(g, x, ls_gated_norm(g, x, vector(g, "weight 1", E), gate, 1e-5, false));
    const ls_tensor wide = ls_split_last(g, ls_linear(g, x, matrix(g, "up", 3 * E, E), LS_NO_TENSOR), 3, E),
                    gates = ls_split_last(g, ls_linear(g, x, matrix(g, "gates", 3 * E, E), LS_NO_TENSOR), 3, E),
                    weight = ls_reshape(g, vector(g, "weight 2", 3 * E), 2, (int64_t[]){3, E});
    const ls_tensor y = ls_merge_last(g, ls_gated_norm(g, wide, weight, gates, 1e-5, true));
    return loss_of(g, tokens, ls_add(g, x, ls_linear(g, y, matrix(g, "down", E, 3 * E), LS_NO_TENSOR)));
}

static ls_tensor activations(ls_graph *g) {
    ls_tensor tokens, x = embedded(g, &tokens);
    x = ls_gelu(g, ls_linear(g, x, matrix(g, "w1", E, E), vector(g, "b1", E)));
    x = ls_gelu_tanh(g, ls_linear(g, x, matrix(g, "w2", E, E), vector(g, "b2", E)));
    x = ls_add(g, ls_relu(g, x), ls_silu(g, ls_linear(g, x, matrix(g, "w3", E, E), LS_NO_TENSOR)));
    return loss_of(g, tokens, x);
}

static ls_tensor learned_positions(ls_graph *g) {
    ls_tensor tokens, x = embedded(g, &tokens);
    const ls_tensor positions = ls_input_like(g, "positions", tokens);
    x = ls_mul(g, x, ls_add(g, x, ls_embedding(g, positions, matrix(g, "position table", S, E))));
    return loss_of(g, tokens, x);
}

static ls_tensor shifted_by(ls_graph *g, int64_t tokens_on) {
    ls_tensor tokens, x = embedded(g, &tokens);
    const ls_tensor moved = ls_shift(g, ls_linear(g, x, matrix(g, "w", E, E), LS_NO_TENSOR), tokens_on);
    return loss_of(g, tokens, ls_add(g, x, ls_mul(g, x, ls_named(g, moved, "moved"))));
}
static ls_tensor shift_one(ls_graph *g) { return shifted_by(g, 1); }
static ls_tensor shift_back(ls_graph *g) { return shifted_by(g, -2); }
static ls_tensor shift_far(ls_graph *g) { return shifted_by(g, 7); }
static ls_tensor shift_out(ls_graph *g) { return shifted_by(g, S + 3); }
static ls_tensor shift_none(ls_graph *g) { return shifted_by(g, 0); }

/* All in one: two dimensions behind the sequence, ids shifted as integers, a shift of a shift. */
static ls_tensor shift_kinds(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), table = matrix(g, "table", V, E * 2);
    const ls_tensor x = ls_split_last(g, ls_embedding(g, tokens, table), E, 2);
    const ls_tensor twice = ls_merge_last(g, ls_shift(g, ls_shift(g, x, 2), -3));
    const ls_tensor before = ls_embedding(g, ls_shift(g, tokens, 1), table);
    const ls_tensor y = ls_linear(g, ls_add(g, twice, before), matrix(g, "w", E, 2 * E), LS_NO_TENSOR);
    return loss_of(g, tokens, y);
}

static ls_tensor convolved(ls_graph *g, int64_t width) {
    ls_tensor tokens, x = embedded(g, &tokens);
    x = ls_conv(g, x, matrix(g, "taps 1", width, E));
    const ls_conv_form form = {.silu = true, .bias = ls_parameter(g, "bias", 1, (int64_t[]){E})};
    return loss_of(g, tokens, ls_conv_within(g, ls_silu(g, x), ls_scale(g, matrix(g, "taps 2", 2, E), 0.5), &form));
}
static ls_tensor conv_one(ls_graph *g) { return convolved(g, 1); }
static ls_tensor conv_four(ls_graph *g) { return convolved(g, 4); }
static ls_tensor conv_wide(ls_graph *g) { return convolved(g, 9); }

static const network networks[] = {
    {"norms", norms, .ids = V},
    {"gated norms", gated_norms, .ids = V},
    {"activations", activations, .ids = V},
    {"learned positions", learned_positions, .ids = V},
    {"shift by 1", shift_one, .ids = V},
    {"shift by -2", shift_back, .ids = V},
    {"shift by 7", shift_far, .ids = V},
    {"shift out", shift_out, .ids = V},
    {"shift by 0", shift_none, .ids = V},
    {"kinds of shifts", shift_kinds, .ids = V},
    {"conv of 1", conv_one, .ids = V},
    {"conv of 4", conv_four, .ids = V},
    {"conv of 9", conv_wide, .ids = V},
};

/* dp × far × near: none of the networks has heads to cut. */
static const int meshes[][3] = {{1, 2, 1}, {1, 3, 1}, {1, 1, 4}, {1, 2, 3}, {2, 1, 1}, {2, 2, 2}, {1, 8, 1}};

static ls_target target_of(const int *mesh, ls_layout_kind layout) {
    return (ls_target){
        .mesh = mesh_of_two_rings(mesh[0], mesh[1], mesh[2], 1), .strategy = "local", .layout = layout, .threads = 1};
}

static const int alone[] = {1, 1, 1};

static void must(const network *n, ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", n->name, status.text);
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(networks); i++) {
        const network *n = &networks[i];
        network_result one, many;
        const ls_target single = target_of(alone, LS_LAYOUT_CONTIGUOUS);
        must(n, network_solve(n, &single, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
            const ls_layout_kind layout = m % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS;
            const ls_target target = target_of(meshes[m / 2], layout);
            const char *what;
            must(n, network_solve(n, &target, LS_F64, LS_F64, &many));
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s: dp %d far %d near %d %s: %s differs by %g", n->name, meshes[m / 2][0], meshes[m / 2][1],
                         meshes[m / 2][2], ls_layout_name(layout), what, difference);
            network_free(&many);
        }
        network_free(&one);
    }
}

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(networks); i++) {
        for (size_t m = 0; m < LS_COUNT(meshes) * 2; m++) {
            const ls_target target = target_of(meshes[m / 2], m % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS);
            must(&networks[i], network_verify(&networks[i], &target, 1));
        }
    }
}

/* Messages late, cut up and out of order: the same bits. */
static void test_chaos_changes_nothing(void **state) {
    (void)state;
    ls_tensor (*const builds[])(ls_graph *) = {shift_far, shift_kinds, conv_wide};
    for (size_t i = 0; i < LS_COUNT(builds); i++) {
        const network n = {"under chaos", builds[i], .ids = V};
        const ls_target target = target_of(meshes[3], i % 2 ? LS_LAYOUT_CONTIGUOUS : LS_LAYOUT_ZIGZAG);
        must(&n, network_under_chaos(&n, &target, 5));
    }
}

/* y[i] = x[i-n], checked on values: the loss sees tokens only through a table that tells them apart. */
static ls_tensor moved_ids(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "positions", B, S);
    const ls_tensor x = ls_embedding(g, ls_shift(g, tokens, 3), matrix(g, "table", S, 1));
    return ls_sum(g, x);
}

static void test_shift_moves(void **state) {
    (void)state;
    const network n = {"moved ids", moved_ids, .ids = S};
    for (int mesh = 0; mesh < 2; mesh++) {
        network_result r;
        const ls_target target = target_of(mesh ? meshes[1] : alone, LS_LAYOUT_ZIGZAG);
        must(&n, network_solve(&n, &target, LS_F64, LS_F64, &r));
        /* The gradient counts how often each position is looked up: 0 also by the three that nothing moves into. */
        for (int i = 0; i < S; i++)
            assert_true(r.gradient[r.image->flats[0].start + i] == B * (i == 0 ? 4.0 : i < S - 3 ? 1.0 : 0.0));
        network_free(&r);
    }
}

static void test_striped_is_refused(void **state) {
    (void)state;
    network_result r;
    const network shift = {"shift", shift_one, .ids = V}, conv = {"conv", conv_four, .ids = V};
    const ls_target cut = target_of(meshes[1], LS_LAYOUT_STRIPED), whole = target_of(alone, LS_LAYOUT_STRIPED);
    ls_status status = network_solve(&shift, &cut, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op shift \"moved\": the layout is striped"));
    assert_non_null(strstr(status.text, "all of \"linear."));
    status = network_solve(&conv, &cut, LS_F64, LS_F64, &r);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "op conv"));
    must(&shift, network_solve(&shift, &whole, LS_F64, LS_F64, &r)); /* one rank holds everything in order */
    network_free(&r);
}

static ls_tensor shift_and_documents(ls_graph *g) {
    static const int32_t ends[] = {0, 5, 12, S};
    ls_mask mask = ls_mask_causal();
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    const ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", B, S), matrix(g, "table", V, 4));
    const ls_tensor h = ls_split_last(g, ls_named(g, ls_shift(g, x, 1), "moved"), 2, 2);
    return ls_sum(g, ls_attention(g, h, h, h, &mask, 0.5));
}

/* Pieces of documents on every rank are several runs with neighbours each. */
static void test_several_runs(void **state) {
    (void)state;
    network_result one, many;
    const network packed = {"packed", shift_and_documents, .ids = V};
    ls_target target = target_of(alone, LS_LAYOUT_CONTIGUOUS);
    must(&packed, network_solve(&packed, &target, LS_F64, LS_F64, &one));
    target = target_of(meshes[1], LS_LAYOUT_DOCUMENTS);
    target.strategy = "ring";
    must(&packed, network_solve(&packed, &target, LS_F64, LS_F64, &many));
    const char *what;
    assert_true(network_difference(&many, &one, &what) < 1e-12);
    assert_true(ls_layout_most_runs(&many.image->layout) > 2);
    network_free(&many);
    network_free(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),    cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_chaos_changes_nothing), cmocka_unit_test(test_shift_moves),
        cmocka_unit_test(test_striped_is_refused),    cmocka_unit_test(test_several_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
