/* data: the parts that data.c puts together. */
#ifndef LS_DATA_IMPL_H
#define LS_DATA_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* ---- files.c: which files to read ---- */

typedef struct ls_data_files {
    char **path;
    size_t count, capacity;
} ls_data_files;

/* Every regular file below the paths, as data.h says it. The list grows; on error it is as far as it came. */
LS_MUST_USE ls_status ls_data_find_files(const char *const *paths, int n, ls_data_files *out);
void ls_data_files_free(ls_data_files *files);

/* ---- store.c: tokens in as few bytes as their vocabulary allows ---- */

typedef struct ls_store {
    int width; /* bytes of a token: 1, 2 or 4 */
    void *data;
    int64_t count, capacity; /* tokens */
} ls_store;

ls_store ls_store_empty(int32_t vocabulary);
LS_MUST_USE ls_status ls_store_append(ls_store *store, const int32_t *ids, int64_t n);
void ls_store_read(const ls_store *store, int64_t first, int64_t n, int32_t *out);
void ls_store_free(ls_store *store);

/* ---- windows.c: where sequences begin and end ---- */

/* A stretch of the store; at: of its first window (long documents) or of its first token (what is joined). */
typedef struct ls_stretch {
    int64_t start, length; /* tokens of the store */
    int64_t at;
} ls_stretch;

typedef struct ls_windows {
    int64_t sequence;      /* S: a window is S + 1 tokens */
    int64_t whole, joined; /* windows of each sort */
    ls_stretch *documents; /* those that hold whole windows */
    ls_stretch *rest;      /* what is joined */
    int64_t n_documents, n_rest;
    int64_t rest_tokens;
} ls_windows;

/* ends[i]: one past the last token of document i, ascending; document 0 starts at 0. */
LS_MUST_USE ls_status ls_windows_create(const int64_t *ends, int64_t n, int64_t sequence, ls_windows *out);
/* Window 0 <= i < whole + joined: S + 1 ids. */
void ls_windows_read(const ls_windows *windows, const ls_store *store, int64_t i, int32_t *out);
void ls_windows_free(ls_windows *windows);

#endif
