#include "graphs.h"

#include <math.h>

static ls_tensor vector(ls_graph *g, int64_t size, const char *name, int layer) {
    return ls_parameter_named(g, 1, &size, "%d.%s", layer, name);
}

static ls_tensor matrix(ls_graph *g, int64_t to, int64_t from, const char *name, int layer) {
    return ls_parameter_named(g, 2, (int64_t[]){to, from}, "%d.%s", layer, name);
}

/* --- Llama -------------------------------------------------------------------------------------------------------- */

static ls_tensor project(ls_graph *g, ls_tensor x, int64_t to, int64_t from, const char *name, int layer) {
    return ls_linear(g, x, matrix(g, to, from, name, layer), LS_NO_TENSOR);
}

static ls_tensor rmsnorm(ls_graph *g, ls_tensor x, int64_t E, const char *name, int layer) {
    return ls_rmsnorm(g, x, vector(g, E, name, layer), 1e-5);
}

static ls_tensor llama_attention(ls_graph *g, const peers_sizes *n, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask causal = ls_mask_causal();
    const int64_t E = n->E, D = E / n->Hq;
    const ls_tensor q = ls_split_last(g, project(g, x, E, E, "q", layer), n->Hq, D);
    const ls_tensor k = ls_split_last(g, project(g, x, n->Hkv * D, E, "k", layer), n->Hkv, D);
    const ls_tensor v = ls_split_last(g, project(g, x, n->Hkv * D, E, "v", layer), n->Hkv, D);
    const ls_tensor o = ls_attention(g, ls_rotate(g, q, rope), ls_rotate(g, k, rope), v, &causal, 1 / sqrt((double)D));
    return project(g, ls_merge_last(g, o), E, E, "o", layer);
}

ls_tensor peers_llama(ls_graph *g, const peers_sizes *n) {
    const int64_t E = n->E, F = n->F, V = n->V;
    const int last = (int)n->L;
    const ls_tensor tokens = ls_tokens(g, "tokens", n->B, n->S), labels = ls_input_like(g, "labels", tokens);
    const ls_rope rope = {.theta = 500000};
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), E / n->Hq, &rope);
    ls_tensor x = ls_embedding(g, tokens, matrix(g, V, E, "embedding", 0));
    for (int layer = 0; layer < last; layer++) {
        x = ls_add(g, x, llama_attention(g, n, rmsnorm(g, x, E, "norm 1", layer), table, layer));
        const ls_tensor y = rmsnorm(g, x, E, "norm 2", layer);
        const ls_tensor h = ls_swiglu(g, project(g, y, F, E, "gate", layer), project(g, y, F, E, "up", layer));
        x = ls_add(g, x, project(g, h, E, F, "down", layer));
    }
    x = rmsnorm(g, x, E, "norm", last);
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, matrix(g, V, E, "head", last)), labels));
}

/* --- GPT-2 -------------------------------------------------------------------------------------------------------- */

static ls_tensor layernorm(ls_graph *g, ls_tensor x, int64_t E, const char *weight, const char *bias, int layer) {
    return ls_layernorm(g, x, vector(g, E, weight, layer), vector(g, E, bias, layer), 1e-5);
}

static ls_tensor affine(ls_graph *g, ls_tensor x, int64_t to, int64_t from, const char *weight, const char *bias,
                        int layer) {
    return ls_linear(g, x, matrix(g, to, from, weight, layer), vector(g, to, bias, layer));
}

static ls_tensor gpt2_attention(ls_graph *g, const peers_sizes *n, ls_tensor x, int layer) {
    const ls_mask causal = ls_mask_causal();
    const int64_t E = n->E, D = E / n->Hq;
    const ls_tensor q = ls_split_last(g, affine(g, x, E, E, "q", "q.bias", layer), n->Hq, D);
    const ls_tensor k = ls_split_last(g, affine(g, x, E, E, "k", "k.bias", layer), n->Hq, D);
    const ls_tensor v = ls_split_last(g, affine(g, x, E, E, "v", "v.bias", layer), n->Hq, D);
    const ls_tensor o = ls_attention(g, q, k, v, &causal, 1 / sqrt((double)D));
    return affine(g, ls_merge_last(g, o), E, E, "o", "o.bias", layer);
}

ls_tensor peers_gpt2(ls_graph *g, const peers_sizes *n) {
    const int64_t E = n->E, F = n->F;
    const int last = (int)n->L;
    const ls_tensor tokens = ls_tokens(g, "tokens", n->B, n->S), labels = ls_input_like(g, "labels", tokens);
    const ls_tensor positions = ls_input_like(g, "positions", tokens);
    const ls_tensor table = matrix(g, n->V, E, "tokens", 0);
    ls_tensor x =
        ls_add(g, ls_embedding(g, tokens, table), ls_embedding(g, positions, matrix(g, n->S, E, "positions", 0)));
    for (int layer = 0; layer < last; layer++) {
        const ls_tensor y = layernorm(g, x, E, "norm 1", "norm 1.bias", layer);
        x = ls_add(g, x, gpt2_attention(g, n, y, layer));
        const ls_tensor z = layernorm(g, x, E, "norm 2", "norm 2.bias", layer);
        const ls_tensor h = ls_gelu_tanh(g, affine(g, z, F, E, "up", "up.bias", layer));
        x = ls_add(g, x, affine(g, h, E, F, "down", "down.bias", layer));
    }
    x = layernorm(g, x, E, "norm", "norm.bias", last);
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), labels));
}
