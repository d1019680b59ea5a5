/* The tokens that a generation begins with. */
#ifndef LS_JOB_PROMPT_H
#define LS_JOB_PROMPT_H

#include "text/text.h"

/*
 * Of the text, or of a file ("-": standard input); one of them is NULL. In front stands what the tokenizer puts before a text; where
 * there would be no token at all, the end of a document, as the model saw texts begin. *out is for the caller to free.
 */
LS_MUST_USE ls_status ls_prompt_read(const ls_tokenizer *tokenizer, const char *text, const char *file,
                                     ls_token_list *out);

#endif
