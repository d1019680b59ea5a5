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

/* Documents of a few sequences, spread over a text: what its batches are like. */
typedef struct ls_typical {
    ls_mask_term *terms; /* of kind documents, as ls_job has them; NULL: documents do not stand apart */
    int n;
} ls_typical;
LS_MUST_USE ls_status ls_typical_read(const ls_data *data, int64_t S, ls_typical *out);
void ls_typical_free(ls_typical *typical); /* a zeroed one is allowed */

#endif
