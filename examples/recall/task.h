/* The recall task: which sequences there are. See README.md. */
#ifndef RECALL_TASK_H
#define RECALL_TASK_H

#include <stdint.h>

enum { RECALL_KEYS = 8, RECALL_VALUES = 4 };

/* Tokens: 0 is filler; questions 1 .. KEYS; entries "key k has value v"; answers. */
static inline int32_t recall_entry(int32_t key, int32_t value) {
    return 1 + RECALL_KEYS + key * RECALL_VALUES + value;
}
static inline int32_t recall_answer(int32_t value) {
    return 1 + RECALL_KEYS + RECALL_KEYS * RECALL_VALUES + value;
}

typedef struct recall_task {
    int64_t S; /* a multiple of 4, at least 4 * RECALL_KEYS, so that all entries fit */
    uint64_t seed;
} recall_task;

/*
 * Sequence `index`: every key has a random value, and its entry stands somewhere in the second quarter, once for every 512
 * tokens of S (at least once); the last quarter is questions, and the label of each is the answer. The rest is filler, and no
 * other label counts. So an answer lies more than S/4 tokens after all that tells it.
 */
void recall_sequence(const recall_task *task, int64_t index, int32_t *tokens, int32_t *labels);

#endif
