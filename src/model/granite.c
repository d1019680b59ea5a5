/*
 * GraniteForCausalLM (Shen et al., arXiv 2408.13359): Llama with four scales: a factor of embeddings, one of what a
 * block adds, one of attention's logits, and a divisor of the model's logits.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
    LS_CONFIG_REAL("embedding_multiplier", embedding_scale, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_REAL("residual_multiplier", residual_scale, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_REAL("attention_multiplier", attention_scale, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_REAL("logits_scaling", logit_divisor, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_END,
};

/* The configs of dense models of version 3.0 have this field. */
static const char *const dropouts[] = {"attention_dropout", NULL};

const ls_architecture ls_architecture_granite = {.name = "GraniteForCausalLM",
                                                 .model_type = "granite",
                                                 .form = &ls_decoder_form,
                                                 .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 2048,
                                                             .parts = &ls_llama_parts, .attention_scale = 1,
                                                             .activation = ls_silu},
                                                 .activation_field = "hidden_act",
                                                 .fields = fields,
                                                 .dropouts = dropouts,
                                                 .build = ls_decoder_build};
