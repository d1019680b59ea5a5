/*
 * A text of which some stretches are to be learnt, and some are special tokens. As tokens it is the whole text's, with a byte for each;
 * what looks like a special token elsewhere is text.
 */
#ifndef LS_DATA_MARKED_H
#define LS_DATA_MARKED_H

#include "data/encode.h"

#include <stdbool.h>

typedef struct ls_marked_text {
    char *text;
    size_t bytes, capacity;
    struct ls_marked_stretch {
        size_t start, end; /* bytes that are learnt */
    } * learnt;
    size_t n_learnt, learnt_capacity;
    struct ls_mark {
        size_t start, end;
        int32_t id; /* -1: spelled out, by itself */
    } * marks;
    size_t n_marks, mark_capacity;
} ls_marked_text;

LS_MUST_USE ls_status ls_marked_append(ls_marked_text *marked, const char *text, size_t bytes, bool learnt);
/* The same, for text that is one token. */
LS_MUST_USE ls_status ls_marked_append_token(ls_marked_text *marked, const char *text, size_t bytes,
                                             bool learnt, int32_t id);
void ls_marked_free(ls_marked_text *marked);

/*
 * Appends its tokens. A token that touches a learnt stretch is learnt, as in transformers. plain: what else is text between
 * the marks; NULL: nothing, special tokens are looked for. LS_INVALID when so much would have to be encoded again to find what is learnt that
 * it would take no end of time.
 */
LS_MUST_USE ls_status ls_marked_encode(const ls_tokenizer *tokenizer, const ls_marked_text *marked,
                                       const ls_plain_text *plain, ls_learnt_tokens *out);

#endif
