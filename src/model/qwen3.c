/* Qwen3ForCausalLM (Yang et al., arXiv 2505.09388): each query's and key's head is normalised before it is rotated. */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
};

static ls_status configure(ls_json_value root, ls_model_config *out) {
    *out = (ls_model_config){.sizes = {.D = 128, .longest = 32768, .initializer_range = 0.02},
                             .epsilon = 1e-6,
                             .rope = {.theta = 10000},
                             .head_norms = true};
    LS_TRY(ls_config_decoder(root, out));
    LS_TRY(ls_config_activation(root, "hidden_act", "silu", &out->activation));
    LS_TRY(ls_config_read(root, fields, LS_COUNT(fields), out));
    return ls_config_later_windows(root, out);
}

const ls_architecture ls_architecture_qwen3 = {.name = "Qwen3ForCausalLM",
                                               .model_type = "qwen3",
                                               .configure = configure,
                                               .build = ls_decoder_build,
                                               .derived = ls_decoder_derived,
                                               .head = "lm_head.weight",
                                               .table = "model.embed_tokens.weight",
                                               .prefix = "model."};
