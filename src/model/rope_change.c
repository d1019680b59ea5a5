/*
 * Context extension from outside: a config.json's text with other rotary positions, said as the Hugging Face library would read
 * them. The model is then what that text says, and what is exported with it says so too.
 */
#include "model/model_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces *text by what a change makes of it. */
static ls_status set(char **text, const char *key, const char *value) {
    char *made = NULL;
    LS_TRY(ls_json_set_member(*text, key, value, &made));
    free(*text);
    *text = made;
    return ls_ok();
}

enum { NUMBER_TEXT = 40 };

/* As few digits as read back to the same number. */
static const char *number_text(double value, char out[NUMBER_TEXT]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

static ls_status set_number(char **text, const char *key, double value) {
    char number[NUMBER_TEXT];
    return set(text, key, number_text(value, number));
}

/* The value of a member as it is written, for the caller to free; NULL when there is none. */
static ls_status member(const char *text, const char *key, char **out) {
    size_t from = 0, to = 0;
    *out = NULL;
    if (!ls_json_find_member(text, key, &from, &to)) return ls_ok();
    *out = strndup(text + from, to - from);
    return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for %s", key);
}

/* --- TYPE[:FACTOR[:ORIGINAL]] ------------------------------------------------------------------------------------------------ */

typedef struct kind {
    const char *type;
    bool factor, original; /* takes them */
    bool beside; /* the original length stands beside the factor; otherwise it is max_position_embeddings */
    const char *further; /* members */
} kind;

static const kind kinds[] = {
    {"default", false, false, false, ""},
    {"linear", true, false, false, ""},
    {"dynamic", true, true, false, ""},
    {"yarn", true, true, true, ""},
    {"llama3", true, true, true, ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0"},
};

typedef struct wish {
    const kind *kind;
    double factor, original; /* 0: not said */
} wish;

static ls_status misspelt(const char *text) {
    return ls_error(
        LS_USAGE,
        "--rope-scaling %s; expected default, linear:FACTOR, dynamic:FACTOR, yarn:FACTOR or "
        "llama3:FACTOR (the last three perhaps with :ORIGINAL, the length that the model was trained "
        "with), or an object as JSON",
        text);
}

/* A number behind a colon, or nothing. */
static bool read_number(const char **at, double most, double *out) {
    if (**at == 0) return true;
    char *end = NULL;
    errno = 0;
    *out = **at == ':' ? strtod(*at + 1, &end) : NAN;
    if (end == NULL || end == *at + 1 || errno != 0 || !(*out >= 1 && *out <= most)) return false;
    *at = end;
    return true;
}

static ls_status read_wish(const char *text, wish *out) {
    const size_t length = strcspn(text, ":");
    const char *at = text + length;
    wish w = {.kind = NULL};
    for (size_t k = 0; k < LS_COUNT(kinds); k++)
        if (strlen(kinds[k].type) == length && strncmp(kinds[k].type, text, length) == 0) w.kind = &kinds[k];
    if (w.kind == NULL || !read_number(&at, 1e9, &w.factor) ||
        !read_number(&at, LS_MOST_POSITIONS, &w.original) || *at != 0)
        return misspelt(text);
    if (w.kind->factor != (w.factor != 0) || (w.original != 0 && !w.kind->original) ||
        w.original != floor(w.original))
        return misspelt(text);
    *out = w;
    return ls_ok();
}

/* What the model was trained with: as said, as an earlier extension has it, or as long as it is. */
static double original_of(const ls_model_config *config, const wish *w) {
    if (w->original > 0) return w->original;
    return config->rope.original_length > 0 ? config->rope.original_length : (double)config->sizes.longest;
}

static const char original_key[] = "original_max_position_embeddings";

/* The object, as JSON. */
static ls_status write_wish(const ls_model_config *config, const wish *w, char **config_text, char **out) {
    const double original = original_of(config, w);
    char factor[64] = "", length[80] = "", number[NUMBER_TEXT];
    if (w->kind->factor) snprintf(factor, sizeof factor, ", \"factor\": %s", number_text(w->factor, number));
    if (w->kind->beside) {
        size_t from, to;
        snprintf(length, sizeof length, ", \"%s\": %.0f", original_key, original);
        if (ls_json_find_member(*config_text, original_key, &from, &to)) /* it would be heard instead */
            LS_TRY(set_number(config_text, original_key, original));
    } else if (w->kind->original)
        LS_TRY(set_number(config_text, "max_position_embeddings", original));
    char *made = NULL;
    if (asprintf(&made, "{\"rope_type\": \"%s\"%s%s%s}", w->kind->type, factor, length, w->kind->further) < 0)
        return ls_error(LS_NO_MEMORY, "no memory for --rope-scaling %s", w->kind->type);
    *out = made;
    return ls_ok();
}

/* --- the change -------------------------------------------------------------------------------------------------------------- */

static ls_status check_object(const char *scaling) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse("--rope-scaling", scaling, strlen(scaling), &document));
    const ls_status status = ls_json_as_object(ls_json_root(document));
    ls_json_free(document);
    return status;
}

static ls_status scaling_text(const ls_model_config *config, const char *scaling, char **config_text,
                              char **out) {
    wish w;
    if (scaling[strspn(scaling, " \t\r\n")] == '{') {
        LS_TRY(check_object(scaling));
        *out = strdup(scaling);
        return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for --rope-scaling");
    }
    LS_TRY(read_wish(scaling, &w));
    return write_wish(config, &w, config_text, out);
}

/* In rope_parameters theta stands beside the scaling; *parameters holds what the config has there, and then what it shall have. */
static ls_status change_newer(const ls_model_config *config, double theta, char **text, char **scaling,
                              char **parameters) {
    if (*scaling != NULL) {
        free(*parameters);
        *parameters = *scaling;
        *scaling = NULL;
    }
    size_t from, to;
    if (theta > 0 || !ls_json_find_member(*parameters, "rope_theta", &from, &to))
        LS_TRY(set_number(parameters, "rope_theta", theta > 0 ? theta : config->rope.theta));
    return set(text, "rope_parameters", *parameters);
}

static ls_status change_older(double theta, char **text, const char *scaling) {
    if (scaling != NULL) LS_TRY(set(text, "rope_scaling", scaling));
    return theta > 0 ? set_number(text, "rope_theta", theta) : ls_ok();
}

ls_status ls_rope_change_text(const ls_model_config *config, const ls_rope_change *change, char **text) {
    char *scaling = NULL, *parameters = NULL;
    const bool scaled = change->scaling != NULL && change->scaling[0] != 0;
    if (change->theta != 0 && !(change->theta >= 1 && change->theta <= 1e30))
        return ls_error(LS_USAGE, "--rope-theta %g; expected a number from 1 to 1e30", change->theta);
    ls_status status = scaled ? scaling_text(config, change->scaling, text, &scaling) : ls_ok();
    if (status.code == LS_OK) status = member(*text, "rope_parameters", &parameters);
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
