/*
 * Glm4ForCausalLM (GLM-4-0414, Team GLM, arXiv 2406.12793): norms before and after each block, one product for gate and
 * up, and half of each head rotated in neighbouring pairs.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {LS_CONFIG_FLAG("attention_bias", qkv_bias), LS_CONFIG_END};

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = {.before_attention = "input_layernorm",
                                                 .after_attention = "post_self_attn_layernorm",
                                                 .before_mlp = "post_attention_layernorm",
                                                 .after_mlp = "post_mlp_layernorm"},
                                       .projections = ls_layer_apart,
                                       .heads = ls_heads_plain,
                                       .mlp = ls_layer_gated_joined};

const ls_architecture ls_architecture_glm4 = {
    .name = "Glm4ForCausalLM",
    .scored = "Glm4ForSequenceClassification",
    .model_type = "glm4",
    .form = &ls_decoder_form,
    .initial =
        {.sizes = {.Hkv = 2, .D = 128, .longest = 131072, .pads = true, .pad = 151329, .initializer_range = 0.02},
         .parts = &parts,
         .epsilon = 1.5625e-7,
         .rope.theta = 1e4,
         .rotary = 0.5,
         .interleaved = true,
         .qkv_bias = true,
         .activation = ls_silu},
    .activation_field = "hidden_act",
    .fields = fields,
    .build = ls_decoder_build};
