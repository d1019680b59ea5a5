/* MistralForCausalLM (Jiang et al., arXiv 2310.06825): either all layers attend to a window or none does. */
#include "model/model_impl.h"

static const ls_config_field fields[] = {LS_CONFIG_WINDOW, LS_CONFIG_END};

static const ls_config_rule rules[] = {
    {"layer_types", LS_RULE_ABSENT, 0, "to be left out: sliding_window holds for all layers"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

const ls_architecture ls_architecture_mistral = {
    .name = "MistralForCausalLM",
    .scored = "MistralForSequenceClassification",
    .model_type = "mistral",
    .form = &ls_decoder_form,
    .initial = {LS_DECODER_DEFAULTS, .sizes.longest = 131072, .sizes.Hkv = 8, .parts = &ls_llama_parts,
                .activation = ls_silu, .window = 4096, .windows = {.on = true, .every = 1}},
    .activation_field = "hidden_act",
    .fields = fields,
    .rules = rules,
    .build = ls_decoder_build};
