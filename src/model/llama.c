/* LlamaForCausalLM (Touvron et al., arXiv 2302.13971; Llama 3: arXiv 2407.21783). */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
};

static ls_status configure(ls_json_value root, ls_model_config *out) {
    *out = (ls_model_config){
        .sizes = {.longest = 2048, .initializer_range = 0.02}, .epsilon = 1e-6, .rope = {.theta = 10000}};
    LS_TRY(ls_config_decoder(root, out));
    LS_TRY(ls_config_activation(root, "hidden_act", "silu", &out->activation));
    return ls_config_read(root, fields, LS_COUNT(fields), out);
}

const ls_architecture ls_architecture_llama = {.name = "LlamaForCausalLM",
                                               .model_type = "llama",
                                               .configure = configure,
                                               .build = ls_decoder_build,
                                               .derived = ls_decoder_derived,
                                               .head = "lm_head.weight",
                                               .table = "model.embed_tokens.weight",
                                               .prefix = "model."};
