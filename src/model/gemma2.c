/*
 * Gemma2ForCausalLM (Gemma Team, arXiv 2408.00118): every other layer attends to a window, each block has a norm before
 * and after it, weights of norms are trained around 0, embeddings are scaled, and the logits of attention and of the
 * model are soft-capped.
 */
#include "model/model_impl.h"

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

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = LS_NORMS_AROUND,
                                       .projections = ls_layer_apart,
                                       .heads = ls_heads_plain,
                                       .mlp = ls_layer_gated};

const ls_architecture ls_architecture_gemma2 = {
    .name = "Gemma2ForCausalLM",
    .scored = "Gemma2ForSequenceClassification",
    .model_type = "gemma2",
    .form = &ls_decoder_form,
    .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 8192, .sizes.Hkv = 4, .sizes.D = 256, .sizes.tied = true,
                .sizes.pads = true, .parts = &parts, .norm_offset = 1, .embedding_by_width = true,
                .activation = ls_gelu_tanh, .query_scalar = 256, .attention_cap = 50, .final_cap = 30, .window = 4096,
                .windows = {.on = true, .every = 2}},
    .activation_field = "hidden_activation",
    .fields = fields,
    .rules = rules,
    .build = ls_decoder_build};
