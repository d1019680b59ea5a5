/* A text of which some stretches are to be learnt; as tokens, it is the whole text's tokens with a byte for each. */
#ifndef LS_DATA_MARKED_H
#define LS_DATA_MARKED_H

#include "text/text.h"

#include <stdbool.h>

typedef struct ls_marked_text {
    char *text;
    size_t bytes, capacity;
    struct ls_marked_stretch {
        size_t start, end; /* bytes that are learnt */
    } * learnt;
    size_t n_learnt, learnt_capacity;
} ls_marked_text;

LS_MUST_USE ls_status ls_marked_append(ls_marked_text *marked, const char *text, size_t bytes, bool learnt);
void ls_marked_free(ls_marked_text *marked);

#endif
