/*
 * Gemma2ForCausalLM (Gemma Team, arXiv 2408.00118): every other layer attends to a window only, each block has a norm
 * before and after it, weights of norms are trained around 0, embeddings are scaled, and the logits of attention and of
 * the model are soft-capped.
 */
#include "model/model_impl.h"

#include <math.h>

#include "base/base.h"
#include "graph/graph.h"

static const ls_config_field fields[] = {
    LS_CONFIG_WINDOW,
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_REAL("query_pre_attn_scalar", query_scalar, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_REAL_OR_NULL("attn_logit_softcapping", attention_cap, LS_LEAST_POSITIVE, 1e9),
    LS_CONFIG_REAL_OR_NULL("final_logit_softcapping", final_cap, LS_LEAST_POSITIVE, 1e9),
    LS_CONFIG_END,
};

static const ls_config_rule rules[] = {
    {"use_bidirectional_attention", LS_RULE_FLAG, 0, "false: attention is causal"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static ls_tensor build_layer(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_tensor n1 = ls_layer_rmsnorm(b, x, "input_layernorm.weight");
    const ls_tensor attention = ls_layer_self_attention(b, ls_named(g, n1, "layers.%lld.norm1", layer));
    x = ls_add(g, x, ls_layer_rmsnorm(b, attention, "post_attention_layernorm.weight"));
    x = ls_named(g, x, "layers.%lld.middle", layer);
    const ls_tensor n2 = ls_layer_rmsnorm(b, x, "pre_feedforward_layernorm.weight");
    const ls_tensor feed_forward = ls_layer_gated(b, ls_named(g, n2, "layers.%lld.norm2", layer));
    x = ls_add(g, x, ls_layer_rmsnorm(b, feed_forward, "post_feedforward_layernorm.weight"));
    return ls_named(g, x, "layers.%lld.out", layer);
}

/* The published models were trained with the scale rounded to the type of the activations. */
static double embedding_scale(const ls_graph *g, int64_t E) {
    const double scale = sqrt((double)E);
    return g->dtype == LS_BF16 ? (double)ls_bf16_to_f32(ls_bf16_from_f32((float)scale)) : scale;
}

static ls_tensor build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    ls_layer b = ls_layer_begin(config, g, "model.layers", tokens);
    ls_layer_rotary(&b, positions);
    const ls_tensor table = ls_parameter(g, "model.embed_tokens.weight", 2, (int64_t[]){n->V, n->E});
    ls_tensor x = ls_scale(g, ls_layer_embed(&b, tokens, table), embedding_scale(g, n->E));
    x = ls_named(g, x, "embedded");
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = build_layer(&b, x);
    const ls_tensor weight = ls_parameter(g, "model.norm.weight", 1, &n->E);
    const ls_tensor last = ls_named(g, ls_rmsnorm_offset(g, x, weight, config->epsilon, config->norm_offset), "norm");
    const ls_tensor head = n->tied ? table : ls_parameter(g, "lm_head.weight", 2, (int64_t[]){n->V, n->E});
    const ls_tensor logits = ls_linear_wide(g, last, head);
    return ls_named(g, config->final_cap > 0 ? ls_softcap(g, logits, config->final_cap) : logits, "logits");
}

const ls_architecture ls_architecture_gemma2 = {
    .name = "Gemma2ForCausalLM",
    .model_type = "gemma2",
    .form = &ls_decoder_form,
    .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 8192, .sizes.Hkv = 4, .sizes.D = 256, .sizes.tied = true,
                .sizes.pads = true, .norm_offset = 1, .activation = ls_gelu_tanh, .query_scalar = 256,
                .attention_cap = 50, .final_cap = 30, .window = 4096, .windows = {.on = true, .every = 2}},
    .activation_field = "hidden_activation",
    .fields = fields,
    .rules = rules,
    .build = build};
