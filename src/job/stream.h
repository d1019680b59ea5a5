/* Tokens to text as they come: whole characters only, fit to be printed. */
#ifndef LS_JOB_STREAM_H
#define LS_JOB_STREAM_H

#include "text/text.h"

typedef struct ls_generated_text {
    const ls_tokenizer *tokenizer;
    void (*out)(void *context, const char *bytes, size_t n);
    void *context;
    ls_token_stream *tokens;
    ls_text text; /* what has not been put out yet */
} ls_generated_text;

/*
 * Begins behind ids[0, n), of which nothing is put out: a token's text may depend on those before it. stream->tokenizer, out and context
 * are set by the caller, the rest is zero. ls_generated_free it whatever the status.
 */
LS_MUST_USE ls_status ls_generated_begin(ls_generated_text *stream, const int32_t *ids, size_t n);
/* Puts out what the token adds; special tokens add nothing. What may become a character with the next ones waits. */
LS_MUST_USE ls_status ls_generated_put(ls_generated_text *stream, int32_t id);
/* Nothing more comes: what has waited is put out. */
LS_MUST_USE ls_status ls_generated_end(ls_generated_text *stream);
void ls_generated_free(ls_generated_text *stream); /* a zeroed one is allowed */

#endif
