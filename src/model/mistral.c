/* MistralForCausalLM (Jiang et al., arXiv 2310.06825): every layer sees a window, or none does. */
#include "model/model_impl.h"

static const ls_config_rule rules[] = {
    {"layer_types", LS_RULE_ABSENT, 0, "to be left out: sliding_window is that of all layers"},
};

static bool all(int64_t layer, int64_t first) { return layer >= first; }

static ls_status configure(ls_json_value root, ls_model_config *out) {
    *out = (ls_model_config){
        .sizes = {.longest = 131072, .initializer_range = 0.02}, .epsilon = 1e-6, .rope = {.theta = 10000}};
    LS_TRY(ls_config_decoder(root, out));
    LS_TRY(ls_config_activation(root, "hidden_act", "silu", &out->activation));
    LS_TRY(ls_config_obey(root, rules, LS_COUNT(rules)));
    LS_TRY(ls_config_window(root, 4096, out));
    return ls_config_layer_types(root, all, 0, out);
}

const ls_architecture ls_architecture_mistral = {.name = "MistralForCausalLM",
                                                 .model_type = "mistral",
                                                 .configure = configure,
                                                 .build = ls_decoder_build,
                                                 .derived = ls_decoder_derived,
                                                 .head = "lm_head.weight",
                                                 .table = "model.embed_tokens.weight",
                                                 .prefix = "model."};
