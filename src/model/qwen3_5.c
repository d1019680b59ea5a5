/*
 * Qwen3_5ForCausalLM (Qwen3.5, 2026): three of four layers have a gated delta rule in place of attention (Yang et al.,
 * "Gated delta networks", arXiv 2412.06464). The others normalise heads as Qwen3 does, rotate a part of each head, and
 * have a gate for each element of attention's result. Also the text model of Qwen3_5ForConditionalGeneration.
 */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

/* --- the config --------------------------------------------------------------------------------------------------- */

static const ls_config_field fields[] = {
    LS_CONFIG_FLAG("attention_bias", qkv_bias),
    LS_CONFIG_FLAG("attention_bias", output_bias),
    LS_CONFIG_INT("linear_num_key_heads", state.K, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("linear_num_value_heads", state.H, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("linear_key_head_dim", state.D, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("linear_value_head_dim", state.E, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("linear_conv_kernel_dim", state.width, 1, LS_CONV_WIDTH, false),
    LS_CONFIG_END,
};

/* Fields for the positions of images, which have no effect on text. */
static const ls_config_field rope_fields[] = {LS_CONFIG_ANY("mrope_section"), LS_CONFIG_ANY("mrope_interleaved"),
                                              LS_CONFIG_END};

static ls_status read_type(ls_json_value item, int64_t layer, ls_model_config *out) {
    const char *type = NULL;
    LS_TRY(ls_json_as_text(item, &type));
    if (strcmp(type, "linear_attention") == 0) {
        ls_layer_put(&out->stateful, layer);
        return ls_ok();
    }
    if (strcmp(type, "full_attention") == 0) return ls_ok();
    ls_status status = ls_json_error(item, "\"linear_attention\" or \"full_attention\"");
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status read_types(ls_json_value root, ls_model_config *out) {
    const int64_t L = out->sizes.L;
    int64_t full = 4;
    ls_json_value types;
    LS_TRY(ls_json_int_or(root, "full_attention_interval", full, 1, LS_MOST_LAYERS, &full));
    for (int64_t i = 0; i < L && !ls_json_has(root, "layer_types"); i++)
        if ((i + 1) % full != 0) ls_layer_put(&out->stateful, i);
    if (!ls_json_has(root, "layer_types")) return ls_ok();
    LS_TRY(ls_json_array(root, "layer_types", &types));
    if (ls_json_count(types) != (size_t)L)
        return ls_json_error(types, "an array of one type for each of the %lld layers", (long long)L);
    for (int64_t i = 0; i < L; i++) LS_TRY(read_type(ls_json_item(types, (size_t)i), i, out));
    return ls_ok();
}

static ls_status complete(ls_json_value root, ls_model_config *out) {
    if (out->state.H % out->state.K != 0)
        return ls_json_error(ls_json_field(root, "linear_num_value_heads"),
                             "a multiple of the %lld of linear_num_key_heads", (long long)out->state.K);
    LS_TRY(ls_config_silu(root, "hidden_act"));
    return read_types(root, out);
}

/* --- a gated delta rule ------------------------------------------------------------------------------------------- */

/* sigmoid(x), computed in the model's type and then cast to the type of states. */
static ls_tensor rate_of(const ls_layer *b, ls_tensor x) {
    const ls_map_step step = {.code = LS_MAP_SIGMOID, .a = 0};
    const ls_expression expression = {.step = &step, .n_steps = 1};
    return ls_cast(b->g, ls_map(b->g, &x, 1, &expression), b->g->accumulator);
}

static ls_tensor gated_delta_rule(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const ls_state_sizes *n = &b->config->state;
    const int64_t E = b->config->sizes.E, keys = n->K * n->D, values = n->H * n->E;
    const double width = (double)n->D, epsilon = 1e-6;
    const ls_tensor qkv = ls_layer_project(b, x, "linear_attn", "in_proj_qkv", 2 * keys + values, E, false);
    const ls_tensor z = ls_layer_project(b, x, "linear_attn", "in_proj_z", values, E, false),
                    rate = ls_layer_project(b, x, "linear_attn", "in_proj_b", n->H, E, false),
                    a = ls_layer_project(b, x, "linear_attn", "in_proj_a", n->H, E, false);
    ls_tensor part[3], step, decay;
    ls_layer_step(b, a, "linear_attn", &step, &decay);
    ls_split(g, ls_layer_convolve(b, qkv, "linear_attn", 2 * keys + values, false), 3, (int64_t[]){keys, keys, values},
             part);
    const ls_linear_state rule = {.decay = decay, .beta = rate_of(b, rate), .places = b->positions, .delta = true};
    const ls_tensor q = ls_l2norm(g, ls_split_last(g, part[0], n->K, n->D), epsilon, 1 / sqrt(width)),
                    k = ls_l2norm(g, ls_split_last(g, part[1], n->K, n->D), epsilon, 1);
    const ls_tensor o = ls_linear_recurrence(g, q, k, ls_split_last(g, part[2], n->H, n->E), &rule);
    const ls_tensor weight = ls_layer_parameter(b, "linear_attn.norm.weight", 1, &n->E);
    const ls_tensor gated = ls_gated_norm(g, o, weight, ls_split_last(g, z, n->H, n->E), b->config->epsilon, false);
    return ls_layer_project(b, ls_merge_last(g, gated), "linear_attn", "out_proj", E, values, false);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* The rows of q_proj are, for each head, its query and then its gate. */
static void projections(const ls_layer *b, ls_tensor x, ls_attention_inputs *out) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->qkv_bias;
    ls_tensor part[2];
    const ls_tensor both = ls_layer_project(b, x, "self_attn", "q_proj", 2 * n->Hq * n->D, n->E, biased);
    ls_split(b->g, ls_split_last(b->g, both, n->Hq, 2 * n->D), 2, (int64_t[]){n->D, n->D}, part);
    out->q = ls_merge_last(b->g, part[0]);
    out->gate = ls_merge_last(b->g, part[1]);
    out->k = ls_layer_project(b, x, "self_attn", "k_proj", n->Hkv * n->D, n->E, biased);
    out->v = ls_layer_project(b, x, "self_attn", "v_proj", n->Hkv * n->D, n->E, biased);
}

static ls_tensor mixer(const ls_layer *b, ls_tensor x) {
    return ls_layer_is_in(&b->config->stateful, b->layer) ? gated_delta_rule(b, x) : ls_layer_self_attention(b, x);
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static const ls_decoder_parts parts = {.layer = ls_layer_in_turn,
                                       .norms = LS_NORMS_BEFORE,
                                       .mixer = mixer,
                                       .projections = projections,
                                       .heads = ls_heads_normalised,
                                       .mlp = ls_layer_gated};

/* As in the library: A is uniform between 0.01 and 16. */
static const ls_weight_initial initial[] = {{.suffix = ".linear_attn.norm.weight", .value = 1},
                                            {.suffix = ".linear_attn.dt_bias", .value = 1},
                                            {.suffix = ".linear_attn.A_log", .least = 0.01, .most = 16},
                                            {.suffix = NULL}};

/* The library writes the first names if it has read them, also for a text model by itself. */
static const ls_weight_spelling spellings[] = {{"model.", "model.language_model."}, {"model.", ""}, {NULL, NULL}};

const ls_architecture ls_architecture_qwen3_5 = {
    .name = "Qwen3_5ForCausalLM",
    .scored = "Qwen3_5ForSequenceClassification",
    .model_type = "qwen3_5_text",
    .form = &ls_decoder_form,
    .initial = {.sizes = {.V = 248320,
                          .E = 4096,
                          .F = 12288,
                          .L = 32,
                          .Hq = 16,
                          .Hkv = 4,
                          .D = 256,
                          .longest = 32768,
                          .initializer_range = 0.02},
                .state = {.K = 16, .H = 32, .D = 128, .E = 128, .width = 4, .most_step = INFINITY},
                .parts = &parts,
                .epsilon = 1e-6,
                .norm_offset = 1,
                .rope.theta = 1e4,
                .rotary = 0.25,
                .activation = ls_silu},
    .activation_field = "hidden_act",
    .fields = fields,
    .rope_fields = rope_fields,
    .complete = complete,
    .weights = initial,
    .spellings = spellings,
    .build = ls_decoder_build};
