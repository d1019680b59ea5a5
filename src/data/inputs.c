/* Finds which files the user's paths mean (files, folders, patterns), and the kind of each file. */
#include "base/base.h"
#include "data/source_impl.h"
#include "format/format.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths of files ---- */

typedef struct ls_path_list {
    char **path;
    size_t count, capacity;
} path_list;

static ls_status append_path(path_list *files, const char *path) {
    if (files->count == files->capacity) {
        size_t wanted = files->capacity ? 2 * files->capacity : 256;
        char **grown = realloc(files->path, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for %zu file names", wanted);
        files->path = grown;
        files->capacity = wanted;
    }
    char *copy = strdup(path);
    if (!copy) return ls_error(LS_NO_MEMORY, "no memory for a file name");
    files->path[files->count++] = copy;
    return ls_ok();
}

static ls_status walk_folder(const char *folder, path_list *files);

/* Adds an entry of a folder, if it is a regular file or a folder. */
static ls_status walk_entry(const char *folder, const char *name, path_list *files) {
    LS_PATH path = NULL;
    struct stat info;
    LS_TRY(ls_path_join(folder, name, &path));
    if (lstat(path, &info) != 0) return ls_error(LS_IO, "cannot stat %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return walk_folder(path, files);
    return S_ISREG(info.st_mode) ? append_path(files, path) : ls_ok();
}

static ls_status walk_folder(const char *folder, path_list *files) {
    ls_file_names names = {0};
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) status = walk_entry(folder, names.name[i], files);
    ls_file_names_free(&names);
    return status;
}

static int by_path(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Adds a file, or all regular files below a folder in byte order of their paths. */
static ls_status add_path(const char *path, path_list *out) {
    const size_t before = out->count;
    if (!ls_file_is_folder(path)) return append_path(out, path); /* describe() reports a file that cannot be read */
    LS_TRY(walk_folder(path, out));
    if (out->count > before) qsort(out->path + before, out->count - before, sizeof *out->path, by_path);
    return ls_ok();
}

static void free_paths(path_list *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->path[i]);
    free(paths->path);
    *paths = (path_list){0};
}

/* Whether it is a pattern that the shell did not expand. A file with exactly this name takes precedence. */
static bool is_pattern(const char *path) {
    struct stat info;
    return strpbrk(path, "*?[") != NULL && stat(path, &info) != 0;
}

static ls_status add_pattern(const char *pattern, path_list *files) {
    glob_t found;
    const int code = glob(pattern, 0, NULL, &found);
    if (code == GLOB_NOMATCH) return ls_error(LS_IO, "%s: no file matches this pattern", pattern);
    if (code != 0) return ls_error(LS_IO, "%s: cannot look for files that match", pattern);
    ls_status status = ls_ok();
    for (size_t i = 0; i < found.gl_pathc && status.code == LS_OK; i++) status = add_path(found.gl_pathv[i], files);
    globfree(&found);
    return status;
}

/* ---- kinds of inputs ---- */

static bool ends_with(const char *path, size_t length, const char *suffix) {
    const size_t n = strlen(suffix);
    return length > n && strncmp(path + length - n, suffix, n) == 0;
}

/* Kinds of files by the ending of their names, after the ending of a compression is removed. */
static const struct {
    const char *suffix;
    ls_input_kind kind;
} kinds[] = {
    {".jsonl", LS_INPUT_LINES}, {".ndjson", LS_INPUT_LINES}, {".json", LS_INPUT_VALUES}, {".parquet", LS_INPUT_LINES}};

/* --format names the kind of all files. */
static const struct {
    const char *name;
    ls_input_kind kind;
} formats[] = {
    {"text", LS_INPUT_TEXT}, {"jsonl", LS_INPUT_LINES}, {"json", LS_INPUT_VALUES}, {"parquet", LS_INPUT_LINES}};

/*
 * Formats that are not read, by the ending of the name, and what the user can do. text: --format text reads it
 * nevertheless.
 */
#define DECOMPRESS "is not read; decompress it, or use gzip (.gz) or zstd (.zst)"
#define TABLE "is not read; write it as Parquet, such as with pandas: df.to_parquet('x.parquet')"
#define ARRAYS "holds arrays, no text"
static const struct {
    const char *suffix, *why;
    bool text;
} unsupported[] = {
    {".tgz", DECOMPRESS, false},
    {".tar", DECOMPRESS, false},
    {".bz2", DECOMPRESS, false},
    {".xz", DECOMPRESS, false},
    {".lz4", DECOMPRESS, false},
    {".zip", DECOMPRESS, false},
    {".7z", DECOMPRESS, false},
    {".arrow", TABLE, false},
    {".feather", TABLE, false},
    {".avro", TABLE, false},
    {".csv", TABLE, true},
    {".tsv", TABLE, true},
    {".npy", ARRAYS, false},
    {".npz", ARRAYS, false},
    {".safetensors", ARRAYS, false},
    {".pdf", "is not read; extract its text, such as with pdftotext", false},
    {".tokens", "holds token shards, which cannot be mixed with text", false},
};

static const char *why_refused(const char *path, size_t length, bool as_text) {
    for (size_t i = 0; i < LS_COUNT(unsupported); i++)
        if (ends_with(path, length, unsupported[i].suffix) && !(as_text && unsupported[i].text))
            return unsupported[i].why;
    return NULL;
}

static ls_input_kind kind_of(const char *path, size_t length) {
    for (size_t i = 0; i < LS_COUNT(kinds); i++)
        if (ends_with(path, length, kinds[i].suffix)) return kinds[i].kind;
    return LS_INPUT_TEXT;
}

static bool format_kind(const char *format, ls_input_kind *out) {
    for (size_t i = 0; i < LS_COUNT(formats); i++) {
        if (strcmp(format, formats[i].name) != 0) continue;
        *out = formats[i].kind;
        return true;
    }
    return false;
}

/* named: the user named this file, so an unsupported format is an error. */
static ls_status describe(const char *path, const char *format, bool named, ls_input *out) {
    struct stat info;
    size_t stem;
    if (stat(path, &info) != 0) return ls_error(LS_IO, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return ls_error(LS_INVALID, "%s is no regular file", path);
    if (access(path, R_OK) != 0) return ls_error(LS_IO, "cannot read %s: %s", path, strerror(errno));
    *out = (ls_input){.path = path,
                      .compressed = ls_codec_of_name(path, &stem) != NULL || ls_name_is_table(path),
                      .bytes = info.st_size,
                      .changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec};
    const bool given = format_kind(format, &out->kind);
    if (!given) out->kind = kind_of(path, stem);
    out->refused = why_refused(path, stem, given && out->kind == LS_INPUT_TEXT);
    return out->refused == NULL || !named ? ls_ok() : ls_error(LS_UNSUPPORTED, "%s: %s", path, out->refused);
}

/* ---- the list ---- */

static int input_by_path(const void *a, const void *b) {
    return strcmp(((const ls_input *)a)->path, ((const ls_input *)b)->path);
}

/* A file that is given several times is read each time. That may be a mistake, so it is logged. */
static ls_status log_repeated(const ls_input_list *list) {
    if (list->n < 2) return ls_ok();
    ls_input *sorted = malloc((size_t)list->n * sizeof *sorted);
    int64_t repeated = 0, first = -1;
    if (sorted == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld files", (long long)list->n);
    memcpy(sorted, list->input, (size_t)list->n * sizeof *sorted);
    qsort(sorted, (size_t)list->n, sizeof *sorted, input_by_path);
    for (int64_t i = 1; i < list->n; i++) {
        if (strcmp(sorted[i - 1].path, sorted[i].path) != 0) continue;
        repeated++;
        if (first < 0) first = i;
    }
    if (repeated > 0)
        ls_log("%s is given more than once%s: it is read each time", sorted[first].path,
               repeated > 1 ? ", and others are" : "");
    free(sorted);
    return ls_ok();
}

static ls_status add_described(const char *format, bool named, ls_input_list *list) {
    ls_input *grown = realloc(list->input, (list->paths->count + 1) * sizeof *grown);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu files", list->paths->count);
    list->input = grown;
    for (; list->n < (int64_t)list->paths->count; list->n++)
        LS_TRY(describe(list->paths->path[list->n], format, named, &list->input[list->n]));
    return ls_ok();
}

static ls_status find_all(const char *const *paths, int n, const char *format, ls_input_list *list) {
    ls_input_kind kind;
    if (strcmp(format, "auto") != 0 && !format_kind(format, &kind))
        return ls_error(LS_USAGE, "--format is '%s'; expected auto, text, jsonl, json or parquet", format);
    for (int i = 0; i < n; i++) {
        LS_TRY(is_pattern(paths[i]) ? add_pattern(paths[i], list->paths) : add_path(paths[i], list->paths));
        LS_TRY(add_described(format, !ls_file_is_folder(paths[i]), list));
    }
    LS_TRY(log_repeated(list));
    return list->n > 0 ? ls_ok() : ls_error(LS_INVALID, "no files in %s", n > 0 ? paths[0] : "the given paths");
}

ls_status ls_inputs_find(const char *const *paths, int n, const char *format, ls_input_list *out) {
    ls_input_list list = {.paths = calloc(1, sizeof *list.paths)};
    if (list.paths == NULL) return ls_error(LS_NO_MEMORY, "no memory for a list of files");
    const ls_status status = find_all(paths, n, format, &list);
    if (status.code == LS_OK)
        *out = list;
    else
        ls_inputs_free(&list);
    return status;
}

void ls_inputs_free(ls_input_list *list) {
    if (list->paths != NULL) free_paths(list->paths);
    free(list->paths);
    free(list->input);
    *list = (ls_input_list){0};
}
