/*
 * Cohere2ForCausalLM (Cohere, arXiv 2504.00698): attention and the feed-forward block read the output of the same
 * LayerNorm, which has no bias. Three of four layers attend to a window and rotate neighbouring pairs; the others
 * attend to all tokens and do not rotate. Logits are scaled.
 */
#include "model/model_impl.h"

#include "graph/graph.h"

static const ls_config_field fields[] = {
    LS_CONFIG_WINDOW,
    LS_CONFIG_INT("sliding_window_pattern", windows.full, 1, LS_MOST_LAYERS, false),
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_REAL("layer_norm_eps", epsilon, 0, 1, false),
    LS_CONFIG_REAL("logit_scale", logit_scale, LS_LEAST_POSITIVE, 1e9, false),
    LS_CONFIG_END,
};

/* Fields of published configs that the library does not read. */
static const ls_config_rule rules[] = {
    {"use_qk_norm", LS_RULE_FLAG, 0, "false: heads are not normalised"},
    {"use_parallel_block", LS_RULE_FLAG, 1, "true: both blocks read one norm"},
    {"use_gated_activation", LS_RULE_FLAG, 1, "true: the feed-forward block has a gate"},
    {"rotary_pct", LS_RULE_NUMBER, 1, "1: all of a head is rotated"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static ls_status complete(ls_json_value root, ls_model_config *out) {
    if (out->window == 0)
        return ls_json_error(ls_json_field(root, "sliding_window"), "a number: layers with a window rotate");
    for (int64_t i = 0; i < out->sizes.L; i++)
        if (!ls_layer_is_in(&out->windowed, i)) ls_layer_put(&out->unrotated, i);
    return ls_ok();
}

static ls_tensor build_layer(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_tensor norm = ls_named(g, ls_layer_norm(b, x, "input_layernorm"), "layers.%lld.norm1", layer);
    x = ls_named(g, ls_add(g, x, ls_layer_self_attention(b, norm)), "layers.%lld.middle", layer);
    return ls_named(g, ls_add(g, x, ls_layer_gated(b, norm)), "layers.%lld.out", layer);
}

static const ls_decoder_parts parts = {
    .layer = build_layer, .projections = ls_layer_apart, .heads = ls_heads_plain, .mlp = ls_layer_gated};

const ls_architecture ls_architecture_cohere2 = {
    .name = "Cohere2ForCausalLM",
    .model_type = "cohere2",
    .form = &ls_decoder_form,
    .initial = {.sizes = {.longest = 8192, .tied = true, .pads = true, .initializer_range = 0.02},
                .parts = &parts,
                .epsilon = 1e-5,
                .centred = true,
                .rope.theta = 1e4,
                .interleaved = true,
                .logit_scale = 0.0625,
                .activation = ls_silu,
                .window = 4096,
                .windows = {.on = true, .every = 1, .full = 4}},
    .activation_field = "hidden_act",
    .fields = fields,
    .rules = rules,
    .complete = complete,
    .build = ls_decoder_build};
