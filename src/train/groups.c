/* --group: parameters that are frozen, or have their own learning rate or decay, chosen by patterns of their names. */
#include "train/train_impl.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parameter_group {
    char pattern[256];
    double rate, decay;            /* rate: factor of --lr; decay NAN: that of parameters without a group */
    const ls_optimizer *optimizer; /* NULL: the one that --optimizer chooses for such a parameter */
    bool frozen;
    const ls_dtype *kept; /* type of frozen parameters; NULL: as the other parameters */
    bool matched;
} parameter_group;

/* --- parsing a group ---------------------------------------------------------------------------------------------- */

static ls_status group_error(const char *text, const ls_optimizer *of_run) {
    return ls_error(
        LS_USAGE,
        "--group '%s'; expected PATTERN:lr=X, PATTERN:decay=X, PATTERN:optimizer=%s%s%s, several of these with commas "
        "between, or PATTERN:frozen, or PATTERN:frozen=bf16|f32, which is kept in that type; X from 0 to 1e6, lr is a "
        "factor of --lr",
        text, of_run->name, of_run->others != NULL ? "|" : "", of_run->others != NULL ? of_run->others->name : "");
}

static bool parse_number(const char *text, size_t length, const char *key, double *out) {
    const size_t name = strlen(key);
    if (length <= name || strncmp(text, key, name) != 0) return false;
    char *end;
    errno = 0;
    const double value = ls_real_of(text + name, &end);
    if (end != text + length || errno != 0 || !(value >= 0 && value <= 1e6)) return false;
    *out = value;
    return true;
}

/* Parses "optimizer=NAME": NAME is the optimiser of --optimizer, or the one that it uses for other parameters. */
static bool parse_optimizer(const char *text, size_t length, const ls_optimizer *of_run, const ls_optimizer **out) {
    static const char key[] = "optimizer=";
    const size_t name = sizeof key - 1;
    if (length <= name || strncmp(text, key, name) != 0) return false;
    const ls_optimizer *const allowed[] = {of_run, of_run->others};
    for (size_t i = 0; i < LS_COUNT(allowed); i++) {
        if (allowed[i] == NULL || strlen(allowed[i]->name) != length - name) continue;
        if (strncmp(allowed[i]->name, text + name, length - name) != 0) continue;
        *out = allowed[i];
        return true;
    }
    return false;
}

/* Parses "frozen" or "frozen=TYPE". */
static bool parse_frozen(const char *text, size_t length, parameter_group *g) {
    static const ls_dtype types[] = {LS_BF16, LS_F32};
    const size_t name = strlen("frozen");
    if (length < name || strncmp(text, "frozen", name) != 0) return false;
    g->frozen = length == name;
    for (size_t i = 0; i < LS_COUNT(types) && text[name] == '='; i++) {
        const char *type = ls_dtype_name(types[i]);
        if (length != name + 1 + strlen(type) || strncmp(text + name + 1, type, strlen(type)) != 0) continue;
        g->frozen = true;
        g->kept = &types[i];
    }
    return g->frozen;
}

static ls_status parse_group(const char *text, const ls_optimizer *of_run, parameter_group *out) {
    parameter_group g = {.rate = 1, .decay = NAN};
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof g.pattern) return group_error(text, of_run);
    memcpy(g.pattern, text, (size_t)(colon - text));
    for (const char *at = colon + 1;;) {
        const size_t length = strcspn(at, ",");
        if (!parse_frozen(at, length, &g) && !parse_number(at, length, "lr=", &g.rate) &&
            !parse_number(at, length, "decay=", &g.decay) && !parse_optimizer(at, length, of_run, &g.optimizer))
            return group_error(text, of_run);
        if (at[length] == 0) break;
        at += length + 1;
    }
    *out = g;
    return ls_ok();
}

/* --- applying the groups to a graph ------------------------------------------------------------------------------- */

static ls_status no_match_error(const ls_model *model, const ls_graph *g, const char *text, const char *pattern) {
    const ls_weight_copy *tie;
    for (int i = 0; (tie = ls_model_copy(model, i)) != NULL; i++)
        if (fnmatch(pattern, tie->copy, 0) == 0)
            return ls_error(LS_USAGE,
                            "--group '%s': %s is no parameter of its own here, because the model is tied: it is %s",
                            text, tie->copy, tie->original);
    const char *nearest = "";
    int least = INT32_MAX;
    for (int t = 1; t < g->n_tensors; t++) {
        const char *name = g->tensors[t].name;
        if (g->tensors[t].role != LS_ROLE_PARAMETER) continue;
        const int distance = ls_edit_distance(pattern, strlen(pattern), name);
        if (distance >= least) continue;
        least = distance;
        nearest = name;
    }
    return ls_error(LS_USAGE, "--group '%s' matches no parameter; the nearest name is %s (* stands for any characters)",
                    text, nearest);
}

/* Returns the last group that matches the name, or NULL, and marks all groups that match. */
static const parameter_group *group_of(parameter_group *groups, int n, const char *name) {
    const parameter_group *last = NULL;
    for (int i = 0; i < n; i++) {
        if (fnmatch(groups[i].pattern, name, 0) != 0) continue;
        groups[i].matched = true;
        last = &groups[i];
    }
    return last;
}

static ls_status apply(const ls_groups *given, const ls_model *model, parameter_group *groups, ls_graph *g,
                       ls_parameter_settings *own) {
    bool trained = false;
    const ls_tensor_info *kept = NULL; /* a parameter kept in another type than the graph's */
    for (int t = 1, p = 0; t < g->n_tensors; t++) {
        ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const parameter_group *group = group_of(groups, given->n, info->name);
        own[p].update = (ls_update_settings){1, info->shape.ndim < 2 ? 0 : given->weight_decay};
        if (group != NULL) {
            own[p].update.rate = group->rate;
            if (!isnan(group->decay)) own[p].update.weight_decay = group->decay;
            own[p].optimizer = group->optimizer;
            if (group->optimizer != NULL && group->optimizer->update_matrices != NULL && info->shape.ndim != 2)
                return ls_error(LS_USAGE, "--group '%s': optimizer %s is for matrices, but %s has %d dimensions",
                                group->pattern, group->optimizer->name, info->name, info->shape.ndim);
            info->frozen |= group->frozen; /* parameters that the model does not train remain frozen */
            if (group->kept != NULL) info->kept = *group->kept;
        }
        if (info->kept != g->dtype && kept == NULL) kept = info;
        if (info->kept != g->dtype && info->kept != kept->kept)
            return ls_error(
                LS_USAGE, "--group and --base: %s is kept in %s and %s in %s; expected one type beside that of --dtype",
                kept->name, ls_dtype_name(kept->kept), info->name, ls_dtype_name(info->kept));
        trained |= !info->frozen;
        p++;
    }
    for (int i = 0; i < given->n; i++)
        if (!groups[i].matched) return no_match_error(model, g, given->texts[i], groups[i].pattern);
    return trained ? ls_ok() : ls_error(LS_USAGE, "--group freezes every parameter; nothing is left to train");
}

ls_status ls_groups_apply(const ls_groups *given, const ls_model *model, const ls_optimizer *optimizer, ls_graph *g,
                          const ls_parameter_settings **own) {
    LS_TRY(ls_graph_status(g));
    ls_parameter_settings *made = LS_NEW_ARRAY(g->arena, ls_parameter_settings, g->n_tensors);
    parameter_group *groups = calloc((size_t)given->n + 1, sizeof *groups);
    if (groups == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d groups of parameters", given->n);
    ls_status status = ls_ok();
    for (int i = 0; i < given->n && status.code == LS_OK; i++)
        status = parse_group(given->texts[i], optimizer, &groups[i]);
    if (status.code == LS_OK) status = apply(given, model, groups, g, made);
    free(groups);
    *own = made;
    return status;
}

/* --- run.json ----------------------------------------------------------------------------------------------------- */

/* Whether parameter number p (a) is trained with the same settings as parameter number q (b). */
static bool alike(const ls_job *job, const ls_tensor_info *a, int p, const ls_tensor_info *b, int q) {
    if (a->frozen || b->frozen) return a->frozen && b->frozen && a->kept == b->kept;
    return job->own[p].update.rate == job->own[q].update.rate &&
           job->own[p].update.weight_decay == job->own[q].update.weight_decay &&
           job->own[p].optimizer == job->own[q].optimizer;
}

/* Writes one object for all parameters with the same settings as parameter number p, which is the first of them. */
static void write_set(const ls_job *job, const ls_tensor_info *const *info, int n, int p, ls_json_writer *w) {
    ls_json_open_object(w, NULL);
    ls_json_put_bool(w, "frozen", info[p]->frozen);
    if (info[p]->frozen) {
        ls_json_put_text(w, "dtype", ls_dtype_name(info[p]->kept));
    } else {
        ls_json_put_double(w, "lr_factor", job->own[p].update.rate);
        ls_json_put_double(w, "weight_decay", job->own[p].update.weight_decay);
        if (job->own[p].optimizer != NULL) ls_json_put_text(w, "optimizer", job->own[p].optimizer->name);
    }
    int64_t elements = 0;
    ls_json_open_array(w, "names");
    for (int q = p; q < n; q++) {
        if (!alike(job, info[p], p, info[q], q)) continue;
        ls_json_put_text(w, NULL, info[q]->name);
        elements += ls_shape_elements(&info[q]->shape);
    }
    ls_json_close(w);
    ls_json_put_int(w, "elements", elements);
    ls_json_close(w);
}

void ls_groups_write(const ls_job *job, ls_json_writer *w) {
    const ls_graph *g = job->graph;
    const ls_tensor_info **info = calloc((size_t)g->n_tensors, sizeof *info);
    int n = 0;
    for (int t = 1; info != NULL && t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER) info[n++] = &g->tensors[t];
    ls_json_open_array(w, "parameters");
    for (int p = 0; p < n; p++) {
        bool first = true;
        for (int q = 0; q < p && first; q++) first = !alike(job, info[q], q, info[p], p);
        if (first) write_set(job, info, n, p, w);
    }
    ls_json_close(w);
    free(info);
}
