/*
 * Decoders with rotary positions (Touvron et al., arXiv 2302.13971). First ls_decoder_form: the fields of their
 * config.json and the names in their files, which Gemma 2 uses too. Then ls_decoder_build: the graph of Llama, Mistral
 * and Qwen, with a norm before each block, causal attention with grouped queries, a gated feed-forward block and no
 * dropout. Tensor names are those of the published files.
 */
#include "model/model_impl.h"

#include <math.h>

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

static const ls_config_rule rules[] = {
    {"attention_dropout", LS_RULE_NUMBER, 0, "0: dropout is not supported"},
    {"partial_rotary_factor", LS_RULE_NUMBER, 1, "1: all of a head is rotated"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
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
    if (n->pad < 0) n->pad += n->V;
    return ls_ok();
}

static ls_status complete(ls_json_value root, ls_model_config *out) {
    LS_TRY(complete_heads(root, &out->sizes));
    LS_TRY(complete_padding(root, &out->sizes));
    const double scalar = out->query_scalar > 0 ? out->query_scalar : (double)out->sizes.D;
    out->attention_scale = 1.0 / sqrt(scalar);
    LS_TRY(ls_config_rope(root, out));
    return ls_config_windows(root, out);
}

/* Tensors in old files that follow from the config and are not read. */
static const char *const derived[] = {".rotary_emb.inv_freq", NULL};

const ls_form ls_decoder_form = {.fields = fields,
                                 .rules = rules,
                                 .complete = complete,
                                 .derived = derived,
                                 .tie = {"lm_head.weight", "model.embed_tokens.weight"},
                                 .prefix = "model."};

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static ls_tensor build_layer(const ls_layer *b, ls_tensor x) {
    ls_graph *g = b->g;
    const long long layer = (long long)b->layer;
    const ls_tensor n1 = ls_layer_rmsnorm(b, x, "input_layernorm.weight");
    x = ls_add(g, x, ls_layer_self_attention(b, ls_named(g, n1, "layers.%lld.norm1", layer)));
    x = ls_named(g, x, "layers.%lld.middle", layer);
    const ls_tensor n2 = ls_layer_rmsnorm(b, x, "post_attention_layernorm.weight");
    x = ls_add(g, x, ls_layer_gated(b, ls_named(g, n2, "layers.%lld.norm2", layer)));
    return ls_named(g, x, "layers.%lld.out", layer);
}

ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *g, ls_tensor tokens, ls_tensor positions) {
    const ls_model_sizes *n = &config->sizes;
    ls_layer b = ls_layer_begin(config, g, "model.layers", tokens);
    ls_layer_rotary(&b, positions);
    const ls_tensor table = ls_parameter(g, "model.embed_tokens.weight", 2, (int64_t[]){n->V, n->E});
    ls_tensor x = ls_named(g, ls_layer_embed(&b, tokens, table), "embedded");
    /* After a mistake, which the graph remembers, x is the empty tensor. */
    for (b.layer = 0; b.layer < n->L && x.id != 0; b.layer++) x = build_layer(&b, x);
    const ls_tensor weight = ls_parameter(g, "model.norm.weight", 1, &n->E);
    const ls_tensor last = ls_named(g, ls_rmsnorm(g, x, weight, config->epsilon), "norm");
    const ls_tensor head = n->tied ? table : ls_parameter(g, "lm_head.weight", 2, (int64_t[]){n->V, n->E});
    return ls_named(g, ls_linear_wide(g, last, head), "logits");
}
