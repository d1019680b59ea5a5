/*
 * Safetensors files that hold the parameters of a model: finds the files of a folder, opens them, and checks that
 * together they hold each parameter exactly once.
 */
#include "weights/weights_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger than for any published model; it limits the memory that a malicious index can request. */
enum { MOST_FILES = 10000 };

/* The index entry of one tensor. */
typedef struct indexed_tensor {
    const char *tensor;
    const char *file_name; /* without the folder */
    int file;              /* index in the listing's files */
} indexed_tensor;

typedef struct listing {
    ls_file_names files;     /* paths of safetensors files that exist */
    indexed_tensor *indexed; /* sorted by file, then by tensor */
    size_t n_indexed;        /* 0: there is no index */
    ls_json *index;          /* owns the texts of indexed; NULL: there is no index */
} listing;

typedef struct held_twice {
    const ls_st_tensor *original, *copy;
    const char *path; /* the file that holds the copy */
} held_twice;

struct ls_weight_files {
    const ls_weight_spelling *spelling; /* how the files spell names; NULL: as the parameters' names */
    char left_out[200];                 /* a list of what is not read, or "" */
    held_twice *twice;                  /* [n_twice]: tensors that the files hold twice */
    int n_twice;
    ls_stored **stored; /* [n_stored]: matrices in few bytes, sorted by name */
    int n_stored;
    int n;
    ls_st_file *file[]; /* [n] */
};

/* ---- lists of mistakes of one kind ---- */

typedef struct complaint {
    const char *kind;
    int count;
    char list[128]; /* the first items, separated by ", "; ends in "..." when items are left out */
} complaint;

LS_PRINTF(2, 3) static void complain(complaint *c, const char *format, ...) {
    char item[160];
    va_list arguments;
    va_start(arguments, format);
    ls_vprint(item, sizeof item, format, arguments);
    va_end(arguments);
    const size_t used = strlen(c->list);
    const bool fits = used + strlen(item) + sizeof ", , ..." <= sizeof c->list;
    const bool cut = used >= 3 && strcmp(c->list + used - 3, "...") == 0;
    if (c->count == 0)
        snprintf(c->list, sizeof c->list - sizeof ", ...", "%s", item);
    else if (!cut)
        snprintf(c->list + used, sizeof c->list - used, ", %s", fits ? item : "...");
    c->count++;
}

/* ---- which files ---- */

static void free_listing(listing *l) {
    ls_file_names_free(&l->files);
    free(l->indexed);
    ls_json_free(l->index);
    *l = (listing){.n_indexed = 0};
}

static ls_status add_path(ls_file_names *names, const char *folder, const char *name) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, name, &path));
    char **grown = realloc(names->name, (names->count + 1) * sizeof *grown);
    if (grown != NULL) names->name = grown;
    char *copy = grown == NULL ? NULL : strdup(path);
    if (copy == NULL) return ls_error(LS_NO_MEMORY, "no memory for the names of the files in %s", folder);
    names->name[names->count++] = copy;
    return ls_ok();
}

/* ---- which files: an index ---- */

/* A malicious index must not name files outside the model's folder. */
static ls_status check_file_name(ls_json_value value, const char *name) {
    const bool inside = name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return inside ? ls_ok() : ls_json_error(value, "the name of a file in the same folder");
}

static int by_file(const void *a, const void *b) {
    const indexed_tensor *x = a, *y = b;
    const int order = strcmp(x->file_name, y->file_name);
    return order != 0 ? order : strcmp(x->tensor, y->tensor);
}

static ls_status read_map(ls_json_value map, listing *out) {
    ls_json_value value;
    const char *key = NULL;
    void *cursor = NULL;
    out->indexed = calloc(ls_json_count(map) + 1, sizeof *out->indexed);
    if (out->indexed == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the %zu names of %s", ls_json_count(map), map.file);
    while (ls_json_next(map, &cursor, &key, &value)) {
        indexed_tensor *entry = &out->indexed[out->n_indexed++];
        entry->tensor = key;
        LS_TRY(ls_json_as_text(value, &entry->file_name));
        LS_TRY(check_file_name(value, entry->file_name));
    }
    if (out->n_indexed == 0) return ls_json_error(map, "an object with a file name for each tensor");
    qsort(out->indexed, out->n_indexed, sizeof *out->indexed, by_file);
    return ls_ok();
}

/*
 * Lists the files that the index names. Checks all of them before it fails, so that the error can say how many are
 * missing.
 */
static ls_status list_indexed(const char *index, const char *folder, listing *out) {
    complaint missing = {"", 0, ""};
    for (size_t i = 0; i < out->n_indexed; i++) {
        indexed_tensor *entry = &out->indexed[i];
        const bool same = i > 0 && strcmp(entry[-1].file_name, entry->file_name) == 0;
        if (!same && out->files.count == MOST_FILES)
            return ls_error(LS_INVALID, "%s: weight_map names more than %d files", index, MOST_FILES);
        if (!same) LS_TRY(add_path(&out->files, folder, entry->file_name));
        entry->file = (int)out->files.count - 1;
        if (!same && !ls_file_exists(out->files.name[entry->file])) complain(&missing, "%s", entry->file_name);
    }
    if (missing.count == 0) return ls_ok();
    return ls_error(LS_IO, "%s: %d of the %zu files that it names are missing: %s: No such file", index, missing.count,
                    out->files.count, missing.list);
}

static ls_status read_index(const char *index, const char *folder, listing *out) {
    ls_json_value map;
    LS_TRY(ls_json_read(index, LS_JSON_MOST_BYTES, &out->index));
    LS_TRY(ls_json_object(ls_json_root(out->index), "weight_map", &map));
    LS_TRY(read_map(map, out));
    return list_indexed(index, folder, out);
}

/* ---- which files: a folder ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/*
 * Whether it is a file of weights in a format that Longspan cannot read. Such a file is an error, because otherwise
 * random weights would silently take its place.
 */
static bool is_foreign(const char *name) {
    return ends_with(name, ".gguf") || ends_with(name, ".pth") ||
           (strncmp(name, "pytorch_model", strlen("pytorch_model")) == 0 && ends_with(name, ".bin"));
}

static ls_status list_all(const char *folder, listing *out) {
    ls_file_names entries;
    const char *foreign = NULL;
    ls_status status = ls_ok();
    LS_TRY(ls_file_list(folder, &entries));
    for (size_t i = 0; i < entries.count && status.code == LS_OK; i++) {
        if (ends_with(entries.name[i], ".safetensors"))
            status = add_path(&out->files, folder, entries.name[i]);
        else if (is_foreign(entries.name[i]))
            foreign = entries.name[i];
    }
    if (status.code == LS_OK && out->files.count > MOST_FILES)
        status = ls_error(LS_INVALID, "%s: %zu files end in .safetensors, expected at most %d", folder,
                          out->files.count, MOST_FILES);
    if (status.code == LS_OK && out->files.count == 0 && foreign != NULL)
        status =
            ls_error(LS_UNSUPPORTED, "%s: the weights are in %s, a format that is not read; expected *.safetensors",
                     folder, foreign);
    ls_file_names_free(&entries);
    return status;
}

/*
 * model.safetensors if it exists; else the files that the index names; else all *.safetensors, possibly none.
 * LS_UNSUPPORTED if the folder only has weights in other formats.
 */
static ls_status list_folder(const char *folder, listing *out) {
    LS_PATH whole = NULL;
    LS_PATH index = NULL;
    listing made = {.n_indexed = 0};
    LS_TRY(ls_path_join(folder, "model.safetensors", &whole));
    LS_TRY(ls_path_join(folder, "model.safetensors.index.json", &index));
    const ls_status status = ls_file_exists(whole)   ? add_path(&made.files, folder, "model.safetensors")
                             : ls_file_exists(index) ? read_index(index, folder, &made)
                                                     : list_all(folder, &made);
    if (status.code == LS_OK)
        *out = made;
    else
        free_listing(&made);
    return status;
}

static ls_status list_file(const char *path, listing *out) {
    listing made = {.n_indexed = 0};
    made.files.name = calloc(1, sizeof *made.files.name);
    char *copy = strdup(path);
    if (made.files.name == NULL || copy == NULL) {
        free(copy);
        free_listing(&made);
        return ls_error(LS_NO_MEMORY, "no memory to open %s", path);
    }
    made.files.name[made.files.count++] = copy;
    *out = made;
    return ls_ok();
}

/* ---- finding a tensor ---- */

static bool begins_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

enum { MOST_NAME = 512 };

/* The name of a parameter in the files: either the parameter's own name, or a name that is written to `room`. */
static const char *name_in_files(const ls_weight_files *files, const char *parameter, char room[MOST_NAME]) {
    const ls_weight_spelling *s = files->spelling;
    if (s == NULL || !begins_with(parameter, s->model)) return parameter;
    ls_print(room, MOST_NAME, "%s%s", s->files, parameter + strlen(s->model));
    return room;
}

/* The tensor of this name in the files; NULL: none. *times (may be NULL): the number of files that have it. */
static const ls_st_tensor *find_tensor(const ls_weight_files *files, const char *name, int *times) {
    const ls_st_tensor *found = NULL;
    int n = 0;
    for (int i = 0; i < files->n; i++) {
        const ls_st_tensor *t = ls_st_find(files->file[i], name);
        if (t == NULL) continue;
        found = t;
        n++;
    }
    if (times != NULL) *times = n;
    return found;
}

static int by_stored_name(const void *a, const void *b) {
    return strcmp(ls_stored_name(*(ls_stored *const *)a), ls_stored_name(*(ls_stored *const *)b));
}

static int stored_is_named(const void *name, const void *stored) {
    return strcmp(name, ls_stored_name(*(ls_stored *const *)stored));
}

static const ls_stored *find_stored(const ls_weight_files *files, const char *name) {
    if (files->n_stored == 0) return NULL;
    ls_stored *const *found =
        bsearch(name, (const void *)files->stored, (size_t)files->n_stored, sizeof(ls_stored *), stored_is_named);
    return found != NULL ? *found : NULL;
}

const ls_stored *ls_weight_files_stored(const ls_weight_files *files, const ls_flat *flat) {
    char room[MOST_NAME];
    return find_stored(files, name_in_files(files, flat->name, room));
}

const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat) {
    char room[MOST_NAME];
    const ls_st_tensor *t = find_tensor(files, name_in_files(files, flat->name, room), NULL);
    LS_ASSERT(t != NULL); /* checked when the files were opened */
    return t;
}

static bool files_have(const ls_weight_rules *rules, const ls_flat *flat) {
    return rules->has == NULL || rules->has(flat);
}

/*
 * Sets the first spelling under which the files hold a parameter, provided that they hold no parameter of this spelling
 * under its own name.
 */
static void find_spelling(ls_weight_files *files, const ls_image *image, const ls_weight_rules *rules) {
    for (const ls_weight_spelling *s = rules->spellings; s != NULL && s->model != NULL; s++) {
        bool own = false, spelt = false;
        files->spelling = s;
        for (int i = 0; i < image->n_flats && !own; i++) {
            char room[MOST_NAME];
            if (!files_have(rules, &image->flats[i])) continue;
            const char *name = image->flats[i].name, *other = name_in_files(files, name, room);
            own = other != name && find_tensor(files, name, NULL) != NULL;
            spelt = spelt || (other != name && find_tensor(files, other, NULL) != NULL);
        }
        if (spelt && !own) return;
    }
    files->spelling = NULL;
}

/* ---- checking: all mistakes become a single error, listed by kind ---- */

enum { MISSING, EXTRA, MISSHAPEN, REPEATED, NOT_FLOAT, MISPLACED, UNEQUAL, KINDS };

#define NOT_TIED "not tied, though the config says so"

typedef struct checking {
    ls_weight_files *files;
    const ls_image *image;
    const ls_weight_rules *rules;
    const char **expected; /* [n_expected] names of the parameters that the files have, sorted */
    int n_expected;
    complaint complaints[KINDS];
    complaint left_out;
    ls_status status; /* the first error in a matrix in few bytes */
} checking;

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

/* The shape of a parameter's numbers; an element of the parameter may be a block of them. */
static ls_shape shape_of(const ls_flat *flat) {
    ls_shape shape = flat->shape;
    if (shape.ndim > 0) shape.dim[shape.ndim - 1].size *= ls_dtype_values(flat->dtype);
    return shape;
}

static const ls_st_tensor *find_with_path(const void *files, const char *name, const char **path) {
    const ls_weight_files *f = files;
    for (int i = 0; i < f->n; i++) {
        const ls_st_tensor *t = ls_st_find(f->file[i], name);
        *path = ls_st_path(f->file[i]);
        if (t != NULL) return t;
    }
    return NULL;
}

/* Whether the files hold the parameter in few bytes, possibly with an error. */
static bool check_stored(checking *c, const char *name, const ls_shape *shape) {
    ls_weight_files *files = c->files;
    ls_stored *stored;
    const ls_status status = ls_stored_open(&(ls_stored_lookup){find_with_path, files}, name, shape, &stored);
    if (c->status.code == LS_OK) c->status = status;
    if (stored != NULL) files->stored[files->n_stored++] = stored;
    return stored != NULL || status.code != LS_OK;
}

static void check_parameter(checking *c, const ls_flat *flat) {
    int times = 0;
    char room[MOST_NAME];
    const char *name = name_in_files(c->files, flat->name, room);
    const ls_shape shape = shape_of(flat);
    if (check_stored(c, name, &shape)) return;
    const ls_st_tensor *t = find_tensor(c->files, name, &times);
    if (t == NULL) {
        complain(&c->complaints[MISSING], "%s", name);
        return;
    }
    if (times > 1) complain(&c->complaints[REPEATED], "%s", name);
    if (t->dtype > LS_ST_BF16) complain(&c->complaints[NOT_FLOAT], "%s is %s", name, ls_st_dtype_name(t->dtype));
    if (same_shape(t, &shape)) return;
    char found[96], wanted[64];
    shape_text(t->ndim, t->shape, found, sizeof found);
    ls_shape_print(&shape, wanted, sizeof wanted);
    complain(&c->complaints[MISSHAPEN], "%s is %s, expected %s", name, found, wanted);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool is_derived(const char *name, const ls_weight_rules *rules) {
    const size_t n = strlen(name);
    for (const char *const *end = rules->derived; end != NULL && *end != NULL; end++)
        if (n >= strlen(*end) && strcmp(name + n - strlen(*end), *end) == 0) return true;
    return false;
}

/*
 * Whether the rules say that the tensor is a copy of a parameter. Whether its numbers equal those of the original is
 * checked when these are read.
 */
static bool note_copy(checking *c, const ls_st_tensor *t, const char *path) {
    const ls_weight_rules *rules = c->rules;
    const ls_weight_copy *rule = NULL;
    char room[MOST_NAME];
    for (int i = 0; i < rules->n_copies && rule == NULL; i++)
        if (strcmp(t->name, name_in_files(c->files, rules->copies[i].copy, room)) == 0) rule = &rules->copies[i];
    if (rule == NULL) return false;
    const ls_st_tensor *original = find_tensor(c->files, name_in_files(c->files, rule->original, room), NULL);
    if (original == NULL) return true;
    if (t->count != original->count || t->dtype > LS_ST_BF16) {
        complain(&c->complaints[UNEQUAL], "%s is not %s", t->name, original->name);
        return true;
    }
    for (int i = 0; i < c->files->n_twice; i++) /* a copy that is in two files counts as repeated */
        if (strcmp(c->files->twice[i].copy->name, t->name) == 0) complain(&c->complaints[REPEATED], "%s", t->name);
    if (c->files->n_twice < rules->n_copies) c->files->twice[c->files->n_twice++] = (held_twice){original, t, path};
    return true;
}

static bool is_parameter(const checking *c, const char *name) {
    return bsearch(&name, c->expected, (size_t)c->n_expected, sizeof *c->expected, by_name) != NULL;
}

/* Whether a tensor's name is that of a parameter, as the files spell it. */
static bool is_expected(const checking *c, const char *name) {
    const ls_weight_spelling *s = c->files->spelling;
    char room[MOST_NAME];
    if (is_parameter(c, name)) return true;
    if (s == NULL || !begins_with(name, s->files)) return false;
    ls_print(room, sizeof room, "%s%s", s->model, name + strlen(s->files));
    return is_parameter(c, room);
}

static bool is_left_out(const char *name, const ls_weight_rules *rules) {
    for (const char *const *start = rules->left_out; start != NULL && *start != NULL; start++)
        if (begins_with(name, *start)) return true;
    return false;
}

/* Whether it is a part of a matrix in few bytes. */
static bool is_of_stored(const ls_weight_files *files, const char *name) {
    char of[MOST_NAME];
    for (int rule = 0; rule < ls_stored_rules() && files->n_stored > 0; rule++)
        if (ls_stored_belongs(name, of, sizeof of, rule) && find_stored(files, of) != NULL) return true;
    return false;
}

static void check_tensor(checking *c, const ls_st_tensor *t, const char *path) {
    if (is_expected(c, t->name) || is_of_stored(c->files, t->name) || is_derived(t->name, c->rules) ||
        note_copy(c, t, path))
        return;
    complain(is_left_out(t->name, c->rules) ? &c->left_out : &c->complaints[EXTRA], "%s", t->name);
}

/* Makes one error from the mistakes of all kinds. */
static ls_status report(const checking *c, const char *what) {
    char text[sizeof((ls_status){0}).text] = "";
    for (int k = 0; k < KINDS; k++) {
        const size_t used = strlen(text);
        if (c->complaints[k].count > 0)
            snprintf(text + used, sizeof text - used, "%s%d %s (%s)", used ? "; " : "", c->complaints[k].count,
                     c->complaints[k].kind, c->complaints[k].list);
    }
    if (text[0] == 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: its tensors are not the model's: %s", what, text);
}

/* Checks names, types and shapes against the image, and the index against the files. */
static ls_status check_files(ls_weight_files *files, const char *what, const listing *l, const ls_image *image,
                             const ls_weight_rules *rules) {
    checking c = {.files = files,
                  .image = image,
                  .rules = rules,
                  .complaints = {{"missing", 0, ""},
                                 {"extra", 0, ""},
                                 {"misshapen", 0, ""},
                                 {"in more than one file", 0, ""},
                                 {"of another type than F64, F32, F16, BF16", 0, ""},
                                 {"not in the file that the index says", 0, ""},
                                 {NOT_TIED, 0, ""}}};
    c.status = ls_ok();
    c.expected = calloc((size_t)image->n_flats + 1, sizeof *c.expected);
    if (c.expected == NULL) return ls_error(LS_NO_MEMORY, "no memory to check %s", what);
    for (int i = 0; i < image->n_flats; i++) {
        if (!files_have(rules, &image->flats[i])) continue;
        c.expected[c.n_expected++] = image->flats[i].name;
        check_parameter(&c, &image->flats[i]);
    }
    qsort((void *)files->stored, (size_t)files->n_stored, sizeof *files->stored, by_stored_name);
    qsort(c.expected, (size_t)c.n_expected, sizeof *c.expected, by_name);
    for (int f = 0; f < files->n; f++)
        for (int64_t t = 0; t < ls_st_count(files->file[f]); t++)
            check_tensor(&c, ls_st_at(files->file[f], t), ls_st_path(files->file[f]));
    for (size_t i = 0; i < l->n_indexed; i++) {
        const indexed_tensor *entry = &l->indexed[i];
        if (ls_st_find(files->file[entry->file], entry->tensor) == NULL)
            complain(&c.complaints[MISPLACED], "%s: %s", entry->tensor, entry->file_name);
    }
    free(c.expected);
    if (c.left_out.count > 0)
        snprintf(files->left_out, sizeof files->left_out, "%d tensors (%s)", c.left_out.count, c.left_out.list);
    return c.status.code != LS_OK ? c.status : report(&c, what);
}

/* ---- checking: a tensor that the files hold twice ---- */

static ls_status not_tied(const held_twice *twice) {
    return ls_error(LS_INVALID, "%s: its tensors are not the model's: 1 " NOT_TIED " (%s is not %s)", twice->path,
                    twice->copy->name, twice->original->name);
}

static ls_status compare(const held_twice *twice, int64_t start, int64_t count) {
    enum { BLOCK = 4096 }; /* elements */
    double x[BLOCK], y[BLOCK];
    for (int64_t i = start; i < start + count; i += BLOCK) {
        const int64_t n = ls_min(BLOCK, start + count - i);
        LS_TRY(ls_st_convert(twice->original, i, n, LS_F64, x));
        LS_TRY(ls_st_convert(twice->copy, i, n, LS_F64, y));
        for (int64_t k = 0; k < n; k++)
            if (x[k] != y[k] && !(isnan(x[k]) && isnan(y[k]))) return not_tied(twice);
    }
    ls_st_forget(twice->copy, start, count);
    return ls_ok();
}

ls_status ls_weight_files_check_copy(const ls_weight_files *files, const ls_st_tensor *tensor, int64_t start,
                                     int64_t count, int64_t *bytes) {
    for (int i = 0; i < files->n_twice; i++) {
        const held_twice *twice = &files->twice[i];
        if (tensor != twice->original) continue;
        LS_TRY(compare(twice, start, count));
        *bytes += count * (int64_t)(ls_st_dtype_bytes(tensor->dtype) + ls_st_dtype_bytes(twice->copy->dtype));
    }
    return ls_ok();
}

/* ---- opening ---- */

const char *ls_weight_files_left_out(const ls_weight_files *files) {
    return files->left_out[0] != 0 ? files->left_out : NULL;
}

/* `what` names the files in errors. */
static ls_status open_listed(const char *what, const listing *l, const ls_image *image, const ls_weight_rules *rules,
                             ls_weight_files **out) {
    static const ls_weight_rules none = {.derived = NULL};
    const size_t n = l->files.count;
    ls_weight_files *files = calloc(1, sizeof *files + sizeof(ls_st_file *) * n);
    if (files == NULL) return ls_error(LS_NO_MEMORY, "no memory to open %s", what);
    if (rules == NULL) rules = &none;
    files->twice = calloc((size_t)rules->n_copies + 1, sizeof *files->twice);
    files->stored = calloc((size_t)image->n_flats + 1, sizeof *files->stored);
    if (files->twice == NULL || files->stored == NULL) {
        ls_weight_files_close(files);
        return ls_error(LS_NO_MEMORY, "no memory to open %s", what);
    }
    ls_status status = ls_ok();
    for (; (size_t)files->n < n && status.code == LS_OK; files->n += status.code == LS_OK)
        status = ls_st_open(l->files.name[files->n], &files->file[files->n]);
    find_spelling(files, image, rules);
    if (status.code == LS_OK) status = check_files(files, what, l, image, rules);
    if (status.code == LS_OK)
        *out = files;
    else
        ls_weight_files_close(files);
    return status;
}

ls_status ls_weight_files_open_folder(const char *folder, const ls_image *image, const ls_weight_rules *rules,
                                      ls_weight_files **out) {
    listing l = {.n_indexed = 0};
    ls_weight_files *files = NULL;
    LS_TRY(list_folder(folder, &l));
    const ls_status status = l.files.count > 0 ? open_listed(folder, &l, image, rules, &files) : ls_ok();
    free_listing(&l);
    if (status.code == LS_OK) *out = files;
    return status;
}

ls_status ls_weight_files_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                                    ls_weight_files **out) {
    listing l = {.n_indexed = 0};
    LS_TRY(list_file(path, &l));
    const ls_status status = open_listed(path, &l, image, rules, out);
    free_listing(&l);
    return status;
}

void ls_weight_files_close(ls_weight_files *files) {
    if (files == NULL) return;
    for (int i = 0; i < files->n_stored; i++) ls_stored_close(files->stored[i]);
    for (int i = 0; i < files->n; i++) ls_st_close(files->file[i]);
    free((void *)files->stored);
    free(files->twice);
    free(files);
}
