/*
 * Qwen3 (Yang et al., arXiv 2505.09388): like Llama, but queries and keys are normalised within each head before they
 * are rotated, and the heads together may be wider than the model. Qwen3-0.6B has E 1024, Hq 16, Hkv 8, D 128, F 3072,
 * V 151936, L 28.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 23, E = 20, Hq = 8, Hkv = 2, D = 4, F = 28, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t size) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, &size, "layers.%d.%s", layer, name), 1e-6);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name), LS_NO_TENSOR);
}

/* [..,H*D] -> [..,H,D], each head normalised and rotated. */
static ls_tensor heads(ls_graph *g, ls_tensor x, ls_tensor rope, const char *name, int layer, int64_t H) {
    return ls_rotate(g, norm(g, ls_split_last(g, x, H, D), name, layer, D), rope);
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask mask = ls_mask_causal();
    const ls_tensor q = heads(g, project(g, x, "q_proj", layer, Hq * D, E), rope, "q_norm", layer, Hq);
    const ls_tensor k = heads(g, project(g, x, "k_proj", layer, Hkv * D, E), rope, "k_norm", layer, Hkv);
    const ls_tensor v = ls_split_last(g, project(g, x, "v_proj", layer, Hkv * D, E), Hkv, D);
    const ls_tensor o = ls_attention(g, q, k, v, &mask, 1 / sqrt(D));
    return project(g, ls_merge_last(g, o), "o_proj", layer, E, Hq * D);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = project(g, x, "gate_proj", layer, F, E), up = project(g, x, "up_proj", layer, F, E);
    return project(g, ls_swiglu(g, gate, up), "down_proj", layer, E, F);
}

ls_tensor qwen3_loss(ls_graph *g) {
    const ls_rope rope = {.theta = 1000000};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &rope);
    const ls_tensor embedding = ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, tokens, embedding);
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "input_layernorm", layer, E), table, layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "post_attention_layernorm", layer, E), layer));
    }
    x = norm(g, x, "norm", L, E);
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, embedding), labels)); /* the head is tied */
}
