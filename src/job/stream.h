/* Tokens to text as they come: whole characters only, fit to be printed. */
#ifndef LS_JOB_STREAM_H
#define LS_JOB_STREAM_H

#include "text/text.h"

typedef void (*ls_stream_out)(void *context, const char *bytes, size_t n);

/* Begins behind `at` tokens, which are there already (a prompt). Start with ls_stream_begin, end with ls_stream_free. */
typedef struct ls_stream {
    const ls_tokenizer *tokenizer;
    ls_stream_out out;
    void *context;
    size_t anchor;  /* first of the tokens that are decoded together */
    size_t emitted; /* bytes of their text that are out */
    ls_text text;
} ls_stream;

/* ids[0, at): what stands before; nothing of it is put out. */
LS_MUST_USE ls_status ls_stream_begin(const ls_tokenizer *tokenizer, ls_stream_out out, void *context,
                                      const int32_t *ids, size_t at, ls_stream *stream);
/*
 * Puts out what ids[0, n) say beyond what is out; n grows from call to call. What may become a character with the next token waits; wrong bytes
 * become U+FFFD. end: nothing more comes.
 */
LS_MUST_USE ls_status ls_stream_show(ls_stream *stream, const int32_t *ids, size_t n, bool end);
void ls_stream_free(ls_stream *stream);

#endif
