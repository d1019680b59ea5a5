/* Opening a model: which architecture a config.json is about, and what it says. */
#include "model/model_impl.h"

#include <stdlib.h>
#include <string.h>

/* The architectures that are known. */
static const ls_architecture *const architectures[] = {&ls_architecture_llama};

static void list_known(char *out, size_t room) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < LS_COUNT(architectures) && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " or " : "", architectures[i]->name);
}

static ls_status unknown(ls_json_value field) {
    char known[160];
    list_known(known, sizeof known);
    ls_status status = ls_json_error(field, "%s", known);
    status.code = LS_UNSUPPORTED;
    return status;
}

static const ls_architecture *find_type(const char *type) {
    for (size_t i = 0; i < LS_COUNT(architectures); i++)
        if (strcmp(architectures[i]->model_type, type) == 0) return architectures[i];
    return NULL;
}

static ls_status find_named(ls_json_value root, const ls_architecture **out) {
    ls_json_value list;
    const char *name = NULL;
    LS_TRY(ls_json_array(root, "architectures", &list));
    if (ls_json_count(list) != 1) return ls_json_error(list, "an array with one name");
    const ls_json_value item = ls_json_item(list, 0);
    LS_TRY(ls_json_as_text(item, &name));
    for (size_t i = 0; i < LS_COUNT(architectures); i++)
        if (strcmp(architectures[i]->name, name) == 0) *out = architectures[i];
    return *out == NULL ? unknown(item) : ls_ok();
}

/* By "architectures", or where that is missing by "model_type"; given both, they must agree. */
static ls_status find_architecture(ls_json_value root, const ls_architecture **out) {
    const ls_architecture *found = NULL;
    const char *type = NULL;
    const bool named = ls_json_has(root, "architectures");
    if (named) LS_TRY(find_named(root, &found));
    if (!named || ls_json_has(root, "model_type")) {
        if (!ls_json_has(root, "model_type")) return unknown(ls_json_field(root, "architectures"));
        LS_TRY(ls_json_text(root, "model_type", &type));
        if (find_type(type) == NULL) return unknown(ls_json_field(root, "model_type"));
        if (found != NULL && find_type(type) != found)
            return ls_json_error(ls_json_field(root, "model_type"), "\"%s\", as architectures says",
                                 found->model_type);
        found = find_type(type);
    }
    *out = found;
    return ls_ok();
}

/* Errors call the text `name`. */
static ls_status parse_config(const char *name, size_t bytes, ls_model *model) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(name, model->text, bytes, &document));
    const ls_json_value root = ls_json_root(document);
    ls_status status = ls_json_as_object(root);
    if (status.code == LS_OK) status = find_architecture(root, &model->architecture);
    if (status.code == LS_OK && model->architecture != NULL)
        status = model->architecture->configure(root, &model->config);
    ls_json_free(document);
    return status;
}

static ls_status read_config(const char *path, ls_model *model) {
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &model->text, &bytes));
    return parse_config(path, bytes, model);
}

/* Builds the smallest graph: what the parameters are is said in one place, the builder. */
static ls_status count_parameters(ls_model *model) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model smallest;
    const ls_status status = ls_model_build(model, g, 1, 1, false, &smallest);
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER)
            model->parameters += ls_shape_elements(&g->tensors[t].shape);
    ls_graph_destroy(g);
    return status;
}

/* The folder that a path lies in: "." when it names none. */
static ls_status folder_of(const char *path, char out[LS_FILE_PATH]) {
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= LS_FILE_PATH)
        return ls_error(LS_INVALID, "path of %zu bytes is too long: %s", length, path);
    memcpy(out, slash == NULL ? "." : path, length);
    out[length] = 0;
    return ls_ok();
}

static ls_status open_model(const char *path, ls_model *model) {
    char config[LS_FILE_PATH];
    if (ls_file_is_directory(path)) {
        LS_TRY(ls_file_join(path, "config.json", config, sizeof config));
        LS_TRY(folder_of(config, model->directory));
        LS_TRY(read_config(config, model));
    } else {
        LS_TRY(folder_of(path, model->directory));
        LS_TRY(read_config(path, model));
    }
    return count_parameters(model);
}

static ls_status take_text(const char *name, const char *text, ls_model *model) {
    model->text = strdup(text);
    if (model->text == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", name);
    LS_TRY(parse_config(name, strlen(text), model));
    return count_parameters(model);
}

ls_status ls_model_open(const char *path, ls_model **out) { return ls_model_open_text(path, NULL, out); }

ls_status ls_model_open_text(const char *name, const char *text, ls_model **out) {
    ls_model *model = calloc(1, sizeof *model);
    if (model == NULL) return ls_error(LS_NO_MEMORY, "no memory to open the model %s", name);
    const ls_status status = text != NULL ? take_text(name, text, model) : open_model(name, model);
    if (status.code != LS_OK) {
        ls_model_close(model);
        return status;
    }
    *out = model;
    return ls_ok();
}

void ls_model_close(ls_model *model) {
    if (model == NULL) return;
    free(model->text);
    free(model);
}

ls_model_sizes ls_model_describe(const ls_model *model) { return model->config.sizes; }
const char *ls_model_architecture(const ls_model *model) { return model->architecture->name; }
const char *ls_model_directory(const ls_model *model) { return model->directory; }
const char *ls_model_config_text(const ls_model *model) { return model->text; }
int64_t ls_model_parameters(const ls_model *model) { return model->parameters; }

ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed,
                           ls_weight_source *out) {
    const ls_architecture *a = model->architecture;
    const bool tied = model->config.sizes.tied;
    const ls_weight_rules rules = {.derived = a->derived,
                                   .copy = tied ? a->head : NULL,
                                   .original = tied ? a->table : NULL,
                                   .prefix = a->prefix};
    ls_weight_source source;
    LS_TRY(ls_weights_open_directory(model->directory, image, &rules, &source));
    if (source.context == NULL)
        LS_TRY(ls_weights_open_random(seed, model->config.sizes.initializer_range, &source));
    *out = source;
    return ls_ok();
}
