/*
 * A network of general ops that move, multiply and choose: rotations of neighbouring elements of a head (slices with a
 * step, as in Cohere's models), and feed-forward blocks of several experts. Every token uses all experts of one block,
 * weighted, and some experts by their scores (softmax, topk, products with a letter in all three tensors). Which two
 * experts a token prefers depends on its position, so that the choice is the same in every type.
 */
#include "graphs.h"

enum { B = 2, S = 23, H = 8, D = 4, E = H * D, X = 4, F = 6, V = 17, L = 2, CHOSEN = 2 };

#define LINEAR(g, x, name, layer, rows, columns) \
    ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){rows, columns}, "layer.%d." name, layer), LS_NO_TENSOR)

/* One result of an expression. */
#define MAP(g, in, ...)                                                 \
    ls_map(g, in, (int)(sizeof(in) / sizeof(in)[0]),                    \
           &(ls_expression){.step = (const ls_map_step[]){__VA_ARGS__}, \
                            .n_steps = (int)(sizeof((ls_map_step[]){__VA_ARGS__}) / sizeof(ls_map_step))})

/* x[B,S,H,D] with pairs (2i, 2i + 1) rotated by an angle that grows with the position. */
static ls_tensor rotate_pairs(ls_graph *g, ls_tensor x, ls_tensor positions) {
    const int64_t apart[] = {B, S, H, D / 2, 1}, whole[] = {B, S, H, D};
    const ls_tensor odd[] = {ls_slice(g, x, 3, 1, D / 2, 2)};
    const ls_tensor pair[] = {ls_reshape(g, MAP(g, odd, {LS_MAP_NEG, 0, 0, 0, 0}), 5, apart),
                              ls_reshape(g, ls_slice(g, x, 3, 0, D / 2, 2), 5, apart)};
    const ls_tensor turned = ls_reshape(g, ls_concat(g, 4, 2, pair), 4, whole);
    const ls_tensor in[] = {x, turned, ls_reshape(g, positions, 4, (int64_t[]){B, S, 1, 1})};
    return MAP(g, in, {LS_MAP_NUMBER, 0, 0, 0, 0.1}, {LS_MAP_MUL, 2, 3, 0, 0}, {LS_MAP_COS, 4, 0, 0, 0},
               {LS_MAP_SIN, 4, 0, 0, 0}, {LS_MAP_MUL, 0, 5, 0, 0}, {LS_MAP_MUL, 1, 6, 0, 0}, {LS_MAP_ADD, 7, 8, 0, 0});
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor positions, int layer) {
    const ls_mask mask = ls_mask_causal();
    const int64_t parts[] = {H, H, H};
    ls_tensor heads[3];
    ls_split_along(g, ls_split_last(g, LINEAR(g, x, "qkv", layer, 3 * E, E), 3 * H, D), 2, 3, parts, heads);
    const ls_tensor o = ls_attention(g, rotate_pairs(g, heads[0], positions), rotate_pairs(g, heads[1], positions),
                                     heads[2], &mask, 0.5);
    return LINEAR(g, ls_merge_last(g, o), "out", layer, E, E);
}

/* How much each expert is preferred at a position: 3 ((position + expert) modulo experts). */
static ls_tensor ranks(ls_graph *g, ls_tensor positions) {
    const ls_tensor in[] = {ls_reshape(g, positions, 3, (int64_t[]){B, S, 1})};
    ls_tensor of[X];
    for (int e = 0; e < X; e++)
        of[e] = MAP(g, in, {LS_MAP_NUMBER, 0, 0, 0, (double)e}, {LS_MAP_ADD, 0, 1, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, X},
                    {LS_MAP_MOD, 2, 3, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 3}, {LS_MAP_MUL, 4, 5, 0, 0});
    return ls_concat(g, 2, X, of);
}

/* The factor of a token, from the experts that it has chosen and from the best one. */
static ls_tensor preference(ls_graph *g, ls_tensor logits, ls_tensor positions) {
    const ls_tensor in[] = {logits, ranks(g, positions)};
    const ls_tensor scores = MAP(g, in, {LS_MAP_TANH, 0, 0, 0, 0}, {LS_MAP_ADD, 2, 1, 0, 0});
    ls_tensor ids;
    const ls_tensor values = ls_topk(g, scores, CHOSEN, &ids), chosen = ls_take_along(g, logits, ids);
    const ls_tensor weighted = ls_mul(g, ls_mul(g, ls_softmax(g, chosen), chosen), values);
    const ls_tensor both[] = {ls_reduce_mean(g, weighted, 1U << 2, true),
                              ls_reduce_max(g, scores, 1U << 2, true, false)};
    return MAP(g, both, {LS_MAP_TANH, 0, 0, 0, 0}, {LS_MAP_MUL, 2, 1, 0, 0});
}

static ls_tensor experts(ls_graph *g, ls_tensor x, ls_tensor positions, int layer) {
    const ls_tensor up = ls_parameter_named(g, 3, (int64_t[]){X, E, F}, "layer.%d.up", layer);
    const ls_tensor down = ls_parameter_named(g, 3, (int64_t[]){X, F, E}, "layer.%d.down", layer);
    const ls_tensor logits = LINEAR(g, x, "router", layer, X, E);
    const ls_tensor hidden = ls_gelu_tanh(g, ls_einsum(g, "bse,xef->bsxf", x, up));
    const ls_tensor mixed =
        ls_einsum(g, "bsxe,bsx->bse", ls_einsum(g, "bsxf,xfe->bsxe", hidden, down), ls_softmax(g, logits));
    const ls_tensor in[] = {mixed, preference(g, logits, positions)};
    return MAP(g, in, {LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_ADD, 0, 2, 0, 0});
}

/* Mixes the heads of each token: a softmax of the products of all pairs of heads, and a product with it. */
static ls_tensor between_heads(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor heads = ls_split_last(g, x, H, D);
    const ls_tensor weights = ls_softmax(g, ls_einsum(g, "bshd,bsgd->bshg", heads, heads));
    const ls_tensor y = ls_einsum(g, "bshg,bsgd->bsdh", weights, heads);
    return LINEAR(g, ls_merge_last(g, ls_permute_dims(g, y, (int[]){0, 1, 3, 2})), "between", layer, E, E);
}

ls_tensor experts_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), labels = ls_input_like(g, "labels", tokens);
    const ls_tensor positions = ls_input_like(g, "positions", tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, tokens, table);
#define NORM(x, name, layer) ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layer.%d." name, layer), 1e-5)
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, NORM(x, "norm 1", layer), positions, layer));
        x = ls_add(g, x, between_heads(g, NORM(x, "norm 2", layer), layer));
        x = ls_add(g, x, experts(g, NORM(x, "norm 3", layer), positions, layer));
    }
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, NORM(x, "norm", L), table), labels));
}
