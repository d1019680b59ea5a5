/* Whole files and folders: read, map, write atomically, list, remove; and paths. */
#ifndef LS_FORMAT_FILE_H
#define LS_FORMAT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

/*
 * Reads a whole regular file. The caller frees *out; it has *bytes bytes and a 0 byte after them. A file of more than
 * `most` bytes is an LS_INVALID error.
 */
LS_MUST_USE ls_status ls_file_read(const char *path, size_t most, char **out, size_t *bytes);

/*
 * Identifies a file by *bytes, its size, and *hash, a hash of all its bytes. Of a file of more than 16 MiB only 64
 * pieces of 64 KiB, spread from beginning to end, are hashed, so that large files take no longer. Not for untrusted
 * files: a different file with the same result can be made.
 */
LS_MUST_USE ls_status ls_file_identify(const char *path, int64_t *bytes, uint64_t *hash);

/* A mapped file: read-only and private to this process. An empty file has data != NULL and bytes 0. */
typedef struct ls_file_map {
    const uint8_t *data;
    size_t bytes;
} ls_file_map;

LS_MUST_USE ls_status ls_file_map_open(const char *path, ls_file_map *out);
void ls_file_map_close(ls_file_map *map); /* NULL and a zeroed map are allowed */
/*
 * Reads these bytes of a mapped file into memory at once, which is faster than a page fault for every few pages. On a
 * system without such a call this does nothing, and pages are read when they are touched.
 */
void ls_file_populate(const void *data, size_t bytes);
/*
 * Releases the memory of the pages that lie within these bytes of a mapped file; the pages are read again when they are
 * touched. A process that reads a large file from start to end calls this for the bytes that it has read, so that the
 * whole file is never in its memory at once.
 */
void ls_file_forget(const void *data, size_t bytes);

/*
 * Checks that a file could be written as `path` later: creates an empty file beside it, which takes no time, and
 * removes that file. The error names what failed.
 */
LS_MUST_USE ls_status ls_file_try(const char *path);

/*
 * Writes the pieces, one after the other, as the whole contents of `path`, atomically and durably: to a temporary file
 * in the same folder, fsync, rename, fsync of the folder. On error the old file is unchanged and the temporary file is
 * removed.
 */
typedef struct ls_file_piece {
    const void *data;
    size_t bytes;
} ls_file_piece;

LS_MUST_USE ls_status ls_file_write_pieces(const char *path, const ls_file_piece *pieces, int n);
LS_MUST_USE ls_status ls_file_write(const char *path, const void *data, size_t bytes);

/* Appends one or two pieces to a file, and creates it if it does not exist. On error the file is unchanged. */
LS_MUST_USE ls_status ls_file_append(const char *path, const ls_file_piece *pieces, int n);

/* Makes the folder and those above it (mode 0777 less umask). An existing folder is no error. */
LS_MUST_USE ls_status ls_file_make_folders(const char *path);

/* Renames a file or folder durably (fsync of the folder that holds `to`). */
LS_MUST_USE ls_status ls_file_rename(const char *from, const char *to);

/* fsync of a file or folder by its path. */
LS_MUST_USE ls_status ls_file_sync(const char *path);

/*
 * Removes a file, or a folder with its contents. Symbolic links are removed, not followed. A missing path is no error.
 */
LS_MUST_USE ls_status ls_file_remove_tree(const char *path);

/* Bytes that this user may still write to the file system that holds `path` (which must exist). */
LS_MUST_USE ls_status ls_file_free_bytes(const char *path, int64_t *out);
/* An LS_IO error, with the folder and both numbers, when fewer than `bytes` are free. */
LS_MUST_USE ls_status ls_file_need_space(const char *path, int64_t bytes);

bool ls_file_exists(const char *path);    /* follows symbolic links */
bool ls_file_is_folder(const char *path); /* follows symbolic links */

/*
 * LS_INVALID when a list of n texts, such as paths, is NULL, or one of the texts is. `name`: the name of the list's
 * field, for the message.
 */
LS_MUST_USE ls_status ls_check_texts(const char *name, const char *const *texts, int n);

/* The names in a folder, without "." and "..", in byte order. Free with ls_file_names_free. */
typedef struct ls_file_names {
    char **name;
    size_t count;
} ls_file_names;

LS_MUST_USE ls_status ls_file_list(const char *folder, ls_file_names *out);
void ls_file_names_free(ls_file_names *names);

/*
 * A path of any length, allocated with malloc and freed at the end of its scope. It must be initialised, to NULL at
 * first. The functions below free the old value of *out.
 *
 *     LS_PATH path = NULL;
 *     LS_TRY(ls_path_join(folder, "run.json", &path));
 */
#define LS_PATH __attribute__((cleanup(ls_path_free))) char *
void ls_path_free(char **path); /* sets *path to NULL */
/* folder + "/" + name. */
LS_MUST_USE ls_status ls_path_join(const char *folder, const char *name, char **out);
/*
 * The folder of a path: "." for a name alone, "/" for a name in the root. Slashes at the end of the path are ignored.
 */
LS_MUST_USE ls_status ls_path_parent(const char *path, char **out);
/* Formats like printf. */
LS_MUST_USE ls_status ls_path_print(char **out, const char *format, ...) LS_PRINTF(2, 3);

#endif
