/* The texts of --eval-data: one path, or several with names. */
#include "train/train_impl.h"

#include <stdlib.h>
#include <string.h>

static ls_status wrong(const char *what, const char *expected) {
    return ls_error(LS_USAGE, "--eval-data has '%s'; expected %s", what, expected);
}

/* Cuts "NAME=PATH" in two. */
static ls_status add_named(char *part, ls_eval_sets *sets) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    char *equals = strchr(part, '=');
    if (equals == NULL || equals == part || equals[1] == 0) return wrong(part, "NAME=PATH between its commas");
    if (strspn(part, letters) != (size_t)(equals - part)) return wrong(part, "a name of letters, digits, _ and -");
    if (sets->n == LS_MOST_EVAL_SETS) return wrong(part, "at most 8 texts");
    *equals = 0;
    for (int i = 0; i < sets->n; i++)
        if (strcmp(sets->name[i], part) == 0) return wrong(part, "each name once");
    sets->name[sets->n] = part;
    sets->path[sets->n++] = equals + 1;
    return ls_ok();
}

/* A file with exactly this name takes precedence; so does a text that can only be a path. */
static ls_status find_sets(const char *text, ls_eval_sets *sets) {
    sets->text = strdup(text);
    if (sets->text == NULL) return ls_error(LS_NO_MEMORY, "no memory for --eval-data");
    const bool path = ls_file_exists(text) || strchr(text, '=') == NULL;
    if (path) {
        sets->path[0] = sets->text;
        sets->n = 1;
        return ls_ok();
    }
    for (char *at = sets->text, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL) *next++ = 0;
        LS_TRY(add_named(at, sets));
    }
    return ls_ok();
}

ls_status ls_eval_sets_open(const char *text, const ls_data_options *options, const ls_model *model,
                            ls_eval_sets *out) {
    ls_data_options o = *options;
    if (text == NULL) return ls_ok();
    LS_TRY(find_sets(text, out));
    o.n_paths = 1;
    o.shuffle = false;
    o.group = 0;
    for (int i = 0; i < out->n; i++) {
        o.paths = &out->path[i];
        LS_TRY(ls_error_in(ls_data_open(&o, &out->data[i]), "--eval-data"));
        if (ls_data_apart(out->data[i])) LS_TRY(ls_error_in(ls_model_check_apart(model, o.sequence), "--eval-data"));
        ls_log("--eval-data %s:", out->name[i] != NULL ? out->name[i] : text);
        ls_data_log_table(out->data[i]);
    }
    return ls_ok();
}

uint64_t ls_eval_sets_content(const ls_eval_sets *sets) {
    uint64_t content[LS_MOST_EVAL_SETS] = {0};
    for (int i = 0; i < sets->n; i++) content[i] = ls_data_content(sets->data[i]);
    return sets->n > 1 ? ls_hash_bytes(content, sizeof content) : content[0];
}

void ls_eval_sets_close(ls_eval_sets *sets) {
    for (int i = 0; i < sets->n; i++) ls_data_close(sets->data[i]);
    free(sets->text);
    *sets = (ls_eval_sets){0};
}
