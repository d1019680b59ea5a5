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

/* ---- texts.c: texts in memory ---- */

struct ls_corpus;
struct ls_tokenizer;
typedef struct ls_texts_options {
    const char *const *paths;
    int n_paths;
    const struct ls_tokenizer *tokenizer;
    const char *folder;              /* the tokenizer's; NULL: it has none */
    const struct ls_text_form *form; /* how they become documents */
} ls_texts_options;

typedef struct ls_texts {
    int64_t files;
    int64_t binary;     /* of them that are no text, passed over */
    int64_t empty, bad; /* records left out */
} ls_texts;

/* Into the corpus's store; ends, documents and learnt are set. */
LS_MUST_USE ls_status ls_texts_read(const ls_texts_options *options, struct ls_corpus *corpus, ls_texts *out);

#endif
