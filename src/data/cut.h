/* Where a long text may be cut so that the ids of its parts are those of the whole. */
#ifndef LS_DATA_CUT_H
#define LS_DATA_CUT_H

#include "text/text.h"

/*
 * *out: bytes of a first part, about `wanted` or more, of text[0, bytes); the other is for ls_tokenizer_encode_rest. Where the tokenizer says that a
 * text may be cut (ls_tokenizer_cut), or where it does not tell, at the end of a line such that the ids of what is about it, encoded together and
 * apart, are the same. 0: there is no such place, or none of those that were looked at.
 */
LS_MUST_USE ls_status ls_text_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                  size_t wanted, size_t *out);

#endif
