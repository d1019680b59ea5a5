/*
 * Olmo2ForCausalLM (OLMo Team, arXiv 2501.00656): norms after blocks instead of before them, and one norm over all
 * heads of queries and one over all heads of keys. Olmo3ForCausalLM (OLMo Team, arXiv 2512.13961): the same, but three
 * of four layers attend to a window, and rope scaling applies to the others only.
 */
#include "model/model_impl.h"

#define BIASES LS_CONFIG_FLAG("attention_bias", qkv_bias), LS_CONFIG_FLAG("attention_bias", output_bias)

static const ls_config_field olmo2_fields[] = {BIASES, LS_CONFIG_END};
static const ls_config_field olmo3_fields[] = {BIASES, LS_CONFIG_WINDOW, LS_CONFIG_END};

/* Version 4 of the library applies a theta beside the scaling to all layers, version 5 to those without a window. */
static ls_status check_theta(ls_json_value root, ls_model_config *out) {
    static const char key[] = "rope_theta";
    double theta = out->local_rope.theta;
    if (ls_json_has(root, "rope_parameters")) return ls_ok();
    LS_TRY(ls_json_double_or(root, key, theta, LS_LEAST_POSITIVE, 1e30, &theta));
    if (theta == out->local_rope.theta) return ls_ok();
    return ls_json_error(ls_json_field(root, key), "%.0f, or rope_parameters with a theta for each type of layer",
                         out->local_rope.theta);
}

static const ls_decoder_parts parts = {
    .layer = ls_layer_in_turn,
    .norms = {.after_attention = "post_attention_layernorm", .after_mlp = "post_feedforward_layernorm"},
    .projections = ls_layer_apart,
    .heads = ls_heads_normalised_together,
    .mlp = ls_layer_gated};

#define INITIAL                                                                                                      \
    .sizes = {.longest = 2048, .pads = true, .pad = 1, .initializer_range = 0.02}, .parts = &parts, .epsilon = 1e-5, \
    .activation = ls_silu

const ls_architecture ls_architecture_olmo2 = {.name = "Olmo2ForCausalLM",
                                               .scored = "Olmo2ForSequenceClassification",
                                               .model_type = "olmo2",
                                               .form = &ls_decoder_form,
                                               .initial = {INITIAL, .rope.theta = 1e4},
                                               .activation_field = "hidden_act",
                                               .fields = olmo2_fields,
                                               .build = ls_decoder_build};

const ls_architecture ls_architecture_olmo3 = {.name = "Olmo3ForCausalLM",
                                               .scored = "Olmo3ForSequenceClassification",
                                               .model_type = "olmo3",
                                               .form = &ls_decoder_form,
                                               .initial = {INITIAL, .rope.theta = 5e5, .local_rope.theta = 5e5,
                                                           .window = 4096,
                                                           .windows = {.on = true, .every = 1, .full = 4}},
                                               .activation_field = "hidden_act",
                                               .fields = olmo3_fields,
                                               .complete = check_theta,
                                               .build = ls_decoder_build};
