/*
 * GPT2LMHeadModel (Radford et al. 2019): learned positions, layernorm before each block, biases in all projections,
 * transposed projection weights ([from, to]), and one projection for q, k and v.
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"

/* Attention masks in old files; they are not read. */
static const char *const derived[] = {".attn.bias", ".attn.masked_bias", NULL};

static const ls_config_field fields[] = {
    LS_CONFIG_INT("vocab_size", sizes.V, 1, LS_MOST_VOCABULARY, true),
    LS_CONFIG_INT("n_embd", sizes.E, 1, LS_MOST_WIDTH, true),
    LS_CONFIG_INT("n_inner", sizes.F, 1, LS_MOST_WIDTH, false),
    LS_CONFIG_INT("n_layer", sizes.L, 1, LS_MOST_LAYERS, true),
    LS_CONFIG_INT("n_head", sizes.Hq, 1, LS_MOST_HEADS, true),
    LS_CONFIG_INT("n_positions", sizes.longest, 1, LS_MOST_VOCABULARY, false),
    LS_CONFIG_FLAG("tie_word_embeddings", sizes.tied),
    LS_CONFIG_REAL("initializer_range", sizes.initializer_range, 0, 1e6, false),
    LS_CONFIG_REAL("layer_norm_epsilon", epsilon, 0, 1, false),
    LS_CONFIG_FLAG("scale_attn_by_inverse_layer_idx", scale_by_layer),
    LS_CONFIG_FLAG("scale_attn_weights", scaled),
    /* Other names of the same fields. If a config has both names, these take precedence. */
    LS_CONFIG_INT("hidden_size", sizes.E, 1, LS_MOST_WIDTH, false),
    LS_CONFIG_INT("num_hidden_layers", sizes.L, 1, LS_MOST_LAYERS, false),
    LS_CONFIG_INT("num_attention_heads", sizes.Hq, 1, LS_MOST_HEADS, false),
    LS_CONFIG_INT("max_position_embeddings", sizes.longest, 1, LS_MOST_VOCABULARY, false),
    LS_CONFIG_END,
};

static const ls_config_rule rules[] = {
    {"add_cross_attention", LS_RULE_FLAG, 0, "false: there is no encoder"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

static const char *const dropouts[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop", NULL};

static ls_status complete(ls_json_value root, const ls_architecture *architecture, ls_model_config *out) {
    (void)architecture;
    ls_model_sizes *n = &out->sizes;
    if (n->E % n->Hq != 0)
        return ls_json_error(ls_json_field(root, "n_head"), "a divisor of n_embd %lld", (long long)n->E);
    if (n->F == 0) n->F = 4 * n->E;
    n->Hkv = n->Hq;
    n->D = n->E / n->Hq;
    out->attention_scale = out->scaled ? 1.0 / sqrt((double)n->D) : 1.0;
    return ls_ok();
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static ls_tensor norm(const ls_layer *b, ls_tensor x, const char *name) {
    char weight[64], bias[64];
    const int64_t E = b->config->sizes.E;
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return ls_layernorm(b->g, x, ls_layer_parameter(b, weight, 1, &E), ls_layer_parameter(b, bias, 1, &E),
                        b->config->epsilon);
}

static ls_tensor project(const ls_layer *b, ls_tensor x, const char *name, int64_t from, int64_t to) {
    char what[64];
    snprintf(what, sizeof what, "%s.weight", name);
    const ls_tensor weight = ls_layer_parameter(b, what, 2, (int64_t[]){from, to});
    snprintf(what, sizeof what, "%s.bias", name);
    const ls_tensor bias = ls_layer_parameter(b, what, 1, &to);
    return ls_named(b->g, ls_linear_transposed(b->g, x, weight, bias), "layers.%lld.%s", (long long)b->layer, name);
}

static ls_tensor attend(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    ls_tensor part[3];
    ls_split(b->g, project(b, x, "attn.c_attn", n->E, 3 * n->E), 3, (int64_t[]){n->E, n->E, n->E}, part);
    for (int i = 0; i < 3; i++) part[i] = ls_split_last(b->g, part[i], n->Hq, n->D);
    const ls_tensor o = ls_layer_attention(b, part[0], part[1], part[2]);
    return project(b, o, "attn.c_proj", n->E, n->E);
}

static ls_tensor feed_forward(const ls_layer *b, ls_tensor x) {
    const ls_model_sizes *n = &b->config->sizes;
    const ls_tensor h = b->config->activation(b->g, project(b, x, "mlp.c_fc", n->E, n->F));
    return project(b, h, "mlp.c_proj", n->F, n->E);
}

static ls_tensor build_layer(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_tensor n1 = ls_named(g, norm(b, x, "ln_1"), "layers.%lld.norm1", layer);
    x = ls_named(g, ls_add(g, x, attend(b, n1)), "layers.%lld.middle", layer);
    const ls_tensor n2 = ls_named(g, norm(b, x, "ln_2"), "layers.%lld.norm2", layer);
    return ls_named(g, ls_add(g, x, feed_forward(b, n2)), "layers.%lld.out", layer);
}

static ls_tensor build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    ls_layer b = ls_layer_begin(config, g, "transformer.h", tokens);
    if (b.S > n->longest)
        ls_graph_fail(g, ls_error(LS_USAGE,
                                  "a sequence of %lld tokens; expected at most n_positions %lld, which are learned",
                                  (long long)b.S, (long long)n->longest));
    const ls_tensor table = ls_parameter(g, "transformer.wte.weight", 2, (int64_t[]){n->V, n->E});
    const ls_tensor position_table = ls_parameter(g, "transformer.wpe.weight", 2, (int64_t[]){n->longest, n->E});
    const ls_tensor embedded = ls_layer_noise(&b, tokens, ls_embedding(g, tokens, table));
    ls_tensor x = ls_named(g, ls_add(g, embedded, ls_embedding(g, positions, position_table)), "embedded");
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = build_layer(&b, x);
    const ls_tensor weight = ls_parameter(g, "transformer.ln_f.weight", 1, &n->E);
    const ls_tensor bias = ls_parameter(g, "transformer.ln_f.bias", 1, &n->E);
    const ls_tensor last = ls_named(g, ls_layernorm(g, x, weight, bias, config->epsilon), "norm");
    return ls_named(g, ls_layer_head(&b, last, table), "logits");
}

static const ls_weight_spelling spellings[] = {{"transformer.", ""}, {NULL, NULL}};

static const ls_form form = {.fields = fields,
                             .rules = rules,
                             .complete = complete,
                             .derived = derived,
                             .tie = {"lm_head.weight", "transformer.wte.weight"},
                             .spellings = spellings};

const ls_architecture ls_architecture_gpt2 = {
    .name = "GPT2LMHeadModel",
    .scored = "GPT2ForSequenceClassification",
    .model_type = "gpt2",
    .form = &form,
    .initial = {.sizes = {.longest = 1024, .learned = true, .tied = true, .initializer_range = 0.02},
                .epsilon = 1e-5,
                .activation = ls_gelu_tanh,
                .scaled = true},
    .activation_field = "activation_function",
    .dropouts = dropouts,
    .build = build};
