/* What the files of recall share. */
#ifndef LS_EVAL_IMPL_H
#define LS_EVAL_IMPL_H

#include "eval/eval.h"

/* --- recall_write.c -------------------------------------------------------------------------------------------------------- */

/* -log p of the token under the logits [V]; and whether it would be taken greedily (of equal ones the smallest id). */
double ls_recall_surprise(const float *logits, int64_t V, int32_t id, bool *likeliest);

/* directory/recall.json and recall.svg. */
LS_MUST_USE ls_status ls_recall_write(const ls_recall_result *result, const char *directory);

/* --- needle.c -------------------------------------------------------------------------------------------------------------- */

/* The texts of a recall evaluation, as tokens. */

/* What all texts of one length share. */
typedef struct ls_haystack {
    const ls_tokenizer *tokenizer;
    const ls_data *data; /* sequences of `length` tokens; NULL: the built-in sentences */
    int64_t length;
    int64_t samples; /* of a cell: texts are spread over the data by them */
    uint64_t seed;
} ls_haystack;

typedef struct ls_needle {
    int64_t n_answer; /* the last so many tokens are the answer */
    int64_t at;       /* where the sentence with the key begins */
    int32_t key;      /* 10000 .. 99999 */
} ls_needle;

/*
 * Text `sample` for a depth in [0, 1]: ids[length], a pure function of the haystack and both. LS_USAGE when the length has no room for the
 * sentences. Other statuses are the tokenizer's.
 */
LS_MUST_USE ls_status ls_needle_make(const ls_haystack *haystack, double depth, int64_t sample, int32_t *ids,
                                     ls_needle *out);

#endif
