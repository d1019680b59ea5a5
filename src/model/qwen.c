/*
 * Qwen2ForCausalLM (Yang et al., arXiv 2407.10671): biases on q, k and v; if use_sliding_window, layers from
 * max_window_layers on attend to a window.
 * Qwen3ForCausalLM (Yang et al., arXiv 2505.09388): biases if attention_bias; heads of q and k are normalised before
 * they are rotated.
 */
#include "model/model_impl.h"

#define WINDOWS                                                         \
    LS_CONFIG_WINDOW, LS_CONFIG_FLAG("use_sliding_window", windows.on), \
        LS_CONFIG_INT("max_window_layers", windows.first, 0, LS_MOST_LAYERS, false)

static const ls_config_field qwen2_fields[] = {WINDOWS, LS_CONFIG_END};
static const ls_config_field qwen3_fields[] = {
    WINDOWS,
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_END,
};

#define INITIAL                                                                                          \
    LS_DECODER_DEFAULTS, .sizes.longest = 32768, .sizes.Hkv = 32, .activation = ls_silu, .window = 4096, \
                         .windows = {.first = 28, .every = 1}

const ls_architecture ls_architecture_qwen2 = {.name = "Qwen2ForCausalLM",
                                               .scored = "Qwen2ForSequenceClassification",
                                               .model_type = "qwen2",
                                               .form = &ls_decoder_form,
                                               .initial = {INITIAL, .parts = &ls_llama_parts, .qkv_bias = true},
                                               .activation_field = "hidden_act",
                                               .fields = qwen2_fields,
                                               .build = ls_decoder_build};

const ls_architecture ls_architecture_qwen3 = {.name = "Qwen3ForCausalLM",
                                               .scored = "Qwen3ForSequenceClassification",
                                               .model_type = "qwen3",
                                               .form = &ls_decoder_form,
                                               .initial = {INITIAL, .sizes.D = 128, .parts = &ls_head_norm_parts},
                                               .activation_field = "hidden_act",
                                               .fields = qwen3_fields,
                                               .build = ls_decoder_build};
