/*
 * GPT-2 (Radford et al. 2019): learned positions, layernorm before each block, biases everywhere, gelu in its form with
 * tanh, and a head that is tied to the token table. The smallest published model has E 768, H 12, V 50257, L 12 and S
 * 1024.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 23, E = 32, H = 8, D = E / H, F = 4 * E, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    const int64_t size[] = {E};
    return ls_layernorm(g, x, ls_parameter_named(g, 1, size, "h.%d.%s.weight", layer, name),
                        ls_parameter_named(g, 1, size, "h.%d.%s.bias", layer, name), 1e-5);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    const ls_tensor weight = ls_parameter_named(g, 2, (int64_t[]){to, from}, "h.%d.%s.weight", layer, name);
    return ls_linear(g, x, weight, ls_parameter_named(g, 1, &to, "h.%d.%s.bias", layer, name));
}

static ls_tensor attend(ls_graph *g, ls_tensor x, int layer) {
    const ls_mask mask = ls_mask_causal();
    const ls_tensor q = ls_split_last(g, project(g, x, "attn.q", layer, E, E), H, D);
    const ls_tensor k = ls_split_last(g, project(g, x, "attn.k", layer, E, E), H, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "attn.v", layer, E, E), H, D);
    const ls_tensor o = ls_attention(g, q, k, v, &mask, 1 / sqrt(D));
    return project(g, ls_merge_last(g, o), "attn.proj", layer, E, E);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor h = ls_gelu_tanh(g, project(g, x, "mlp.fc", layer, F, E));
    return project(g, h, "mlp.proj", layer, E, F);
}

ls_tensor gpt2_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor positions = ls_input_like(g, "positions", tokens); /* 0 .. S-1 in every row */
    const ls_tensor labels = ls_input_like(g, "labels", tokens);       /* the next token; -100: none */
    const ls_tensor table = ls_parameter(g, "wte", 2, (int64_t[]){V, E});
    ls_tensor x = ls_add(g, ls_embedding(g, tokens, table),
                         ls_embedding(g, positions, ls_parameter(g, "wpe", 2, (int64_t[]){S, E})));
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "ln_1", layer), layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "ln_2", layer), layer));
    }
    x = norm(g, x, "ln_f", L);
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), labels));
}
