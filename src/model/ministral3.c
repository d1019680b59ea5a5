/*
 * Ministral3ForCausalLM (Mistral AI 2025): Mistral with a factor of queries that, from the original length on, grows
 * with the logarithm of the position. Also the text model of Mistral3ForConditionalGeneration.
 */
#include "model/model_impl.h"

#include <stddef.h>

static const ls_config_field fields[] = {LS_CONFIG_WINDOW, LS_CONFIG_END};

static const ls_config_rule rules[] = {
    {"layer_types", LS_RULE_ABSENT, 0, "to be left out: sliding_window holds for all layers"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

/* The library does not read max_position_embeddings in the object of rotary positions. */
static const ls_config_field rope_fields[] = {
    LS_CONFIG_REAL("llama_4_scaling_beta", query_growth, 0, 1e6, true),
    LS_CONFIG_INT("max_position_embeddings", said_longest, 1, LS_MOST_POSITIONS, false),
    LS_CONFIG_END,
};

static ls_status complete(ls_json_value root, ls_model_config *out) {
    if (out->query_growth == 0 || out->rope.original_length > 0) return ls_ok();
    return ls_json_error(ls_json_field(root, "rope_parameters"),
                         "original_max_position_embeddings in it, from which llama_4_scaling_beta counts");
}

const ls_architecture ls_architecture_ministral3 = {
    .name = "Ministral3ForCausalLM",
    .scored = "Ministral3ForSequenceClassification",
    .model_type = "ministral3",
    .form = &ls_decoder_form,
    .initial = {.sizes = {.Hkv = 8, .D = 128, .longest = 262144, .pads = true, .pad = 11, .initializer_range = 0.02},
                .parts = &ls_llama_parts,
                .epsilon = 1e-5,
                .rope = {.theta = 1e6,
                         .scaling = "yarn",
                         .factor = 16,
                         .original_length = 16384,
                         .beta_fast = 32,
                         .beta_slow = 1,
                         .mscale = 1,
                         .mscale_all_dim = 1},
                .query_growth = 0.1,
                .activation = ls_silu,
                .windows = {.on = true, .every = 1}},
    .activation_field = "hidden_act",
    .fields = fields,
    .rules = rules,
    .rope_fields = rope_fields,
    .complete = complete,
    .build = ls_decoder_build};
