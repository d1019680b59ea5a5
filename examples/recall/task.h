/* The sequences of the recall task, which README.md describes. */
#ifndef RECALL_TASK_H
#define RECALL_TASK_H

#include <stdint.h>

enum { RECALL_KEYS = 8, RECALL_VALUES = 4 };

/*
 * Token ids, in this order: 0 is filler; a question per key; an entry "key k has value v" per pair; an answer per
 * value.
 */
static inline int32_t recall_entry(int32_t key, int32_t value) { return 1 + RECALL_KEYS + key * RECALL_VALUES + value; }
static inline int32_t recall_answer(int32_t value) { return 1 + RECALL_KEYS + RECALL_KEYS * RECALL_VALUES + value; }

typedef struct recall_task {
    int64_t S; /* a multiple of 4, at least 4 * RECALL_KEYS, so that all entries fit */
    uint64_t seed;
} recall_task;

/*
 * Writes sequence `index`. Every key has a random value; its entry appears at random places in the second quarter, once
 * for every 512 tokens of S (at least once). The last quarter consists of questions, each with its answer as the label.
 * The rest is filler, and other labels are ignored. So an answer is more than S/4 tokens after every entry that it
 * depends on.
 */
void recall_sequence(const recall_task *task, int64_t index, int32_t *tokens, int32_t *labels);

#endif
