/* The fields of a config.json, by the names and with the defaults of the Hugging Face library. */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

/* --- tables of fields -------------------------------------------------------------------------------------------------------- */

static ls_status read_field(ls_json_value root, const ls_config_field *f, ls_model_config *out) {
    void *to = (char *)out + f->at;
    if (!f->required && !ls_json_has(root, f->key)) return ls_ok();
    if (f->kind == LS_FIELD_FLAG) return ls_json_bool(root, f->key, to);
    if (f->kind == LS_FIELD_REAL) return ls_json_double(root, f->key, f->least, f->most, to);
    return ls_json_int(root, f->key, (int64_t)f->least, (int64_t)f->most, to);
}

ls_status ls_config_read(ls_json_value root, const ls_config_field *fields, size_t n, ls_model_config *out) {
    for (size_t i = 0; i < n; i++) LS_TRY(read_field(root, &fields[i], out));
    return ls_ok();
}

static ls_status unsupported(ls_json_value value, const char *expected) {
    ls_status status = ls_json_error(value, "%s", expected);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status obey(ls_json_value root, const ls_config_rule *rule) {
    double number = rule->value;
    bool flag = rule->value != 0;
    if (rule->kind == LS_RULE_NUMBER)
        LS_TRY(ls_json_double_or(root, rule->key, number, -INFINITY, INFINITY, &number));
    if (rule->kind == LS_RULE_FLAG) LS_TRY(ls_json_bool_or(root, rule->key, flag, &flag));
    const bool broken = rule->kind == LS_RULE_ABSENT ? ls_json_has(root, rule->key)
                                                     : number != rule->value || flag != (rule->value != 0);
    return broken ? unsupported(ls_json_field(root, rule->key), rule->expected) : ls_ok();
}

ls_status ls_config_obey(ls_json_value root, const ls_config_rule *rules, size_t n) {
    for (size_t i = 0; i < n; i++) LS_TRY(obey(root, &rules[i]));
    return ls_ok();
}

/* --- activations ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    ls_activation apply;
} activations[] = {
    {"silu", ls_silu},          {"swish", ls_silu},          {"gelu", ls_gelu},
    {"gelu_new", ls_gelu_tanh}, {"gelu_fast", ls_gelu_tanh}, {"gelu_pytorch_tanh", ls_gelu_tanh},
    {"relu", ls_relu},
};

ls_status ls_config_activation(ls_json_value root, const char *key, const char *initial, ls_activation *out) {
    const char *name = NULL;
    LS_TRY(ls_json_text_or(root, key, initial, &name));
    for (size_t i = 0; i < LS_COUNT(activations); i++) {
        if (strcmp(activations[i].name, name) != 0) continue;
        *out = activations[i].apply;
        return ls_ok();
    }
    return unsupported(ls_json_field(root, key),
                       "\"silu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\" or \"relu\"");
}

/* --- decoders with rotary positions ------------------------------------------------------------------------------------------ */

static const ls_config_field decoder_fields[] = {
    LS_CONFIG_INT("vocab_size", sizes.V, 1, LS_MOST_VOCABULARY, true),
    LS_CONFIG_INT("hidden_size", sizes.E, 1, LS_MOST_WIDTH, true),
    LS_CONFIG_INT("intermediate_size", sizes.F, 1, LS_MOST_WIDTH, true),
    LS_CONFIG_INT("num_hidden_layers", sizes.L, 1, LS_MOST_LAYERS, true),
    LS_CONFIG_INT("num_attention_heads", sizes.Hq, 1, LS_MOST_HEADS, true),
    LS_CONFIG_INT("max_position_embeddings", sizes.longest, 1, LS_MOST_POSITIONS, false),
    LS_CONFIG_FLAG("tie_word_embeddings", sizes.tied),
    LS_CONFIG_REAL("initializer_range", sizes.initializer_range, 0, 1e6, false),
    LS_CONFIG_REAL("rms_norm_eps", epsilon, 0, 1, false),
};

static const ls_config_rule decoder_rules[] = {
    {"attention_dropout", LS_RULE_NUMBER, 0, "0: dropout is not supported"},
    {"partial_rotary_factor", LS_RULE_NUMBER, 1, "1: all of a head is rotated"},
    {"quantization_config", LS_RULE_ABSENT, 0, "to be left out: weights are floats"},
};

static ls_status read_heads(ls_json_value root, ls_model_sizes *n) {
    LS_TRY(ls_json_int_or(root, "num_key_value_heads", n->Hkv > 0 ? n->Hkv : n->Hq, 1, (int64_t)LS_MOST_HEADS,
                          &n->Hkv));
    if (n->Hq % n->Hkv != 0)
        return ls_json_error(ls_json_field(root, "num_key_value_heads"),
                             "a divisor of the num_attention_heads %lld", (long long)n->Hq);
    const bool derived = !ls_json_has(root, "head_dim") && n->D == 0;
    if (derived && n->E % n->Hq != 0)
        return ls_json_error(ls_json_field(root, "num_attention_heads"),
                             "a divisor of hidden_size %lld, or head_dim to be given", (long long)n->E);
    if (derived) n->D = n->E / n->Hq;
    if (!derived) LS_TRY(ls_json_int_or(root, "head_dim", n->D, 1, (int64_t)LS_MOST_HEAD_SIZE, &n->D));
    if (n->D % 2 == 0 && n->D <= (int64_t)LS_MOST_HEAD_SIZE) return ls_ok();
    if (!derived) return ls_json_error(ls_json_field(root, "head_dim"), "an even number");
    return ls_json_error(
        ls_json_field(root, "num_attention_heads"),
        "a head size hidden_size/num_attention_heads, here %lld, that is even and at most %lld",
        (long long)n->D, (long long)LS_MOST_HEAD_SIZE);
}

ls_status ls_config_decoder(ls_json_value root, ls_model_config *out) {
    LS_TRY(ls_config_read(root, decoder_fields, LS_COUNT(decoder_fields), out));
    LS_TRY(read_heads(root, &out->sizes));
    out->attention_scale = 1.0 / sqrt((double)out->sizes.D);
    LS_TRY(ls_config_rope(root, out));
    return ls_config_obey(root, decoder_rules, LS_COUNT(decoder_rules));
}
