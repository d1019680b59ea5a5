/*
 * --sums canonical: losses, gradients and updated parameters have the same bits for any number of ranks that share the
 * sequence, they are those of fast sums but for rounding, all programs are proved, and what has no such order is
 * refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "kernel/kernel.h"
#include "longspan/graph.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/network.h"

/* D, W: elements of a head of queries and keys, and of values. */
enum { S = 131, E = 12, D = 4, W = 3, V = 19, LAYERS = 2 };

/* What differs between the networks. */
typedef struct form {
    int64_t Hq, Hkv;
    ls_mask mask;
    bool sinks, tied, shifts;
} form;

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name), LS_NO_TENSOR);
}

static ls_tensor attend(ls_graph *g, const form *f, ls_tensor x, ls_tensor rope, int layer) {
    const ls_tensor q = ls_rotate(g, ls_split_last(g, project(g, x, "q", layer, f->Hq * D, E), f->Hq, D), rope);
    const ls_tensor k = ls_rotate(g, ls_split_last(g, project(g, x, "k", layer, f->Hkv * D, E), f->Hkv, D), rope);
    const ls_tensor v = ls_split_last(g, project(g, x, "v", layer, f->Hkv * W, E), f->Hkv, W);
    const ls_tensor o =
        f->sinks ? ls_attention_with_sink(g, q, k, v, ls_parameter_named(g, 1, &f->Hq, "layers.%d.sinks", layer),
                                          &f->mask, 0.5, 0)
                 : ls_attention(g, q, k, v, &f->mask, 0.5);
    return project(g, ls_merge_last(g, o), "o", layer, E, f->Hq * W);
}

static ls_tensor loss_of(ls_graph *g, const form *f) {
    const ls_rope angles = {.theta = 10000};
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S);
    const ls_tensor rope = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &angles);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, tokens, table);
    for (int layer = 0; layer < LAYERS; layer++) {
        const ls_tensor gain = ls_parameter_named(g, 1, (int64_t[]){E}, "layers.%d.norm", layer);
        x = ls_add(g, x, attend(g, f, ls_rmsnorm(g, x, gain, 1e-5), rope, layer));
        if (f->shifts) x = ls_add(g, x, ls_shift(g, x, 1));
        x = ls_add(g, x, project(g, ls_silu(g, project(g, x, "up", layer, 20, E)), "down", layer, E, 20));
    }
    const ls_tensor head = f->tied ? table : ls_parameter(g, "head", 2, (int64_t[]){V, E});
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, head), ls_input_like(g, "labels", tokens)));
}

static ls_tensor grouped_loss(ls_graph *g) { return loss_of(g, &(form){.Hq = 4, .Hkv = 2, .mask = ls_mask_causal()}); }

static ls_tensor tied_loss(ls_graph *g) {
    return loss_of(g, &(form){.Hq = 7, .Hkv = 1, .mask = ls_mask_causal(), .tied = true, .shifts = true});
}

static ls_tensor sink_loss(ls_graph *g) {
    const ls_mask window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = 21}}};
    return loss_of(g, &(form){.Hq = 4, .Hkv = 4, .mask = window, .sinks = true});
}

static ls_tensor full_loss(ls_graph *g) { return loss_of(g, &(form){.Hq = 4, .Hkv = 2, .mask = {.n = 0}}); }

/* --- general ops -------------------------------------------------------------------------------------------------- */

static ls_tensor weight(ls_graph *g, const char *name, int ndim, const int64_t *size) {
    return ls_parameter(g, name, ndim, size);
}

/* A weight for each feature, of which the gradient is a sum over tokens: sin(x · gain + bias). */
static ls_tensor mapped(ls_graph *g, ls_tensor x, const char *gain, const char *bias, int64_t n) {
    const ls_tensor in[] = {x, weight(g, gain, 1, &n), weight(g, bias, 1, &n)};
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_ADD, 3, 2, 0, 0}, {LS_MAP_SIN, 4, 0, 0, 0}};
    return ls_map(g, in, 3, &(ls_expression){.step = step, .n_steps = 3});
}

/* The largest logits of eight decide which of eight features count, and by how much: topk, softmax, take_along. */
static ls_tensor chosen(ls_graph *g, ls_tensor x) {
    enum { EXPERTS = 8, K = 3 };
    ls_tensor ids;
    const ls_tensor logits = ls_linear(g, x, weight(g, "router", 2, (int64_t[]){EXPERTS, E}), LS_NO_TENSOR),
                    values = ls_linear(g, x, weight(g, "values", 2, (int64_t[]){EXPERTS, E}), LS_NO_TENSOR),
                    parts = ls_softmax(g, ls_topk(g, logits, K, &ids)),
                    product = ls_mul(g, parts, ls_take_along(g, values, ids));
    return ls_linear(g, product, weight(g, "chosen", 2, (int64_t[]){E, K}), LS_NO_TENSOR);
}

/* Contractions with a parameter that shares a dimension (no product of matrices), and of two tensors of a token. */
static ls_tensor contracted(ls_graph *g, ls_tensor x) {
    const ls_tensor heads = ls_split_last(g, x, 3, 4),
                    y = ls_einsum(g, "bsha,hac->bshc", heads, weight(g, "per_head", 3, (int64_t[]){3, 4, 5})),
                    scores = ls_softmax(g, ls_einsum(g, "bshc,bsgc->bshg", y, y)),
                    mixed = ls_einsum(g, "bshg,bsga->bsha", scores, heads);
    return ls_merge_last(g, mixed);
}

/* Sums, means and maxima over features, and their way back. */
static ls_tensor reduced(ls_graph *g, ls_tensor x) {
    const ls_tensor heads = ls_split_last(g, x, 3, 4), max = ls_reduce_max(g, heads, 1U << 3, true, true),
                    mean = ls_reduce_mean(g, heads, 1U << 2, true), sum = ls_reduce_sum(g, heads, 3U << 2, false),
                    apart = ls_mul(g, ls_broadcast(g, ls_cast(g, max, g->dtype), 1U << 3, heads),
                                   ls_broadcast(g, ls_cast(g, mean, g->dtype), 1U << 2, heads)),
                    all = ls_broadcast(g, ls_cast(g, sum, g->dtype), 3U << 2, heads);
    return ls_merge_last(g, ls_add(g, apart, all));
}

/* A number for each head, of which the gradient is a sum over tokens and elements. */
static ls_tensor by_heads(ls_graph *g, ls_tensor x) {
    const ls_tensor in[] = {ls_split_last(g, x, 3, 4), weight(g, "head_gain", 2, (int64_t[]){3, 1})};
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 1, 0, 0}};
    return ls_merge_last(g, ls_map(g, in, 2, &(ls_expression){.step = step, .n_steps = 1}));
}

/* Parts of the features in another order: permute, slice, concat. */
static ls_tensor arranged(ls_graph *g, ls_tensor x) {
    const ls_tensor turned = ls_permute_dims(g, ls_split_last(g, x, 3, 4), (int[]){0, 1, 3, 2}),
                    every_second = ls_slice(g, turned, 2, 1, 2, 2), first = ls_slice(g, turned, 2, 0, 2, 1);
    return ls_merge_last(g, ls_concat(g, 2, 2, (ls_tensor[]){every_second, first}));
}

static ls_tensor general_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S);
    ls_tensor x = ls_embedding(g, tokens, weight(g, "table", 2, (int64_t[]){V, E}));
    ls_tensor (*const parts[])(ls_graph *, ls_tensor) = {chosen, contracted, reduced, by_heads, arranged};
    static const char *const gains[] = {"gain.0", "gain.1", "gain.2", "gain.3", "gain.4"};
    static const char *const biases[] = {"bias.0", "bias.1", "bias.2", "bias.3", "bias.4"};
    for (size_t i = 0; i < LS_COUNT(parts); i++) x = ls_add(g, x, mapped(g, parts[i](g, x), gains[i], biases[i], E));
    const ls_mask causal = ls_mask_causal();
    const ls_tensor heads = ls_split_last(g, x, 4, 3);
    x = ls_add(g, x, ls_merge_last(g, ls_attention(g, heads, heads, heads, &causal, 0.5)));
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, weight(g, "head", 2, (int64_t[]){V, E})),
                                      ls_input_like(g, "labels", tokens)));
}

/* --- ops along the sequence --------------------------------------------------------------------------------------- */

enum { HEADS = 4, WIDTH = 3 };

static ls_tensor rows(ls_graph *g, ls_tensor x, const char *name, int64_t n) {
    return ls_linear(g, x, weight(g, name, 2, (int64_t[]){n, E}), LS_NO_TENSOR);
}

/* G[1,S,n], between 0 and `factor`. */
static ls_tensor gates(ls_graph *g, ls_tensor x, const char *name, int64_t n, double factor) {
    const ls_tensor raw = rows(g, x, name, n);
    const ls_map_step step[] = {
        {LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, factor}, {LS_MAP_MUL, 1, 2, 0, 0}};
    return ls_map(g, &raw, 1, &(ls_expression){.step = step, .n_steps = 3, .wide = 1, .n_results = 1});
}

/* As files have it, [channels,1,width]: the taps are its elements in other places, joined with a bias if one is named.
 */
static ls_tensor convolved(ls_graph *g, ls_tensor x, const char *name, const char *bias, ls_tensor reach) {
    const ls_tensor file = ls_reshape(g, weight(g, name, 3, (int64_t[]){E, 1, WIDTH}), 2, (int64_t[]){E, WIDTH});
    ls_conv_form within = {.reach = reach, .last_first = true, .silu = true};
    if (bias != NULL) within.bias = weight(g, bias, 1, (int64_t[]){E});
    return ls_conv_within(g, x, ls_permute_dims(g, file, (int[]){1, 0}), &within);
}

/*
 * Heads of keys are shared by two of values, which are of another size and the gate of a norm: behind it with a weight
 * for each head, or in front of it with one for all.
 */
static ls_tensor with_state(ls_graph *g, ls_tensor x, const char *const names[4], const ls_linear_state *rule,
                            int64_t keys) {
    const ls_tensor q = ls_softcap(g, rows(g, x, names[0], keys * D), 1),
                    k = ls_softcap(g, rows(g, x, names[1], keys * D), 0.4);
    const ls_tensor v = ls_split_last(g, rows(g, x, names[2], HEADS * 5), HEADS, 5);
    const ls_tensor o = ls_linear_recurrence(g, ls_split_last(g, q, keys, D), ls_split_last(g, k, keys, D), v, rule);
    const ls_tensor norm =
                        ls_parameter_named(g, rule->delta ? 2 : 1, rule->delta ? (int64_t[]){HEADS, 5} : (int64_t[]){5},
                                           "%s.norm", names[3]),
                    normed = ls_gated_norm(g, o, norm, v, 1e-3, !rule->delta);
    return ls_linear(g, ls_merge_last(g, normed), weight(g, names[3], 2, (int64_t[]){E, HEADS * 5}), LS_NO_TENSOR);
}

static ls_tensor loss_behind(ls_graph *g, ls_tensor x, ls_tensor tokens) {
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, weight(g, "head", 2, (int64_t[]){V, E})),
                                      ls_input_like(g, "labels", tokens)));
}

/* Packed documents: a convolution and a gated delta rule, then attention, then decays of elements. */
static ls_tensor hybrid_loss(ls_graph *g) {
    static const char *const delta[] = {"delta.q", "delta.k", "delta.v", "delta.o"}, *const add[] = {"add.q", "add.k",
                                                                                                     "add.v", "add.o"};
    const ls_mask causal = ls_mask_causal();
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S), places = ls_input_like(g, "places", tokens),
                    reach = ls_conv_reach(g, places, WIDTH);
    ls_tensor x = ls_embedding(g, tokens, weight(g, "table", 2, (int64_t[]){V, E}));
    ls_tensor y = convolved(g, x, "taps", NULL, reach);
    const ls_linear_state gated = {.decay = gates(g, y, "decay", HEADS, -0.4),
                                   .beta = gates(g, y, "beta", HEADS, 1),
                                   .places = places,
                                   .delta = true};
    x = ls_add(g, x, with_state(g, y, delta, &gated, 2));
    const ls_tensor heads = ls_split_last(g, x, 4, 3);
    x = ls_add(g, x, ls_merge_last(g, ls_attention(g, heads, heads, heads, &causal, 0.5)));
    y = convolved(g, x, "taps.1", "bias.1", reach);
    const ls_linear_state elements = {.decay = ls_split_last(g, gates(g, y, "decay.1", HEADS * D, -0.4), HEADS, D),
                                      .beta = gates(g, y, "beta.1", HEADS, 1),
                                      .places = places,
                                      .delta = true};
    return loss_behind(g, ls_add(g, x, with_state(g, y, add, &elements, 4)), tokens);
}

/* A recurrence of numbers, a state that values are added to, and one that every token reads the end of. */
static ls_tensor states_loss(ls_graph *g) {
    static const char *const masked[] = {"masked.q", "masked.k", "masked.v", "masked.o"}, *const all[] = {
                                                                                              "all.q", "all.k", "all.v",
                                                                                              "all.o"};
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S);
    ls_tensor x = ls_embedding(g, tokens, weight(g, "table", 2, (int64_t[]){V, E}));
    x = ls_add(g, x, ls_recurrence(g, ls_cast(g, gates(g, x, "gate", E, 0.9), g->dtype), x));
    const ls_linear_state mamba = {.decay = gates(g, x, "decay", HEADS, -0.4), .beta = gates(g, x, "beta", HEADS, 1)},
                          whole = {.unmasked = true};
    x = ls_add(g, x, with_state(g, x, masked, &mamba, 1));
    x = ls_add(g, x, ls_scale(g, with_state(g, x, all, &whole, 2), 0.1));
    /* The gradients of parts of a weight, one of them turned, are sums of the tokens' tiles, and no terms of the loss.
     */
    ls_tensor part[2];
    ls_split_along(g, weight(g, "turned", 2, (int64_t[]){2 * E, E}), 0, 2, (int64_t[]){E, E}, part);
    x = ls_add(g, x, ls_linear(g, x, ls_permute_dims(g, part[0], (int[]){1, 0}), LS_NO_TENSOR));
    x = ls_add(g, x, ls_linear(g, x, part[1], LS_NO_TENSOR));
    return loss_behind(g, x, tokens);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static const network networks[] = {
    {.name = "grouped", .loss = grouped_loss, .ids = V},
    {.name = "tied", .loss = tied_loss, .ids = V},
    {.name = "sinks", .loss = sink_loss, .ids = V},
    {.name = "full", .loss = full_loss, .ids = V, .transport = "chaos:5"},
    {.name = "general", .loss = general_loss, .ids = V},
    {.name = "hybrid", .loss = hybrid_loss, .ids = V},
    {.name = "states", .loss = states_loss, .ids = V},
};

static const struct {
    int ring, ulysses;
    const char *strategy;
} places[] = {{2, 1, "gather"},  {1, 2, "ulysses"}, {4, 1, "gather"},
              {1, 4, "ulysses"}, {2, 2, "gather"},  {8, 1, "gather"}};

static ls_target target_of(int ring, int ulysses, const char *strategy, int mode) {
    return (ls_target){.mesh = mesh_of(1, ring, ulysses),
                       .strategy = strategy,
                       .threads = 1,
                       .shard = &ls_shard_modes[mode],
                       .canonical = true};
}

static ls_target alone(void) { return target_of(1, 1, "local", LS_SHARD_GRADIENTS); }

static void must(ls_status status, const char *name, const ls_target *target) {
    char mesh[64];
    ls_mesh_print(&target->mesh, mesh, sizeof mesh);
    if (status.code != LS_OK) fail_msg("%s, %s, %s: %s", name, mesh, target->strategy, status.text);
}

/* How a result is computed: in f64 with updates, or the gradients of one sequence in another type. */
typedef struct way {
    ls_dtype dtype;
    int micro;
    ls_isa isa;
} way;

static ls_status solve(const network *n, ls_target target, const way *w, network_result *out) {
    target.isa = w->isa;
    if (w->dtype == LS_F64) return network_train(n, &target, w->micro, 2, out);
    return network_solve(n, &target, w->dtype, w->dtype, out);
}

/* On every other place, all of them in two turns. An error of zero is that of equal numbers. */
static void compare_places(const network *n, const way *w, int turn) {
    network_result one;
    const ls_target first = alone();
    must(solve(n, first, w, &one), n->name, &first);
    for (size_t p = (size_t)turn % 2; p < LS_COUNT(places); p += 2) {
        const ls_target target = target_of(places[p].ring, places[p].ulysses, places[p].strategy,
                                           (turn + (int)p / 2) % 2 == 0 ? LS_SHARD_GRADIENTS : LS_SHARD_PARAMETERS);
        network_result many;
        const char *what = "";
        must(solve(n, target, w, &many), n->name, &target);
        const double error = network_difference(&many, &one, &what);
        if (error != 0)
            must(ls_error(LS_DIVERGED, "%s differs by %g in %s, isa %s", what, error, ls_dtype_name(w->dtype),
                          ls_isa_name(w->isa)),
                 n->name, &target);
        network_free(&many);
    }
    network_free(&one);
}

static void test_same_bits(void **state) {
    (void)state;
    int turn = 0;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        for (int micro = 1; micro <= 3; micro += 2)
            compare_places(&networks[n], &(way){LS_F64, micro, LS_ISA_REF}, turn++);
        for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++, turn++) { /* a type's places change with the set */
            if (ls_isa_check(isa).code != LS_OK) continue;
            compare_places(&networks[n], &(way){LS_F32, 1, isa}, turn++);
            compare_places(&networks[n], &(way){LS_BF16, 1, isa}, turn++);
        }
    }
}

static void test_fast_sums_but_for_rounding(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        network_result fast, canonical;
        ls_target target = alone();
        const char *what = "";
        must(network_train(&networks[n], &target, 2, 2, &canonical), networks[n].name, &target);
        target.canonical = false;
        must(network_train(&networks[n], &target, 2, 2, &fast), networks[n].name, &target);
        const double error = network_difference(&canonical, &fast, &what);
        if (!(error < 1e-12)) fail_msg("%s: %s off by %g", networks[n].name, what, error);
        network_free(&fast);
        network_free(&canonical);
    }
}

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        const ls_target first = alone();
        must(network_verify(&networks[n], &first, 1), networks[n].name, &first);
        for (size_t p = 0; p < LS_COUNT(places); p++) {
            const ls_target target = target_of(places[p].ring, places[p].ulysses, places[p].strategy,
                                               (n + p) % 2 == 0 ? LS_SHARD_PARAMETERS : LS_SHARD_GRADIENTS);
            if (ls_mesh_ranks(&target.mesh) > 4) continue; /* the same programs, more of them */
            must(network_verify(&networks[n], &target, 1 + (int)p % 2), networks[n].name, &target);
        }
    }
}

/* Two sums of the taps' gradient are added up before the parameter's, on each rank those of its tokens. */
static ls_tensor conv_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
    const ls_tensor taps = ls_permute_dims(g, ls_parameter(g, "taps", 2, (int64_t[]){E, 3}), (int[]){1, 0});
    return loss_behind(g, ls_conv(g, ls_conv(g, x, taps), taps), tokens);
}

static ls_tensor embedded(ls_graph *g, ls_tensor tokens) {
    return ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E}));
}

/* The gradient of a scaled weight is scaled: of the taps by a node of its own, of the matrix by one behind tiles. */
static ls_tensor scaled_taps_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S),
                    taps = ls_scale(g, ls_parameter(g, "taps", 2, (int64_t[]){3, E}), 0.3);
    return loss_behind(g, ls_conv(g, embedded(g, tokens), taps), tokens);
}
static ls_tensor scaled_matrix_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S),
                    matrix = ls_scale(g, ls_parameter(g, "matrix", 2, (int64_t[]){E, E}), 0.3);
    return loss_behind(g, ls_linear(g, embedded(g, tokens), matrix, LS_NO_TENSOR), tokens);
}

/* The gradient of a tap for all channels is a sum over the channels. */
static ls_tensor common_taps_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S), x = embedded(g, tokens),
                    like = ls_parameter(g, "like", 2, (int64_t[]){3, E}),
                    taps = ls_broadcast(g, ls_parameter(g, "taps", 1, (int64_t[]){3}), 1U << 1, like);
    return loss_behind(g, ls_conv(g, x, taps), tokens);
}

static void refused(const network *n, const ls_target *target, const char *text) {
    network_result out;
    const ls_status status = network_train(n, target, 1, 1, &out);
    if (status.code == LS_OK) fail_msg("%s is not refused, expected: %s", n->name, text);
    if (strstr(status.text, text) == NULL) fail_msg("refused with \"%s\", expected: %s", status.text, text);
}

/* [1,S]: a number for each token. */
static ls_tensor numbers(ls_graph *g, ls_tensor tokens) {
    const ls_tensor logits = ls_embedding(g, tokens, ls_parameter(g, "logits", 2, (int64_t[]){V, V}));
    return ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens));
}

/* The numbers of all tokens are weights. */
static ls_tensor gathered_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, S}));
    return ls_sum(g, ls_linear(g, x, numbers(g, tokens), LS_NO_TENSOR));
}

/* A sum over the ranks is needed whole. */
static ls_tensor squared_loss(ls_graph *g) {
    const ls_tensor sum = ls_sum(g, numbers(g, ls_tokens(g, "tokens", 1, S)));
    return ls_mul(g, sum, sum);
}

static void test_refused(void **state) {
    (void)state;
    const network conv = {.name = "conv", .loss = conv_loss, .ids = V},
                  scaled_taps = {.name = "scaled taps", .loss = scaled_taps_loss, .ids = V},
                  scaled_matrix = {.name = "scaled matrix", .loss = scaled_matrix_loss, .ids = V},
                  common_taps = {.name = "common taps", .loss = common_taps_loss, .ids = V},
                  gathered = {.name = "gathered", .loss = gathered_loss, .ids = V},
                  squared = {.name = "squared", .loss = squared_loss, .ids = V};
    ls_target target = target_of(2, 1, "gather", LS_SHARD_GRADIENTS);
    refused(&conv, &target, "--sums canonical: op add (\"");
    refused(&scaled_taps, &target, "--sums canonical: op scale (\"");
    refused(&scaled_matrix, &target, "--sums canonical: op scale (\"");
    refused(&common_taps, &target, "--sums canonical: op reduce (\"");
    target.recurrence_way = "heads";
    refused(&networks[LS_COUNT(networks) - 2], &target, "way heads: sums are canonical");
    target.recurrence_way = NULL;
    refused(&gathered, &target, "--sums canonical: op redistribute (\"cross_entropy");
    refused(&squared, &target, "--sums canonical: op redistribute (\"sum");
    target = target_of(2, 1, "ring", LS_SHARD_GRADIENTS);
    refused(&networks[0], &target, "--sums canonical: strategy ring adds up in an order that depends on");
    target = target_of(3, 1, "gather", LS_SHARD_GRADIENTS);
    refused(&networks[0], &target, "cuts 131 tokens into 8 chunks, which 3 ranks cannot share");
    target = target_of(2, 1, "gather", LS_SHARD_OPTIMIZER);
    refused(&networks[0], &target, "--shard optimizer, expected gradients or parameters");
    target = target_of(2, 1, "gather", LS_SHARD_GRADIENTS);
    target.layout = LS_LAYOUT_ZIGZAG;
    refused(&networks[0], &target, "layout zigzag, expected contiguous");
}

/* Chunks are a matter of the length alone, and none is shorter than the least useful call. */
static void test_chunks(void **state) {
    (void)state;
    const struct {
        int64_t S;
        int chunks;
    } known[] = {{1, 1}, {31, 1}, {32, 2}, {131, 8}, {512, 32}, {65536, 32}, {131072, 64}, {1 << 20, 512}};
    for (size_t i = 0; i < LS_COUNT(known); i++) assert_int_equal(ls_chunk_count(known[i].S), known[i].chunks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_fast_sums_but_for_rounding),
        cmocka_unit_test(test_programs_verify), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
