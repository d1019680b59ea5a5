/* Qwen2ForCausalLM (Yang et al., arXiv 2407.10671): biases on q, k and v; windows from some layer on, where they are switched on. */
#include "model/model_impl.h"

static ls_status configure(ls_json_value root, ls_model_config *out) {
    *out = (ls_model_config){.sizes = {.longest = 32768, .initializer_range = 0.02},
                             .epsilon = 1e-6,
                             .rope = {.theta = 10000},
                             .qkv_bias = true};
    LS_TRY(ls_config_decoder(root, out));
    LS_TRY(ls_config_activation(root, "hidden_act", "silu", &out->activation));
    return ls_config_later_windows(root, out);
}

const ls_architecture ls_architecture_qwen2 = {.name = "Qwen2ForCausalLM",
                                               .model_type = "qwen2",
                                               .configure = configure,
                                               .build = ls_decoder_build,
                                               .derived = ls_decoder_derived,
                                               .head = "lm_head.weight",
                                               .table = "model.embed_tokens.weight",
                                               .prefix = "model."};
