/* The fields of a Llama config.json, with the defaults of the Hugging Face library. */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

/* Far above any model, and small enough that no product of a few of them overflows. */
enum {
    MOST_WIDTH = 1 << 20,
    MOST_LAYERS = 1 << 12,
    MOST_HEADS = 1 << 14,
    MOST_HEAD_SIZE = 1 << 12,
    MOST_VOCABULARY = 1 << 24
};

static const double LEAST_POSITIVE = 1e-30;

static ls_status read_heads(ls_json_value root, ls_model_sizes *n) {
    LS_TRY(ls_json_int(root, "num_attention_heads", 1, MOST_HEADS, &n->Hq));
    LS_TRY(ls_json_int_or(root, "num_key_value_heads", n->Hq, 1, MOST_HEADS, &n->Hkv));
    if (n->Hq % n->Hkv != 0)
        return ls_json_error(ls_json_field(root, "num_key_value_heads"),
                             "a divisor of the num_attention_heads %lld", (long long)n->Hq);
    const bool given = ls_json_has(root, "head_dim");
    if (!given && n->E % n->Hq != 0)
        return ls_json_error(ls_json_field(root, "num_attention_heads"),
                             "a divisor of hidden_size %lld, or head_dim to be given", (long long)n->E);
    LS_TRY(ls_json_int_or(root, "head_dim", n->E / n->Hq, 1, MOST_HEAD_SIZE, &n->D));
    if (n->D % 2 == 0 && n->D <= MOST_HEAD_SIZE) return ls_ok();
    if (given) return ls_json_error(ls_json_field(root, "head_dim"), "an even number");
    return ls_json_error(
        ls_json_field(root, "num_attention_heads"),
        "a head size hidden_size/num_attention_heads, here %lld, that is even and at most %d",
        (long long)n->D, MOST_HEAD_SIZE);
}

static ls_status read_sizes(ls_json_value root, ls_model_sizes *n) {
    LS_TRY(ls_json_int(root, "vocab_size", 1, MOST_VOCABULARY, &n->V));
    LS_TRY(ls_json_int(root, "hidden_size", 1, MOST_WIDTH, &n->E));
    LS_TRY(ls_json_int(root, "intermediate_size", 1, MOST_WIDTH, &n->F));
    LS_TRY(ls_json_int(root, "num_hidden_layers", 1, MOST_LAYERS, &n->L));
    LS_TRY(read_heads(root, n));
    LS_TRY(ls_json_int_or(root, "max_position_embeddings", 2048, 1, INT32_MAX, &n->longest));
    LS_TRY(ls_json_bool_or(root, "tie_word_embeddings", false, &n->tied));
    return ls_json_double_or(root, "initializer_range", 0.02, 0, 1e6, &n->initializer_range);
}

static ls_status read_llama3(ls_json_value scaling, ls_rope *rope) {
    LS_TRY(ls_json_double(scaling, "low_freq_factor", LEAST_POSITIVE, 1e9, &rope->low_factor));
    LS_TRY(ls_json_double(scaling, "high_freq_factor", LEAST_POSITIVE, 1e9, &rope->high_factor));
    if (rope->high_factor <= rope->low_factor)
        return ls_json_error(ls_json_field(scaling, "high_freq_factor"), "more than low_freq_factor %g",
                             rope->low_factor);
    return ls_json_double(scaling, "original_max_position_embeddings", 1, INT32_MAX, &rope->original_length);
}

/* The kind of scaling under its new name or its old one. */
static ls_status read_scaling(ls_json_value scaling, ls_rope *rope) {
    const char *key = ls_json_has(scaling, "rope_type") ? "rope_type" : "type";
    const char *type = NULL;
    if (!ls_json_has(scaling, key)) key = "rope_type";
    LS_TRY(ls_json_text(scaling, key, &type));
    if (strcmp(type, "default") == 0) return ls_ok();
    const bool llama3 = strcmp(type, "llama3") == 0;
    if (!llama3 && strcmp(type, "linear") != 0) {
        ls_status status =
            ls_json_error(ls_json_field(scaling, key), "\"default\", \"linear\" or \"llama3\"");
        status.code = LS_UNSUPPORTED;
        return status;
    }
    LS_TRY(ls_json_double(scaling, "factor", 1, 1e9, &rope->factor));
    if (llama3) LS_TRY(read_llama3(scaling, rope));
    rope->scaling = llama3 ? "llama3" : "linear";
    return ls_ok();
}

/* rope_theta and rope_scaling; newer files put both into rope_parameters. */
static ls_status read_rope(ls_json_value root, ls_rope *rope) {
    ls_json_value scaling;
    double theta = 10000.0;
    LS_TRY(ls_json_double_or(root, "rope_theta", theta, LEAST_POSITIVE, 1e30, &theta));
    const bool newer = ls_json_has(root, "rope_parameters");
    if (newer && ls_json_has(root, "rope_scaling"))
        return ls_json_error(ls_json_field(root, "rope_scaling"),
                             "to be left out, since rope_parameters is there");
    const char *key = newer ? "rope_parameters" : "rope_scaling";
    if (ls_json_has(root, key)) {
        LS_TRY(ls_json_object(root, key, &scaling));
        LS_TRY(read_scaling(scaling, rope));
        if (newer) LS_TRY(ls_json_double_or(scaling, "rope_theta", theta, LEAST_POSITIVE, 1e30, &theta));
    }
    rope->theta = theta;
    return ls_ok();
}

/* Fields that would make it another model than the one that is built. */
static ls_status refuse_others(ls_json_value root) {
    double number = 0;
    const char *activation = NULL;
    LS_TRY(ls_json_text_or(root, "hidden_act", "silu", &activation));
    ls_status status = ls_ok();
    if (strcmp(activation, "silu") != 0)
        status = ls_json_error(ls_json_field(root, "hidden_act"), "\"silu\"");
    LS_TRY(ls_json_double_or(root, "attention_dropout", 0, 0, 1, &number));
    if (status.code == LS_OK && number != 0)
        status = ls_json_error(ls_json_field(root, "attention_dropout"), "0: dropout is not supported");
    LS_TRY(ls_json_double_or(root, "partial_rotary_factor", 1, 0, 1, &number));
    if (status.code == LS_OK && number != 1)
        status = ls_json_error(ls_json_field(root, "partial_rotary_factor"), "1: all of a head is rotated");
    if (status.code == LS_OK && ls_json_has(root, "quantization_config"))
        status =
            ls_json_error(ls_json_field(root, "quantization_config"), "to be left out: weights are floats");
    if (status.code != LS_OK) status.code = LS_UNSUPPORTED;
    return status;
}

ls_status ls_llama_configure(ls_json_value root, ls_model_config *out) {
    ls_model_config config = {0};
    LS_TRY(read_sizes(root, &config.sizes));
    LS_TRY(read_rope(root, &config.rope));
    LS_TRY(ls_json_double_or(root, "rms_norm_eps", 1e-6, 0, 1, &config.epsilon));
    LS_TRY(ls_json_bool_or(root, "attention_bias", false, &config.attention_bias));
    LS_TRY(ls_json_bool_or(root, "mlp_bias", false, &config.mlp_bias));
    LS_TRY(refuse_others(root));
    *out = config;
    return ls_ok();
}
