/* Mamba2ForCausalLM (Dao, Gu, arXiv 2405.21060): each layer is one mixer, a state space. */
#include "model/model_impl.h"

#include <math.h>

#include "graph/graph.h"

static const ls_config_field fields[] = {
    LS_CONFIG_INT("vocab_size", sizes.V, 1, LS_MOST_VOCABULARY, false),
    LS_CONFIG_INT("hidden_size", sizes.E, 1, LS_MOST_WIDTH, false),
    LS_CONFIG_INT("num_hidden_layers", sizes.L, 1, LS_MOST_LAYERS, false),
    LS_CONFIG_FLAG("tie_word_embeddings", sizes.tied),
    LS_CONFIG_FLAG("residual_in_fp32", wide_residual),
    LS_CONFIG_REAL("initializer_range", sizes.initializer_range, 0, 1e6, false),
    LS_CONFIG_REAL("layer_norm_epsilon", epsilon, 0, 1, false),
    LS_CONFIG_INT("num_heads", state.H, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("head_dim", state.E, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("n_groups", state.K, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("state_size", state.D, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("conv_kernel", state.width, 1, LS_CONV_WIDTH, false),
    LS_CONFIG_FLAG("use_bias", state.biased),
    LS_CONFIG_FLAG("use_conv_bias", state.conv_biased),
    LS_CONFIG_END,
};

static ls_status complete(ls_json_value root, const ls_architecture *architecture, ls_model_config *out) {
    (void)architecture;
    ls_model_sizes *n = &out->sizes;
    const ls_state_sizes *s = &out->state;
    int64_t expand = 2;
    LS_TRY(ls_json_int_or(root, "expand", expand, 1, LS_MOST_WIDTH, &expand));
    const int64_t width = expand * n->E;
    if (s->H * s->E != width)
        return ls_json_error(ls_json_field(root, "num_heads"), "heads that are %lld elements wide together",
                             (long long)width);
    if (s->H % s->K != 0)
        return ls_json_error(ls_json_field(root, "n_groups"), "a divisor of the num_heads %lld", (long long)s->H);
    LS_TRY(ls_config_silu(root, "hidden_act"));
    n->Hq = s->H;
    n->Hkv = s->K;
    n->D = s->E;
    n->F = s->H * s->E;
    for (int64_t i = 0; i < n->L; i++) ls_layer_put(&out->stateful, i);
    return ls_config_step_limits(root, &out->state);
}

static const char *const derived[] = {NULL};
static const ls_weight_spelling spellings[] = {{"backbone.", ""}, {NULL, NULL}};

static const ls_form form = {.fields = fields,
                             .complete = complete,
                             .derived = derived,
                             .tie = {"lm_head.weight", "backbone.embeddings.weight"},
                             .spellings = spellings};

static ls_tensor mix(const ls_layer *b, ls_tensor x) { return ls_layer_state_space(b, x, "mixer"); }

static ls_tensor build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    return ls_mixers_build(config, g, tokens, positions, "backbone", mix);
}

const ls_architecture ls_architecture_mamba2 = {
    .name = "Mamba2ForCausalLM",
    .model_type = "mamba2",
    .form = &form,
    .initial = {.sizes = {.V = 32768, .E = 4096, .L = 64, .longest = 1 << 30, .initializer_range = 0.1},
                .state = {.K = 8, .H = 128, .D = 128, .E = 64, .width = 4, .conv_biased = true, .most_step = INFINITY},
                .wide_residual = true,
                .epsilon = 1e-5,
                .activation = ls_silu},
    .activation_field = "hidden_act",
    .weights = ls_mixer_initial,
    .build = build};
