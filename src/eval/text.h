/* Sequences of a text, for training and evaluation. */
#ifndef LS_EVAL_TEXT_H
#define LS_EVAL_TEXT_H

#include "data/data.h"
#include "eval/score.h"

typedef struct ls_text_sequences {
    const ls_data *data;
    int64_t some; /* > 0: so many of the text's, evenly spread over it; 0: as they come */
} ls_text_sequences;

/* Any number of ranks may read them at once. The struct is borrowed. */
ls_sequences ls_text_sequences_of(const ls_text_sequences *text);

#endif
