/*
 * Gemma3ForCausalLM (Gemma Team, arXiv 2503.19786): like Gemma 2, with norms of heads and without soft caps in
 * attention; five of six layers attend to a window, and rotate with a theta of their own and without scaling. Also the
 * text model of Gemma3ForConditionalGeneration, whose config leaves out fields that have their default.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_WINDOW,
    LS_CONFIG_INT("sliding_window_pattern", windows.full, 1, LS_MOST_LAYERS, false),
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_REAL("query_pre_attn_scalar", query_scalar, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_REAL_OR_NULL("final_logit_softcapping", final_cap, LS_LEAST_POSITIVE, 1e9),
    LS_CONFIG_REAL("rope_local_base_freq", local_rope.theta, LS_LEAST_POSITIVE, 1e30, false),
    LS_CONFIG_END,
};

static const ls_config_rule rules[] = {
    {"use_bidirectional_attention", LS_RULE_FLAG, 0, "false: attention is causal"},
    {"attn_logit_softcapping", LS_RULE_ABSENT, 0, "null: the published model has no such cap"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = LS_NORMS_AROUND,
                                       .projections = ls_layer_apart,
                                       .heads = ls_heads_normalised,
                                       .mlp = ls_layer_gated};

const ls_architecture ls_architecture_gemma3 = {.name = "Gemma3ForCausalLM",
                                                .scored = "Gemma3TextForSequenceClassification",
                                                .model_type = "gemma3_text",
                                                .form = &ls_decoder_form,
                                                .initial = {.sizes = {.V = 262208,
                                                                      .E = 2304,
                                                                      .F = 9216,
                                                                      .L = 26,
                                                                      .Hq = 8,
                                                                      .Hkv = 4,
                                                                      .D = 256,
                                                                      .longest = 131072,
                                                                      .tied = true,
                                                                      .pads = true,
                                                                      .initializer_range = 0.02},
                                                            .parts = &parts,
                                                            .epsilon = 1e-6,
                                                            .norm_offset = 1,
                                                            .embedding_by_width = true,
                                                            .activation = ls_gelu_tanh,
                                                            .query_scalar = 256,
                                                            .rope.theta = 1e6,
                                                            .local_rope.theta = 1e4,
                                                            .window = 4096,
                                                            .windows = {.on = true, .every = 1, .full = 6}},
                                                .activation_field = "hidden_activation",
                                                .fields = fields,
                                                .rules = rules,
                                                .build = ls_decoder_build};
