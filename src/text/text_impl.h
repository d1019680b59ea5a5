/* text: what a kind of tokenizer is. */
#ifndef LS_TEXT_IMPL_H
#define LS_TEXT_IMPL_H

#include "text/tokenizer.h"

typedef struct ls_tokenizer_kind {
    const char *name;
    int32_t vocabulary;
    int32_t end_of_document;
    size_t piece; /* ls_tokenizer_piece */
    /* Both may count on room: encode on `bytes` more ids, decode on n * widest more bytes, ids in range. */
    size_t widest; /* bytes of the longest token */
    size_t (*encode)(const char *text, size_t bytes, int32_t *out);
    size_t (*decode)(const int32_t *ids, size_t n, char *out);
} ls_tokenizer_kind;

extern const ls_tokenizer_kind ls_tokenizer_bytes; /* kind_bytes.c */

#endif
