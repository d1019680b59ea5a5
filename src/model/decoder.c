/*
 * The decoder that Llama, Mistral and Qwen share (Touvron et al., arXiv 2302.13971): norm before each block, rotary positions,
 * causal attention with grouped queries, a gated feed-forward block, no dropout. Tensor names are those of the published files.
 */
#include "model/model_impl.h"

static ls_tensor build_layer(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_tensor n1 = ls_layer_rmsnorm(b, x, "input_layernorm.weight");
    x = ls_add(g, x, ls_layer_self_attention(b, ls_named(g, n1, "layers.%lld.norm1", layer)));
    x = ls_named(g, x, "layers.%lld.middle", layer);
    const ls_tensor n2 = ls_layer_rmsnorm(b, x, "post_attention_layernorm.weight");
    x = ls_add(g, x, ls_layer_gated(b, ls_named(g, n2, "layers.%lld.norm2", layer)));
    return ls_named(g, x, "layers.%lld.out", layer);
}

ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *g, ls_tensor tokens,
                           ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    ls_layer b = ls_layer_begin(config, g, "model.layers", tokens);
    ls_layer_rotary(&b, positions);
    const ls_tensor table = ls_parameter(g, "model.embed_tokens.weight", 2, (int64_t[]){n->V, n->E});
    ls_tensor x = ls_named(g, ls_layer_embed(&b, tokens, table), "embedded");
    /* A mistake is sticky: after it nothing more is built, and the loop has nothing to do. */
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = build_layer(&b, x);
    const ls_tensor weight = ls_parameter(g, "model.norm.weight", 1, &n->E);
    const ls_tensor last = ls_named(g, ls_rmsnorm(g, x, weight, config->epsilon), "norm");
    const ls_tensor head = n->tied ? table : ls_parameter(g, "lm_head.weight", 2, (int64_t[]){n->V, n->E});
    return ls_named(g, ls_linear_wide(g, last, head), "logits");
}
