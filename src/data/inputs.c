/* Which files a corpus is read from, and what is in them. */
#include "data/codec.h"
#include "data/data_impl.h"
#include "data/source.h"
#include "format/format.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pattern that no shell has expanded; a file of that very name comes first. */
static bool is_pattern(const char *path) {
    struct stat info;
    return strpbrk(path, "*?[") != NULL && stat(path, &info) != 0;
}

static ls_status find_pattern(const char *pattern, ls_data_files *files) {
    glob_t found;
    const int code = glob(pattern, 0, NULL, &found);
    if (code == GLOB_NOMATCH) return ls_error(LS_IO, "%s: no file matches this pattern", pattern);
    if (code != 0) return ls_error(LS_IO, "%s: cannot look for files that match", pattern);
    const ls_status status =
        ls_data_find_files((const char *const *)found.gl_pathv, (int)found.gl_pathc, files);
    globfree(&found);
    return status;
}

static bool ends_with(const char *path, size_t length, const char *suffix) {
    const size_t n = strlen(suffix);
    return length > n && strncmp(path + length - n, suffix, n) == 0;
}

/* What is in a file, by the end of its name without that of a compression. */
static const struct {
    const char *suffix;
    ls_input_kind kind;
} kinds[] = {{".jsonl", LS_INPUT_LINES}, {".ndjson", LS_INPUT_LINES}, {".json", LS_INPUT_VALUES}};

/* What --format says of all files. */
static const struct {
    const char *name;
    ls_input_kind kind;
} formats[] = {{"text", LS_INPUT_TEXT}, {"jsonl", LS_INPUT_LINES}, {"json", LS_INPUT_VALUES}};

/* Formats that users have and this reads not, by the end of their names, and what can be done. Those of text are read if told so. */
#define DECOMPRESS "is not read; decompress it, or use gzip (.gz) or zstd (.zst)"
#define TABLE \
    "is not read; write its text as JSONL, such as with pandas: df.to_json('x.jsonl', orient='records', lines=True)"
#define ARRAYS "holds arrays, no text"
static const struct {
    const char *suffix, *why;
    bool text;
} others[] = {
    {".tgz", DECOMPRESS, false},
    {".tar", DECOMPRESS, false},
    {".bz2", DECOMPRESS, false},
    {".xz", DECOMPRESS, false},
    {".lz4", DECOMPRESS, false},
    {".zip", DECOMPRESS, false},
    {".7z", DECOMPRESS, false},
    {".parquet", TABLE, false},
    {".arrow", TABLE, false},
    {".feather", TABLE, false},
    {".avro", TABLE, false},
    {".csv", TABLE, true},
    {".tsv", TABLE, true},
    {".npy", ARRAYS, false},
    {".npz", ARRAYS, false},
    {".safetensors", ARRAYS, false},
    {".pdf", "is not read; extract its text, such as with pdftotext", false},
    {".tokens", "holds token shards, which stand by themselves, beside no text", false},
};

static const char *why_refused(const char *path, size_t length, bool as_text) {
    for (size_t i = 0; i < LS_COUNT(others); i++)
        if (ends_with(path, length, others[i].suffix) && !(as_text && others[i].text)) return others[i].why;
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

static ls_status describe(const char *path, const char *format, bool named, ls_input *out) {
    struct stat info;
    size_t stem;
    if (stat(path, &info) != 0) return ls_error(LS_IO, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return ls_error(LS_INVALID, "%s is no regular file", path);
    if (access(path, R_OK) != 0) return ls_error(LS_IO, "cannot read %s: %s", path, strerror(errno));
    *out = (ls_input){.path = path,
                      .compressed = ls_codec_of_name(path, &stem) != NULL,
                      .bytes = info.st_size,
                      .changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec};
    const bool told = format_kind(format, &out->kind);
    if (!told) out->kind = kind_of(path, stem);
    out->refused = why_refused(path, stem, told && out->kind == LS_INPUT_TEXT);
    return out->refused == NULL || !named ? ls_ok() : ls_error(LS_UNSUPPORTED, "%s: %s", path, out->refused);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const ls_input *)a)->path, ((const ls_input *)b)->path);
}

/* Files that are given more than once are read as often, which may be meant, or not. */
static ls_status tell_of_twins(const ls_input_list *list) {
    ls_input *sorted = malloc(((size_t)list->n + 1) * sizeof *sorted);
    int64_t twins = 0, first = -1;
    if (sorted == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld files", (long long)list->n);
    memcpy(sorted, list->input, (size_t)list->n * sizeof *sorted);
    qsort(sorted, (size_t)list->n, sizeof *sorted, by_path);
    for (int64_t i = 1; i < list->n; i++) {
        if (strcmp(sorted[i - 1].path, sorted[i].path) != 0) continue;
        twins++;
        if (first < 0) first = i;
    }
    if (twins > 0)
        ls_log("%s is given more than once%s: it is read as often", sorted[first].path,
               twins > 1 ? ", and others are" : "");
    free(sorted);
    return ls_ok();
}

static ls_status add_described(const char *format, bool named, ls_input_list *list) {
    ls_input *grown = realloc(list->input, (list->files->count + 1) * sizeof *grown);
    if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu files", list->files->count);
    list->input = grown;
    for (; list->n < (int64_t)list->files->count; list->n++)
        LS_TRY(describe(list->files->path[list->n], format, named, &list->input[list->n]));
    return ls_ok();
}

static ls_status find_all(const char *const *paths, int n, const char *format, ls_input_list *list) {
    ls_input_kind kind;
    if (strcmp(format, "auto") != 0 && !format_kind(format, &kind))
        return ls_error(LS_USAGE, "--format is '%s'; expected auto, text, jsonl or json", format);
    for (int i = 0; i < n; i++) {
        LS_TRY(is_pattern(paths[i]) ? find_pattern(paths[i], list->files)
                                    : ls_data_find_files(&paths[i], 1, list->files));
        LS_TRY(add_described(format, !ls_file_is_directory(paths[i]), list));
    }
    LS_TRY(tell_of_twins(list));
    return list->n > 0 ? ls_ok()
                       : ls_error(LS_INVALID, "no files in %s", n > 0 ? paths[0] : "what was given");
}

ls_status ls_inputs_find(const char *const *paths, int n, const char *format, ls_input_list *out) {
    ls_input_list list = {.files = calloc(1, sizeof *list.files)};
    if (list.files == NULL) return ls_error(LS_NO_MEMORY, "no memory for a list of files");
    const ls_status status = find_all(paths, n, format, &list);
    if (status.code == LS_OK)
        *out = list;
    else
        ls_inputs_free(&list);
    return status;
}

void ls_inputs_free(ls_input_list *list) {
    if (list->files != NULL) ls_data_files_free(list->files);
    free(list->files);
    free(list->input);
    *list = (ls_input_list){0};
}
