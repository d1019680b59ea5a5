/*
 * A network of pLSTM layers in one dimension (Pöppel et al., arXiv 2506.11997). A state C [DK,DV] with J numbers in
 * each place goes from token to token. Each token changes it by a transition T [J,J], writes to it through a source
 * S [J], and reads the state before it, C', through a mark M [J]:
 *
 *     y = (Q M C' + Q D K V) / sqrt(DK),  C = T C' + S K V,  T = O tanh(5 l) I
 *
 * O and I are rotations, so T lengthens no state. The network needs no special op: a recurrence with a matrix for each
 * element carries the state, and the state that a token reads before it writes is the one that the token before it has
 * written. Documents are packed: T and M of the first token of each document are 0, so that each document is computed
 * as if it were alone.
 */
#include "graphs.h"

#include <math.h>
#include <stddef.h>

enum { S = 23, E = 12, H = 2, DK = 3, DV = 4, J = 2, V = 17, L = 2 };

/* x times a parameter, as heads of n elements: [B,S,H,n]. */
static ls_tensor heads(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t n) {
    const ls_tensor weight = ls_parameter_named(g, 2, (int64_t[]){H * n, E}, "layer.%d.%s", layer, name);
    return ls_split_last(g, ls_linear(g, x, weight, LS_NO_TENSOR), H, n);
}

/* One result of an expression. */
#define MAP(g, in, ...)                                                 \
    ls_map(g, in, (int)(sizeof(in) / sizeof(in)[0]),                    \
           &(ls_expression){.step = (const ls_map_step[]){__VA_ARGS__}, \
                            .n_steps = (int)(sizeof((ls_map_step[]){__VA_ARGS__}) / sizeof(ls_map_step))})

/* Rotations [B,S,H,2,2] by angles [B,S,H,1]: the exponentials of skew matrices of two dimensions. */
static ls_tensor rotation(ls_graph *g, ls_tensor angle, int64_t B) {
    const ls_tensor in[] = {angle}, c = MAP(g, in, {LS_MAP_COS, 0, 0, 0, 0}), s = MAP(g, in, {LS_MAP_SIN, 0, 0, 0, 0}),
                    part[] = {c, ls_scale(g, s, -1), s, c};
    return ls_reshape(g, ls_concat(g, 3, 4, part), 5, (int64_t[]){B, S, H, J, J});
}

/* x with 0 at the first token of each document; x has ndim dimensions, of which those of tokens come first. */
static ls_tensor within_documents(ls_graph *g, ls_tensor x, ls_tensor places, int ndim, int64_t B) {
    const int64_t size[] = {B, S, 1, 1, 1};
    const ls_tensor in[] = {x, ls_reshape(g, places, ndim, size)};
    return MAP(g, in, {LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 2, 1, 0, 0}, {LS_MAP_MUL, 0, 3, 0, 0});
}

/* [B,S,H,J,J] */
static ls_tensor transition(ls_graph *g, ls_tensor x, ls_tensor places, int layer, int64_t B) {
    const ls_tensor out = rotation(g, heads(g, x, "angle.out", layer, 1), B),
                    in = rotation(g, heads(g, x, "angle.in", layer, 1), B),
                    of_eigen[] = {heads(g, x, "eigen", layer, J)},
                    eigen = MAP(g, of_eigen, {LS_MAP_NUMBER, 0, 0, 0, 5}, {LS_MAP_MUL, 0, 1, 0, 0},
                                {LS_MAP_TANH, 2, 0, 0, 0}),
                    scaled[] = {in, ls_reshape(g, eigen, 5, (int64_t[]){B, S, H, J, 1})};
    const ls_tensor t = ls_einsum(g, "bshjm,bshmi->bshji", out, MAP(g, scaled, {LS_MAP_MUL, 0, 1, 0, 0}));
    return within_documents(g, t, places, 5, B);
}

/* The numbers of T, each repeated for all places [DK,DV] of its head: [B,S,J,J,H DK DV]. */
static ls_tensor gates(ls_graph *g, ls_tensor t, ls_tensor places, int64_t B) {
    static const int64_t size[J * J] = {1, 1, 1, 1};
    ls_tensor number[J * J];
    ls_split(g, ls_merge_last(g, t), J * J, size, number);
    for (int i = 0; i < J * J; i++) {
        const ls_tensor one = ls_reshape(g, number[i], 5, (int64_t[]){B, S, H, 1, 1}),
                        all = ls_broadcast(g, one, 1U << 3 | 1U << 4, places);
        number[i] = ls_reshape(g, all, 4, (int64_t[]){B, S, 1, H * DK * DV});
    }
    return ls_reshape(g, ls_concat(g, 2, J * J, number), 5, (int64_t[]){B, S, J, J, H * DK * DV});
}

/* The states before all tokens, [B,S,J,H,DK,DV]. */
static ls_tensor states(ls_graph *g, ls_tensor t, ls_tensor source, ls_tensor kv, int64_t B) {
    const ls_tensor written = ls_einsum(g, "bshj,bshkv->bsjhkv", source, kv),
                    given = ls_reshape(g, written, 4, (int64_t[]){B, S, J, H * DK * DV}),
                    behind = ls_recurrence(g, gates(g, t, kv, B), given);
    return ls_reshape(g, ls_shift(g, behind, 1), 6, (int64_t[]){B, S, J, H, DK, DV});
}

static ls_tensor layer(ls_graph *g, ls_tensor x, ls_tensor places, int layer, int64_t B) {
    const ls_tensor q = ls_scale(g, heads(g, x, "query", layer, DK), 1 / sqrt(DK)), k = heads(g, x, "key", layer, DK),
                    v = heads(g, x, "value", layer, DV), source = heads(g, x, "source", layer, J),
                    mark = within_documents(g, heads(g, x, "mark", layer, J), places, 4, B),
                    direct = heads(g, x, "direct", layer, 1), t = transition(g, x, places, layer, B),
                    before = states(g, t, source, ls_einsum(g, "bshk,bshv->bshkv", k, v), B),
                    read = ls_einsum(g, "bshkj,bsjhkv->bshv", ls_einsum(g, "bshk,bshj->bshkj", q, mark), before),
                    fits = ls_reshape(g, ls_einsum(g, "bshk,bshk->bsh", q, k), 4, (int64_t[]){B, S, H, 1}),
                    all[] = {fits, direct, v, read};
    const ls_tensor y = MAP(g, all, {LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_MUL, 4, 2, 0, 0}, {LS_MAP_ADD, 5, 3, 0, 0});
    const struct {
        const char *name;
        ls_tensor t;
    } parts[] = {{"q", q}, {"k", k}, {"v", v}, {"s", source}, {"m", mark}, {"d", direct}, {"t", t}, {"y", y}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)ls_named(g, parts[i].t, "layer.%d.%s", layer, parts[i].name);
    const ls_tensor out = ls_parameter_named(g, 2, (int64_t[]){E, H * DV}, "layer.%d.out", layer);
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, y), out, LS_NO_TENSOR));
}

ls_tensor plstm_logits(ls_graph *g, int64_t B, ls_tensor *tokens) {
    *tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor places = ls_input_like(g, "places", *tokens), /* of tokens in their documents */
        table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, *tokens, table);
    for (int i = 0; i < L; i++) x = layer(g, x, places, i, B);
    return ls_linear_wide(g, x, table);
}

ls_tensor plstm_loss(ls_graph *g) {
    ls_tensor tokens;
    const ls_tensor logits = plstm_logits(g, 2, &tokens);
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}
