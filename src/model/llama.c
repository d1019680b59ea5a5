/* LlamaForCausalLM (Touvron et al., arXiv 2302.13971; Llama 3: arXiv 2407.21783). */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
    LS_CONFIG_END,
};

const ls_architecture ls_architecture_llama = {
    .name = "LlamaForCausalLM",
    .scored = "LlamaForSequenceClassification",
    .model_type = "llama",
    .form = &ls_decoder_form,
    .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 2048, .parts = &ls_llama_parts, .activation = ls_silu},
    .activation_field = "hidden_act",
    .fields = fields,
    .build = ls_decoder_build};
