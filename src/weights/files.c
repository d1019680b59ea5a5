/* Weights in safetensors files: which files, and whether they hold what the model needs. */
#include "weights/weights_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_weight_files {
    int n;
    ls_st_file *file[]; /* n */
};

/* ---- which files ---- */

static ls_status add_name(ls_file_names *names, const char *directory, const char *name) {
    char path[LS_FILE_PATH];
    LS_TRY(ls_file_join(directory, name, path, sizeof path));
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], path) == 0) return ls_ok();
    char **grown = realloc(names->name, (names->count + 1) * sizeof *grown);
    if (grown != NULL) names->name = grown;
    char *copy = grown == NULL ? NULL : strdup(path);
    if (copy == NULL) return ls_error(LS_NO_MEMORY, "no memory for the names of the files in %s", directory);
    names->name[names->count++] = copy;
    return ls_ok();
}

/* The files that an index names. */
static ls_status list_index(const char *index, const char *directory, ls_file_names *names) {
    ls_json *document = NULL;
    ls_json_value map, value;
    const char *key = NULL, *name = NULL;
    void *cursor = NULL;
    LS_TRY(ls_json_read(index, LS_JSON_MOST_BYTES, &document));
    ls_status status = ls_json_object(ls_json_root(document), "weight_map", &map);
    while (status.code == LS_OK && ls_json_next(map, &cursor, &key, &value)) {
        status = ls_json_as_text(value, &name);
        if (status.code == LS_OK && (name[0] == 0 || strchr(name, '/') != NULL))
            status = ls_json_error(value, "the name of a file in the same folder");
        if (status.code == LS_OK) status = add_name(names, directory, name);
    }
    if (status.code == LS_OK && names->count == 0)
        status = ls_json_error(map, "an object with a file name for each tensor");
    ls_json_free(document);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static ls_status list_all(const char *directory, ls_file_names *names) {
    ls_file_names entries;
    ls_status status = ls_ok();
    LS_TRY(ls_file_list(directory, &entries));
    for (size_t i = 0; i < entries.count && status.code == LS_OK; i++)
        if (ends_with(entries.name[i], ".safetensors")) status = add_name(names, directory, entries.name[i]);
    ls_file_names_free(&entries);
    return status;
}

ls_status ls_weight_files_list(const char *directory, ls_file_names *out) {
    char whole[LS_FILE_PATH], index[LS_FILE_PATH];
    ls_file_names names = {0};
    LS_TRY(ls_file_join(directory, "model.safetensors", whole, sizeof whole));
    LS_TRY(ls_file_join(directory, "model.safetensors.index.json", index, sizeof index));
    const ls_status status = ls_file_exists(whole)   ? add_name(&names, directory, "model.safetensors")
                             : ls_file_exists(index) ? list_index(index, directory, &names)
                                                     : list_all(directory, &names);
    if (status.code == LS_OK)
        *out = names;
    else
        ls_file_names_free(&names);
    return status;
}

/* ---- what is in them ---- */

/* Names of one kind of mistake; what does not fit is counted only. */
typedef struct complaint {
    const char *kind;
    int count;
    char list[128];
} complaint;

static void complain(complaint *c, const char *format, ...) LS_PRINTF(2, 3);
static void complain(complaint *c, const char *format, ...) {
    char item[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    const size_t used = strlen(c->list);
    const bool fits = used + strlen(item) + sizeof ", ..." < sizeof c->list;
    if (fits || c->count == 0)
        snprintf(c->list + used, sizeof c->list - used, "%s%s", c->count ? ", " : "", item);
    else if (!ends_with(c->list, "..."))
        strcat(c->list, ", ...");
    c->count++;
}

static const ls_st_tensor *find_tensor(const ls_weight_files *files, const char *name, int *times) {
    const ls_st_tensor *found = NULL;
    *times = 0;
    for (int i = 0; i < files->n; i++) {
        const ls_st_tensor *t = ls_st_find(files->file[i], name);
        if (t == NULL) continue;
        found = t;
        ++*times;
    }
    return found;
}

static void shape_text(int ndim, const int64_t *size, char *out, size_t room) {
    size_t used = (size_t)snprintf(out, room, "[");
    for (int i = 0; i < ndim && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%lld", i ? "," : "", (long long)size[i]);
    if (used < room) snprintf(out + used, room - used, "]");
}

static bool same_shape(const ls_st_tensor *t, const ls_shape *shape) {
    bool same = t->ndim == shape->ndim;
    for (int i = 0; same && i < shape->ndim; i++) same = t->shape[i] == shape->dim[i].size;
    return same;
}

enum { MISSING, EXTRA, MISSHAPEN, REPEATED, NO_FLOATS, KINDS };

static void check_flat(const ls_weight_files *files, const ls_flat *flat, complaint *complaints) {
    int times = 0;
    const ls_st_tensor *t = find_tensor(files, flat->name, &times);
    if (t == NULL) {
        complain(&complaints[MISSING], "%s", flat->name);
        return;
    }
    if (times > 1) complain(&complaints[REPEATED], "%s", flat->name);
    if (t->dtype > LS_ST_BF16)
        complain(&complaints[NO_FLOATS], "%s is %s", flat->name, ls_st_dtype_name(t->dtype));
    if (same_shape(t, &flat->shape)) return;
    char found[96], wanted[64];
    shape_text(t->ndim, t->shape, found, sizeof found);
    ls_shape_print(&flat->shape, wanted, sizeof wanted);
    complain(&complaints[MISSHAPEN], "%s is %s, expected %s", flat->name, found, wanted);
}

static bool is_expected(const char *name, const ls_image *image, const char *const *derived) {
    for (int i = 0; i < image->n_flats; i++)
        if (strcmp(image->flats[i].name, name) == 0) return true;
    for (; derived != NULL && *derived != NULL; derived++)
        if (ends_with(name, *derived)) return true;
    return false;
}

static ls_status check(const ls_weight_files *files, const char *what, const ls_image *image,
                       const char *const *derived) {
    complaint complaints[KINDS] = {{"missing", 0, ""},
                                   {"extra", 0, ""},
                                   {"misshapen", 0, ""},
                                   {"in more than one file", 0, ""},
                                   {"of another type than F64, F32, F16, BF16", 0, ""}};
    for (int i = 0; i < image->n_flats; i++) check_flat(files, &image->flats[i], complaints);
    for (int i = 0; i < files->n; i++) {
        for (int64_t t = 0; t < ls_st_count(files->file[i]); t++) {
            const char *name = ls_st_at(files->file[i], t)->name;
            if (!is_expected(name, image, derived)) complain(&complaints[EXTRA], "%s", name);
        }
    }
    char text[480] = "";
    for (int k = 0; k < KINDS; k++) {
        const size_t used = strlen(text);
        if (complaints[k].count > 0)
            snprintf(text + used, sizeof text - used, "%s%d %s (%s)", used ? "; " : "", complaints[k].count,
                     complaints[k].kind, complaints[k].list);
    }
    if (text[0] == 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: its tensors are not the model's: %s", what, text);
}

ls_status ls_weight_files_open(const char *what, const char *const *paths, int n, const ls_image *image,
                               const char *const *derived, ls_weight_files **out) {
    ls_weight_files *files = calloc(1, sizeof *files + sizeof(ls_st_file *) * (size_t)n);
    if (files == NULL) return ls_error(LS_NO_MEMORY, "no memory to open %s", what);
    ls_status status = ls_ok();
    for (; files->n < n && status.code == LS_OK; files->n += status.code == LS_OK)
        status = ls_st_open(paths[files->n], &files->file[files->n]);
    if (status.code == LS_OK) status = check(files, what, image, derived);
    if (status.code == LS_OK)
        *out = files;
    else
        ls_weight_files_close(files);
    return status;
}

void ls_weight_files_close(ls_weight_files *files) {
    if (files == NULL) return;
    for (int i = 0; i < files->n; i++) ls_st_close(files->file[i]);
    free(files);
}

ls_status ls_weight_files_read(const ls_weight_files *files, const ls_flat *flat, int64_t start,
                               int64_t count, double *out) {
    int times = 0;
    const ls_st_tensor *t = find_tensor(files, flat->name, &times);
    LS_ASSERT(t != NULL && start + count <= t->count); /* checked when they were opened */
    return ls_st_convert(t, start, count, LS_F64, out);
}
