/*
 * A graph that no rule covers over ranks is refused with op, tensor and reason, and never computed wrongly. Most of
 * these graphs are correct on one device and compile there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "longspan/longspan.h"

enum { B = 2, S = 12, E = 12 /* = S: so that sizes alone would let much pass */, V = 7 };

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

/* x T[B,S,E]: the batch and the sequence in front. */
static ls_tensor activations(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    return ls_named(g, ls_embedding(g, tokens, matrix(g, "table", V, E)), "x");
}

/* T[B,S] (f64): a number for each token, and no dimension behind the sequence. */
static ls_tensor losses(ls_graph *g) {
    const ls_tensor labels = ls_tokens(g, "labels", B, S);
    return ls_named(g, ls_cross_entropy(g, ls_embedding(g, labels, matrix(g, "logits", V, V)), labels), "token losses");
}

/* --- refused when the graph is built: wrong on one device too, or a factor would be lost -------------------------- */

static ls_tensor split_sequence(ls_graph *g) { return ls_reshape(g, activations(g), 4, (int64_t[]){B, S / 2, 2, E}); }
static ls_tensor merge_sequence(ls_graph *g) { return ls_reshape(g, activations(g), 2, (int64_t[]){B, S * E}); }
static ls_tensor merge_batch(ls_graph *g) { return ls_reshape(g, activations(g), 2, (int64_t[]){B * S, E}); }
static ls_tensor swap_sequence(ls_graph *g) { return ls_reshape(g, activations(g), 3, (int64_t[]){B, E / 2, 2 * S}); }
static ls_tensor contract_sequence(ls_graph *g) { return ls_linear(g, losses(g), matrix(g, "w", 3, S), LS_NO_TENSOR); }
static ls_tensor norm_over_sequence(ls_graph *g) {
    return ls_rmsnorm(g, losses(g), ls_parameter(g, "w", 1, (int64_t[]){S}), 1e-6);
}
static ls_tensor entropy_over_sequence(ls_graph *g) {
    return ls_cross_entropy(g, losses(g), ls_tokens(g, "rows", B, 1));
}
static ls_tensor add_whole(ls_graph *g) {
    return ls_add(g, activations(g), ls_parameter(g, "p", 3, (int64_t[]){B, S, E}));
}
static ls_tensor attend_to_whole(ls_graph *g) {
    const ls_mask mask = ls_mask_causal();
    const ls_tensor q = ls_split_last(g, activations(g), 3, 4);
    const ls_tensor k = ls_parameter(g, "memory", 4, (int64_t[]){B, S, 3, 4});
    return ls_attention(g, q, k, k, &mask, 1);
}

/* --- refused when it is compiled for ranks ------------------------------------------------------------------------ */

static ls_tensor shifted(ls_graph *g) { return ls_named(g, ls_shift(g, activations(g), 1), "before"); }
static ls_tensor convolved(ls_graph *g) {
    return ls_named(g, ls_conv(g, activations(g), matrix(g, "taps", 3, E)), "mixed");
}
static ls_tensor of_one_sequence(ls_graph *g) {
    return ls_embedding(g, ls_tokens(g, "tokens", 1, S), matrix(g, "table", V, E));
}
static ls_tensor of_one_token(ls_graph *g) {
    return ls_embedding(g, ls_tokens(g, "tokens", B, 1), matrix(g, "table", V, E));
}
static ls_tensor attended(ls_graph *g) {
    const ls_mask mask = ls_mask_causal();
    const ls_tensor heads = ls_split_last(g, activations(g), 3, 4);
    return ls_attention(g, heads, heads, heads, &mask, 1);
}

static const struct {
    const char *name;
    ls_tensor (*build)(ls_graph *g);
    ls_spread spread;
    ls_code code;
    const char *words[3]; /* the op, the tensor, the reason */
    bool alone;           /* compiles on one rank */
} cases[] = {
    {"split",
     split_sequence,
     {.ranks = 2},
     LS_INVALID,
     {"op reshape", "\"x\"", "keeps dimension 1 (the sequence) whole"},
     false},
    {"merge",
     merge_sequence,
     {.ranks = 2},
     LS_INVALID,
     {"op reshape", "\"x\"", "keeps dimension 1 (the sequence) whole"},
     false},
    {"merge batch",
     merge_batch,
     {.ranks = 2},
     LS_INVALID,
     {"op reshape", "\"x\"", "keeps dimension 0 (the batch) whole"},
     false},
    {"swap", swap_sequence, {.ranks = 2}, LS_INVALID, {"op reshape", "\"x\"", "(the sequence) whole"}, false},
    {"contract",
     contract_sequence,
     {.ranks = 2},
     LS_INVALID,
     {"op linear", "\"token losses\"", "neither batch nor sequence"},
     false},
    {"norm",
     norm_over_sequence,
     {.ranks = 2},
     LS_INVALID,
     {"op rmsnorm", "\"token losses\"", "not the sequence"},
     false},
    {"entropy",
     entropy_over_sequence,
     {.ranks = 2},
     LS_INVALID,
     {"op cross_entropy", "\"token losses\"", "a vocabulary"},
     false},
    {"add whole", add_whole, {.ranks = 2}, LS_INVALID, {"op add", "\"p\"", "shape of \"x\""}, false},
    {"attend to whole",
     attend_to_whole,
     {.ranks = 2},
     LS_INVALID,
     {"op attention", "\"memory\"", "the batch and the sequence first"},
     false},
    {"striped shift",
     shifted,
     {.ranks = 2, .layout = "striped"},
     LS_UNSUPPORTED,
     {"op shift", "\"before\"", "the layout is striped"},
     true},
    {"striped conv",
     convolved,
     {.ranks = 3, .layout = "striped"},
     LS_UNSUPPORTED,
     {"op conv", "\"mixed\"", "the layout is striped"},
     true},
    {"too many heads", attended, {.ranks = 4, .strategy = "ulysses"}, LS_USAGE, {"ulysses", "4", "3"}, true},
    {"too many ranks", shifted, {.ranks = S + 1}, LS_USAGE, {"12 tokens", "13 ranks", "a token each at least"}, true},
    {"no heads",
     shifted,
     {.mesh = "ulysses=2"},
     LS_USAGE,
     {"nothing in the graph can use", "the mesh axis ulysses=2", "divides the heads of attention"},
     true},
    {"one sequence",
     of_one_sequence,
     {.mesh = "dp=2"},
     LS_USAGE,
     {"the mesh axis dp=2", "divides the sequences of a micro-batch, of which there is only one", "a multiple of 2"},
     true},
    {"one token",
     of_one_token,
     {.mesh = "ring=2"},
     LS_USAGE,
     {"nothing in the graph can use", "the mesh axis ring=2", "divides the tokens of a sequence"},
     true},
    {"dp", shifted, {.mesh = "dp=3,ring=1,ulysses=1"}, LS_USAGE, {"2 sequences", "dp=3", "does not divide"}, true},
};

static ls_status compile(ls_tensor (*build)(ls_graph *), ls_spread spread) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor read = build(g);
    const ls_engine_options options = {.purpose = LS_TO_EVALUATE, .read = &read, .n_read = 1, .spread = spread};
    ls_engine *engine = NULL;
    const ls_status status = ls_engine_open(g, LS_NO_TENSOR, &options, &engine);
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return status;
}

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_status many = compile(cases[i].build, cases[i].spread);
        if (many.code != cases[i].code) fail_msg("%s: %s \"%s\"", cases[i].name, ls_code_name(many.code), many.text);
        for (int w = 0; w < 3; w++) {
            if (strstr(many.text, cases[i].words[w]) == NULL)
                fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].name, many.text, cases[i].words[w]);
        }
        const ls_status one = compile(cases[i].build, (ls_spread){.ranks = 1});
        if ((one.code == LS_OK) != cases[i].alone)
            fail_msg("%s on one rank: %s \"%s\"", cases[i].name, ls_code_name(one.code), one.text);
        print_message("%s: %s\n", cases[i].name, many.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
