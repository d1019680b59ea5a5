/*
 * An encoder like BERT's (Devlin et al., arXiv 1810.04805): no causal mask, layernorm after each block, exact gelu,
 * learned positions. Only tokens that have a label have a loss (masked language modelling). BERT base: E 768, H 12, F
 * 3072, L 12.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 23, E = 32, H = 8, D = E / H, F = 4 * E, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    const int64_t size[] = {E};
    return ls_layernorm(g, x, ls_parameter_named(g, 1, size, "layer.%d.%s.weight", layer, name),
                        ls_parameter_named(g, 1, size, "layer.%d.%s.bias", layer, name), 1e-12);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    const ls_tensor weight = ls_parameter_named(g, 2, (int64_t[]){to, from}, "layer.%d.%s.weight", layer, name);
    return ls_linear(g, x, weight, ls_parameter_named(g, 1, &to, "layer.%d.%s.bias", layer, name));
}

static ls_tensor attend(ls_graph *g, ls_tensor x, int layer) {
    const ls_mask everything = {.n = 0};
    const ls_tensor q = ls_split_last(g, project(g, x, "query", layer, E, E), H, D);
    const ls_tensor k = ls_split_last(g, project(g, x, "key", layer, E, E), H, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "value", layer, E, E), H, D);
    const ls_tensor o = ls_attention(g, q, k, v, &everything, 1 / sqrt(D));
    return project(g, ls_merge_last(g, o), "output", layer, E, E);
}

ls_tensor encoder_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor positions = ls_input_like(g, "positions", tokens);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_parameter(g, "word_embeddings", 2, (int64_t[]){V, E});
    const ls_tensor places = ls_parameter(g, "position_embeddings", 2, (int64_t[]){S, E});
    ls_tensor x =
        norm(g, ls_add(g, ls_embedding(g, tokens, table), ls_embedding(g, positions, places)), "embeddings", 0);
    for (int layer = 0; layer < L; layer++) {
        x = norm(g, ls_add(g, x, attend(g, x, layer)), "attention", layer);
        const ls_tensor h = ls_gelu(g, project(g, x, "intermediate", layer, F, E));
        x = norm(g, ls_add(g, x, project(g, h, "down", layer, E, F)), "out", layer);
    }
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), labels));
}
