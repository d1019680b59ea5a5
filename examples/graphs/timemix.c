/*
 * A network of general ops: each layer mixes tokens as RWKV does (Peng et al., arXiv 2305.13048), with a token shift, a
 * decay of each channel and a gate, written as expressions of single elements (ls_map), sums over a dimension and a
 * recurrence. It needs no special op, and it runs on several ranks like any other network.
 */
#include "graphs.h"

enum { B = 2, S = 23, E = 24, F = 40, V = 17, L = 2 };

static ls_tensor matrix(ls_graph *g, const char *name, int layer, int64_t rows, int64_t columns) {
    return ls_parameter_named(g, 2, (int64_t[]){rows, columns}, "layer.%d.%s", layer, name);
}
static ls_tensor vector(ls_graph *g, const char *name, int layer) {
    return ls_parameter_named(g, 1, (int64_t[]){E}, "layer.%d.%s", layer, name);
}

/* One result of an expression. */
#define MAP(g, in, ...)                                                 \
    ls_map(g, in, (int)(sizeof(in) / sizeof(in)[0]),                    \
           &(ls_expression){.step = (const ls_map_step[]){__VA_ARGS__}, \
                            .n_steps = (int)(sizeof((ls_map_step[]){__VA_ARGS__}) / sizeof(ls_map_step))})

/* x / sqrt(mean of x squared + epsilon) * weight */
static ls_tensor norm(ls_graph *g, ls_tensor x, ls_tensor weight) {
    const ls_tensor one[] = {x};
    const ls_tensor squares = ls_reduce_sum(g, MAP(g, one, {LS_MAP_MUL, 0, 0, 0, 0}), 1U << 2, true);
    const ls_tensor in[] = {x, squares, weight};
    return MAP(g, in, {LS_MAP_NUMBER, 0, 0, 0, 1.0 / E}, {LS_MAP_MUL, 1, 3, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 1e-5},
               {LS_MAP_ADD, 4, 5, 0, 0}, {LS_MAP_RSQRT, 6, 0, 0, 0}, {LS_MAP_MUL, 0, 7, 0, 0},
               {LS_MAP_MUL, 8, 2, 0, 0});
}

/* share x + (1 - share) before, of each channel */
static ls_tensor blend(ls_graph *g, ls_tensor x, ls_tensor before, ls_tensor share) {
    const ls_tensor in[] = {x, before, share};
    return MAP(g, in, {LS_MAP_SUB, 0, 1, 0, 0}, {LS_MAP_MUL, 3, 2, 0, 0}, {LS_MAP_ADD, 4, 1, 0, 0});
}

static ls_tensor mix_time(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor before = ls_shift(g, x, 1);
    const ls_tensor k =
        ls_linear(g, blend(g, x, before, vector(g, "share k", layer)), matrix(g, "key", layer, E, E), LS_NO_TENSOR);
    const ls_tensor v =
        ls_linear(g, blend(g, x, before, vector(g, "share v", layer)), matrix(g, "value", layer, E, E), LS_NO_TENSOR);
    const ls_tensor r =
        ls_linear(g, blend(g, x, before, vector(g, "share r", layer)), matrix(g, "gate", layer, E, E), LS_NO_TENSOR);
    const ls_tensor decay[] = {vector(g, "decay", layer)}, weighted[] = {k, v};
    const ls_tensor kept = MAP(g, decay, {LS_MAP_EXP, 0, 0, 0, 0}, {LS_MAP_NEG, 1, 0, 0, 0}, {LS_MAP_EXP, 2, 0, 0, 0});
    const ls_tensor given = MAP(g, weighted, {LS_MAP_TANH, 0, 0, 0, 0}, {LS_MAP_MUL, 2, 1, 0, 0});
    const ls_tensor h = ls_recurrence(g, ls_broadcast(g, kept, 1U << 0 | 1U << 1, given), given);
    const ls_tensor gated[] = {r, h};
    return ls_linear(g, MAP(g, gated, {LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_MUL, 2, 1, 0, 0}),
                     matrix(g, "output", layer, E, E), LS_NO_TENSOR);
}

/* the squared relu of the published network */
static ls_tensor mix_channels(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor in[] = {ls_linear(g, x, matrix(g, "up", layer, F, E), LS_NO_TENSOR)};
    const ls_tensor h = MAP(g, in, {LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 1, 0, 0, 0}, {LS_MAP_MUL, 0, 0, 0, 0},
                            {LS_MAP_WHERE, 2, 3, 1, 0});
    return ls_linear(g, h, matrix(g, "down", layer, E, F), LS_NO_TENSOR);
}

ls_tensor timemix_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, tokens, table);
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, mix_time(g, norm(g, x, vector(g, "norm 1", layer)), layer));
        x = ls_add(g, x, mix_channels(g, norm(g, x, vector(g, "norm 2", layer)), layer));
    }
    const ls_tensor logits = ls_linear_wide(g, norm(g, x, vector(g, "norm", L)), table);
    return ls_sum(g, ls_cross_entropy(g, logits, labels));
}
