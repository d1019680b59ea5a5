/*
 * Decoding: for every token the logits over the cache equal those of the whole graph at once, over every way to
 * share the sequence, for every prompt, under windows, with sinks and soft caps; of graphs made here, of an example,
 * and of every architecture, in f64. What has states is decoded in bf16, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "graph/graph.h"
#include "longspan/newton.h"
#include "model/model.h"
#include "program/program.h"
#include "support/decoding.h"
#include "support/scratch.h"

#include <math.h>
#include <string.h>

enum { S = 13, V = 19, E = 24, Hq = 4, Hkv = 2, D = 6, W = 5, F = 20, L = 3 };
enum { STATE_K = 3, STATE_H = 6 }; /* heads of keys and of values of states */

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    const ls_tensor bias = ls_parameter_named(g, 1, &to, "%d.%s.bias", layer, name);
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "%d.%s", layer, name), bias);
}

/*
 * Heads of values have another size, W, than those of keys. A layer of each kind: a window with a first token seen by
 * all and sinks; causal with a soft cap and no rotation; a window.
 */
static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    static const char *const masks[] = {"window:3:1", "causal", "window:4"};
    ls_mask mask = {.n = 0};
    assert_ok(ls_mask_add_term(&mask, masks[layer % 3]));
    ls_tensor q = ls_split_last(g, project(g, x, "q", layer, Hq * D, E), Hq, D);
    ls_tensor k = ls_split_last(g, project(g, x, "k", layer, Hkv * D, E), Hkv, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "v", layer, Hkv * W, E), Hkv, W);
    if (layer % 3 != 1) {
        q = ls_rotate(g, q, rope);
        k = ls_rotate(g, k, rope);
    }
    const ls_tensor sink = layer % 3 == 0 ? ls_parameter_named(g, 1, (int64_t[]){Hq}, "%d.sink", layer) : LS_NO_TENSOR;
    const ls_tensor o = ls_attention_with_sink(g, q, k, v, sink, &mask, 1 / sqrt(D), layer % 3 == 1 ? 2.0 : 0.0);
    return project(g, ls_merge_last(g, o), "o", layer, E, Hq * W);
}

/* Learned positions and rotations both; logits. */
static ls_tensor build(ls_graph *g, int layers) {
    const ls_rope how = {.theta = 100};
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S), positions = ls_input_like(g, "positions", tokens);
    const ls_tensor rope = ls_rope_table(g, positions, D, &how);
    ls_tensor x = ls_add(g, ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E})),
                         ls_embedding(g, positions, ls_parameter(g, "table of places", 2, (int64_t[]){S, E})));
    for (int layer = 0; layer < layers; layer++) {
        const ls_tensor norm = ls_parameter_named(g, 1, (int64_t[]){E}, "%d.norm", layer);
        x = ls_add(g, x, attend(g, ls_rmsnorm(g, x, norm, 1e-5), rope, layer));
        const ls_tensor h = ls_gelu(g, project(g, x, "up", layer, F, E));
        x = ls_add(g, x, project(g, h, "down", layer, E, F));
    }
    return ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

static void layers_decode_like_the_whole(int layers) {
    play p = play_of("layers", S, V);
    ls_graph *whole = ls_graph_create(LS_F64);
    const ls_tensor logits = build(whole, layers);
    play_like_the_whole(&p, whole, logits, (play_kept){layers, 2 * layers}, 1);
    ls_graph_destroy(whole);
}

static void test_layers(void **state) {
    (void)state;
    layers_decode_like_the_whole(L);
}

/* Of one layer the prefill is keys and values alone: a program without attention. */
static void test_one_layer(void **state) {
    (void)state;
    layers_decode_like_the_whole(1);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* Between 0 and `most`, or that and 0, of the type of states: for each head, or each element of its keys. */
static ls_tensor gates(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t elements, double most) {
    const ls_map_step step[] = {{LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, most}, {LS_MAP_MUL, 1, 2, 0, 0}};
    const ls_tensor raw = project(g, x, name, layer, STATE_H * elements, E);
    const ls_tensor gate = ls_map(g, &raw, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = 1});
    return elements > 1 ? ls_split_last(g, gate, STATE_H, elements) : gate;
}

/* A convolution, with silu in it or behind it, then a state and a norm with a gate: layers of each kind of decay, with
 * and without beta, of both updates. */
static ls_tensor remember(ls_graph *g, ls_tensor x, ls_tensor positions, int layer) {
    const int width = layer == 1 ? 11 : 1 + layer; /* more than some ranks have of tokens */
    ls_conv_form form = {.last_first = layer % 2 != 0,
                         .reach = layer % 3 == 0 ? ls_conv_reach(g, positions, width) : LS_NO_TENSOR,
                         .silu = layer % 2 != 0};
    if (layer > 2) form.bias = ls_parameter_named(g, 1, (int64_t[]){E}, "%d.conv.bias", layer);
    const ls_tensor taps = ls_parameter_named(g, 2, (int64_t[]){width, E}, "%d.taps", layer),
                    z = ls_conv_within(g, x, taps, &form), y = form.silu ? z : ls_silu(g, z);
    ls_linear_state rule = {.delta = layer % 2 != 0};
    if (layer % 3 != 0) rule.decay = gates(g, y, "decay", layer, layer % 3 == 1 ? 1 : D, -0.5);
    if (rule.delta || layer == 2) rule.beta = gates(g, y, "beta", layer, 1, 1);
    if (layer % 2 == 0) rule.places = positions;
    const ls_tensor q = ls_split_last(g, project(g, y, "q", layer, STATE_K * D, E), STATE_K, D),
                    k = ls_l2norm(g, ls_split_last(g, project(g, y, "k", layer, STATE_K * D, E), STATE_K, D), 1e-6, 1),
                    v = ls_split_last(g, project(g, y, "v", layer, STATE_H * W, E), STATE_H, W);
    const ls_tensor norm = ls_parameter_named(g, 1, (int64_t[]){W}, "%d.o.norm", layer),
                    o = ls_gated_norm(g, ls_linear_recurrence(g, q, k, v, &rule), norm, v, 1e-3, layer % 2 != 0);
    return project(g, ls_merge_last(g, o), "o", layer, E, STATE_H * W);
}

enum { STATES = 6, OF_STATES = 2 * STATES - 1 /* a convolution of width 1 keeps nothing */ };

static ls_tensor states(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S), positions = ls_input_like(g, "positions", tokens);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < STATES; layer++) {
        const ls_tensor norm = ls_parameter_named(g, 1, (int64_t[]){E}, "%d.norm", layer);
        x = ls_add(g, x, remember(g, ls_rmsnorm(g, x, norm, 1e-5), positions, layer));
    }
    return ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

static void test_states(void **state) {
    (void)state;
    static const char *const by[] = {"maps", "owners", "heads"};
    ls_graph *whole = ls_graph_create(LS_F64);
    const ls_tensor logits = states(whole);
    for (size_t i = 0; i < LS_COUNT(by); i++) {
        play p = play_of(by[i], S, V);
        p.recurrence_way = by[i];
        p.state_heads = STATE_K;
        play_like_the_whole(&p, whole, logits, (play_kept){0, OF_STATES}, 1);
    }
    ls_graph_destroy(whole);
}

/* A layer of each kind of recurrent cell, two of them with biases; only states are kept. */
static ls_tensor cells(ls_graph *g) {
    ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", 1, S), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    for (int kind = 0; kind < LS_RNN_KINDS; kind++) {
        const ls_rnn_sizes s = ls_rnn_sizes_of((ls_rnn_kind)kind);
        const int64_t rows = s.numbers > 0 ? s.numbers : s.gates * D;
        ls_rnn_form form = {.kind = (ls_rnn_kind)kind};
        if (kind == LS_RNN_GRU || kind == LS_RNN_SLSTM)
            form.bias = ls_parameter_named(g, 2, (int64_t[]){Hkv, rows}, "%d.bias", kind);
        const ls_tensor weight = ls_parameter_named(g, 3, (int64_t[]){Hkv, rows, D}, "%d.R", kind),
                        in = ls_split_last(g, project(g, x, "in", kind, Hkv * s.gates * D, E), Hkv, s.gates * D);
        x = ls_add(g, x, project(g, ls_merge_last(g, ls_rnn(g, in, weight, &form)), "out", kind, E, Hkv * D));
    }
    return ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

static void test_cells(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F64);
    const ls_tensor logits = cells(whole);
    static const char *const by[] = {NULL, "chain"};
    for (size_t i = 0; i < LS_COUNT(by); i++) {
        play p = play_of("cells", S, V);
        p.rnn_way = by[i];
        play_like_the_whole(&p, whole, logits, (play_kept){0, LS_RNN_KINDS}, 1);
    }
    ls_graph_destroy(whole);
}

/* --- scans -------------------------------------------------------------------------------------------------------- */

/* A shift, a recurrence of numbers and one with matrices of two states, which a shift reads one token later. */
static ls_tensor scan_layers(ls_graph *g, ls_tensor x) {
    x = ls_add(g, x, project(g, ls_shift(g, x, 3), "moved", 0, E, E));
    const ls_tensor gate = ls_softcap(g, project(g, x, "gate", 1, E, E), 0.9);
    x = ls_add(g, x, ls_recurrence(g, gate, project(g, x, "given", 1, E, E)));
    const ls_tensor matrices = ls_softcap(g, project(g, x, "matrices", 2, 4 * D, E), 0.4),
                    h = ls_recurrence(g, ls_reshape(g, matrices, 5, (int64_t[]){1, S, 2, 2, D}),
                                      ls_split_last(g, project(g, x, "sources", 2, 2 * D, E), 2, D));
    return ls_add(g, x, project(g, ls_merge_last(g, ls_shift(g, h, 1)), "read", 2, E, 2 * D));
}

/* Diagonal cells by Newton's method; few steps, so that states of early ones differ. */
static ls_tensor newton_layer(ls_graph *g, ls_tensor x, ls_rnn_kind kind, int steps) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(kind);
    const ls_newton_form form = {.kind = kind, .steps = steps, .bound = 10};
    const ls_tensor weight = ls_parameter_named(g, 3, (int64_t[]){Hkv, s.numbers, D}, "%d.newton", (int)kind),
                    in =
                        ls_split_last(g, project(g, x, "newton.in", (int)kind, Hkv * s.gates * D, E), Hkv, s.gates * D);
    ls_tensor count;
    const ls_tensor y = ls_rnn_newton(g, in, weight, &form, &count, NULL);
    return ls_add(g, x, project(g, ls_merge_last(g, y), "newton.out", (int)kind, E, Hkv * D));
}

enum { STEPS = 2, OF_SCANS = 4, OF_NEWTON = 2 * (2 * STEPS + 1 /* a shift to see what has converged */) };

static ls_tensor embedded(ls_graph *g) {
    return ls_embedding(g, ls_tokens(g, "tokens", 1, S), ls_parameter(g, "table", 2, (int64_t[]){V, E}));
}

static ls_tensor scans(ls_graph *g) {
    return ls_linear_wide(g, scan_layers(g, embedded(g)), ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

static ls_tensor newton(ls_graph *g) {
    const ls_tensor x = newton_layer(g, embedded(g), LS_RNN_DIAGONAL_GRU, STEPS);
    return ls_linear_wide(g, newton_layer(g, x, LS_RNN_DIAGONAL_LSTM, STEPS),
                          ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

/* The example, of which each layer has a shift and a recurrence. */
enum { PLSTM_S = 23, PLSTM_V = 17, OF_PLSTM = 4 };
static ls_tensor plstm(ls_graph *g) {
    ls_tensor tokens;
    return plstm_logits(g, 1, &tokens);
}

static void decodes_in_f64(play p, ls_tensor (*network)(ls_graph *), int kept) {
    ls_graph *whole = ls_graph_create(LS_F64);
    play_like_the_whole(&p, whole, network(whole), (play_kept){0, kept}, 3);
    ls_graph_destroy(whole);
}

static void test_scans(void **state) {
    (void)state;
    decodes_in_f64(play_of("scans", S, V), scans, OF_SCANS);
    decodes_in_f64(play_of("newton", S, V), newton, OF_NEWTON);
    decodes_in_f64(play_of("plstm", PLSTM_S, PLSTM_V), plstm, OF_PLSTM);
}

/* --- bf16 --------------------------------------------------------------------------------------------------------- */

static double most_apart(const double *a, const double *b, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/*
 * Token by token in bf16, logits are at most twice as far from those of f64 with the same parameters as those of the
 * whole graph in bf16 are: one token has as many roundings as all have, only other ones. That distance is small beside
 * the logits, so that a wrong state is seen.
 */
static void decodes_in_bf16(play p, ls_tensor (*network)(ls_graph *), int kept) {
    static const double none[DECODING_LONGEST * DECODING_WORDS];
    const int n = p.S * p.V;
    play whole = p;
    ls_machine machine;
    ls_machine_detect(&machine);
    whole.isa = machine.isa;
    whole.dtype = p.dtype = LS_BF16;
    ls_graph *exact = ls_graph_create(LS_F64), *rounded = ls_graph_create(LS_BF16);
    const ls_tensor logits = network(rounded);
    play_expect(&p, exact, network(exact));
    play_expect(&whole, rounded, logits);
    const double own = most_apart(whole.expected, p.expected, n), size = most_apart(p.expected, none, n);
    if (!(own > 0 && own < 0.1 * size)) fail_msg("%s in bf16: the whole graph is off by %g of %g", p.name, own, size);
    p.isa = machine.isa;
    p.bound = 2 * own;
    play_decode(&p, rounded, logits, (play_kept){0, kept}, 3);
    ls_graph_destroy(exact);
    ls_graph_destroy(rounded);
}

static void test_bf16(void **state) {
    (void)state;
    decodes_in_bf16(play_of("states", S, V), states, OF_STATES);
    decodes_in_bf16(play_of("cells", S, V), cells, LS_RNN_KINDS);
    decodes_in_bf16(play_of("scans", S, V), scans, OF_SCANS);
    decodes_in_bf16(play_of("plstm", PLSTM_S, PLSTM_V), plstm, OF_PLSTM);
}

/* --- architectures ------------------------------------------------------------------------------------------------ */

/*
 * The stored models: windows of 12, of all layers, of every other one or of the later ones; rope scaling in the place
 * of their own.
 */
static const struct architecture {
    const char *name;
    ls_rope_change rope;
    int masks;
} all[] = {
    {"llama", {NULL, 0}, 1},          {"llama", {"linear:2", 0}, 1}, {"llama", {"dynamic:4:16", 0}, 1},
    {"llama", {"yarn:4:16", 200}, 1}, {"llama", {"default", 0}, 1},  {"qwen2", {NULL, 0}, 2},
    {"qwen3", {NULL, 0}, 1},          {"mistral", {NULL, 0}, 1},     {"gpt2", {NULL, 0}, 1},
    {"gemma2", {NULL, 0}, 2},         {"gemma3", {NULL, 0}, 2},      {"phi3", {NULL, 0}, 1},
    {"olmo2", {NULL, 0}, 1},          {"olmo3", {NULL, 0}, 2},       {"smollm3", {NULL, 0}, 1},
    {"granite", {NULL, 0}, 1},        {"ministral3", {NULL, 0}, 1},  {"glm4", {NULL, 0}, 1},
    {"cohere2", {NULL, 0}, 2},        {"seed_oss", {NULL, 0}, 1},    {"starcoder2", {NULL, 0}, 1},
    {"qwen3_5", {NULL, 0}, 1},        {"mamba2", {NULL, 0}, 0},      {"nemotron_h", {NULL, 0}, 1},
};

/* KNOWN tokens that grow to DECODING_LONGEST: more than dynamic scaling's 16 and than two windows of 12 less one. */
enum { KNOWN = 6 };

static void test_architectures(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        char path[256], name[96];
        ls_model *model;
        ls_language_model lm;
        snprintf(path, sizeof path, LS_TEST_REFERENCE "/models/%s", all[i].name);
        snprintf(name, sizeof name, "%s %s", all[i].name, all[i].rope.scaling ? all[i].rope.scaling : "");
        assert_ok(ls_model_open_changed(path, &all[i].rope, &model));
        const ls_model_sizes sizes = ls_model_describe(model);
        assert_in_range(sizes.V, 2, DECODING_WORDS);
        play p = play_of(name, DECODING_LONGEST, (int)sizes.V);
        ls_graph *whole = ls_graph_create(LS_F64);
        assert_ok(ls_model_build_growing(model, whole, KNOWN, DECODING_LONGEST, &lm));
        const int feeding = strcmp(all[i].name, "nemotron_h") == 0; /* layers that keep nothing */
        play_like_the_whole(&p, whole, lm.logits, (play_kept){all[i].masks, 2 * ((int)sizes.L - feeding)}, 3);
        ls_graph_destroy(whole);
        ls_model_close(model);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void test_what_mixes_tokens_is_refused(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F32), *graph = ls_graph_create(LS_F32);
    const ls_tensor tokens = ls_tokens(whole, "tokens", 1, S);
    const ls_tensor x = ls_embedding(whole, tokens, ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    const ls_tensor logits = ls_named(whole, ls_shift(whole, x, -1), "moved");
    ls_decoding decoding;
    assert_error(ls_graph_decode(whole, logits, graph, &decoding), LS_UNSUPPORTED, "op shift", "later tokens");
    ls_graph_destroy(graph);
    ls_graph_destroy(whole);
}

static void test_several_sequences_are_refused(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F32), *graph = ls_graph_create(LS_F32);
    const ls_tensor tokens = ls_tokens(whole, "tokens", 2, S);
    const ls_tensor x = ls_embedding(whole, tokens, ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    ls_decoding decoding;
    assert_error(ls_graph_decode(whole, x, graph, &decoding), LS_INVALID, "2 sequences", "tokens");
    ls_graph_destroy(graph);
    ls_graph_destroy(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_one_layer),
                                       cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_cells),
                                       cmocka_unit_test(test_scans),
                                       cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_architectures),
                                       cmocka_unit_test(test_what_mixes_tokens_is_refused),
                                       cmocka_unit_test(test_several_sequences_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
