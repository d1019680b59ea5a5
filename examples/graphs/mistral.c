/*
 * Mistral 7B (Jiang et al., arXiv 2310.06825): as Llama, but a token sees only a window of the last tokens. Queries,
 * keys and values also get the biases of Qwen2 (arXiv 2407.10671) here. Mistral has E 4096, Hq 32, Hkv 8, F 14336, a
 * window of 4096.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 21, WINDOW = 8, E = 24, Hq = 4, Hkv = 1, D = 6, F = 40, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layers.%d.%s", layer, name), 1e-5);
}

static ls_tensor weight(ls_graph *g, const char *name, int layer, int64_t to, int64_t from) {
    return ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s.weight", layer, name);
}

/* x·Wᵀ + bias, as heads. */
static ls_tensor heads(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t H) {
    const ls_tensor bias = ls_parameter_named(g, 1, (int64_t[]){H * D}, "layers.%d.%s.bias", layer, name);
    return ls_split_last(g, ls_linear(g, x, weight(g, name, layer, H * D, E), bias), H, D);
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask mask = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = WINDOW}}};
    const ls_tensor q = ls_rotate(g, heads(g, x, "q_proj", layer, Hq), rope);
    const ls_tensor k = ls_rotate(g, heads(g, x, "k_proj", layer, Hkv), rope);
    const ls_tensor o = ls_attention(g, q, k, heads(g, x, "v_proj", layer, Hkv), &mask, 1 / sqrt(D));
    return ls_linear(g, ls_merge_last(g, o), weight(g, "o_proj", layer, E, Hq * D), LS_NO_TENSOR);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = ls_linear(g, x, weight(g, "gate_proj", layer, F, E), LS_NO_TENSOR);
    const ls_tensor up = ls_linear(g, x, weight(g, "up_proj", layer, F, E), LS_NO_TENSOR);
    return ls_linear(g, ls_swiglu(g, gate, up), weight(g, "down_proj", layer, E, F), LS_NO_TENSOR);
}

ls_tensor mistral_loss(ls_graph *g) {
    const ls_rope rope = {.theta = 10000};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &rope);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "input_layernorm", layer), table, layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "post_attention_layernorm", layer), layer));
    }
    x = norm(g, x, "norm", L);
    const ls_tensor head = ls_parameter(g, "lm_head", 2, (int64_t[]){V, E});
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, head), labels));
}
