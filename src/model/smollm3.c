/*
 * SmolLM3ForCausalLM (Bakouch et al. 2025): every fourth layer does not rotate (Yang et al., arXiv 2501.18795); if
 * use_sliding_window, these attend to a window.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_WINDOW,
    LS_CONFIG_FLAG("use_sliding_window", windows.on),
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
    LS_CONFIG_END,
};

/* no_rope_layers has 0 for a layer that does not rotate; it may be longer than the model. */
static ls_status read_list(ls_json_value root, ls_model_config *out) {
    ls_json_value list;
    const int64_t L = out->sizes.L;
    LS_TRY(ls_json_array(root, "no_rope_layers", &list));
    if (ls_json_count(list) < (size_t)L)
        return ls_json_error(list, "an array of 0 or 1 for each of the %lld layers", (long long)L);
    for (int64_t i = 0; i < L; i++) {
        int64_t rotates = 0;
        LS_TRY(ls_json_as_int(ls_json_item(list, (size_t)i), 0, 1, &rotates));
        if (!rotates) ls_layer_put(&out->unrotated, i);
    }
    return ls_ok();
}

static ls_status complete(ls_json_value root, ls_model_config *out) {
    int64_t interval = 4;
    if (ls_json_has(root, "no_rope_layers")) {
        LS_TRY(read_list(root, out));
    } else {
        if (ls_json_has(root, "no_rope_layer_interval"))
            LS_TRY(ls_json_int(root, "no_rope_layer_interval", 1, LS_MOST_LAYERS, &interval));
        for (int64_t i = interval - 1; i < out->sizes.L; i += interval) ls_layer_put(&out->unrotated, i);
    }
    if (!ls_json_has(root, "layer_types")) out->windowed = out->unrotated;
    return ls_ok();
}

const ls_architecture ls_architecture_smollm3 = {
    .name = "SmolLM3ForCausalLM",
    .scored = "SmolLM3ForSequenceClassification",
    .model_type = "smollm3",
    .form = &ls_decoder_form,
    .initial =
        {.sizes = {.Hkv = 4, .longest = 32768, .tied = true, .pads = true, .pad = 128004, .initializer_range = 0.02},
         .parts = &ls_llama_parts,
         .epsilon = 1e-6,
         .rope.theta = 2e6,
         .activation = ls_silu,
         .windows = {.every = 1}},
    .activation_field = "hidden_act",
    .fields = fields,
    .complete = complete,
    .build = ls_decoder_build};
