/*
 * Llama (Touvron et al., arXiv 2302.13971 and 2307.09288): rmsnorm before each block, rotary positions, swiglu, no
 * biases. Llama 3 (arXiv 2407.21783) shares each key and value among several queries and scales the rotations; Qwen2
 * (arXiv 2407.10671) adds biases to queries, keys and values. Llama 3 8B has E 4096, Hq 32, Hkv 8, D 128, F 14336, V
 * 128256, L 32.
 */
#include "graphs.h"

#include <math.h>
#include <stdbool.h>

enum { B = 2, S = 23, E = 32, Hq = 8, D = 4, F = 40, V = 17, L = 2 };

/* What differs between the three families. */
typedef struct family {
    int64_t Hkv;
    bool biases; /* of queries, keys and values */
    ls_rope rope;
} family;

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layers.%d.%s", layer, name), 1e-5);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name), LS_NO_TENSOR);
}

/* Queries, keys or values: T[B,S,H,D]. */
static ls_tensor heads(ls_graph *g, ls_tensor x, const family *f, const char *name, int layer, int64_t H) {
    const ls_tensor weight = ls_parameter_named(g, 2, (int64_t[]){H * D, E}, "layers.%d.%s", layer, name);
    const ls_tensor bias =
        f->biases ? ls_parameter_named(g, 1, (int64_t[]){H * D}, "layers.%d.%s.bias", layer, name) : LS_NO_TENSOR;
    return ls_split_last(g, ls_linear(g, x, weight, bias), H, D);
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, const family *f, int layer) {
    const ls_mask mask = ls_mask_causal();
    const ls_tensor q = ls_rotate(g, heads(g, x, f, "q_proj", layer, Hq), rope);
    const ls_tensor k = ls_rotate(g, heads(g, x, f, "k_proj", layer, f->Hkv), rope);
    const ls_tensor o = ls_attention(g, q, k, heads(g, x, f, "v_proj", layer, f->Hkv), &mask, 1 / sqrt(D));
    return project(g, ls_merge_last(g, o), "o_proj", layer, E, Hq * D);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = project(g, x, "gate_proj", layer, F, E), up = project(g, x, "up_proj", layer, F, E);
    return project(g, ls_swiglu(g, gate, up), "down_proj", layer, E, F);
}

static ls_tensor loss(ls_graph *g, const family *f) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &f->rope);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "input_layernorm", layer), table, f, layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "post_attention_layernorm", layer), layer));
    }
    x = norm(g, x, "norm", L);
    const ls_tensor head = ls_parameter(g, "lm_head", 2, (int64_t[]){V, E});
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, head), labels));
}

ls_tensor llama2_loss(ls_graph *g) {
    const family llama2 = {.Hkv = Hq, .rope = {.theta = 10000}};
    return loss(g, &llama2);
}

ls_tensor llama_loss(ls_graph *g) {
    const family llama3 = {.Hkv = 2,
                           .rope = {.theta = 500000,
                                    .scaling = "llama3",
                                    .factor = 8,
                                    .low_factor = 1,
                                    .high_factor = 4,
                                    .original_length = 8192}};
    return loss(g, &llama3);
}

ls_tensor qwen2_loss(ls_graph *g) {
    const family qwen2 = {.Hkv = 4, .biases = true, .rope = {.theta = 1000000}};
    return loss(g, &qwen2);
}
