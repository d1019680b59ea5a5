/* Folders and free space: a part of file.h. */
#include "format/file.h"
#include "format/format_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

bool ls_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool ls_file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

ls_status ls_check_texts(const char *name, const char *const *texts, int n) {
    for (int i = 0; i < n; i++)
        if (texts == NULL || texts[i] == NULL)
            return ls_error(LS_INVALID, "%s is a list of %d texts: %s NULL", name, n,
                            texts == NULL ? "it is" : "one of them is");
    return ls_ok();
}

/*
 * Makes the entry of a path in its folder durable. A folder that this process may not read cannot be synced; that is no
 * error.
 */
static ls_status sync_parent(const char *path) {
    LS_PATH folder = NULL;
    LS_TRY(ls_path_parent(path, &folder));
    return access(folder, R_OK) == 0 ? ls_file_sync(folder) : ls_ok();
}

ls_status ls_file_make_folders(const char *path) {
    LS_PATH part = NULL;
    if (path[0] == 0) return ls_error(LS_INVALID, "an empty path was given, expected a folder");
    LS_TRY(ls_path_print(&part, "%s", path));
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != 0) continue;
        char end = *p;
        *p = 0;
        if (mkdir(part, 0777) == 0) {
            LS_TRY(sync_parent(part));
        } else if (!(errno == EEXIST && ls_file_is_folder(part))) {
            int error_number = errno == EEXIST ? ENOTDIR : errno;
            /*
             * A parent folder that exists is no error, even if this process may not write to it (EROFS, EACCES on /).
             */
            if (!ls_file_is_folder(part)) return ls_file_error("make the folder", part, error_number);
        }
        *p = end;
        if (end == 0) return ls_ok();
    }
}

ls_status ls_file_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_file_error("open", path, errno);
    int failed = fsync(fd);
    int error_number = errno;
    close(fd);
    /* Some file systems refuse fsync of a folder; nothing more can be done there. */
    if (failed && error_number != EINVAL) return ls_file_error("sync", path, error_number);
    return ls_ok();
}

ls_status ls_file_rename(const char *from, const char *to) {
    LS_PATH folder = NULL;
    LS_TRY(ls_path_parent(to, &folder));
    if (rename(from, to) != 0) return ls_error(LS_IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
    return ls_file_sync(folder);
}

static ls_status remove_at(int parent, const char *name, const char *top);

/* Empties the folder `name` in `parent`. */
static ls_status remove_entries(int parent, const char *name, const char *top) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return ls_file_error("remove", top, errno);
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return ls_file_error("remove", top, errno);
    }
    ls_status status = ls_ok();
    for (struct dirent *entry; status.code == LS_OK && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = remove_at(fd, entry->d_name, top);
    closedir(folder);
    return status;
}

static ls_status remove_at(int parent, const char *name, const char *top) {
    struct stat info;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? ls_ok() : ls_file_error("remove", top, errno);
    bool folder = S_ISDIR(info.st_mode);
    if (folder) LS_TRY(remove_entries(parent, name, top));
    if (unlinkat(parent, name, folder ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT)
        return ls_error(LS_IO, "cannot remove %s of %s: %s", name, top, strerror(errno));
    return ls_ok();
}

ls_status ls_file_remove_tree(const char *path) { return remove_at(AT_FDCWD, path, path); }

ls_status ls_file_free_bytes(const char *path, int64_t *out) {
    struct statvfs info;
    if (statvfs(path, &info) != 0) return ls_file_error("ask for the free space of", path, errno);
    int64_t bytes;
    *out = ls_multiply((int64_t)info.f_bavail, (int64_t)info.f_frsize, &bytes) ? bytes : INT64_MAX;
    return ls_ok();
}

ls_status ls_file_need_space(const char *path, int64_t bytes) {
    int64_t available = 0;
    LS_TRY(ls_file_free_bytes(path, &available));
    if (available < bytes)
        return ls_error(LS_IO, "not enough space in %s: %lld bytes are free, %lld are needed", path,
                        (long long)available, (long long)bytes);
    return ls_ok();
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static ls_status append_name(ls_file_names *names, size_t *capacity, const char *name) {
    if (names->count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 64;
        char **grown = realloc(names->name, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for %zu file names", wanted);
        names->name = grown;
        *capacity = wanted;
    }
    char *copy = strdup(name);
    if (!copy) return ls_error(LS_NO_MEMORY, "no memory for a file name");
    names->name[names->count++] = copy;
    return ls_ok();
}

ls_status ls_file_list(const char *folder, ls_file_names *out) {
    DIR *opened = opendir(folder);
    if (!opened) return ls_file_error("list", folder, errno);
    ls_file_names names = {0};
    size_t capacity = 0;
    ls_status status = ls_ok();
    while (status.code == LS_OK) {
        errno = 0;
        struct dirent *entry = readdir(opened);
        if (!entry && errno != 0) status = ls_file_error("list", folder, errno);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = append_name(&names, &capacity, entry->d_name);
    }
    closedir(opened);
    if (status.code != LS_OK) {
        ls_file_names_free(&names);
        return status;
    }
    if (names.count > 0) qsort(names.name, names.count, sizeof *names.name, by_name);
    *out = names;
    return status;
}

void ls_file_names_free(ls_file_names *names) {
    if (!names) return;
    for (size_t i = 0; i < names->count; i++) free(names->name[i]);
    free(names->name);
    *names = (ls_file_names){0};
}
