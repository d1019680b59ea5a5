#include "data/data_impl.h"
#include "format/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static ls_status append(ls_data_files *files, const char *path) {
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

static ls_status walk_folder(const char *folder, ls_data_files *files);

/* An entry of a folder: links, devices and the like are passed over. */
static ls_status walk_entry(const char *folder, const char *name, ls_data_files *files) {
    LS_PATH path = NULL;
    struct stat info;
    LS_TRY(ls_path_join(folder, name, &path));
    if (lstat(path, &info) != 0) return ls_error(LS_IO, "cannot stat %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return walk_folder(path, files);
    return S_ISREG(info.st_mode) ? append(files, path) : ls_ok();
}

static ls_status walk_folder(const char *folder, ls_data_files *files) {
    ls_file_names names = {0};
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++)
        status = walk_entry(folder, names.name[i], files);
    ls_file_names_free(&names);
    return status;
}

static int by_path(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

ls_status ls_data_find_files(const char *const *paths, int n, ls_data_files *out) {
    for (int i = 0; i < n; i++) {
        size_t before = out->count;
        if (!ls_file_is_directory(paths[i])) { /* whether it can be read is seen when it is */
            LS_TRY(append(out, paths[i]));
            continue;
        }
        LS_TRY(walk_folder(paths[i], out));
        if (out->count > before) qsort(out->path + before, out->count - before, sizeof *out->path, by_path);
    }
    return ls_ok();
}

void ls_data_files_free(ls_data_files *files) {
    for (size_t i = 0; i < files->count; i++) free(files->path[i]);
    free(files->path);
    *files = (ls_data_files){0};
}
