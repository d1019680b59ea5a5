/*
 * Phi3ForCausalLM (Phi-3, arXiv 2404.14219, and Phi-4, arXiv 2412.08905): one product for queries, keys and values, and
 * one for gate and up; rotary positions of all or a part of each head, with longrope in models for long texts; either
 * all layers attend to a window or none does.
 */
#include "model/model_impl.h"

#include <string.h>

#include "graph/graph.h"

static const ls_config_field fields[] = {LS_CONFIG_WINDOW, LS_CONFIG_END};

static const ls_config_rule rules[] = {
    {"layer_types", LS_RULE_ABSENT, 0, "to be left out: sliding_window holds for all layers"},
    {"attention_bias", LS_RULE_FLAG, 0, "false: products have no biases"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static const char *const dropouts[] = {"resid_pdrop", "embd_pdrop", "attention_dropout", NULL};

/* The library reads every other kind as longrope, and reads the original length only outside the scaling object. */
static ls_status complete(ls_json_value root, ls_model_config *out) {
    static const char beside[] = "original_max_position_embeddings";
    const bool newer = ls_json_has(root, "rope_parameters");
    ls_json_value object;
    if (out->rope.scaling == NULL) return ls_ok();
    LS_TRY(ls_json_object(root, newer ? "rope_parameters" : "rope_scaling", &object));
    if (strcmp(out->rope.scaling, "longrope") != 0)
        return ls_json_error(ls_json_field(object, ls_json_has(object, "rope_type") ? "rope_type" : "type"),
                             "\"default\" or \"longrope\"");
    if (ls_json_has(root, beside) || !ls_json_has(object, beside) || out->rope.original_length == 4096) return ls_ok();
    return ls_json_error(ls_json_field(object, beside), "4096, or the length beside max_position_embeddings too");
}

static void projections(const ls_layer *b, ls_tensor x, ls_attention_inputs *out) {
    const ls_model_sizes *n = &b->config->sizes;
    const int64_t q = n->Hq * n->D, kv = n->Hkv * n->D;
    const ls_tensor all = ls_layer_project(b, x, "self_attn", "qkv_proj", q + 2 * kv, n->E, b->config->qkv_bias);
    ls_tensor part[3];
    ls_split(b->g, all, 3, (int64_t[]){q, kv, kv}, part);
    *out = (ls_attention_inputs){.q = part[0], .k = part[1], .v = part[2]};
}

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = LS_NORMS_BEFORE,
                                       .projections = projections,
                                       .heads = ls_heads_plain,
                                       .mlp = ls_layer_gated_joined};

const ls_architecture ls_architecture_phi3 = {
    .name = "Phi3ForCausalLM",
    .scored = "Phi3ForSequenceClassification",
    .model_type = "phi3",
    .form = &ls_decoder_form,
    .initial = {.sizes = {.longest = 4096, .pads = true, .pad = 32000, .initializer_range = 0.02},
                .parts = &parts,
                .epsilon = 1e-5,
                .rope = {.theta = 10000, .original_length = 4096},
                .rotary = 1,
                .activation = ls_silu,
                .windows = {.on = true, .every = 1}},
    .activation_field = "hidden_act",
    .fields = fields,
    .rules = rules,
    .dropouts = dropouts,
    .complete = complete,
    .build = ls_decoder_build};
