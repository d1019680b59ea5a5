/*
 * Context extension by the user (--rope-scaling, --rope-theta): changes the rotary positions in the text of a
 * config.json, in the form that the Hugging Face library reads. The model is then read from the changed text, and
 * exported with it.
 */
#include "model/model_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets a member in the JSON object *text, which is freed and replaced. */
static ls_status set_member(char **text, const char *key, const char *value) {
    char *made = NULL;
    LS_TRY(ls_json_set_member(*text, key, value, &made));
    free(*text);
    *text = made;
    return ls_ok();
}

enum { NUMBER_TEXT = 40 };

/* The shortest text that reads back as the same number. */
static const char *number_text(double value, char out[NUMBER_TEXT]) {
    for (int digits = 15; digits <= 17; digits++) {
        ls_print(out, NUMBER_TEXT, "%.*g", digits, value);
        if (ls_real_of(out, NULL) == value) break;
    }
    return out;
}

static ls_status set_number(char **text, const char *key, double value) {
    char number[NUMBER_TEXT];
    return set_member(text, key, number_text(value, number));
}

/* *out becomes the text of a member's value, which the caller frees; NULL: there is no such member. */
static ls_status get_member(const char *text, const char *key, char **out) {
    size_t from = 0, to = 0;
    *out = NULL;
    if (!ls_json_find_member(text, key, &from, &to)) return ls_ok();
    *out = strndup(text + from, to - from);
    return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for %s", key);
}

/* --- TYPE[:FACTOR[:ORIGINAL]] ------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *type;
    bool factor, original; /* whether the user must give a factor, and may give an original length */
    /* the original length is a member beside the factor; otherwise it is max_position_embeddings */
    bool beside;
    const char *further; /* more members, as JSON */
} kind;

static const kind kinds[] = {
    {"default", false, false, false, ""},
    {"linear", true, false, false, ""},
    {"dynamic", true, true, false, ""},
    {"yarn", true, true, true, ""},
    {"llama3", true, true, true, ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0"},
};

typedef struct scaling_choice {
    const kind *kind;
    double factor, original; /* 0: not given */
} scaling_choice;

static ls_status scaling_error(const char *text) {
    return ls_error(LS_USAGE,
                    "--rope-scaling %s; expected default, linear:FACTOR, dynamic:FACTOR, yarn:FACTOR or "
                    "llama3:FACTOR (the last three optionally with :ORIGINAL, the length that the model was trained "
                    "with), or a JSON object",
                    text);
}

/* Reads ":NUMBER", where the number is from 1 to most. At the end of the text, reads nothing. */
static bool read_number(const char **at, double most, double *out) {
    if (**at == 0) return true;
    char *end = NULL;
    errno = 0;
    *out = **at == ':' ? ls_real_of(*at + 1, &end) : NAN;
    if (end == NULL || end == *at + 1 || errno != 0 || !(*out >= 1 && *out <= most)) return false;
    *at = end;
    return true;
}

static ls_status read_choice(const char *text, scaling_choice *out) {
    const size_t length = strcspn(text, ":");
    const char *at = text + length;
    scaling_choice choice = {.kind = NULL};
    for (size_t k = 0; k < LS_COUNT(kinds); k++)
        if (strlen(kinds[k].type) == length && strncmp(kinds[k].type, text, length) == 0) choice.kind = &kinds[k];
    if (choice.kind == NULL || !read_number(&at, 1e9, &choice.factor) ||
        !read_number(&at, LS_MOST_POSITIONS, &choice.original) || *at != 0)
        return scaling_error(text);
    if (choice.kind->factor != (choice.factor != 0) || (choice.original != 0 && !choice.kind->original) ||
        choice.original != floor(choice.original))
        return scaling_error(text);
    *out = choice;
    return ls_ok();
}

/*
 * The length that the model was trained with: given by the user, by an extension in the config, or by
 * max_position_embeddings.
 */
static double original_of(const ls_model_config *config, const scaling_choice *choice) {
    if (choice->original > 0) return choice->original;
    return config->rope.original_length > 0 ? config->rope.original_length : (double)config->sizes.longest;
}

static const char original_key[] = "original_max_position_embeddings";

/*
 * *out becomes the scaling as a JSON object, which the caller frees. Also sets the original length in the config's
 * text, if it belongs there.
 */
static ls_status write_choice(const ls_model_config *config, const scaling_choice *choice, char **config_text,
                              char **out) {
    const double original = original_of(config, choice);
    char factor[64] = "", length[80] = "", number[NUMBER_TEXT];
    if (choice->kind->factor) snprintf(factor, sizeof factor, ", \"factor\": %s", number_text(choice->factor, number));
    if (choice->kind->beside) {
        size_t from, to;
        ls_print(length, sizeof length, ", \"%s\": %.0f", original_key, original);
        if (ls_json_find_member(*config_text, original_key, &from, &to)) /* it would take precedence */
            LS_TRY(set_number(config_text, original_key, original));
    } else if (choice->kind->original)
        LS_TRY(set_number(config_text, "max_position_embeddings", original));
    char *made = NULL;
    if (asprintf(&made, "{\"rope_type\": \"%s\"%s%s%s}", choice->kind->type, factor, length, choice->kind->further) < 0)
        return ls_error(LS_NO_MEMORY, "no memory for --rope-scaling %s", choice->kind->type);
    *out = made;
    return ls_ok();
}

/* --- the change --------------------------------------------------------------------------------------------------- */

static ls_status check_object(const char *scaling) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse("--rope-scaling", scaling, strlen(scaling), &document));
    const ls_status status = ls_json_as_object(ls_json_root(document));
    ls_json_free(document);
    return status;
}

static ls_status scaling_text(const ls_model_config *config, const char *scaling, char **config_text, char **out) {
    scaling_choice choice;
    if (scaling[strspn(scaling, " \t\r\n")] == '{') {
        LS_TRY(check_object(scaling));
        *out = strdup(scaling);
        return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for --rope-scaling");
    }
    LS_TRY(read_choice(scaling, &choice));
    return write_choice(config, &choice, config_text, out);
}

/* Members of an object of rotary positions that are kept when scaling and theta change. */
static const char *const kept[] = {"partial_rotary_factor", "llama_4_scaling_beta"};

/* Copies a member of `from` to *to, if only `from` has it. */
static ls_status keep_member(const char *from, const char *key, char **to) {
    char *value = NULL;
    size_t begin, end;
    if (ls_json_find_member(*to, key, &begin, &end)) return ls_ok();
    LS_TRY(get_member(from, key, &value));
    const ls_status status = value != NULL ? set_member(to, key, value) : ls_ok();
    free(value);
    return status;
}

/*
 * Writes an object with a scaling and theta. *object is its old text on entry and its new text on return. *scaling
 * (NULL: not changed) is moved into the object.
 */
static ls_status change_object(const ls_model_config *config, double theta, char **scaling, char **object) {
    if (*scaling != NULL) {
        for (size_t i = 0; i < LS_COUNT(kept); i++) LS_TRY(keep_member(*object, kept[i], scaling));
        free(*object);
        *object = *scaling;
        *scaling = NULL;
    }
    size_t from, to;
    if (theta > 0 || !ls_json_find_member(*object, "rope_theta", &from, &to))
        LS_TRY(set_number(object, "rope_theta", theta > 0 ? theta : config->rope.theta));
    return ls_ok();
}

/*
 * For newer configs: rope_parameters, with the old text *parameters, is either such an object or has one for each type
 * of layer. In the second case, the object for layers without a window is changed.
 */
static ls_status change_newer(const ls_model_config *config, double theta, char **text, char **scaling,
                              char **parameters) {
    static const char type[] = "full_attention";
    char *object = NULL;
    if (config->local_rope.theta == 0) {
        LS_TRY(change_object(config, theta, scaling, parameters));
        return set_member(text, "rope_parameters", *parameters);
    }
    LS_TRY(get_member(*parameters, type, &object));
    ls_status status = ls_ok();
    if (object == NULL || strcmp(object, "null") == 0) {
        free(object);
        object = strdup("{}");
        if (object == NULL) status = ls_error(LS_NO_MEMORY, "no memory for %s", type);
    }
    if (status.code == LS_OK) status = change_object(config, theta, scaling, &object);
    if (status.code == LS_OK) status = set_member(parameters, type, object);
    free(object);
    LS_TRY(status);
    return set_member(text, "rope_parameters", *parameters);
}

static ls_status change_older(double theta, char **text, const char *scaling) {
    if (scaling != NULL) LS_TRY(set_member(text, "rope_scaling", scaling));
    return theta > 0 ? set_number(text, "rope_theta", theta) : ls_ok();
}

ls_status ls_rope_change_text(const ls_model_config *config, const ls_rope_change *change, char **text) {
    char *scaling = NULL, *parameters = NULL;
    const bool scaled = change->scaling != NULL && change->scaling[0] != 0;
    if (change->theta != 0 && !(change->theta >= 1 && change->theta <= 1e30))
        return ls_error(LS_USAGE, "--rope-theta %g; expected a number from 1 to 1e30", change->theta);
    ls_status status = scaled ? scaling_text(config, change->scaling, text, &scaling) : ls_ok();
    if (status.code == LS_OK) status = get_member(*text, "rope_parameters", &parameters);
    if (status.code == LS_OK) {
        const bool newer = parameters != NULL && strcmp(parameters, "null") != 0;
        status = newer ? change_newer(config, change->theta, text, &scaling, &parameters)
                       : change_older(change->theta, text, scaling);
    }
    free(scaling);
    free(parameters);
    return status;
}

ls_status ls_config_set_longest(int64_t longest, char **text) {
    return set_number(text, "max_position_embeddings", (double)longest);
}

ls_status ls_rope_change_length(const ls_model_config *config, bool *longer, char **text) {
    const ls_rope *rope = &config->rope;
    const bool stretched =
        rope->scaling != NULL && (strcmp(rope->scaling, "yarn") == 0 || strcmp(rope->scaling, "llama3") == 0);
    const double reach = stretched ? ceil(rope->factor * rope->original_length) : 0;
    *longer = reach > (double)config->sizes.longest && reach <= LS_MOST_POSITIONS;
    return *longer ? set_number(text, "max_position_embeddings", reach) : ls_ok();
}
