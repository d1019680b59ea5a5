/*
 * Exporting a checkpoint: the folder, and the files beside the tensors (the config, the generation config, the
 * tokenizer's files). The tensors are in export_weights.c.
 */
#include "checkpoint/export_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PARTIAL[] = ".partial-", GENERATION[] = "generation_config.json";

/* Files of the tokenizer's folder that are copied if they exist. */
static const char *const carried[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    GENERATION,
};

/* ---- types by their names ---- */

enum { ON_COMMAND_LINE, IN_CONFIG, NAMES };
static const struct {
    const char *name[NAMES];
    ls_st_dtype dtype;
} types[] = {{{"f32", "float32"}, LS_ST_F32}, {{"f16", "float16"}, LS_ST_F16}, {{"bf16", "bfloat16"}, LS_ST_BF16}};

ls_status ls_export_dtype(const char *name, ls_st_dtype *out) {
    *out = LS_ST_DTYPES;
    for (size_t i = 0; i < LS_COUNT(types) && name != NULL; i++)
        if (strcmp(types[i].name[ON_COMMAND_LINE], name) == 0) *out = types[i].dtype;
    if (name == NULL || *out != LS_ST_DTYPES) return ls_ok();
    return ls_error(LS_USAGE, "--dtype is '%s', expected f32, f16 or bf16", name);
}

/* ---- the model's file (config.json or graph.json) ---- */

static const ls_exported_model models[] = {
    {.file = LS_CHECKPOINT_ADAPTER, .alone = true, .prefix = LS_ADAPTER_PREFIX, .weights = LS_ADAPTER_WEIGHTS},
    {.file = LS_CHECKPOINT_CONFIG, .names = IN_CONFIG, .type_keys = {"dtype", "torch_dtype"}},
    {.file = LS_CHECKPOINT_GRAPH, .names = ON_COMMAND_LINE, .type_keys = {"dtype"}, .also = true},
};

static const char *type_name(const ls_exported_model *model, ls_st_dtype dtype) {
    for (size_t i = 0; i < LS_COUNT(types); i++)
        if (types[i].dtype == dtype) return types[i].name[model->names];
    return NULL;
}

/*
 * The type that the file names; F32, the most precise type of an export, if it names none or another one (such as
 * float64).
 */
static ls_st_dtype type_of(const ls_exported_model *model, ls_json_value root) {
    for (size_t k = 0; k < LS_COUNT(model->type_keys) && model->type_keys[k] != NULL; k++) {
        const char *name = NULL;
        if (ls_json_text_or(root, model->type_keys[k], NULL, &name).code != LS_OK || name == NULL) continue;
        for (size_t i = 0; i < LS_COUNT(types); i++)
            if (strcmp(types[i].name[model->names], name) == 0) return types[i].dtype;
    }
    return LS_ST_F32;
}

/* Reads the other names of parameters, in the order of the file. */
static ls_status read_also(ls_exporting *e, ls_json_value root) {
    ls_json_value list, also;
    size_t room = 0;
    LS_TRY(ls_json_array(root, "parameters", &list));
    for (size_t i = 0; i < ls_json_count(list); i++)
        room += ls_json_count(ls_json_field(ls_json_item(list, i), "also"));
    e->copies = LS_NEW_ARRAY(e->arena, ls_weight_copy, room + 1);
    for (size_t i = 0; i < ls_json_count(list); i++) {
        const ls_json_value parameter = ls_json_item(list, i);
        const char *name = NULL, *copy = NULL;
        LS_TRY(ls_json_text(parameter, "name", &name));
        if (!ls_json_has(parameter, "also")) continue;
        LS_TRY(ls_json_array(parameter, "also", &also));
        for (size_t k = 0; k < ls_json_count(also); k++) {
            LS_TRY(ls_json_as_text(ls_json_item(also, k), &copy));
            e->copies[e->n_copies++] =
                (ls_weight_copy){ls_arena_strdup(e->arena, copy), ls_arena_strdup(e->arena, name)};
        }
    }
    return ls_ok();
}

static ls_status read_root(ls_exporting *e, ls_json_value root) {
    LS_TRY(ls_json_as_object(root));
    e->result.dtype = e->options->dtype != LS_ST_DTYPES ? e->options->dtype : type_of(e->model, root);
    return e->model->also ? read_also(e, root) : ls_ok();
}

static ls_status parse_model(ls_exporting *e, const char *name) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(name, e->config, strlen(e->config), &document));
    const ls_status status = read_root(e, ls_json_root(document));
    ls_json_free(document);
    return status;
}

/* Takes the file of a merged model as it was read. */
static ls_status take_model(ls_exporting *e) {
    const ls_model_text text = ls_model_written(e->options->merge);
    for (size_t i = 0; i < LS_COUNT(models); i++)
        if (strcmp(ls_checkpoint_file_name(models[i].file), text.file) == 0) e->model = &models[i];
    LS_ASSERT(e->model != NULL);
    e->config = strdup(text.text);
    return e->config != NULL ? parse_model(e, text.file) : ls_error(LS_NO_MEMORY, "no memory for %s", text.file);
}

/* Reads and checks the model's file; sets result.dtype. */
static ls_status read_model(ls_exporting *e) {
    LS_PATH path = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < LS_COUNT(models) && e->model == NULL; i++)
        if (e->record.file[models[i].file].bytes > 0) e->model = &models[i];
    if (e->model == NULL)
        return ls_error(
            LS_INVALID,
            "%s has neither config.json nor graph.json, one of which an export needs: the job that saved it had none",
            e->options->checkpoint);
    const ls_recorded_file *file = &e->record.file[e->model->file];
    LS_TRY(ls_path_join(e->options->checkpoint, ls_checkpoint_file_name(e->model->file), &path));
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &e->config, &bytes));
    const ls_file_map map = {(const uint8_t *)e->config, bytes};
    LS_TRY(ls_piece_check_length(path, &map, file));
    for (int i = 0; i < file->n_pieces; i++) LS_TRY(ls_piece_check(path, &map, &file->pieces[i]));
    return parse_model(e, path);
}

/* Only the bytes of the type change. */
static ls_status write_model(ls_exporting *e) {
    const char *const *keys = e->model->type_keys;
    LS_PATH path = NULL;
    char value[32];
    size_t from, to;
    LS_ASSERT(type_name(e->model, e->result.dtype) != NULL);
    snprintf(value, sizeof value, "\"%s\"", type_name(e->model, e->result.dtype));
    bool there[LS_COUNT(e->model->type_keys)];
    for (size_t k = 0; k < LS_COUNT(there); k++)
        there[k] = keys[k] != NULL && ls_json_find_member(e->config, keys[k], &from, &to);
    there[0] = keys[0] != NULL && (there[0] || !there[1]);
    for (size_t k = 0; k < LS_COUNT(there); k++) {
        if (!there[k]) continue;
        char *edited = NULL;
        LS_TRY(ls_json_set_member(e->config, keys[k], value, &edited));
        free(e->config);
        e->config = edited;
    }
    LS_TRY(ls_path_join(e->partial, ls_checkpoint_file_name(e->model->file), &path));
    return ls_file_write(path, e->config, strlen(e->config));
}

/* ---- the generation config ---- */

/* Like transformers for a folder without this file: makes one with the special ids of the config. */
static ls_status make_generation_config(const ls_exporting *e) {
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    LS_PATH path = NULL;
    char *text = strdup("{\n  \"_from_model_config\": true\n}\n");
    if (text == NULL) return ls_error(LS_NO_MEMORY, "no memory for a generation config");
    ls_status status = ls_ok();
    for (size_t i = LS_COUNT(ids); i-- > 0 && status.code == LS_OK;) {
        size_t from = 0, to = 0;
        if (!ls_json_find_member(e->config, ids[i], &from, &to)) continue;
        char *value = strndup(e->config + from, to - from), *edited = NULL;
        status = value != NULL ? ls_json_set_member(text, ids[i], value, &edited)
                               : ls_error(LS_NO_MEMORY, "no memory for a generation config");
        free(value);
        if (status.code != LS_OK) break;
        LS_ASSERT(edited != NULL);
        free(text);
        text = edited;
    }
    if (status.code == LS_OK) status = ls_path_join(e->partial, GENERATION, &path);
    if (status.code == LS_OK) status = ls_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* ---- files that are copied ---- */

/* Whether a path lies below a folder. Neither may contain symbolic links. */
static bool lies_in(const char *path, const char *folder) {
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/*
 * Finds the folder of blobs for a folder in the cache of the Hugging Face hub: CACHE/snapshots/REVISION holds links to
 * files in CACHE/blobs. *out stays NULL for other folders.
 */
static ls_status find_blobs(const char *folder, char **out) {
    static const char snapshots[] = "/snapshots";
    const char *revision = strrchr(folder, '/');
    const size_t n = revision != NULL ? (size_t)(revision - folder) : 0, tail = sizeof snapshots - 1;
    if (n <= tail || strncmp(revision - tail, snapshots, tail) != 0) return ls_ok();
    return ls_path_print(out, "%.*s/blobs", (int)(n - tail), folder);
}

/*
 * An export may be published. A link in a downloaded folder must not bring another file of this machine into it. Links
 * of a hub snapshot to its own blobs are allowed.
 */
static ls_status check_inside(const char *folder, const char *path) {
    LS_PATH real_folder = realpath(folder, NULL);
    LS_PATH real = realpath(path, NULL);
    LS_PATH blobs = NULL;
    if (real == NULL || real_folder == NULL) return ls_error(LS_IO, "%s: %s", path, strerror(errno));
    LS_TRY(find_blobs(real_folder, &blobs));
    if (lies_in(real, real_folder) || (blobs != NULL && lies_in(real, blobs))) return ls_ok();
    return ls_error(LS_INVALID, "%s is a link to %s; expected a file of the folder itself", path, real);
}

/* LS_INVALID if a file that would be copied is a link to outside the folder. NULL or "": there is no folder. */
static ls_status check_carried(const char *folder) {
    for (size_t i = 0; i < LS_COUNT(carried) && folder != NULL && folder[0] != 0; i++) {
        LS_PATH from = NULL;
        LS_TRY(ls_path_join(folder, carried[i], &from));
        if (ls_file_exists(from)) LS_TRY(check_inside(folder, from));
    }
    return ls_ok();
}

static ls_status carry_file(ls_exporting *e, const char *name, const char *from) {
    LS_PATH to = NULL;
    ls_file_map map;
    LS_TRY(ls_path_join(e->partial, name, &to));
    LS_TRY(ls_file_map_open(from, &map));
    const ls_status status = ls_file_write(to, map.data, map.bytes);
    ls_file_map_close(&map);
    char *list = e->result.carried;
    const size_t used = strlen(list);
    snprintf(list + used, sizeof e->result.carried - used, "%s%s", used > 0 ? ", " : "", name);
    return status;
}

/* Copies the tokenizer's files and the generation config; makes the latter if the folder has none. */
static ls_status carry_files(ls_exporting *e) {
    const char *folder = e->options->carry;
    bool generation = false;
    if (e->model->alone) return ls_ok();
    for (size_t i = 0; i < LS_COUNT(carried) && folder != NULL && folder[0] != 0; i++) {
        LS_PATH from = NULL;
        LS_TRY(ls_path_join(folder, carried[i], &from));
        if (!ls_file_exists(from)) continue;
        LS_TRY(carry_file(e, carried[i], from));
        generation = generation || carried[i] == GENERATION;
    }
    return generation ? ls_ok() : make_generation_config(e);
}

/* ---- names of exported files ---- */

/* "model-00001-of-00003.safetensors" */
static bool is_shard(const char *name) {
    static const char *const parts[] = {"model-", "-of-", ".safetensors"};
    for (size_t i = 0; i < LS_COUNT(parts); i++) {
        const size_t n = strlen(parts[i]);
        if (strncmp(name, parts[i], n) != 0) return false;
        name += n;
        if (i + 1 == LS_COUNT(parts)) break;
        const size_t digits = strspn(name, "0123456789");
        if (digits < 5) return false;
        name += digits;
    }
    return *name == 0;
}

/* Whether an exported model may hold a file of this name. */
static bool is_exported_name(const char *name) {
    static const char *const made[] = {"config.json",     "graph.json",       "model.safetensors",
                                       LS_ADAPTER_CONFIG, LS_ADAPTER_WEIGHTS, "model.safetensors.index.json"};
    for (size_t i = 0; i < LS_COUNT(made); i++)
        if (strcmp(made[i], name) == 0) return true;
    for (size_t i = 0; i < LS_COUNT(carried); i++)
        if (strcmp(carried[i], name) == 0) return true;
    return is_shard(name);
}

/* ---- the output folder ---- */

/* The path without symbolic links. If it does not exist, the path as given, without slashes at its end. */
static ls_status resolve(const char *path, char **out) {
    if (path[0] == 0) return ls_error(LS_USAGE, "--out is empty; expected a folder");
    char *real = ls_file_exists(path) ? realpath(path, NULL) : NULL;
    const ls_status status = ls_path_print(out, "%s", real != NULL ? real : path);
    free(real);
    LS_TRY(status);
    for (size_t length = strlen(*out); length > 1 && (*out)[length - 1] == '/'; length--) (*out)[length - 1] = 0;
    return ls_ok();
}

static ls_status refuse_foreign_files(const char *folder) {
    ls_file_names names;
    ls_status status = ls_ok();
    LS_TRY(ls_file_list(folder, &names));
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++)
        if (!is_exported_name(names.name[i]))
            status = ls_error(LS_USAGE,
                              "%s holds '%s', which is no part of an exported model; expected a new or empty folder, "
                              "or one that was exported",
                              folder, names.name[i]);
    ls_file_names_free(&names);
    return status;
}

ls_status ls_export_check(const char *out, const char *carry) {
    LS_PATH path = NULL;
    LS_PATH source = NULL;
    LS_TRY(check_carried(carry));
    LS_TRY(resolve(out, &path));
    if (!ls_file_exists(path)) return ls_ok();
    if (!ls_file_is_folder(path)) return ls_error(LS_USAGE, "%s is a file, expected a folder", path);
    if (carry != NULL && carry[0] != 0) {
        LS_TRY(resolve(carry, &source));
        if (strcmp(path, source) == 0)
            return ls_error(LS_USAGE, "%s is the model's own folder; expected another, so that its weights stay", path);
    }
    return refuse_foreign_files(path);
}

/* ---- the temporary folder ---- */

ls_status ls_export_remove_leftovers(const char *final) {
    LS_PATH folder = NULL;
    LS_PATH path = NULL;
    LS_PATH prefix = NULL;
    const char *slash = strrchr(final, '/');
    LS_TRY(ls_path_parent(final, &folder));
    LS_TRY(ls_path_print(&prefix, "%s%s", slash == NULL ? final : slash + 1, PARTIAL));
    ls_file_names names;
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        const char *digits = names.name[i] + strlen(prefix);
        if (strncmp(names.name[i], prefix, strlen(prefix)) != 0) continue;
        const long process = strtol(digits, NULL, 10);
        if (process <= 0 || (process != getpid() && (kill((pid_t)process, 0) == 0 || errno != ESRCH))) continue;
        status = ls_path_join(folder, names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_remove_tree(path);
    }
    ls_file_names_free(&names);
    return status;
}

static ls_status make_partial(ls_exporting *e) {
    LS_TRY(ls_path_print(&e->partial, "%s%s%ld", e->final, PARTIAL, (long)getpid()));
    /* This lists the parent folder, and also removes a leftover of a process with the same id. */
    LS_TRY(ls_file_make_folders(e->partial));
    LS_TRY(ls_export_remove_leftovers(e->final));
    return ls_file_make_folders(e->partial);
}

/* ---- exporting ---- */

static ls_status write_folder(ls_exporting *e) {
    LS_TRY(make_partial(e));
    LS_TRY(write_model(e));
    LS_TRY(carry_files(e));
    LS_TRY(ls_export_weights(e));
    LS_TRY(ls_file_sync(e->partial));
    return ls_checkpoint_publish(e->partial, e->final);
}

static ls_status export_to(ls_exporting *e) {
    if (e->options->checkpoint != NULL) LS_TRY(ls_record_read(e->options->checkpoint, e->arena, &e->record));
    const bool averaged = ls_record_averages(&e->record);
    if (e->options->last && (!averaged || e->options->merge != NULL))
        return ls_error(LS_USAGE, "--last: %s; expected %s",
                        averaged ? "an adapter is merged from the average"
                                 : "the checkpoint has no average of the weights",
                        averaged ? "--last without --merge, and then --merge of that folder" : "a run with --ema");
    e->result.averaged = averaged && !e->options->last;
    LS_TRY(e->options->merge != NULL ? take_model(e) : read_model(e));
    if (e->options->merge != NULL) LS_TRY(ls_export_open_merged(e));
    LS_TRY(ls_export_check(e->options->out, e->options->carry));
    LS_TRY(resolve(e->options->out, &e->final));
    const ls_status status = write_folder(e);
    if (status.code != LS_OK && e->partial != NULL) {
        const ls_status removed = ls_file_remove_tree(e->partial);
        if (removed.code != LS_OK) ls_log("warning: a partial export could not be removed: %s", removed.text);
    }
    return status;
}

ls_status ls_checkpoint_export(const ls_export_options *options, ls_export_result *result) {
    ls_exporting e = {.options = options, .arena = ls_arena_create()};
    const ls_status status = export_to(&e);
    if (status.code == LS_OK) *result = e.result;
    ls_weights_close(&e.merged);
    free(e.config);
    free(e.final);
    free(e.partial);
    ls_arena_destroy(e.arena);
    return status;
}
