/*
 * Parts of layers with a state: the convolution before the state space, the step size and decay for each token, and the
 * mixer of Mamba-2 (Dao, Gu, "Transformers are SSMs", arXiv 2405.21060).
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static ls_tensor parameter_of(const ls_layer *b, const char *block, const char *name, int ndim, const int64_t *size) {
    char what[64];
    snprintf(what, sizeof what, "%s.%s", block, name);
    return ls_layer_parameter(b, what, ndim, size);
}

/* The files have a weight [channels,1,width]; its last tap multiplies the token itself. */
ls_tensor ls_layer_convolve(const ls_layer *b, ls_tensor x, const char *block, int64_t channels, bool biased) {
    ls_graph *g = b->g;
    const int64_t W = b->config->state.width;
    const ls_tensor weight = parameter_of(b, block, "conv1d.weight", 3, (int64_t[]){channels, 1, W});
    const ls_tensor taps = ls_permute_dims(g, ls_reshape(g, weight, 2, (int64_t[]){channels, W}), (int[]){1, 0});
    ls_conv_form form = {.reach = b->reach, .last_first = true, .silu = true};
    if (biased) form.bias = parameter_of(b, block, "conv1d.bias", 1, &channels);
    return ls_conv_within(g, x, taps, &form);
}

void ls_layer_step(const ls_layer *b, ls_tensor raw, const char *block, ls_tensor *step, ls_tensor *decay) {
    const ls_state_sizes *n = &b->config->state;
    const ls_tensor in[] = {raw, parameter_of(b, block, "dt_bias", 1, &n->H),
                            parameter_of(b, block, "A_log", 1, &n->H)};
    const ls_map_step steps[] = {{.code = LS_MAP_ADD, .a = 0, .b = 1},             /* 3 */
                                 {.code = LS_MAP_NUMBER, .number = 0},             /* 4 */
                                 {.code = LS_MAP_MAX, .a = 3, .b = 4},             /* 5 */
                                 {.code = LS_MAP_ABS, .a = 3},                     /* 6 */
                                 {.code = LS_MAP_NEG, .a = 6},                     /* 7 */
                                 {.code = LS_MAP_EXP, .a = 7},                     /* 8 */
                                 {.code = LS_MAP_LOG1P, .a = 8},                   /* 9 */
                                 {.code = LS_MAP_ADD, .a = 5, .b = 9},             /* 10: softplus */
                                 {.code = LS_MAP_NUMBER, .number = n->least_step}, /* 11 */
                                 {.code = LS_MAP_MAX, .a = 10, .b = 11},           /* 12 */
                                 {.code = LS_MAP_NUMBER, .number = n->most_step},  /* 13 */
                                 {.code = LS_MAP_MIN, .a = 12, .b = 13},           /* 14: the step */
                                 {.code = LS_MAP_EXP, .a = 2},                     /* 15 */
                                 {.code = LS_MAP_NEG, .a = 15},                    /* 16 */
                                 {.code = LS_MAP_MUL, .a = 16, .b = 14}};          /* 17: the decay */
    static const int results[] = {14, 17};
    const ls_expression expression = {
        .step = steps, .n_steps = LS_COUNT(steps), .result = results, .n_results = LS_COUNT(results), .wide = 3};
    const ls_tensor map = ls_map(b->g, in, LS_COUNT(in), &expression);
    *step = ls_map_result(b->g, map, 0);
    *decay = ls_map_result(b->g, map, 1);
}

/* o + D·x, for heads [B,S,H,E]. */
static ls_tensor add_values(const ls_layer *b, ls_tensor o, ls_tensor x, const char *block) {
    const int64_t H = b->config->state.H;
    const ls_tensor D = ls_reshape(b->g, parameter_of(b, block, "D", 1, &H), 2, (int64_t[]){H, 1});
    const ls_tensor in[] = {o, x, D};
    const ls_map_step steps[] = {{.code = LS_MAP_MUL, .a = 1, .b = 2}, {.code = LS_MAP_ADD, .a = 0, .b = 3}};
    return ls_map(b->g, in, LS_COUNT(in), &(ls_expression){.step = steps, .n_steps = LS_COUNT(steps)});
}

/* The norm of x·silu(z). Each group is normalised by itself; each element has its own weight. */
static ls_tensor normalise(const ls_layer *b, ls_tensor x, ls_tensor z, int64_t width, const char *block) {
    const int64_t groups = b->config->state.K, each = width / groups;
    const ls_tensor weight = parameter_of(b, block, "norm.weight", 1, &width);
    const ls_tensor of_groups = ls_reshape(b->g, weight, 2, (int64_t[]){groups, each});
    return ls_merge_last(b->g, ls_gated_norm(b->g, ls_split_last(b->g, x, groups, each), of_groups,
                                             ls_split_last(b->g, z, groups, each), b->config->epsilon, true));
}

ls_tensor ls_layer_state_space(const ls_layer *b, ls_tensor x, const char *block) {
    ls_graph *g = b->g;
    const ls_state_sizes *n = &b->config->state;
    const int64_t width = n->H * n->E, shared = n->K * n->D, E = b->config->sizes.E;
    ls_tensor all[3], part[3], step, decay;
    ls_split(g, ls_layer_project(b, x, block, "in_proj", 2 * width + 2 * shared + n->H, E, n->biased), 3,
             (int64_t[]){width, width + 2 * shared, n->H}, all);
    ls_split(g, ls_layer_convolve(b, all[1], block, width + 2 * shared, n->conv_biased), 3,
             (int64_t[]){width, shared, shared}, part);
    ls_layer_step(b, all[2], block, &step, &decay);
    const ls_linear_state rule = {.decay = decay, .beta = step, .places = b->positions};
    const ls_tensor values = ls_split_last(g, part[0], n->H, n->E);
    const ls_tensor o = ls_linear_recurrence(g, ls_split_last(g, part[2], n->K, n->D),
                                             ls_split_last(g, part[1], n->K, n->D), values, &rule);
    const ls_tensor sum = ls_merge_last(g, add_values(b, o, values, block));
    return ls_layer_project(b, normalise(b, sum, all[0], width, block), block, "out_proj", E, width, n->biased);
}

static ls_tensor as_type(ls_graph *g, ls_tensor x, ls_dtype dtype) {
    return x.id == 0 || ls_graph_tensor(g, x)->dtype == dtype ? x : ls_cast(g, x, dtype);
}

ls_tensor ls_mixers_build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions,
                          const char *prefix, ls_tensor (*block)(const ls_layer *b, ls_tensor x)) {
    const ls_model_sizes *n = &config->sizes;
    const int64_t size[] = {n->V, n->E};
    char layers[32], last[32];
    snprintf(layers, sizeof layers, "%s.layers", prefix);
    snprintf(last, sizeof last, "%s.norm_f", prefix);
    ls_layer b = ls_layer_begin(config, g, layers, tokens);
    b.positions = positions;
    if (ls_layer_is_any_in(&config->stateful)) b.reach = ls_conv_reach(g, positions, (int)config->state.width);
    const ls_tensor table = ls_parameter_named(g, 2, size, "%s.embeddings.weight", prefix);
    const ls_dtype wide = config->wide_residual ? g->accumulator : g->dtype;
    const ls_tensor embedded = ls_layer_noise(&b, tokens, ls_layer_embed(&b, tokens, table));
    ls_tensor x = as_type(g, ls_named(g, embedded, "embedded"), wide);
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) {
        const ls_tensor made = block(&b, ls_layer_norm(&b, as_type(g, x, g->dtype), "norm"));
        x = ls_named(g, ls_add(g, x, as_type(g, made, wide)), "layers.%lld.out", (long long)b.layer);
    }
    const ls_tensor normed = ls_last_norm(&b, as_type(g, x, g->dtype), last);
    return ls_named(g, ls_layer_head(&b, normed, table), "logits");
}

const ls_weight_initial ls_mixer_initial[] = {{.suffix = ".mixer.D", .value = 1},
                                              {.suffix = ".mixer.dt_bias", .value = -4.6},
                                              {.suffix = ".mixer.A_log", .least = 1, .most = 16},
                                              {.suffix = NULL}};

/* As Python's json writes it, or as the Hugging Face library does since its version 5. */
static bool is_infinity(ls_json_value value) {
    static const char key[] = "__float__";
    const char *word = NULL;
    if (ls_json_is_infinity(value)) return true;
    return ls_json_text_or(value, key, NULL, &word).code == LS_OK && word != NULL && strcmp(word, "Infinity") == 0;
}

ls_status ls_config_step_limits(ls_json_value root, ls_state_sizes *out) {
    static const char key[] = "time_step_limit";
    ls_json_value list;
    if (!ls_json_has(root, key)) return ls_ok();
    LS_TRY(ls_json_array(root, key, &list));
    if (ls_json_count(list) != 2) return ls_json_error(list, "an array of the least and the largest step");
    LS_TRY(ls_json_as_double(ls_json_item(list, 0), 0, 1e30, &out->least_step));
    const ls_json_value last = ls_json_item(list, 1);
    out->most_step = INFINITY;
    return is_infinity(last) ? ls_ok() : ls_json_as_double(last, out->least_step, INFINITY, &out->most_step);
}
