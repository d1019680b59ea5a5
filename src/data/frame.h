/* What stands around the tokens of each document: what begins it, and what ends it. */
#ifndef LS_DATA_FRAME_H
#define LS_DATA_FRAME_H

#include "text/text.h"

#include <stdbool.h>

enum { LS_FRAME_MOST = 8 };

typedef struct ls_frame {
    int32_t begin[LS_FRAME_MOST];
    int n_begin;
    int32_t end; /* -1: none */
} ls_frame;

/*
 * begin and end are the text of a token, "none", or "auto" (NULL is too): what the tokenizer puts before a text where special tokens are
 * asked for, as its files have it, and its end of document. A text that is no token of it is LS_USAGE, by the flag's name.
 */
LS_MUST_USE ls_status ls_frame_find(const ls_tokenizer *tokenizer, const char *begin, const char *end,
                                    ls_frame *out);
/* "auto" or NULL. */
bool ls_frame_is_auto(const char *word);
/* The texts of its tokens: "<|begin_of_text|>", "none", as `--begin` and `--end` take them. */
void ls_frame_text(const ls_tokenizer *tokenizer, const int32_t *ids, int n, char *out, size_t room);

#endif
