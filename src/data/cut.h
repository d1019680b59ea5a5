/* Where a long text may be cut so that the ids of its parts are those of the whole. */
#ifndef LS_DATA_CUT_H
#define LS_DATA_CUT_H

#include "text/text.h"

/*
 * *out: bytes of a first part, about `wanted` or more, of text[0, bytes); it ends with a line. The ids of the lines about the cut, encoded together
 * and apart, are the same. 0: none of the places that were looked at is such.
 */
LS_MUST_USE ls_status ls_text_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                  size_t wanted, size_t *out);

#endif
