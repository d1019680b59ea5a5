/* eval: what the files of recall share. */
#ifndef LS_EVAL_RECALL_IMPL_H
#define LS_EVAL_RECALL_IMPL_H

#include "longspan/recall.h"

/* -log p of the token under the logits [V]; and whether it would be taken greedily (of equal ones the smallest id). */
double ls_recall_surprise(const float *logits, int64_t V, int32_t id, bool *likeliest);

/* directory/recall.json and recall.svg. */
LS_MUST_USE ls_status ls_recall_write(const ls_recall_result *result, const char *directory);

#endif
