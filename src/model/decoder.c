/*
 * Decoders with rotary positions (Touvron et al., arXiv 2302.13971). First comes ls_decoder_form: the fields of their
 * config.json and the names in their files. Then comes ls_decoder_build: their graph, with causal attention, grouped
 * queries, no dropout, and layers made of the parts that the row of an architecture names. Tensor names are those of
 * the published files.
 */
#include "model/model_impl.h"

#include <math.h>

#include "base/base.h"
#include "graph/graph.h"

/* --- the form ----------------------------------------------------------------------------------------------------- */

static const ls_config_field fields[] = {
    LS_CONFIG_INT("vocab_size", sizes.V, 1, LS_MOST_VOCABULARY, true),
    LS_CONFIG_INT("hidden_size", sizes.E, 1, LS_MOST_WIDTH, true),
    LS_CONFIG_INT("intermediate_size", sizes.F, 1, LS_MOST_WIDTH, true),
    LS_CONFIG_INT("num_hidden_layers", sizes.L, 1, LS_MOST_LAYERS, true),
    LS_CONFIG_INT("num_attention_heads", sizes.Hq, 1, LS_MOST_HEADS, true),
    LS_CONFIG_INT_OR_NULL("num_key_value_heads", sizes.Hkv, 1, LS_MOST_HEADS),
    LS_CONFIG_INT("head_dim", sizes.D, 1, LS_MOST_HEAD_SIZE, false),
    LS_CONFIG_INT("max_position_embeddings", sizes.longest, 1, LS_MOST_POSITIONS, false),
    LS_CONFIG_FLAG("tie_word_embeddings", sizes.tied),
    LS_CONFIG_REAL("initializer_range", sizes.initializer_range, 0, 1e6, false),
    LS_CONFIG_REAL("rms_norm_eps", epsilon, 0, 1, false),
    LS_CONFIG_END,
};

static ls_status complete_heads(ls_json_value root, ls_model_sizes *n) {
    if (n->Hkv == 0) n->Hkv = n->Hq;
    if (n->Hq % n->Hkv != 0)
        return ls_json_error(ls_json_field(root, "num_key_value_heads"), "a divisor of the num_attention_heads %lld",
                             (long long)n->Hq);
    const bool derived = n->D == 0;
    if (derived && n->E % n->Hq != 0)
        return ls_json_error(ls_json_field(root, "num_attention_heads"),
                             "a divisor of hidden_size %lld, or head_dim to be given", (long long)n->E);
    if (derived) n->D = n->E / n->Hq;
    if (n->D % 2 == 0 && n->D <= (int64_t)LS_MOST_HEAD_SIZE) return ls_ok();
    if (!derived) return ls_json_error(ls_json_field(root, "head_dim"), "an even number");
    return ls_json_error(ls_json_field(root, "num_attention_heads"),
                         "a head size hidden_size/num_attention_heads, here %lld, that is even and at most %lld",
                         (long long)n->D, (long long)LS_MOST_HEAD_SIZE);
}

/*
 * The Hugging Face library uses pad_token_id as the embedding's padding_idx: PyTorch computes no gradient for that row,
 * and counts a negative index from the end. null: no padding id.
 */
static ls_status complete_padding(ls_json_value root, ls_model_sizes *n) {
    static const char key[] = "pad_token_id";
    if (ls_config_is_written(root, key)) {
        n->pads = ls_json_has(root, key);
        if (n->pads) LS_TRY(ls_json_int(root, key, -n->V, n->V - 1, &n->pad));
    }
    if (n->pads && n->pad >= n->V)
        return ls_json_error(ls_json_field(root, key), "an id below vocab_size %lld, or null", (long long)n->V);
    if (n->pad < 0) n->pad += n->V;
    return ls_ok();
}

static ls_status complete(ls_json_value root, const ls_architecture *architecture, ls_model_config *out) {
    LS_TRY(complete_heads(root, &out->sizes));
    LS_TRY(complete_padding(root, &out->sizes));
    const double scalar = out->query_scalar > 0 ? out->query_scalar : (double)out->sizes.D;
    if (out->attention_scale == 0) out->attention_scale = 1.0 / sqrt(scalar);
    if (out->logit_scale == 0) out->logit_scale = 1;
    if (out->logit_divisor != 0) out->logit_scale /= out->logit_divisor;
    if (out->embedding_by_width) out->embedding_scale = sqrt((double)out->sizes.E);
    LS_TRY(ls_config_rope(root, architecture->rope_fields, out));
    return ls_config_windows(root, out);
}

/* Tensors in old files that follow from the config; they are not read. */
static const char *const derived[] = {".rotary_emb.inv_freq", NULL};

static const ls_weight_spelling spellings[] = {{"model.", ""}, {NULL, NULL}};

const ls_form ls_decoder_form = {.fields = fields,
                                 .complete = complete,
                                 .derived = derived,
                                 .tie = {"lm_head.weight", "model.embed_tokens.weight"},
                                 .spellings = spellings};

/* --- the graph ---------------------------------------------------------------------------------------------------- */

const ls_decoder_parts ls_llama_parts = {.layer = ls_layer_in_turn,
                                         .norms = LS_NORMS_BEFORE,
                                         .projections = ls_layer_apart,
                                         .heads = ls_heads_plain,
                                         .mlp = ls_layer_gated};

const ls_decoder_parts ls_head_norm_parts = {.layer = ls_layer_in_turn,
                                             .norms = LS_NORMS_BEFORE,
                                             .projections = ls_layer_apart,
                                             .heads = ls_heads_normalised,
                                             .mlp = ls_layer_gated};

/*
 * Looks up rows of the table. If the scale is sqrt(E), published models were trained with the scale rounded to the type
 * of x. The scale is part of the Hugging Face library's embedding, so noise is added to the scaled rows.
 */
static ls_tensor embed(const ls_layer *b, ls_tensor tokens, ls_tensor table) {
    const ls_model_config *config = b->config;
    const bool by_width = config->embedding_by_width, rounded = by_width && b->g->dtype == LS_BF16;
    const double scale = config->embedding_scale;
    ls_tensor x = ls_layer_embed(b, tokens, table);
    if (!by_width) x = ls_layer_noise(b, tokens, x);
    if (scale != 0 && scale != 1)
        x = ls_scale(b->g, x, rounded ? (double)ls_bf16_to_f32(ls_bf16_from_f32((float)scale)) : scale);
    return by_width ? ls_layer_noise(b, tokens, x) : x;
}

ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    ls_layer b = ls_layer_begin(config, g, "model.layers", tokens);
    ls_layer_rotary(&b, positions);
    b.positions = positions;
    if (ls_layer_is_any_in(&config->stateful)) b.reach = ls_conv_reach(g, positions, (int)config->state.width);
    const ls_tensor table = ls_parameter(g, "model.embed_tokens.weight", 2, (int64_t[]){n->V, n->E});
    ls_tensor x = ls_named(g, embed(&b, tokens, table), "embedded");
    /* After a mistake, which the graph remembers, x is the empty tensor. */
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = config->parts->layer(&b, x);
    const ls_tensor last = ls_named(g, ls_last_norm(&b, x, "model.norm"), "norm");
    ls_tensor logits = ls_layer_head(&b, last, table);
    if (config->scored) return ls_named(g, logits, "logits");
    if (config->logit_scale != 1) logits = ls_scale(g, logits, config->logit_scale);
    return ls_named(g, config->final_cap > 0 ? ls_softcap(g, logits, config->final_cap) : logits, "logits");
}
