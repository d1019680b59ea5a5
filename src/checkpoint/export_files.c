/* What lies beside an exported model's tensors: its config, the generation config, the tokenizer's files. */
#include "checkpoint/export_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char GENERATION[] = "generation_config.json";

/* Carried over where they are there. */
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

static const struct {
    const char *flag, *config; /* on the command line; in a config.json */
    ls_st_dtype dtype;
} types[] = {{"f32", "float32", LS_ST_F32}, {"f16", "float16", LS_ST_F16}, {"bf16", "bfloat16", LS_ST_BF16}};

ls_status ls_export_dtype(const char *name, ls_st_dtype *out) {
    *out = LS_ST_DTYPES;
    for (size_t i = 0; i < LS_COUNT(types) && name != NULL; i++)
        if (strcmp(types[i].flag, name) == 0) *out = types[i].dtype;
    if (name == NULL || *out != LS_ST_DTYPES) return ls_ok();
    return ls_error(LS_USAGE, "--dtype is '%s', expected f32, f16 or bf16", name);
}

static const char *config_name(ls_st_dtype dtype) {
    for (size_t i = 0; i < LS_COUNT(types); i++)
        if (types[i].dtype == dtype) return types[i].config;
    return NULL;
}

/* ---- the config ---- */

/* The field's newer name, which is heard first and put in where there is none, and its older one. */
static const char *const type_keys[] = {"dtype", "torch_dtype"};

/* Of a type that is not written here (float64, say) the masters' f32 keeps most. */
static ls_st_dtype type_in(ls_json_value root) {
    for (size_t k = 0; k < LS_COUNT(type_keys); k++) {
        const char *name = NULL;
        if (ls_json_text_or(root, type_keys[k], NULL, &name).code != LS_OK || name == NULL) continue;
        for (size_t i = 0; i < LS_COUNT(types); i++)
            if (strcmp(types[i].config, name) == 0) return types[i].dtype;
    }
    return LS_ST_F32;
}

ls_status ls_export_config_read(ls_exporting *e) {
    const ls_recorded_file *file = &e->record.file[LS_CHECKPOINT_CONFIG];
    LS_PATH path = NULL;
    size_t bytes = 0;
    LS_TRY(ls_path_join(e->options->checkpoint, ls_checkpoint_file_name(LS_CHECKPOINT_CONFIG), &path));
    if (file->bytes == 0)
        return ls_error(LS_INVALID, "%s has no config.json: what saved it knew of no model",
                        e->options->checkpoint);
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &e->config, &bytes));
    const ls_file_map map = {(const uint8_t *)e->config, bytes};
    LS_TRY(ls_piece_check_length(path, &map, file));
    for (int i = 0; i < file->n_pieces; i++) LS_TRY(ls_piece_check(path, &map, &file->pieces[i]));
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(path, e->config, bytes, &document));
    const ls_status status = ls_json_as_object(ls_json_root(document));
    if (status.code == LS_OK)
        e->result.dtype =
            e->options->dtype != LS_ST_DTYPES ? e->options->dtype : type_in(ls_json_root(document));
    ls_json_free(document);
    return status;
}

/* Every byte of the text stays but those of the type. */
ls_status ls_export_config_write(ls_exporting *e) {
    LS_PATH path = NULL;
    char value[32];
    size_t from, to;
    LS_ASSERT(config_name(e->result.dtype) != NULL);
    snprintf(value, sizeof value, "\"%s\"", config_name(e->result.dtype));
    bool there[LS_COUNT(type_keys)];
    for (size_t k = 0; k < LS_COUNT(type_keys); k++)
        there[k] = ls_json_find_member(e->config, type_keys[k], &from, &to);
    there[0] = there[0] || !there[1];
    for (size_t k = 0; k < LS_COUNT(type_keys); k++) {
        if (!there[k]) continue;
        char *edited = NULL;
        LS_TRY(ls_json_set_member(e->config, type_keys[k], value, &edited));
        free(e->config);
        e->config = edited;
    }
    LS_TRY(ls_path_join(e->partial, "config.json", &path));
    return ls_file_write(path, e->config, strlen(e->config));
}

/* ---- the generation config ---- */

/* With the special ids of the config, as other programs make it where a folder has none. */
static ls_status make_generation(const ls_exporting *e) {
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

/* ---- files that are carried over ---- */

/* Whether a path without links lies in the folder `home`, one without links too. */
static bool lies_in(const char *path, const char *home) {
    const size_t n = strlen(home);
    return strncmp(path, home, n) == 0 && path[n] == '/';
}

/* Where the Hugging Face hub's cache keeps the files of a snapshot, CACHE/snapshots/REVISION: CACHE/blobs. */
static ls_status find_blobs(const char *home, char **out) {
    static const char snapshots[] = "/snapshots";
    const char *revision = strrchr(home, '/');
    const size_t n = revision != NULL ? (size_t)(revision - home) : 0, tail = sizeof snapshots - 1;
    if (n <= tail || strncmp(revision - tail, snapshots, tail) != 0) return ls_ok();
    return ls_path_print(out, "%.*s/blobs", (int)(n - tail), home);
}

/*
 * What is exported may be published: a link in a folder that came from somewhere must not bring in a file of this machine that it was not made
 * of. A snapshot of the hub's cache is made of links to its own blobs.
 */
static ls_status check_inside(const char *folder, const char *path) {
    LS_PATH home = realpath(folder, NULL);
    LS_PATH real = realpath(path, NULL);
    LS_PATH blobs = NULL;
    if (real == NULL || home == NULL) return ls_error(LS_IO, "%s: %s", path, strerror(errno));
    LS_TRY(find_blobs(home, &blobs));
    if (lies_in(real, home) || (blobs != NULL && lies_in(real, blobs))) return ls_ok();
    return ls_error(LS_INVALID, "%s is a link to %s; expected a file of the folder itself", path, real);
}

ls_status ls_export_check_carried(const char *folder) {
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

ls_status ls_export_carry(ls_exporting *e) {
    const char *folder = e->options->carry;
    bool generation = false;
    for (size_t i = 0; i < LS_COUNT(carried) && folder != NULL && folder[0] != 0; i++) {
        LS_PATH from = NULL;
        LS_TRY(ls_path_join(folder, carried[i], &from));
        if (!ls_file_exists(from)) continue;
        LS_TRY(carry_file(e, carried[i], from));
        generation = generation || carried[i] == GENERATION;
    }
    return generation ? ls_ok() : make_generation(e);
}

/* ---- names ---- */

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

bool ls_export_knows(const char *name) {
    static const char *const made[] = {"config.json", "model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < LS_COUNT(made); i++)
        if (strcmp(made[i], name) == 0) return true;
    for (size_t i = 0; i < LS_COUNT(carried); i++)
        if (strcmp(carried[i], name) == 0) return true;
    return is_shard(name);
}
