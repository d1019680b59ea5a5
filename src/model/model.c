/* Opening a model: reads its config.json, changes it if the user wants so, and finds the source of its weights. */
#include "model/model_impl.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Far above published configs: most have some KiB, those with long lists of labels some MiB. */
#define MOST_CONFIG ((size_t)16 << 20)

/* name: stands for the text in errors. */
static ls_status parse_config(const char *name, size_t bytes, ls_model *model) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(name, model->text, bytes, &document));
    const ls_json_value root = ls_json_root(document);
    ls_status status = ls_json_as_object(root);
    if (status.code == LS_OK) status = ls_architecture_find(root, &model->architecture);
    if (status.code == LS_OK && model->architecture != NULL)
        status = ls_config_read(root, model->architecture, &model->config);
    ls_json_free(document);
    return status;
}

static ls_status read_config(const char *path, ls_model *model) {
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, MOST_CONFIG, &model->text, &bytes));
    return parse_config(path, bytes, model);
}

/* Counts in the smallest graph, because only the builder knows the parameters. */
static ls_status count_parameters(ls_model *model) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model smallest;
    const ls_status status = ls_model_build(model, g, 1, 1, false, &smallest);
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER) model->parameters += ls_shape_elements(&g->tensors[t].shape);
    ls_graph_destroy(g);
    return status;
}

/* Reads the changed text again; errors name the change. */
static ls_status reread(const char *path, const ls_rope_change *change, ls_model *model) {
    LS_PATH name = NULL;
    const bool scaled = change->scaling != NULL;
    LS_TRY(ls_path_print(&name, "%s with %s %s", path, scaled ? "--rope-scaling" : "--rope-theta",
                         scaled ? change->scaling : ""));
    return parse_config(name, strlen(model->text), model);
}

static ls_status change_rope(const char *path, const ls_rope_change *change, ls_model *model) {
    bool longer = false;
    if (change == NULL || ((change->scaling == NULL || change->scaling[0] == 0) && change->theta == 0)) return ls_ok();
    if (model->config.rope.theta == 0)
        return ls_error(LS_USAGE,
                        "%s is a %s, whose positions are learned; --rope-scaling and --rope-theta are "
                        "for rotary positions",
                        path, model->architecture->name);
    LS_TRY(ls_rope_change_text(&model->config, change, &model->text));
    LS_TRY(reread(path, change, model));
    LS_TRY(ls_rope_change_length(&model->config, &longer, &model->text));
    return longer ? reread(path, change, model) : ls_ok();
}

/* Some scalings are computed from max_position_embeddings, so a longer one would change them. */
static bool same_rope(const ls_rope *a, const ls_rope *b) {
    return a->factor == b->factor && a->original_length == b->original_length;
}

ls_status ls_model_check_apart(const ls_model *model, int64_t S) {
    const ls_rope *rope = &model->config.rope;
    const double length = rope->length > 0 ? rope->length : (double)S;
    ls_rope_scaling scaling = LS_ROPE_PLAIN;
    if (rope->scaling != NULL) LS_TRY(ls_rope_find(rope->scaling, &scaling));
    if (!ls_rope_by_length(&(ls_rope_params){.scaling = scaling}) || length <= rope->original_length) return ls_ok();
    return ls_error(
        LS_UNSUPPORTED,
        "rope scaling \"%s\" goes by the length of a sequence, and documents that are packed apart would get "
        "that of --seq %lld instead of their own; expected --pack join, --seq of at most %.0f, or another "
        "--rope-scaling",
        rope->scaling, (long long)S, rope->original_length);
}

ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer) {
    const ls_model_config before = model->config;
    *longer = false;
    if (before.rope.theta == 0 || S <= before.sizes.longest) return ls_ok();
    char *kept = strdup(model->text);
    if (kept == NULL) return ls_error(LS_NO_MEMORY, "no memory for a config.json");
    ls_status status = ls_config_set_longest(S, &model->text);
    if (status.code == LS_OK) status = parse_config("config.json", strlen(model->text), model);
    *longer = status.code == LS_OK && same_rope(&before.rope, &model->config.rope);
    if (!*longer) {
        free(model->text);
        model->text = kept;
        model->config = before;
    } else
        free(kept);
    return status;
}

static ls_status open_model(const char *path, const ls_rope_change *change, ls_model *model) {
    LS_PATH config = NULL;
    if (ls_file_is_folder(path)) {
        LS_TRY(ls_path_join(path, "config.json", &config));
        LS_TRY(ls_path_parent(config, &model->folder));
        LS_TRY(read_config(config, model));
    } else {
        LS_TRY(ls_path_parent(path, &model->folder));
        LS_TRY(read_config(path, model));
    }
    LS_TRY(change_rope(path, change, model));
    return count_parameters(model);
}

static ls_status open_text(const char *name, const char *text, ls_model *model) {
    model->text = strdup(text);
    if (model->text == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", name);
    LS_TRY(parse_config(name, strlen(text), model));
    return count_parameters(model);
}

/* text NULL: reads the config at path. */
static ls_status create(const char *path, const char *text, const ls_rope_change *change, ls_model **out) {
    if (path == NULL) return ls_error(LS_USAGE, "--model is missing; expected a config.json or its folder");
    ls_model *model = calloc(1, sizeof *model);
    if (model == NULL) return ls_error(LS_NO_MEMORY, "no memory to open the model %s", path);
    const ls_status status = text != NULL ? open_text(path, text, model) : open_model(path, change, model);
    if (status.code != LS_OK) {
        ls_model_close(model);
        return status;
    }
    *out = model;
    return ls_ok();
}

ls_status ls_model_open(const char *path, ls_model **out) { return create(path, NULL, NULL, out); }

ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out) {
    return create(path, NULL, change, out);
}

ls_status ls_model_open_text(const char *name, const char *text, ls_model **out) {
    return create(name, text, NULL, out);
}

void ls_model_close(ls_model *model) {
    if (model == NULL) return;
    free(model->folder);
    free(model->text);
    free(model);
}

ls_model_sizes ls_model_describe(const ls_model *model) { return model->config.sizes; }
const char *ls_model_architecture(const ls_model *model) { return model->architecture->name; }
const char *ls_model_folder(const ls_model *model) { return model->folder != NULL ? model->folder : ""; }
const char *ls_model_config_text(const ls_model *model) { return model->text; }
bool ls_model_tied(const ls_model *model, const char **head, const char **table) {
    const ls_form *form = model->architecture->form;
    *head = form->head;
    *table = form->table;
    return model->config.sizes.tied;
}
int64_t ls_model_parameters(const ls_model *model) { return model->parameters; }

ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed, ls_weight_source *out) {
    const ls_form *form = model->architecture->form;
    const bool tied = model->config.sizes.tied;
    const ls_weight_rules rules = {.derived = form->derived,
                                   .copy = tied ? form->head : NULL,
                                   .original = tied ? form->table : NULL,
                                   .prefix = form->prefix};
    ls_weight_source source;
    LS_TRY(ls_weights_open_folder(ls_model_folder(model), image, &rules, &source));
    if (source.context == NULL)
        LS_TRY(ls_weights_open_random_norms(seed, model->config.sizes.initializer_range, 1 - model->config.norm_offset,
                                            &source));
    *out = source;
    return ls_ok();
}
