/* Which files a directory offers: one, the shards that an index names, or all. */
#include "weights/weights_impl.h"

#include <stdlib.h>
#include <string.h>

/* The largest published models have a few hundred. */
enum { MOST_FILES = 10000 };

static ls_status add_path(ls_file_names *names, const char *directory, const char *name) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(directory, name, &path));
    char **grown = realloc(names->name, (names->count + 1) * sizeof *grown);
    if (grown != NULL) names->name = grown;
    char *copy = grown == NULL ? NULL : strdup(path);
    if (copy == NULL) return ls_error(LS_NO_MEMORY, "no memory for the names of the files in %s", directory);
    names->name[names->count++] = copy;
    return ls_ok();
}

/* ---- an index ---- */

/* A file of the same folder, and nothing that leads out of it. */
static ls_status check_name(ls_json_value value, const char *name) {
    const bool inside =
        name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return inside ? ls_ok() : ls_json_error(value, "the name of a file in the same folder");
}

static int by_file(const void *a, const void *b) {
    const ls_indexed *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : strcmp(x->tensor, y->tensor);
}

static ls_status read_map(ls_json_value map, ls_weight_listing *out) {
    ls_json_value value;
    const char *key = NULL;
    void *cursor = NULL;
    out->indexed = calloc(ls_json_count(map) + 1, sizeof *out->indexed);
    if (out->indexed == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the %zu names of %s", ls_json_count(map), map.file);
    while (ls_json_next(map, &cursor, &key, &value)) {
        ls_indexed *entry = &out->indexed[out->n_indexed++];
        entry->tensor = key;
        LS_TRY(ls_json_as_text(value, &entry->name));
        LS_TRY(check_name(value, entry->name));
    }
    if (out->n_indexed == 0) return ls_json_error(map, "an object with a file name for each tensor");
    qsort(out->indexed, out->n_indexed, sizeof *out->indexed, by_file);
    return ls_ok();
}

/* All that the index names, so that an error can say how many of them are not there. */
static ls_status list_indexed(const char *index, const char *directory, ls_weight_listing *out) {
    ls_complaint missing = {"", 0, ""};
    for (size_t i = 0; i < out->n_indexed; i++) {
        ls_indexed *entry = &out->indexed[i];
        const bool same = i > 0 && strcmp(entry[-1].name, entry->name) == 0;
        if (!same && out->files.count == MOST_FILES)
            return ls_error(LS_INVALID, "%s: weight_map names more than %d files", index, MOST_FILES);
        if (!same) LS_TRY(add_path(&out->files, directory, entry->name));
        entry->file = (int)out->files.count - 1;
        if (!same && !ls_file_exists(out->files.name[entry->file])) ls_complain(&missing, "%s", entry->name);
    }
    if (missing.count == 0) return ls_ok();
    return ls_error(LS_IO, "%s: %d of the %zu files that it names are missing: %s: No such file", index,
                    missing.count, out->files.count, missing.list);
}

static ls_status read_index(const char *index, const char *directory, ls_weight_listing *out) {
    ls_json_value map;
    LS_TRY(ls_json_read(index, LS_JSON_MOST_BYTES, &out->index));
    LS_TRY(ls_json_object(ls_json_root(out->index), "weight_map", &map));
    LS_TRY(read_map(map, out));
    return list_indexed(index, directory, out);
}

/* ---- a folder ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Weights that somebody meant to be read; making up random ones in their place would be no favour. */
static bool is_foreign(const char *name) {
    return ends_with(name, ".gguf") || ends_with(name, ".pth") ||
           (strncmp(name, "pytorch_model", strlen("pytorch_model")) == 0 && ends_with(name, ".bin"));
}

static ls_status list_all(const char *directory, ls_weight_listing *out) {
    ls_file_names entries;
    const char *foreign = NULL;
    ls_status status = ls_ok();
    LS_TRY(ls_file_list(directory, &entries));
    for (size_t i = 0; i < entries.count && status.code == LS_OK; i++) {
        if (ends_with(entries.name[i], ".safetensors"))
            status = add_path(&out->files, directory, entries.name[i]);
        else if (is_foreign(entries.name[i]))
            foreign = entries.name[i];
    }
    if (status.code == LS_OK && out->files.count > MOST_FILES)
        status = ls_error(LS_INVALID, "%s: %zu files end in .safetensors, expected at most %d", directory,
                          out->files.count, MOST_FILES);
    if (status.code == LS_OK && out->files.count == 0 && foreign != NULL)
        status = ls_error(LS_UNSUPPORTED,
                          "%s: the weights are in %s, a format that is not read; expected *.safetensors",
                          directory, foreign);
    ls_file_names_free(&entries);
    return status;
}

ls_status ls_weight_listing_make(const char *directory, ls_weight_listing *out) {
    LS_PATH whole = NULL;
    LS_PATH index = NULL;
    ls_weight_listing listing = {.n_indexed = 0};
    LS_TRY(ls_path_join(directory, "model.safetensors", &whole));
    LS_TRY(ls_path_join(directory, "model.safetensors.index.json", &index));
    const ls_status status = ls_file_exists(whole) ? add_path(&listing.files, directory, "model.safetensors")
                             : ls_file_exists(index) ? read_index(index, directory, &listing)
                                                     : list_all(directory, &listing);
    if (status.code == LS_OK)
        *out = listing;
    else
        ls_weight_listing_free(&listing);
    return status;
}

ls_status ls_weight_listing_of_file(const char *path, ls_weight_listing *out) {
    ls_weight_listing listing = {.n_indexed = 0};
    listing.files.name = calloc(1, sizeof *listing.files.name);
    char *copy = strdup(path);
    if (listing.files.name == NULL || copy == NULL) {
        free(copy);
        ls_weight_listing_free(&listing);
        return ls_error(LS_NO_MEMORY, "no memory to open %s", path);
    }
    listing.files.name[listing.files.count++] = copy;
    *out = listing;
    return ls_ok();
}

void ls_weight_listing_free(ls_weight_listing *listing) {
    ls_file_names_free(&listing->files);
    free(listing->indexed);
    ls_json_free(listing->index);
    *listing = (ls_weight_listing){.n_indexed = 0};
}
