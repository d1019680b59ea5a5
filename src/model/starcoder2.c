/*
 * Starcoder2ForCausalLM (Lozhkov et al., arXiv 2402.19173): LayerNorms, biases in all products, and a feed-forward
 * block without a gate; either all layers attend to a window or none does.
 */
#include "model/model_impl.h"

static const ls_config_field fields[] = {
    LS_CONFIG_WINDOW,
    LS_CONFIG_FLAG("use_bias", qkv_bias),
    LS_CONFIG_FLAG("use_bias", output_bias),
    LS_CONFIG_FLAG("use_bias", mlp_bias),
    LS_CONFIG_REAL("norm_epsilon", epsilon, 0, 1, false),
    LS_CONFIG_END,
};

static const ls_config_rule rules[] = {
    {"layer_types", LS_RULE_ABSENT, 0, "to be left out: sliding_window holds for all layers"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static const char *const dropouts[] = {"attention_dropout", "residual_dropout", "embedding_dropout", NULL};

static ls_tensor mlp(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->mlp_bias;
    const ls_tensor h = b->config->activation(b->g, ls_layer_project(b, x, "mlp", "c_fc", n->F, n->E, biased));
    return ls_layer_project(b, h, "mlp", "c_proj", n->E, n->F, biased);
}

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = LS_NORMS_BEFORE,
                                       .projections = ls_layer_apart,
                                       .heads = ls_heads_plain,
                                       .mlp = mlp};

const ls_architecture ls_architecture_starcoder2 = {
    .name = "Starcoder2ForCausalLM",
    .scored = "Starcoder2ForSequenceClassification",
    .model_type = "starcoder2",
    .form = &ls_decoder_form,
    .initial = {.sizes = {.Hkv = 2, .longest = 4096, .tied = true, .initializer_range = 0.018042},
                .parts = &parts,
                .epsilon = 1e-5,
                .centred = true,
                .norm_bias = true,
                .rope.theta = 1e4,
                .qkv_bias = true,
                .output_bias = true,
                .mlp_bias = true,
                .activation = ls_gelu_tanh,
                .windows = {.on = true, .every = 1}},
    .activation_field = "hidden_act",
    .fields = fields,
    .rules = rules,
    .dropouts = dropouts,
    .build = ls_decoder_build};
