/*
 * Builds the graph of a config.json: the parts that architectures share, and the inputs and the loss around each
 * architecture.
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"
#include "tensor/tensor.h"

/* --- parts of layers ---------------------------------------------------------------------------------------------- */

ls_layer ls_layer_begin(const ls_model_config *config, ls_graph *g, const char *prefix, ls_tensor tokens) {
    const ls_shape *shape = &ls_graph_tensor(g, tokens)->shape;
    return (ls_layer){.config = config,
                      .g = g,
                      .prefix = prefix,
                      .S = shape->ndim > 1 ? shape->dim[1].size : 1}; /* the empty tensor has no dimensions */
}

ls_tensor ls_layer_embed(const ls_layer *b, ls_tensor tokens, ls_tensor table) {
    const ls_model_sizes *n = &b->config->sizes;
    return ls_embedding_padded(b->g, tokens, table, n->pads ? n->pad : -1);
}

ls_tensor ls_layer_noise(const ls_layer *b, ls_tensor tokens, ls_tensor x) {
    const ls_model_config *config = b->config;
    if (config->noise == 0) return x;
    const double amplitude = config->noise / sqrt((double)b->S * (double)config->sizes.E);
    return ls_noise(b->g, x, ls_input_like(b->g, LS_MODEL_NOISE, tokens), amplitude);
}

ls_tensor ls_layer_head(const ls_layer *b, ls_tensor x, ls_tensor table) {
    const ls_model_sizes *n = &b->config->sizes;
    const int64_t words[] = {n->V, n->E}, one[] = {1, n->E};
    if (b->config->scored) return ls_linear_wide(b->g, x, ls_parameter(b->g, LS_SCORE_WEIGHT, 2, one));
    return ls_linear_wide(b->g, x, n->tied ? table : ls_parameter(b->g, "lm_head.weight", 2, words));
}

static ls_tensor rope_table(const ls_layer *b, ls_tensor positions, ls_rope rope, const char *name) {
    if (!(rope.length > 0)) rope.length = (double)b->S;
    return ls_named(b->g, ls_rope_table(b->g, positions, b->config->rotated, &rope), "%s", name);
}

static bool is_windowed(const ls_model_config *config, int64_t layer) {
    return config->window > 0 && ls_layer_is_in(&config->windowed, layer);
}

/* The rotation table of queries, multiplied by a factor that grows with the position of the query. */
static ls_tensor growing_table(const ls_layer *b, ls_tensor positions) {
    const ls_model_config *config = b->config;
    const ls_map_step steps[] = {{.code = LS_MAP_NUMBER, .number = config->rope.original_length},
                                 {.code = LS_MAP_DIV, .a = 1, .b = 2},
                                 {.code = LS_MAP_FLOOR, .a = 3},
                                 {.code = LS_MAP_LOG1P, .a = 4},
                                 {.code = LS_MAP_NUMBER, .number = config->query_growth},
                                 {.code = LS_MAP_MUL, .a = 5, .b = 6},
                                 {.code = LS_MAP_NUMBER, .number = 1},
                                 {.code = LS_MAP_ADD, .a = 7, .b = 8},
                                 {.code = LS_MAP_MUL, .a = 0, .b = 9}};
    const ls_shape *shape = &ls_graph_tensor(b->g, positions)->shape;
    const int64_t size[] = {shape->dim[0].size, b->S, 1};
    const ls_tensor in[] = {b->rope, ls_reshape(b->g, positions, 3, size)};
    const ls_expression product = {.step = steps, .n_steps = LS_COUNT(steps), .wide = 1};
    return ls_named(b->g, ls_map(b->g, in, 2, &product), "query_rope");
}

/* Builds only those tables that some layer reads. */
void ls_layer_rotary(ls_layer *b, ls_tensor positions) {
    const ls_model_config *config = b->config;
    const bool apart = config->local_rope.theta > 0;
    bool local = false, global = false;
    for (int64_t i = 0; i < config->sizes.L; i++)
        if (!ls_layer_is_in(&config->unrotated, i)) *(apart && is_windowed(config, i) ? &local : &global) = true;
    if (global) b->rope = rope_table(b, positions, config->rope, "rope");
    b->local_rope = local ? rope_table(b, positions, config->local_rope, "local_rope") : b->rope;
    b->query_rope = global && config->query_growth > 0 ? growing_table(b, positions) : LS_NO_TENSOR;
}

ls_tensor ls_layer_parameter(const ls_layer *b, const char *what, int ndim, const int64_t *size) {
    return ls_parameter_named(b->g, ndim, size, "%s.%lld.%s", b->prefix, (long long)b->layer, what);
}

ls_tensor ls_last_norm(const ls_layer *b, ls_tensor x, const char *name) {
    const ls_model_config *config = b->config;
    const int64_t E = config->sizes.E;
    const ls_tensor weight = ls_parameter_named(b->g, 1, &E, "%s.weight", name);
    if (!config->centred) return ls_rmsnorm_offset(b->g, x, weight, config->epsilon, config->norm_offset);
    const ls_tensor bias = config->norm_bias ? ls_parameter_named(b->g, 1, &E, "%s.bias", name) : LS_NO_TENSOR;
    return ls_layernorm(b->g, x, weight, bias, config->epsilon);
}

ls_tensor ls_layer_norm(const ls_layer *b, ls_tensor x, const char *name) {
    char full[128];
    if (name == NULL) return x;
    snprintf(full, sizeof full, "%s.%lld.%s", b->prefix, (long long)b->layer, name);
    return ls_last_norm(b, x, full);
}

ls_tensor ls_layer_project(const ls_layer *b, ls_tensor x, const char *block, const char *name, int64_t to,
                           int64_t from, bool biased) {
    char what[64];
    snprintf(what, sizeof what, "%s.%s.weight", block, name);
    const ls_tensor weight = ls_layer_parameter(b, what, 2, (int64_t[]){to, from});
    snprintf(what, sizeof what, "%s.%s.bias", block, name);
    const ls_tensor bias = biased ? ls_layer_parameter(b, what, 1, &to) : LS_NO_TENSOR;
    return ls_named(b->g, ls_linear(b->g, x, weight, bias), "layers.%lld.%s", (long long)b->layer, name);
}

/* A window at least as long as the sequence has no effect. */
static ls_mask mask_of(const ls_layer *b) {
    const int64_t window = b->config->window;
    if (window >= b->S || !is_windowed(b->config, b->layer)) return ls_mask_causal();
    return (ls_mask){.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = window}}};
}

ls_tensor ls_layer_attention(const ls_layer *b, ls_tensor q, ls_tensor k, ls_tensor v) {
    const long long layer = (long long)b->layer;
    const ls_mask mask = mask_of(b);
    const double scale = b->config->attention_scale / (b->config->scale_by_layer ? (double)(layer + 1) : 1.0);
    const ls_tensor o =
        ls_attention_capped(b->g, ls_named(b->g, q, "layers.%lld.q", layer), ls_named(b->g, k, "layers.%lld.k", layer),
                            ls_named(b->g, v, "layers.%lld.v", layer), &mask, scale, b->config->attention_cap);
    return ls_merge_last(b->g, ls_named(b->g, o, "layers.%lld.attention", layer));
}

/* --- parts of decoders -------------------------------------------------------------------------------------------- */

void ls_layer_apart(const ls_layer *b, ls_tensor x, ls_attention_inputs *out) {
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    const ls_model_sizes *n = &b->config->sizes;
    const int64_t heads[] = {n->Hq, n->Hkv, n->Hkv};
    ls_tensor *const to[] = {&out->q, &out->k, &out->v};
    for (int i = 0; i < 3; i++)
        *to[i] = ls_layer_project(b, x, "self_attn", names[i], heads[i] * n->D, n->E, b->config->qkv_bias);
}

ls_tensor ls_heads_plain(const ls_layer *b, ls_tensor x, int64_t H, const char *name) {
    (void)name;
    return ls_split_last(b->g, x, H, b->config->sizes.D);
}

static ls_tensor normalise(const ls_layer *b, ls_tensor x, int64_t size, const char *name) {
    char what[64];
    snprintf(what, sizeof what, "%s.weight", name);
    return ls_rmsnorm_offset(b->g, x, ls_layer_parameter(b, what, 1, &size), b->config->epsilon,
                             b->config->norm_offset);
}

ls_tensor ls_heads_normalised(const ls_layer *b, ls_tensor x, int64_t H, const char *name) {
    return normalise(b, ls_heads_plain(b, x, H, name), b->config->sizes.D, name);
}

ls_tensor ls_heads_normalised_together(const ls_layer *b, ls_tensor x, int64_t H, const char *name) {
    return ls_heads_plain(b, normalise(b, x, H * b->config->sizes.D, name), H, name);
}

/*
 * Reorders the elements of each head: 0, 2, 4, ... in front of 1, 3, 5, ..., so that pairs lie as ls_rotate expects
 * them. The elements keep this order: queries and keys have the same one, so their products do not depend on it.
 */
static ls_tensor separate_pairs(const ls_layer *b, ls_tensor heads) {
    ls_graph *g = b->g;
    const ls_shape shape = ls_graph_tensor(g, heads)->shape;
    const int64_t size[] = {shape.dim[0].size, shape.dim[1].size, shape.dim[2].size, shape.dim[3].size};
    if (shape.ndim != 4) return heads; /* after a mistake */
    const ls_tensor pairs = ls_reshape(g, heads, 5, (int64_t[]){size[0], size[1], size[2], size[3] / 2, 2});
    return ls_reshape(g, ls_permute_dims(g, pairs, (int[]){0, 1, 2, 4, 3}), 4, size);
}

/* Rotates the first elements of each head, as many as the table has columns; the others are unchanged. */
static ls_tensor rotate(const ls_layer *b, ls_tensor heads, ls_tensor table) {
    const ls_model_config *config = b->config;
    const int64_t D = config->sizes.D, R = config->rotated;
    ls_tensor part[2] = {heads, LS_NO_TENSOR};
    if (ls_layer_is_in(&config->unrotated, b->layer)) return heads;
    if (R < D) ls_split(b->g, heads, 2, (int64_t[]){R, D - R}, part);
    if (config->interleaved) part[0] = separate_pairs(b, part[0]);
    part[0] = ls_rotate(b->g, part[0], table);
    return R < D ? ls_join(b->g, 2, part) : part[0];
}

/* x·sigmoid(gate). */
static ls_tensor open_gate(const ls_layer *b, ls_tensor gate, ls_tensor x) {
    const ls_tensor in[] = {gate, x};
    const ls_map_step steps[] = {{.code = LS_MAP_SIGMOID, .a = 0}, {.code = LS_MAP_MUL, .a = 1, .b = 2}};
    const ls_expression expression = {.step = steps, .n_steps = LS_COUNT(steps)};
    return ls_map(b->g, in, LS_COUNT(in), &expression);
}

ls_tensor ls_layer_self_attention(const ls_layer *b, ls_tensor x) {
    const ls_decoder_parts *parts = b->config->parts;
    const ls_model_sizes *n = &b->config->sizes;
    const ls_tensor rope = is_windowed(b->config, b->layer) ? b->local_rope : b->rope;
    const ls_tensor query_rope = b->query_rope.id != 0 ? b->query_rope : rope;
    ls_attention_inputs in = {.gate = LS_NO_TENSOR};
    parts->projections(b, x, &in);
    const ls_tensor q = rotate(b, parts->heads(b, in.q, n->Hq, "self_attn.q_norm"), query_rope);
    const ls_tensor k = rotate(b, parts->heads(b, in.k, n->Hkv, "self_attn.k_norm"), rope);
    ls_tensor o = ls_layer_attention(b, q, k, ls_split_last(b->g, in.v, n->Hkv, n->D));
    if (in.gate.id != 0) o = open_gate(b, in.gate, o);
    return ls_layer_project(b, o, "self_attn", "o_proj", n->E, n->Hq * n->D, b->config->output_bias);
}

ls_tensor ls_relu_squared(ls_graph *g, ls_tensor x) {
    const ls_map_step steps[] = {{.code = LS_MAP_NUMBER, .number = 0},
                                 {.code = LS_MAP_MAX, .a = 0, .b = 1},
                                 {.code = LS_MAP_MUL, .a = 2, .b = 2}};
    return ls_map(g, &x, 1, &(ls_expression){.step = steps, .n_steps = LS_COUNT(steps)});
}

/* activation(gate)·up; for silu one kernel does both. */
static ls_tensor apply_gate(const ls_layer *b, ls_tensor gate, ls_tensor up) {
    if (b->config->activation == ls_silu) return ls_swiglu(b->g, gate, up);
    return ls_mul(b->g, b->config->activation(b->g, gate), up);
}

ls_tensor ls_layer_gated(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->mlp_bias;
    const ls_tensor gate = ls_layer_project(b, x, "mlp", "gate_proj", n->F, n->E, biased);
    const ls_tensor up = ls_layer_project(b, x, "mlp", "up_proj", n->F, n->E, biased);
    return ls_layer_project(b, apply_gate(b, gate, up), "mlp", "down_proj", n->E, n->F, biased);
}

ls_tensor ls_layer_gated_joined(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const bool biased = b->config->mlp_bias;
    ls_tensor part[2];
    ls_split(b->g, ls_layer_project(b, x, "mlp", "gate_up_proj", 2 * n->F, n->E, biased), 2, (int64_t[]){n->F, n->F},
             part);
    return ls_layer_project(b, apply_gate(b, part[0], part[1]), "mlp", "down_proj", n->E, n->F, biased);
}

/* Adds to x what a block computes from it. */
static ls_tensor add_block(const ls_layer *b, ls_tensor x, ls_tensor block) {
    const double scale = b->config->residual_scale;
    return ls_add(b->g, x, scale != 0 && scale != 1 ? ls_scale(b->g, block, scale) : block);
}

ls_tensor ls_layer_in_turn(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_decoder_parts *parts = b->config->parts;
    const ls_tensor n1 = ls_named(g, ls_layer_norm(b, x, parts->norms.before_attention), "layers.%lld.norm1", layer);
    const ls_tensor mixed = parts->mixer != NULL ? parts->mixer(b, n1) : ls_layer_self_attention(b, n1);
    const ls_tensor attention = ls_layer_norm(b, mixed, parts->norms.after_attention);
    x = ls_named(g, add_block(b, x, attention), "layers.%lld.middle", layer);
    const ls_tensor n2 = ls_named(g, ls_layer_norm(b, x, parts->norms.before_mlp), "layers.%lld.norm2", layer);
    const ls_tensor mlp = ls_layer_norm(b, parts->mlp(b, n2), parts->norms.after_mlp);
    return ls_named(g, add_block(b, x, mlp), "layers.%lld.out", layer);
}

/* --- the whole model ---------------------------------------------------------------------------------------------- */

/*
 * With longrope, all rotary positions change as soon as a sequence is longer than the original length. Keys that are
 * kept would then have to be computed again, as the library does.
 */
static ls_status check_growth(const ls_model *model, const ls_model_lengths *lengths) {
    const ls_rope *rope = &model->config.rope;
    ls_rope_params params = {.scaling = LS_ROPE_PLAIN};
    if (rope->scaling != NULL) LS_TRY(ls_rope_find(rope->scaling, &params.scaling));
    if (lengths->known == 0 || !ls_rope_by_length(&params) || ls_rope_grows(&params)) return ls_ok();
    if ((double)lengths->known > rope->original_length || (double)lengths->S <= rope->original_length) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%lld tokens that grow to %lld: rope scaling \"%s\" changes all positions beyond %.0f; expected a "
                    "prompt of more tokens, or so few that no more are reached",
                    (long long)lengths->known, (long long)lengths->S, rope->scaling, rope->original_length);
}

/* Minus the score of each token; 0 where the label is ignored. */
static ls_tensor score_losses(ls_graph *g, ls_tensor scores, ls_tensor labels, const ls_model_lengths *lengths) {
    static const ls_map_step steps[] = {
        {.code = LS_MAP_NUMBER, .number = LS_LABEL_IGNORED},
        {.code = LS_MAP_EQ, .a = 1, .b = 2},
        {.code = LS_MAP_NUMBER, .number = 0},
        {.code = LS_MAP_NEG, .a = 0},
        {.code = LS_MAP_WHERE, .a = 3, .b = 4, .c = 5},
    };
    const int64_t size[] = {lengths->B, lengths->S};
    const ls_tensor in[] = {ls_reshape(g, scores, 2, size), labels};
    return ls_map(g, in, 2, &(ls_expression){.step = steps, .n_steps = LS_COUNT(steps), .wide = 1});
}

ls_status ls_layers_build(const ls_model *model, ls_graph *g, const ls_model_lengths *lengths, ls_language_model *out) {
    LS_TRY(check_growth(model, lengths));
    ls_model_config config = model->config;
    if (lengths->known > 0) config.rope.length = config.local_rope.length = (double)lengths->known;
    ls_language_model lm = {0};
    lm.tokens = ls_tokens(g, "tokens", lengths->B, lengths->S);
    lm.labels = ls_input_like(g, "labels", lm.tokens);
    lm.positions = ls_input_like(g, "positions", lm.tokens);
    config.noise = model->noise;
    lm.logits = model->architecture->build(&config, g, lm.tokens, lm.positions);
    const ls_tensor each = config.scored ? score_losses(g, lm.logits, lm.labels, lengths)
                           : model->teacher.k > 0
                               ? ls_distilled(model, g, &lm)
                               : ls_cross_entropy_smoothed(g, lm.logits, lm.labels, model->smoothing, model->z);
    lm.token_loss = ls_named(g, each, "token_loss");
    ls_tensor terms = lm.token_loss;
    if (model->weighted)
        terms = ls_mul(g, terms, ls_input_typed(g, LS_MODEL_WEIGHTS, ls_dtype_accumulator(g->dtype), lm.tokens));
    lm.loss = ls_named(g, ls_sum(g, terms), "loss");
    *out = lm;
    return ls_graph_status(g);
}
