/*
 * Tokenizers: text to ids and back. The one kind so far, "bytes": id = byte value, vocabulary 256. Its end
 * of document is id 0: text files contain no NUL, so that byte is free, and a model learns it like any
 * other.
 *
 * A tokenizer is read-only once open and may be used by any number of threads.
 */
#ifndef LS_TEXT_TOKENIZER_H
#define LS_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_tokenizer ls_tokenizer;

/* Growing buffers; start zeroed, end with free() of the pointer. */
typedef struct ls_token_list {
    int32_t *id;
    size_t count, capacity;
} ls_token_list;

typedef struct ls_text {
    char *byte;
    size_t count, capacity;
} ls_text;

/*
 * The tokenizer of a model's folder; the byte-level one when directory is NULL or has no tokenizer.json. A
 * folder with a tokenizer.json is LS_UNSUPPORTED: such vocabularies are not read yet.
 */
LS_MUST_USE ls_status ls_tokenizer_open(const char *directory, ls_tokenizer **out);
void ls_tokenizer_close(ls_tokenizer *tokenizer); /* NULL is allowed */

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer);        /* "bytes" */
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer);      /* ids are 0 .. vocabulary - 1 */
int32_t ls_tokenizer_end_of_document(const ls_tokenizer *tokenizer); /* put after each document */
uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer); /* equal for tokenizers that encode alike */
/*
 * Bytes that may be encoded by themselves: cutting a document into pieces of this size gives the ids of the
 * whole. SIZE_MAX when a document must be encoded at once.
 */
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer);

/* Appends the ids of text[0, bytes). Any bytes are accepted. LS_NO_MEMORY leaves `out` as it was. */
LS_MUST_USE ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                          ls_token_list *out);

/* Appends the bytes of ids[0, n); not always valid UTF-8. An id outside the vocabulary is LS_INVALID. */
LS_MUST_USE ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                          ls_text *out);

#endif
