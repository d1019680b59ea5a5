/* Reads a config.json by tables of fields and rules. Names and defaults are those of the Hugging Face library. */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

/* --- tables of fields --------------------------------------------------------------------------------------------- */

bool ls_config_is_written(ls_json_value root, const char *wanted) {
    void *cursor = NULL;
    const char *key = NULL;
    ls_json_value value;
    while (ls_json_next(root, &cursor, &key, &value))
        if (strcmp(key, wanted) == 0) return true;
    return false;
}

/* Whether the architecture's row gives no size. A size that the row gives is the default. */
static bool lacks(const ls_config_field *f, const void *at) {
    return f->kind != LS_FIELD_INT || *(const int64_t *)at == 0;
}

static ls_status read_field(ls_json_value root, const ls_config_field *f, ls_model_config *out) {
    void *to = (char *)out + f->at;
    if (f->kind == LS_FIELD_ANY) return ls_ok();
    if (!(f->required && lacks(f, to)) && !ls_json_has(root, f->key)) {
        if (f->null_is_zero && ls_config_is_written(root, f->key))
            memset(to, 0, f->kind == LS_FIELD_REAL ? sizeof(double) : sizeof(int64_t));
        return ls_ok();
    }
    if (f->kind == LS_FIELD_FLAG) return ls_json_bool(root, f->key, to);
    if (f->kind == LS_FIELD_REAL) return ls_json_double(root, f->key, f->least, f->most, to);
    return ls_json_int(root, f->key, (int64_t)f->least, (int64_t)f->most, to);
}

ls_status ls_config_fields(ls_json_value root, const ls_config_field *fields, ls_model_config *out) {
    for (const ls_config_field *f = fields; f != NULL && f->key != NULL; f++) LS_TRY(read_field(root, f, out));
    return ls_ok();
}

static ls_status unsupported(ls_json_value value, const char *expected) {
    ls_status status = ls_json_error(value, "%s", expected);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status check_rule(ls_json_value root, const ls_config_rule *rule) {
    double number = rule->value;
    bool flag = rule->value != 0;
    if (rule->kind == LS_RULE_NUMBER) LS_TRY(ls_json_double_or(root, rule->key, number, -INFINITY, INFINITY, &number));
    if (rule->kind == LS_RULE_FLAG) LS_TRY(ls_json_bool_or(root, rule->key, flag, &flag));
    const bool broken = rule->kind == LS_RULE_ABSENT ? ls_json_has(root, rule->key)
                                                     : number != rule->value || flag != (rule->value != 0);
    return broken ? unsupported(ls_json_field(root, rule->key), rule->expected) : ls_ok();
}

ls_status ls_config_check(ls_json_value root, const ls_config_rule *rules) {
    for (const ls_config_rule *rule = rules; rule != NULL && rule->key != NULL; rule++) LS_TRY(check_rule(root, rule));
    return ls_ok();
}

/* --- activations -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    ls_activation apply;
} activations[] = {
    {"silu", ls_silu},
    {"swish", ls_silu},
    {"gelu", ls_gelu},
    {"gelu_python", ls_gelu},
    {"gelu_new", ls_gelu_tanh},
    {"gelu_fast", ls_gelu_tanh},
    {"gelu_accurate", ls_gelu_tanh},
    {"gelu_pytorch_tanh", ls_gelu_tanh},
    {"gelu_python_tanh", ls_gelu_tanh},
    {"relu", ls_relu},
    {"relu2", ls_relu_squared},
};

static ls_status read_activation(ls_json_value root, const char *key, ls_activation *out) {
    const char *name = NULL;
    LS_TRY(ls_json_text_or(root, key, NULL, &name));
    if (name == NULL) return ls_ok();
    for (size_t i = 0; i < LS_COUNT(activations); i++) {
        if (strcmp(activations[i].name, name) != 0) continue;
        *out = activations[i].apply;
        return ls_ok();
    }
    return unsupported(ls_json_field(root, key), "\"silu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\" or \"relu\"");
}

ls_status ls_config_silu(ls_json_value root, const char *key) {
    ls_activation found = ls_silu;
    if (read_activation(root, key, &found).code == LS_OK && found == ls_silu) return ls_ok();
    return unsupported(ls_json_field(root, key), "\"silu\"");
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

static ls_status read_layer_type(ls_json_value item, int64_t layer, ls_model_config *out) {
    const char *type = NULL;
    LS_TRY(ls_json_as_text(item, &type));
    if (strcmp(type, "full_attention") == 0) return ls_ok();
    const bool window = strcmp(type, "sliding_attention") == 0;
    if (window && out->window > 0) {
        ls_layer_put(&out->windowed, layer);
        return ls_ok();
    }
    ls_status status = window ? ls_json_error(item, "sliding_window to be given")
                              : ls_json_error(item, "\"full_attention\" or \"sliding_attention\"");
    status.code = LS_UNSUPPORTED;
    return status;
}

static void set_by_rule(ls_model_config *out) {
    const ls_window_rule *rule = &out->windows;
    for (int64_t i = rule->first; i < out->sizes.L; i += rule->every)
        if (rule->full == 0 || (i + 1) % rule->full != 0) ls_layer_put(&out->windowed, i);
}

/*
 * If the config has layer_types, the library does not read the pattern; the pattern must then agree with layer_types.
 */
static ls_status check_pattern(ls_json_value root, const ls_model_config *config) {
    static const char key[] = "sliding_window_pattern";
    ls_model_config by_rule = {.sizes.L = config->sizes.L, .windows = config->windows};
    if (config->windows.full == 0 || config->window == 0 || !ls_json_has(root, key)) return ls_ok();
    set_by_rule(&by_rule);
    if (memcmp(&by_rule.windowed, &config->windowed, sizeof by_rule.windowed) == 0) return ls_ok();
    return ls_json_error(ls_json_field(root, key), "to be left out, since layer_types says otherwise");
}

ls_status ls_config_windows(ls_json_value root, ls_model_config *out) {
    ls_json_value types;
    const int64_t L = out->sizes.L;
    if (!out->windows.on) out->window = 0;
    if (out->windows.every == 0) return ls_ok();
    if (!ls_json_has(root, "layer_types")) {
        set_by_rule(out);
        return ls_ok();
    }
    LS_TRY(ls_json_array(root, "layer_types", &types));
    if (ls_json_count(types) != (size_t)L)
        return ls_json_error(types, "an array of one type for each of the %lld layers", (long long)L);
    for (int64_t i = 0; i < L; i++) LS_TRY(read_layer_type(ls_json_item(types, (size_t)i), i, out));
    return check_pattern(root, out);
}

/* --- the whole config --------------------------------------------------------------------------------------------- */

static const ls_config_rule rules_for_all[] = {
    {"is_causal", LS_RULE_FLAG, 1, "true: attention is causal"},
    {"per_layer_config", LS_RULE_ABSENT, 0, "to be left out: layers are alike"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

/* Published configs of this architecture have dropout, so it cannot be an error; a line says that it is ignored. */
static ls_status check_dropouts(ls_json_value root, const char *const *ignored) {
    static const ls_config_rule refused[] = {
        {"attention_dropout", LS_RULE_NUMBER, 0, "0: dropout is not supported"},
        {NULL, LS_RULE_ABSENT, 0, NULL},
    };
    double most = 0;
    if (ignored == NULL) return ls_config_check(root, refused);
    for (const char *const *key = ignored; *key != NULL; key++) {
        double rate = 0;
        LS_TRY(ls_json_double_or(root, *key, 0, 0, 1, &rate));
        most = fmax(most, rate);
    }
    if (most > 0) ls_log("%s: dropout %g is ignored, because it is not supported", root.file, most);
    return ls_ok();
}

ls_status ls_config_read(ls_json_value root, const ls_architecture *a, ls_model_config *out) {
    *out = a->initial;
    LS_TRY(ls_config_fields(root, a->form->fields, out));
    LS_TRY(ls_config_fields(root, a->fields, out));
    LS_TRY(read_activation(root, a->activation_field, &out->activation));
    LS_TRY(ls_config_check(root, rules_for_all));
    LS_TRY(ls_config_check(root, a->form->rules));
    LS_TRY(ls_config_check(root, a->rules));
    LS_TRY(check_dropouts(root, a->dropouts));
    LS_TRY(a->form->complete(root, a, out));
    return a->complete != NULL ? a->complete(root, out) : ls_ok();
}
