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

/* ---- texts.c: text files in memory ---- */

struct ls_corpus;
typedef struct ls_texts {
    int64_t binary, empty; /* files that were skipped */
    size_t files;
} ls_texts;

/* Reads the files below the paths into the corpus's store: a document each, ends[] and documents set. */
struct ls_tokenizer;
LS_MUST_USE ls_status ls_texts_read(const char *const *paths, int n, const struct ls_tokenizer *tokenizer,
                                    struct ls_corpus *corpus, ls_texts *out);

#endif
