/*
 * NemotronHForCausalLM without experts (NVIDIA, arXiv 2504.03624): each layer is one block: a state space as in
 * Mamba-2, attention without rotation, or a feed-forward block of two products.
 */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"

static const ls_config_field fields[] = {
    LS_CONFIG_INT("vocab_size", sizes.V, 1, LS_MOST_VOCABULARY, false),
    LS_CONFIG_INT("hidden_size", sizes.E, 1, LS_MOST_WIDTH, false),
    LS_CONFIG_INT("intermediate_size", sizes.F, 1, LS_MOST_WIDTH, false),
    LS_CONFIG_INT("num_attention_heads", sizes.Hq, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT_OR_NULL("num_key_value_heads", sizes.Hkv, 1, LS_MOST_HEADS),
    LS_CONFIG_INT("head_dim", sizes.D, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("max_position_embeddings", sizes.longest, 1, LS_MOST_POSITIONS, false),
    LS_CONFIG_REAL("initializer_range", sizes.initializer_range, 0, 1e6, false),
    LS_CONFIG_REAL("layer_norm_epsilon", epsilon, 0, 1, false),
    LS_CONFIG_FLAG("mlp_bias", mlp_bias),
    LS_CONFIG_INT("mamba_num_heads", state.H, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("mamba_head_dim", state.E, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("n_groups", state.K, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("ssm_state_size", state.D, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("conv_kernel", state.width, 1, LS_CONV_WIDTH, false),
    LS_CONFIG_FLAG("use_bias", state.biased),
    LS_CONFIG_FLAG("use_conv_bias", state.conv_biased),
    /* The library does not read time_step_limit. */
    LS_CONFIG_REAL("time_step_min", state.least_step, 0, 1e30, false),
    /* Earlier names, which the library prefers to the others. */
    LS_CONFIG_INT("mamba_n_groups", state.K, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("mamba_d_conv", state.width, 1, LS_CONV_WIDTH, false),
    LS_CONFIG_FLAG("mamba_conv_bias", state.conv_biased),
    LS_CONFIG_REAL("mamba_dt_min", state.least_step, 0, 1e30, false),
    LS_CONFIG_END,
};

static const ls_config_rule rules[] = {
    {"sliding_window", LS_RULE_ABSENT, 0, "null: attention has no window"},
    {"tie_word_embeddings", LS_RULE_FLAG, 0, "false: the head is a matrix of its own"},
    {"hidden_dropout", LS_RULE_NUMBER, 0, "0: dropout is not supported"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

/* --- the kinds of layers ------------------------------------------------------------------------------------------ */

/*
 * Names in layers_block_type, in this and in earlier versions of the library, and letters in hybrid_override_pattern.
 */
static const struct {
    const char *name, *earlier;
    char letter;
    size_t at; /* offset of the set of such layers in ls_model_config; 0: attention */
} kinds[] = {
    {"linear_attention", "mamba", 'M', offsetof(ls_model_config, stateful)},
    {"mlp", "mlp", '-', offsetof(ls_model_config, feeding)},
    {"full_attention", "attention", '*', 0},
};

static bool put_kind(size_t kind, int64_t layer, ls_model_config *out) {
    if (kind == LS_COUNT(kinds)) return false;
    if (kinds[kind].at != 0) ls_layer_put((ls_layer_set *)(void *)((char *)out + kinds[kind].at), layer);
    return true;
}

static ls_status refuse(ls_json_value value) {
    ls_status status = ls_json_error(value, "layers linear_attention (M), full_attention (*) and mlp (-)");
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status read_names(ls_json_value list, ls_model_config *out) {
    for (int64_t i = 0; i < out->sizes.L; i++) {
        const ls_json_value item = ls_json_item(list, (size_t)i);
        const char *name = NULL;
        size_t k = 0;
        LS_TRY(ls_json_as_text(item, &name));
        while (k < LS_COUNT(kinds) && strcmp(kinds[k].name, name) != 0 && strcmp(kinds[k].earlier, name) != 0) k++;
        if (!put_kind(k, i, out)) return refuse(item);
    }
    return ls_ok();
}

static ls_status read_letters(ls_json_value field, const char *letters, ls_model_config *out) {
    for (int64_t i = 0; i < out->sizes.L; i++) {
        size_t k = 0;
        while (k < LS_COUNT(kinds) && kinds[k].letter != letters[i]) k++;
        if (!put_kind(k, i, out)) return refuse(field);
    }
    return ls_ok();
}

/* The field with the kinds of the layers also gives the number of layers. The library reads layer_types first. */
static ls_status read_kinds(ls_json_value root, ls_model_config *out) {
    static const char letters[] = "hybrid_override_pattern";
    const char *names = ls_json_has(root, "layer_types") ? "layer_types" : "layers_block_type";
    const bool named = ls_json_has(root, names);
    ls_json_value list = root;
    const char *text = NULL;
    if (named)
        LS_TRY(ls_json_array(root, names, &list));
    else
        LS_TRY(ls_json_text(root, letters, &text));
    const size_t n = named ? ls_json_count(list) : strlen(text);
    if (n < 1 || n > LS_MOST_LAYERS)
        return ls_json_error(ls_json_field(root, named ? names : letters), "1 to %d layers", LS_MOST_LAYERS);
    out->sizes.L = (int64_t)n;
    return named ? read_names(list, out) : read_letters(ls_json_field(root, letters), text, out);
}

/* In the library attention has no biases, whatever this field says. A file that holds biases is refused. */
static ls_status check_bias(ls_json_value root) {
    static const char key[] = "attention_bias";
    bool biased = false;
    LS_TRY(ls_json_bool_or(root, key, biased, &biased));
    if (biased)
        ls_log("%s: %s is true and has no effect: attention has no biases, as in the Hugging Face library", root.file,
               key);
    return ls_ok();
}

static ls_status complete(ls_json_value root, const ls_architecture *architecture, ls_model_config *out) {
    (void)architecture;
    ls_model_sizes *n = &out->sizes;
    const ls_state_sizes *s = &out->state;
    if (n->Hkv == 0) n->Hkv = n->Hq;
    if (n->Hq % n->Hkv != 0)
        return ls_json_error(ls_json_field(root, "num_key_value_heads"), "a divisor of the num_attention_heads %lld",
                             (long long)n->Hq);
    const char *groups = ls_json_has(root, "mamba_n_groups") ? "mamba_n_groups" : "n_groups";
    if (s->H % s->K != 0)
        return ls_json_error(ls_json_field(root, groups), "a divisor of the mamba_num_heads %lld", (long long)s->H);
    LS_TRY(ls_config_silu(root, "mamba_hidden_act"));
    LS_TRY(check_bias(root));
    out->attention_scale = 1 / sqrt((double)n->D);
    return read_kinds(root, out);
}

static const char *const derived[] = {NULL};
/*
 * Files may name parameters as the library's modules are named. The library itself writes the names of published files.
 */
static const ls_weight_spelling spellings[] = {{"backbone.", "model."}, {"backbone.", ""}, {NULL, NULL}};

static const ls_form form = {.fields = fields,
                             .rules = rules,
                             .complete = complete,
                             .derived = derived,
                             .tie = {"lm_head.weight", "backbone.embeddings.weight"},
                             .spellings = spellings};

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static ls_tensor attend(const ls_layer *b, ls_tensor x) {
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    const ls_model_sizes *n = &b->config->sizes;
    const int64_t heads[] = {n->Hq, n->Hkv, n->Hkv};
    ls_tensor in[3];
    for (int i = 0; i < 3; i++)
        in[i] = ls_split_last(b->g, ls_layer_project(b, x, "mixer", names[i], heads[i] * n->D, n->E, false), heads[i],
                              n->D);
    const ls_tensor o = ls_layer_attention(b, in[0], in[1], in[2]);
    return ls_layer_project(b, o, "mixer", "o_proj", n->E, n->Hq * n->D, false);
}

static ls_tensor feed(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->mlp_bias;
    const ls_tensor up = ls_layer_project(b, x, "mixer", "up_proj", n->F, n->E, biased);
    return ls_layer_project(b, b->config->activation(b->g, up), "mixer", "down_proj", n->E, n->F, biased);
}

static ls_tensor mix(const ls_layer *b, ls_tensor x) {
    if (ls_layer_is_in(&b->config->stateful, b->layer)) return ls_layer_state_space(b, x, "mixer");
    return ls_layer_is_in(&b->config->feeding, b->layer) ? feed(b, x) : attend(b, x);
}

static ls_tensor build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    return ls_mixers_build(config, g, tokens, positions, "backbone", mix);
}

const ls_architecture ls_architecture_nemotron_h = {.name = "NemotronHForCausalLM",
                                                    .model_type = "nemotron_h",
                                                    .form = &form,
                                                    .initial = {.sizes = {.V = 131072,
                                                                          .E = 4096,
                                                                          .F = 21504,
                                                                          .Hq = 32,
                                                                          .Hkv = 8,
                                                                          .D = 128,
                                                                          .longest = 4096,
                                                                          .initializer_range = 0.02},
                                                                .state = {.K = 8,
                                                                          .H = 128,
                                                                          .D = 128,
                                                                          .E = 64,
                                                                          .width = 4,
                                                                          .conv_biased = true,
                                                                          .least_step = 0.001,
                                                                          .most_step = INFINITY},
                                                                .epsilon = 1e-5,
                                                                .activation = ls_relu_squared},
                                                    .activation_field = "mlp_hidden_act",
                                                    .weights = ls_mixer_initial,
                                                    .build = build};
