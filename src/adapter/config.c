/* The settings of an adapter: reads --lora, and reads and writes peft's adapter_config.json. */
#include "adapter/adapter_impl.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANK = 1 << 16, MOST_REGEX = 512 };

/* --- --lora ------------------------------------------------------------------------------------------------------- */

static ls_status spec_error(const char *text, const char *part, size_t length) {
    return ls_error(LS_USAGE,
                    "--lora '%s': '%.*s'; expected r=N, alpha=X, target=all-linear or PATTERN+PATTERN, "
                    "modules-to-save=PATTERN+PATTERN, rslora and dora, with commas between",
                    text, (int)length, part);
}

/* Cuts a list of patterns with + between them. */
static void cut_list(ls_arena *arena, const char *list, size_t length, const char ***out, int *n) {
    size_t room = 0;
    for (size_t at = 0; at <= length;) {
        const size_t part = ls_min((int64_t)strcspn(list + at, "+"), (int64_t)(length - at));
        if (part > 0) *LS_PUSH(arena, *out, *n, room) = ls_arena_printf(arena, "%.*s", (int)part, list + at);
        at += part + 1;
    }
}

static bool parse_number(const char *value, size_t length, double least, double most, double *out) {
    char *end;
    errno = 0;
    const double x = ls_real_of(value, &end);
    if (length == 0 || end != value + length || errno != 0 || !(x >= least && x <= most)) return false;
    *out = x;
    return true;
}

static bool parse_rank(ls_adapter *a, const char *value, size_t length) {
    double r;
    if (!parse_number(value, length, 1, MOST_RANK, &r) || r != floor(r)) return false;
    a->r = (int64_t)r;
    return true;
}

static bool parse_alpha(ls_adapter *a, const char *value, size_t length) {
    return parse_number(value, length, 1e-30, 1e30, &a->alpha);
}

static bool parse_target(ls_adapter *a, const char *value, size_t length) {
    static const char all[] = "all-linear";
    a->all_linear = length == sizeof all - 1 && strncmp(value, all, length) == 0;
    a->n_targets = 0;
    if (!a->all_linear) cut_list(a->arena, value, length, &a->targets, &a->n_targets);
    return a->all_linear || a->n_targets > 0;
}

static bool parse_saves(ls_adapter *a, const char *value, size_t length) {
    cut_list(a->arena, value, length, &a->saves, &a->n_saves);
    return a->n_saves > 0;
}

static bool set_rslora(ls_adapter *a, const char *value, size_t length) {
    (void)value;
    return (a->rslora = length == 0);
}

static bool set_dora(ls_adapter *a, const char *value, size_t length) {
    (void)value;
    return (a->dora = length == 0);
}

static const struct {
    const char *key;
    bool valued;
    bool (*parse)(ls_adapter *a, const char *value, size_t length);
} keys[] = {
    {"r", true, parse_rank},        {"alpha", true, parse_alpha},
    {"target", true, parse_target}, {"modules-to-save", true, parse_saves},
    {"rslora", false, set_rslora},  {"dora", false, set_dora},
};

static bool parse_part(ls_adapter *a, const char *part, size_t length) {
    for (size_t i = 0; i < LS_COUNT(keys); i++) {
        const size_t key = strlen(keys[i].key), head = key + (keys[i].valued ? 1 : 0);
        if (length < head || strncmp(part, keys[i].key, key) != 0) continue;
        if (keys[i].valued ? part[key] != '=' : length != key) continue;
        return keys[i].parse(a, part + head, length - head);
    }
    return false;
}

ls_status ls_adapter_parse(const char *text, ls_adapter *a) {
    a->source = "--lora";
    a->is_new = a->all_linear = true;
    a->r = 8;
    a->alpha = 8;
    for (const char *at = text; *text != 0;) {
        const size_t length = strcspn(at, ",");
        if (!parse_part(a, at, length)) return spec_error(text, at, length);
        if (at[length] == 0) break;
        at += length + 1;
    }
    return ls_ok();
}

/* --- adapter_config.json, read ------------------------------------------------------------------------------------ */

/*
 * Fields that mean a kind of adapter that Longspan does not have, unless they are null, false, empty or the value given
 * here.
 */
static const struct {
    const char *key, *allowed;
} refused[] = {
    {"bias", "none"},
    {"lora_bias", NULL},
    {"use_qalora", NULL},
    {"layer_replication", NULL},
    {"target_parameters", NULL},
    {"trainable_token_indices", NULL},
    {"megatron_config", NULL},
    {"alora_invocation_tokens", NULL},
    {"use_bdlora", NULL},
    {"arrow_config", NULL},
    {"kasa_config", NULL},
    {"monteclora_config", NULL},
    {"velora_config", NULL},
    {"ensure_weight_tying", NULL},
};

/* Ways to initialise A and B that do not change the weights of the model. */
static const char *const inits[] = {"gaussian", "eva", "orthogonal"};

static bool is_empty(ls_json_value object, const char *key, const char *allowed) {
    const ls_json_value value = ls_json_field(object, key);
    const ls_json_plain p = ls_json_plain_of(value);
    if (!ls_json_has(object, key)) return true;
    if (p.kind == LS_JSON_BOOL) return !p.truth;
    if (p.kind == LS_JSON_TEXT) return allowed != NULL && strcmp(p.text, allowed) == 0;
    return (p.kind == LS_JSON_ARRAY || p.kind == LS_JSON_OBJECT) && ls_json_count(value) == 0;
}

static ls_status unsupported(ls_json_value object, const char *key, const char *expected) {
    ls_status status = ls_json_error(ls_json_field(object, key), "%s", expected);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status check_fields(ls_json_value root) {
    const char *type = NULL;
    LS_TRY(ls_json_text(root, "peft_type", &type));
    if (strcmp(type, "LORA") != 0) return unsupported(root, "peft_type", "\"LORA\"");
    for (size_t i = 0; i < LS_COUNT(refused); i++)
        if (!is_empty(root, refused[i].key, refused[i].allowed))
            return unsupported(root, refused[i].key, refused[i].allowed != NULL ? "\"none\"" : "it to be left out");
    const ls_json_plain init = ls_json_plain_of(ls_json_field(root, "init_lora_weights"));
    bool known = init.kind != LS_JSON_TEXT;
    for (size_t i = 0; i < LS_COUNT(inits) && !known; i++) known = strcmp(init.text, inits[i]) == 0;
    if (!known)
        return unsupported(root, "init_lora_weights",
                           "true, \"gaussian\", \"eva\" or \"orthogonal\": others change the weights of the model");
    double dropout = 0;
    LS_TRY(ls_json_double_or(root, "lora_dropout", 0, 0, 1, &dropout));
    if (dropout > 0) ls_log("%s: lora_dropout %g is not used", root.file, dropout);
    return ls_ok();
}

static ls_status read_patterns(ls_json_value root, const char *key, ls_arena *arena, ls_adapter_pattern **out, int *n) {
    ls_json_value object, value;
    void *cursor = NULL;
    const char *name = NULL;
    size_t room = 0;
    if (!ls_json_has(root, key)) return ls_ok();
    LS_TRY(ls_json_object(root, key, &object));
    while (ls_json_next(object, &cursor, &name, &value)) {
        ls_adapter_pattern *made = LS_PUSH(arena, *out, *n, room);
        made->key = ls_arena_strdup(arena, name);
        LS_TRY(ls_json_as_double(value, 1e-30, 1e30, &made->value));
    }
    return ls_ok();
}

static ls_status read_root(ls_json_value root, ls_adapter *a) {
    const char *base = NULL;
    LS_TRY(ls_json_as_object(root));
    LS_TRY(check_fields(root));
    LS_TRY(ls_json_int_or(root, "r", 8, 1, MOST_RANK, &a->r));
    LS_TRY(ls_json_double_or(root, "lora_alpha", 8, 1e-30, 1e30, &a->alpha));
    LS_TRY(ls_json_bool_or(root, "use_rslora", false, &a->rslora));
    LS_TRY(ls_json_bool_or(root, "use_dora", false, &a->dora));
    LS_TRY(ls_json_text_or(root, "base_model_name_or_path", NULL, &base));
    if (base != NULL) a->base = ls_arena_strdup(a->arena, base);
    return read_patterns(root, "alpha_pattern", a->arena, &a->alphas, &a->n_alphas);
}

ls_status ls_adapter_read_config(const char *folder, ls_adapter *a) {
    LS_PATH path = NULL;
    char *text = NULL;
    size_t bytes = 0;
    ls_json *document = NULL;
    LS_TRY(ls_path_join(folder, LS_ADAPTER_CONFIG, &path));
    a->source = ls_arena_strdup(a->arena, path);
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    a->text = ls_arena_strdup(a->arena, text);
    ls_status status = ls_json_parse(path, text, bytes, &document);
    free(text);
    LS_TRY(status);
    status = read_root(ls_json_root(document), a);
    ls_json_free(document);
    return status;
}

/* --- numbers by pattern ------------------------------------------------------------------------------------------- */

/* Converts a Python pattern to POSIX, where \d and \w are classes. */
static void to_posix(const char *key, char out[MOST_REGEX]) {
    static const struct {
        char name;
        const char *is;
    } classes[] = {{'d', "[0-9]"}, {'w', "[A-Za-z0-9_]"}};
    size_t n = (size_t)snprintf(out, MOST_REGEX, "^(.*\\.)?(");
    for (; *key != 0 && n + 24 < MOST_REGEX; key++) {
        const char *is = NULL;
        for (size_t i = 0; i < LS_COUNT(classes) && key[0] == '\\'; i++)
            if (key[1] == classes[i].name) is = classes[i].is;
        if (is == NULL) {
            out[n++] = *key;
            continue;
        }
        n += (size_t)snprintf(out + n, MOST_REGEX - n, "%s", is);
        key++;
    }
    snprintf(out + n, MOST_REGEX - n, ")$");
}

static bool matches(const char *key, const char *module) {
    char pattern[MOST_REGEX];
    regex_t compiled;
    to_posix(key, pattern);
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) return false;
    const bool match = regexec(&compiled, module, 0, NULL, 0) == 0;
    regfree(&compiled);
    return match;
}

double ls_adapter_scaling(const ls_adapter *a, const char *module, int64_t r) {
    double alpha = a->alpha;
    for (int i = a->n_alphas - 1; i >= 0; i--) /* the first one that matches counts */
        if (matches(a->alphas[i].key, module)) alpha = a->alphas[i].value;
    return alpha / (a->rslora ? sqrt((double)r) : (double)r);
}

/* --- adapter_config.json, written --------------------------------------------------------------------------------- */

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* Whether every module whose name ends in this way has an adapter. */
static bool stands_for_all(const ls_adapter *a, const char *part) {
    bool all = true;
    for (int i = 0; i < a->n_others; i++) all &= strcmp(last_part(a->others[i]), part) != 0;
    return all;
}

/* Writes modules by the ends of their names if no other module has that end, else by their names. */
static void put_targets(const ls_adapter *a, ls_json_writer *w) {
    ls_json_open_array(w, "target_modules");
    for (int i = 0; i < a->n_modules; i++) {
        const char *part = last_part(a->modules[i].name);
        const bool by_end = stands_for_all(a, part);
        bool written = false;
        for (int k = 0; k < i && by_end && !written; k++) written = strcmp(last_part(a->modules[k].name), part) == 0;
        if (!written) ls_json_put_text(w, NULL, by_end ? part : a->modules[i].name);
    }
    ls_json_close(w);
}

/* Writes the modules whose parameters are trained whole. */
static void put_saved(const ls_adapter *a, ls_json_writer *w) {
    if (a->n_saved == 0) {
        ls_json_put_null(w, "modules_to_save");
        return;
    }
    ls_json_open_array(w, "modules_to_save");
    for (int i = 0; i < a->n_saved; i++) {
        const size_t n = (size_t)(last_part(a->saved[i]) - a->saved[i]);
        bool written = n == 0;
        for (int k = 0; k < i && !written; k++)
            written = strncmp(a->saved[k], a->saved[i], n) == 0 && strchr(a->saved[k] + n, '.') == NULL;
        if (!written) ls_json_put_text(w, NULL, ls_arena_printf(a->arena, "%.*s", (int)n - 1, a->saved[i]));
    }
    ls_json_close(w);
}

static void put_config(const ls_adapter *a, const char *base, ls_json_writer *w) {
    bool transposed = false;
    for (int i = 0; i < a->n_modules; i++) transposed |= a->modules[i].transposed;
    ls_json_put_text(w, "peft_type", "LORA");
    ls_json_put_text(w, "task_type", a->scoring != NULL ? "SEQ_CLS" : "CAUSAL_LM");
    ls_json_put_text(w, "base_model_name_or_path", base);
    ls_json_put_int(w, "r", a->r);
    if (a->alpha == floor(a->alpha) && a->alpha < 1e15)
        ls_json_put_int(w, "lora_alpha", (int64_t)a->alpha);
    else
        ls_json_put_double(w, "lora_alpha", a->alpha);
    ls_json_put_double(w, "lora_dropout", 0);
    ls_json_put_text(w, "bias", "none");
    ls_json_put_bool(w, "fan_in_fan_out", transposed);
    ls_json_put_bool(w, "use_rslora", a->rslora);
    ls_json_put_bool(w, "use_dora", a->dora);
    ls_json_put_bool(w, "init_lora_weights", true);
    ls_json_put_bool(w, "inference_mode", true);
    put_targets(a, w);
    put_saved(a, w);
}

ls_status ls_adapter_text(const ls_adapter *a, const char *base, char **out) {
    *out = NULL;
    if (a->text != NULL) {
        char *value = NULL;
        ls_json_writer *w = ls_json_writer_create(0);
        ls_json_open_array(w, NULL);
        ls_json_put_text(w, NULL, base);
        ls_json_close(w);
        size_t bytes;
        const char *list = ls_json_written(w, &bytes); /* ["..."] */
        value = strndup(list + 1, bytes - 2);
        ls_json_writer_destroy(w);
        if (value == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", LS_ADAPTER_CONFIG);
        const ls_status status = ls_json_set_member(a->text, "base_model_name_or_path", value, out);
        free(value);
        return status;
    }
    ls_json_writer *w = ls_json_begin(2);
    put_config(a, base, w);
    ls_json_close(w);
    *out = strdup(ls_json_written(w, NULL));
    ls_json_writer_destroy(w);
    return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for %s", LS_ADAPTER_CONFIG);
}

const char *ls_adapter_base(const ls_adapter *a) { return a->base; }
