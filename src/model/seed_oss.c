/*
 * SeedOssForCausalLM (ByteDance Seed Team 2025): Llama with biases on q, k and v. A separate field decides whether the
 * output projection has a bias.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_out_bias", output_bias),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
    LS_CONFIG_END,
};

static const char *const dropouts[] = {"attention_dropout", "residual_dropout", NULL};

const ls_architecture ls_architecture_seed_oss = {
    .name = "SeedOssForCausalLM",
    .scored = "SeedOssForSequenceClassification",
    .model_type = "seed_oss",
    .form = &ls_decoder_form,
    .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 524288, .sizes.Hkv = 8, .sizes.D = 128, .sizes.pads = true,
                .sizes.pad = 1, .parts = &ls_llama_parts, .qkv_bias = true, .activation = ls_silu},
    .activation_field = "hidden_act",
    .fields = fields,
    .dropouts = dropouts,
    .build = ls_decoder_build};
