/*
 * LlamaForCausalLM (Touvron et al., arXiv 2302.13971; grouped queries and rope scaling as in Llama 3): norm before each block,
 * rotary positions, causal attention, a gated feed-forward block, no dropout. Tensor names are those of the published files.
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>

/* Tables that files of old versions hold; here they follow from the config. */
static const char *const derived[] = {".rotary_emb.inv_freq", NULL};

typedef struct builder {
    const ls_model_config *config;
    ls_graph *g;
    ls_tensor rope; /* made once, shared by all layers */
    int64_t layer;
} builder;

/* Parameter model.layers.N.WHAT. */
static ls_tensor layer_parameter(const builder *b, const char *what, int ndim, const int64_t *size) {
    char name[128];
    snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)b->layer, what);
    return ls_parameter(b->g, name, ndim, size);
}

static ls_tensor norm(const builder *b, ls_tensor x, const char *what) {
    const ls_tensor weight = layer_parameter(b, what, 1, &b->config->sizes.E);
    return ls_rmsnorm(b->g, x, weight, b->config->epsilon);
}

/* x·Wᵀ (+ bias) with the weight BLOCK.NAME.weight [to, from]. */
static ls_tensor project(const builder *b, ls_tensor x, const char *block, const char *name, int64_t to,
                         int64_t from, bool biased) {
    char what[64];
    snprintf(what, sizeof what, "%s.%s.weight", block, name);
    const ls_tensor weight = layer_parameter(b, what, 2, (int64_t[]){to, from});
    snprintf(what, sizeof what, "%s.%s.bias", block, name);
    const ls_tensor bias = biased ? layer_parameter(b, what, 1, &to) : LS_NO_TENSOR;
    return ls_named(b->g, ls_linear(b->g, x, weight, bias), "layers.%lld.%s", (long long)b->layer, name);
}

static ls_tensor attend(const builder *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->attention_bias;
    const char *const block = "self_attn";
    ls_graph *g = b->g;
    const ls_tensor q = project(b, x, block, "q_proj", n->Hq * n->D, n->E, biased);
    const ls_tensor k = project(b, x, block, "k_proj", n->Hkv * n->D, n->E, biased);
    const ls_tensor v = project(b, x, block, "v_proj", n->Hkv * n->D, n->E, biased);
    const ls_tensor rotated_q = ls_rotate(g, ls_split_last(g, q, n->Hq, n->D), b->rope);
    const ls_tensor rotated_k = ls_rotate(g, ls_split_last(g, k, n->Hkv, n->D), b->rope);
    const ls_mask causal = ls_mask_causal();
    const ls_tensor o =
        ls_attention(g, ls_named(g, rotated_q, "layers.%lld.q", (long long)b->layer),
                     ls_named(g, rotated_k, "layers.%lld.k", (long long)b->layer),
                     ls_named(g, ls_split_last(g, v, n->Hkv, n->D), "layers.%lld.v", (long long)b->layer),
                     &causal, 1.0 / sqrt((double)n->D));
    const ls_tensor merged = ls_merge_last(g, ls_named(g, o, "layers.%lld.attention", (long long)b->layer));
    return project(b, merged, block, "o_proj", n->E, n->Hq * n->D, biased);
}

static ls_tensor feed_forward(const builder *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->mlp_bias;
    const ls_tensor gate = project(b, x, "mlp", "gate_proj", n->F, n->E, biased);
    const ls_tensor up = project(b, x, "mlp", "up_proj", n->F, n->E, biased);
    return project(b, ls_swiglu(b->g, gate, up), "mlp", "down_proj", n->E, n->F, biased);
}

static ls_tensor build_layer(const builder *b, ls_tensor x) {
    ls_graph *g = b->g;
    const ls_tensor n1 = norm(b, x, "input_layernorm.weight");
    x = ls_add(g, x, attend(b, ls_named(g, n1, "layers.%lld.norm1", (long long)b->layer)));
    x = ls_named(g, x, "layers.%lld.middle", (long long)b->layer);
    const ls_tensor n2 = norm(b, x, "post_attention_layernorm.weight");
    x = ls_add(g, x, feed_forward(b, ls_named(g, n2, "layers.%lld.norm2", (long long)b->layer)));
    return ls_named(g, x, "layers.%lld.out", (long long)b->layer);
}

static ls_tensor build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    builder b = {.config = config, .g = g};
    b.rope = ls_named(g, ls_rope_table(g, positions, n->D, &config->rope), "rope");
    const ls_tensor table = ls_parameter(g, "model.embed_tokens.weight", 2, (int64_t[]){n->V, n->E});
    ls_tensor x = ls_named(g, ls_embedding(g, tokens, table), "embedded");
    /* A mistake is sticky: after it nothing more is built, and the loop has nothing to do. */
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = build_layer(&b, x);
    const ls_tensor weight = ls_parameter(g, "model.norm.weight", 1, &n->E);
    const ls_tensor last = ls_named(g, ls_rmsnorm(g, x, weight, config->epsilon), "norm");
    const ls_tensor head = n->tied ? table : ls_parameter(g, "lm_head.weight", 2, (int64_t[]){n->V, n->E});
    return ls_named(g, ls_linear_wide(g, last, head), "logits");
}

const ls_architecture ls_architecture_llama = {.name = "LlamaForCausalLM",
                                               .model_type = "llama",
                                               .configure = ls_llama_configure,
                                               .build = build,
                                               .derived = derived,
                                               .head = "lm_head.weight",
                                               .table = "model.embed_tokens.weight",
                                               .prefix = "model."};
