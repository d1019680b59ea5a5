/*
 * Rotary positions in a config.json. Up to version 4 of the Hugging Face library a config has rope_theta and
 * rope_scaling; later versions put both into rope_parameters. The table `kinds` has one row for each kind of scaling
 * with the fields that it reads.
 */
#include "model/model_impl.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

typedef struct number {
    const char *key;
    size_t at; /* offset of a double in ls_rope */
    double least;
    bool required;
} number;

#define AT(member) offsetof(ls_rope, member)

static const number factor[] = {{"factor", AT(factor), 1, true}, {NULL, 0, 0, false}};
static const number llama3[] = {
    {"factor", AT(factor), 1, true},
    {"low_freq_factor", AT(low_factor), LS_LEAST_POSITIVE, true},
    {"high_freq_factor", AT(high_factor), LS_LEAST_POSITIVE, true},
    {"original_max_position_embeddings", AT(original_length), 1, true},
    {NULL, 0, 0, false},
};
static const number yarn[] = {
    {"factor", AT(factor), 1, false},
    {"original_max_position_embeddings", AT(original_length), 1, false},
    {"beta_fast", AT(beta_fast), LS_LEAST_POSITIVE, false},
    {"beta_slow", AT(beta_slow), LS_LEAST_POSITIVE, false},
    {"attention_factor", AT(attention_factor), LS_LEAST_POSITIVE, false},
    {"mscale", AT(mscale), 0, false},
    {"mscale_all_dim", AT(mscale_all_dim), 0, false},
    {NULL, 0, 0, false},
};
static const number longrope[] = {
    {"factor", AT(factor), LS_LEAST_POSITIVE, false},
    {"original_max_position_embeddings", AT(original_length), 2, false},
    {"attention_factor", AT(attention_factor), LS_LEAST_POSITIVE, false},
    {NULL, 0, 0, false},
};

#undef AT

/*
 * Checks the scaling, and computes from the model's sizes the values that the scaling does not give. NULL: nothing to
 * do.
 */
typedef ls_status (*completion)(ls_json_value scaling, const ls_model_config *config, ls_rope *rope);

static ls_status complete_dynamic(ls_json_value scaling, const ls_model_config *config, ls_rope *rope) {
    (void)scaling;
    rope->original_length = (double)config->sizes.longest;
    return ls_ok();
}

static ls_status complete_llama3(ls_json_value scaling, const ls_model_config *config, ls_rope *rope) {
    (void)config;
    if (rope->high_factor > rope->low_factor) return ls_ok();
    return ls_json_error(ls_json_field(scaling, "high_freq_factor"), "more than low_freq_factor %g", rope->low_factor);
}

static ls_status complete_yarn(ls_json_value scaling, const ls_model_config *config, ls_rope *rope) {
    const double longest = (double)config->sizes.longest;
    if (rope->original_length == 0) rope->original_length = longest;
    if (rope->factor == 0) rope->factor = longest / rope->original_length;
    bool truncate = true;
    LS_TRY(ls_json_bool_or(scaling, "truncate", true, &truncate));
    rope->untruncated = !truncate;
    if (rope->factor < 1)
        return ls_json_error(ls_json_field(scaling, "factor"),
                             "to be given: max_position_embeddings %g is less than the original %g", longest,
                             rope->original_length);
    if (rope->theta <= 1) return ls_json_error(ls_json_field(scaling, "rope_theta"), "more than 1 with yarn");
    const double fast = rope->beta_fast > 0 ? rope->beta_fast : 32;
    const double slow = rope->beta_slow > 0 ? rope->beta_slow : 1;
    if (fast >= slow) return ls_ok();
    return ls_json_error(ls_json_field(scaling, "beta_fast"), "at least beta_slow %g", slow);
}

/* Reads one divisor for each rotated pair. */
static ls_status read_factors(ls_json_value scaling, const char *key, int64_t pairs, float *out) {
    ls_json_value list;
    LS_TRY(ls_json_array(scaling, key, &list));
    if (ls_json_count(list) != (size_t)pairs)
        return ls_json_error(list, "an array of one number for each of the %lld rotated pairs", (long long)pairs);
    for (int64_t i = 0; i < pairs; i++) {
        double value = 0;
        LS_TRY(ls_json_as_double(ls_json_item(list, (size_t)i), 1e-6, 1e6, &value));
        out[i] = (float)value;
    }
    return ls_ok();
}

static ls_status complete_longrope(ls_json_value scaling, const ls_model_config *config, ls_rope *rope) {
    const double longest = (double)config->sizes.longest;
    if (config->rotated / 2 > LS_ROPE_MOST_PAIRS)
        return ls_json_error(ls_json_field(scaling, "short_factor"), "heads of which at most %d elements are rotated",
                             2 * LS_ROPE_MOST_PAIRS);
    if (rope->original_length == 0) rope->original_length = longest;
    if (rope->factor == 0) rope->factor = longest / rope->original_length;
    rope->factor = fmax(rope->factor, 1);
    LS_TRY(read_factors(scaling, "short_factor", config->rotated / 2, rope->short_factor));
    return read_factors(scaling, "long_factor", config->rotated / 2, rope->long_factor);
}

static const struct {
    const char *type;
    const number *numbers;
    completion complete;
    const char *is; /* the name of the kind if `type` is an older name for it; NULL: the name is `type` */
} kinds[] = {
    {"linear", factor, NULL, NULL},
    {"dynamic", factor, complete_dynamic, NULL},
    {"yarn", yarn, complete_yarn, NULL},
    {"llama3", llama3, complete_llama3, NULL},
    {"longrope", longrope, complete_longrope, NULL},
    {"su", NULL, NULL, "longrope"},
};

/* The kind of scaling, from the field rope_type or, in older files, the field type; NULL: no scaling. */
static ls_status read_type(ls_json_value scaling, bool newer, const char **out) {
    const char *key = ls_json_has(scaling, "rope_type") || !ls_json_has(scaling, "type") ? "rope_type" : "type";
    const char *type = NULL;
    *out = NULL;
    if (newer && !ls_json_has(scaling, key)) return ls_ok();
    LS_TRY(ls_json_text(scaling, key, &type));
    for (size_t k = 0; k < LS_COUNT(kinds); k++)
        if (strcmp(kinds[k].type, type) == 0) *out = kinds[k].is != NULL ? kinds[k].is : kinds[k].type;
    if (*out != NULL || strcmp(type, "default") == 0) return ls_ok();
    ls_status status = ls_json_error(ls_json_field(scaling, key),
                                     "\"default\", \"linear\", \"dynamic\", \"yarn\", \"llama3\" or \"longrope\"");
    status.code = LS_UNSUPPORTED;
    return status;
}

/*
 * Fields that any kind may have. Any other field is an error, because it could change the model (the Hugging Face
 * library only warns).
 */
static const char *const known[] = {"rope_type",
                                    "type",
                                    "rope_theta",
                                    "factor",
                                    "low_freq_factor",
                                    "high_freq_factor",
                                    "original_max_position_embeddings",
                                    "beta_fast",
                                    "beta_slow",
                                    "attention_factor",
                                    "mscale",
                                    "mscale_all_dim",
                                    "truncate",
                                    "short_factor",
                                    "long_factor",
                                    "partial_rotary_factor",
                                    "finetuned"};

static const ls_config_rule rules[] = {
    {"partial_rotary_factor", LS_RULE_NUMBER, 1, "1: all of a head is rotated"},
    {NULL, LS_RULE_ABSENT, 0, NULL},
};

/* Reads partial_rotary_factor from a config or from its object of rotary positions; the latter takes precedence. */
static ls_status read_rotary(ls_json_value object, ls_model_config *out) {
    if (out->rotary == 0) {
        out->rotated = out->sizes.D;
        return ls_config_check(object, rules);
    }
    LS_TRY(ls_json_double_or(object, rules[0].key, out->rotary, LS_LEAST_POSITIVE, 1, &out->rotary));
    out->rotated = (int64_t)((double)out->sizes.D * out->rotary);
    if (out->rotated >= 2 && out->rotated % 2 == 0) return ls_ok();
    return ls_json_error(ls_json_field(object, rules[0].key), "an even number of the %lld elements of a head",
                         (long long)out->sizes.D);
}

static ls_status refuse_unknown(ls_json_value scaling, const ls_config_field *further) {
    void *cursor = NULL;
    const char *key = NULL;
    ls_json_value value;
    while (ls_json_next(scaling, &cursor, &key, &value)) {
        size_t i = 0;
        while (i < LS_COUNT(known) && strcmp(known[i], key) != 0) i++;
        const ls_config_field *f = further;
        while (f != NULL && f->key != NULL && strcmp(f->key, key) != 0) f++;
        if (i < LS_COUNT(known) || (f != NULL && f->key != NULL)) continue;
        ls_status status = ls_json_error(value, "to be left out: this field of rotary positions is not known");
        status.code = LS_UNSUPPORTED;
        return status;
    }
    return ls_ok();
}

/* Some configs have the original length outside the scaling object; that value takes precedence. */
static ls_json_value object_with(ls_json_value root, ls_json_value scaling, const number *n) {
    return n->at == offsetof(ls_rope, original_length) && ls_json_has(root, n->key) ? root : scaling;
}

static ls_status read_scaling(ls_json_value root, ls_json_value scaling, const ls_model_config *config, ls_rope *rope) {
    for (size_t k = 0; k < LS_COUNT(kinds); k++) {
        if (rope->scaling == NULL || strcmp(kinds[k].type, rope->scaling) != 0) continue;
        for (const number *n = kinds[k].numbers; n->key != NULL; n++) {
            double *to = (double *)(void *)((char *)rope + n->at);
            const ls_json_value object = object_with(root, scaling, n);
            if (n->required || ls_json_has(object, n->key)) LS_TRY(ls_json_double(object, n->key, n->least, 1e9, to));
        }
        if (kinds[k].complete != NULL) LS_TRY(kinds[k].complete(scaling, config, rope));
    }
    return ls_ok();
}

/* Reads one object of rotary positions. On entry, rope->theta is the default. */
static ls_status read_object(ls_json_value root, ls_json_value object, bool newer, const ls_config_field *further,
                             ls_model_config *config, ls_rope *rope) {
    LS_TRY(read_type(object, newer, &rope->scaling));
    LS_TRY(refuse_unknown(object, further));
    LS_TRY(ls_config_fields(object, further, config));
    LS_TRY(read_rotary(object, config));
    LS_TRY(ls_json_double_or(object, "rope_theta", rope->theta, LS_LEAST_POSITIVE, 1e30, &rope->theta));
    return read_scaling(root, object, config, rope);
}

/*
 * Newer configs of models whose layers with a window have rotary positions of their own: one object for each type of
 * layer.
 */
static ls_status read_by_type(ls_json_value root, ls_json_value types, const ls_config_field *further,
                              ls_model_config *out) {
    const struct {
        const char *type;
        ls_rope *rope;
    } ropes[] = {{"full_attention", &out->rope}, {"sliding_attention", &out->local_rope}};
    void *cursor = NULL;
    const char *key = NULL;
    ls_json_value value;
    while (ls_json_next(types, &cursor, &key, &value)) {
        ls_rope *rope = NULL;
        for (size_t i = 0; i < LS_COUNT(ropes); i++)
            if (strcmp(ropes[i].type, key) == 0) rope = ropes[i].rope;
        if (rope == NULL)
            return ls_json_error(value, "to be left out: there is an object for \"full_attention\" and one for "
                                        "\"sliding_attention\"");
        if (!ls_json_has(types, key)) continue;
        LS_TRY(ls_json_as_object(value));
        LS_TRY(read_object(root, value, true, further, out, rope));
        if (rope->untruncated)
            return ls_json_error(ls_json_field(value, "truncate"),
                                 "to be left out: the Hugging Face library does not read it there");
    }
    return ls_ok();
}

static bool has_within(ls_json_value root, const char *key, const char *field) {
    ls_json_value object;
    return ls_json_has(root, key) && ls_json_object(root, key, &object).code == LS_OK && ls_json_has(object, field);
}

ls_status ls_config_rope(ls_json_value root, const ls_config_field *further, ls_model_config *out) {
    ls_json_value object;
    const bool newer = ls_json_has(root, "rope_parameters");
    if (out->rotary == 0 || !has_within(root, newer ? "rope_parameters" : "rope_scaling", rules[0].key))
        LS_TRY(read_rotary(root, out));
    /* The scaling of the architecture's row applies only if the config says nothing about scaling. */
    if (out->rope.scaling != NULL && (newer || ls_json_has(root, "rope_scaling"))) out->rope = (ls_rope){.theta = 1e4};
    LS_TRY(ls_json_double_or(root, "rope_theta", out->rope.theta, LS_LEAST_POSITIVE, 1e30, &out->rope.theta));
    if (newer && ls_json_has(root, "rope_scaling"))
        return ls_json_error(ls_json_field(root, "rope_scaling"), "to be left out, since rope_parameters is there");
    const char *key = newer ? "rope_parameters" : "rope_scaling";
    if (!ls_json_has(root, key)) return ls_ok();
    LS_TRY(ls_json_object(root, key, &object));
    if (newer && out->local_rope.theta > 0) return read_by_type(root, object, further, out);
    return read_object(root, object, newer, further, out, &out->rope);
}
