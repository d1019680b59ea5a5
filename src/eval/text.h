/* Sequences of a text, for training and evaluation. */
#ifndef LS_EVAL_TEXT_H
#define LS_EVAL_TEXT_H

#include "data/data.h"
#include "eval/score.h"

typedef struct ls_text_sequences {
    const ls_data *data;
    int64_t S;
    int64_t some;  /* > 0: so many of the text's, evenly spread over it; 0: as they come */
    int32_t *room; /* [S + 1]; one rank's own */
} ls_text_sequences;

/* For ls_sequences: context is an ls_text_sequences. */
void ls_text_read(const void *context, int64_t index, int32_t *tokens, int32_t *labels);

#endif
