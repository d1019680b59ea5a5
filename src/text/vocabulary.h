/* text: tokens by id and by their bytes. */
#ifndef LS_TEXT_VOCABULARY_H
#define LS_TEXT_VOCABULARY_H

#include "text/text_impl.h"

typedef struct ls_token {
    char *byte; /* owned; ended by a 0 */
    uint32_t bytes;
    uint32_t flags; /* LS_TOKEN_...; 0: no token has this id */
    char *shown;    /* owned: what decoders see, when that is another text; ended by a 0 */
} ls_token;

enum {
    LS_TOKEN_KNOWN = 1,
    LS_TOKEN_SPECIAL = 2,
    LS_TOKEN_ADDED = 4 /* the model does not have it */,
    LS_TOKEN_LISTED = 8 /* it is among the added tokens */
};

typedef struct ls_vocabulary {
    ls_token *token; /* by id */
    int32_t size;    /* the largest id that is used, and 1 */
    int32_t room;    /* ids are below this */
    int32_t count;   /* tokens that there are */
    int32_t *slot;   /* by hash of the bytes: id, or -1 */
    size_t mask;
} ls_vocabulary;

/* A hash of bytes, the same on every run. */
uint64_t ls_text_hash(const char *text, size_t bytes);

/* An empty one with room for ids below `room` and for `tokens` of them. */
LS_MUST_USE bool ls_vocabulary_create(ls_vocabulary *vocabulary, int32_t room, size_t tokens);
void ls_vocabulary_free(ls_vocabulary *vocabulary);
/* Adds a token that is not there, under a free id below room. The bytes are copied. */
LS_MUST_USE bool ls_vocabulary_add(ls_vocabulary *vocabulary, int32_t id, const char *text, size_t bytes);
int32_t ls_vocabulary_find(const ls_vocabulary *vocabulary, const char *text, size_t bytes); /* -1: none */

#endif
