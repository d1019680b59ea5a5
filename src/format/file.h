/*
 * Whole files and folders: read, map, write so that a reader sees all or nothing, list, remove.
 */
#ifndef LS_FORMAT_FILE_H
#define LS_FORMAT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

/*
 * Reads a whole regular file of at most `most` bytes. *out is for the caller to free(); it has *bytes bytes
 * and a 0 byte after them. A larger file is LS_INVALID.
 */
LS_MUST_USE ls_status ls_file_read(const char *path, size_t most, char **out, size_t *bytes);

/* A file in memory, read-only, private to this process. An empty file has data != NULL and bytes 0. */
typedef struct ls_file_map {
    const uint8_t *data;
    size_t bytes;
} ls_file_map;

LS_MUST_USE ls_status ls_file_map_open(const char *path, ls_file_map *out);
void ls_file_map_close(ls_file_map *map); /* NULL and a zeroed map are allowed */
/*
 * Brings these bytes of a mapped file into memory at once, instead of by a fault for every few pages. Where the system does not know how, they come as
 * they are touched.
 */
void ls_file_bring(const void *data, size_t bytes);
/*
 * Lets the memory go that holds these bytes of a mapped file and nothing else; touched again, they are read again. So that a file
 * that is read from end to end is never in this process's memory as a whole.
 */
void ls_file_forget(const void *data, size_t bytes);

/*
 * Writes the pieces, one after the other, as the whole content of `path`: to a temporary file in the same
 * folder, fsync, rename, fsync of the folder. On error the old file stands as it was and the temporary one
 * is removed.
 */
typedef struct ls_file_piece {
    const void *data;
    size_t bytes;
} ls_file_piece;

LS_MUST_USE ls_status ls_file_write_pieces(const char *path, const ls_file_piece *pieces, int n);
LS_MUST_USE ls_status ls_file_write(const char *path, const void *data, size_t bytes);

/* Appends one or two pieces to a file, which is made if need be: all of them or, on error, nothing. */
LS_MUST_USE ls_status ls_file_append(const char *path, const ls_file_piece *pieces, int n);

/* Makes the folder and those above it (mode 0777 less umask). That it is there already is no error. */
LS_MUST_USE ls_status ls_file_make_directories(const char *path);

/* Renames a file or folder and makes the renaming durable (fsync of the folder that holds `to`). */
LS_MUST_USE ls_status ls_file_rename(const char *from, const char *to);

/* fsync of a file or folder by its path. */
LS_MUST_USE ls_status ls_file_sync(const char *path);

/* Removes a file, or a folder with all that is in it (symbolic links are removed, not followed). Missing:
 * no error. */
LS_MUST_USE ls_status ls_file_remove_tree(const char *path);

/* Bytes that this user may still write to the file system that holds `path` (which must exist). */
LS_MUST_USE ls_status ls_file_free_bytes(const char *path, int64_t *out);
/* LS_IO error that names the folder, the bytes free and the bytes needed when they do not suffice. */
LS_MUST_USE ls_status ls_file_need_space(const char *path, int64_t bytes);

bool ls_file_exists(const char *path);       /* follows symbolic links */
bool ls_file_is_directory(const char *path); /* follows symbolic links */

/* LS_INVALID when a caller's list of n paths is NULL, or one of them. */
LS_MUST_USE ls_status ls_file_check_paths(const char *const *paths, int n);

/* The names in a folder, without "." and "..", in byte order. Free with ls_file_names_free. */
typedef struct ls_file_names {
    char **name;
    size_t count;
} ls_file_names;

LS_MUST_USE ls_status ls_file_list(const char *directory, ls_file_names *out);
void ls_file_names_free(ls_file_names *names);

/*
 * A path of any length, on the heap, freed where its scope ends. It begins as NULL, and what fills it frees what was there.
 *
 *     LS_PATH path = NULL;
 *     LS_TRY(ls_path_join(folder, "run.json", &path));
 */
#define LS_PATH __attribute__((cleanup(ls_path_free))) char *
void ls_path_free(char **path); /* leaves NULL there */
/* directory + "/" + name. LS_NO_MEMORY. */
LS_MUST_USE ls_status ls_path_join(const char *directory, const char *name, char **out);
/* The folder that a path lies in: "." where it names none, "/" of what lies there. Slashes at its end do not count. */
LS_MUST_USE ls_status ls_path_parent(const char *path, char **out);
/* As printf prints it. LS_NO_MEMORY. */
LS_MUST_USE ls_status ls_path_print(char **out, const char *format, ...) LS_PRINTF(2, 3);

#endif
