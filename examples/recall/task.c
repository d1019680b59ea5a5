/* The sequences of the recall task. */
#include "task.h"

#include "base/base.h"
#include "train/train.h"

/* The random numbers of one sequence. */
typedef struct draws {
    uint64_t seed, stream, next;
} draws;

/* A random number from 0 to n - 1. */
static int64_t below(draws *d, int64_t n) { return (int64_t)ls_rng_below(d->seed, d->stream, d->next++, (uint64_t)n); }

/* The keys in random order, by Fisher-Yates. */
static void shuffle(draws *d, int32_t out[RECALL_KEYS]) {
    for (int i = 0; i < RECALL_KEYS; i++) {
        const int64_t j = below(d, i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}

void recall_sequence(const recall_task *task, int64_t index, int32_t *tokens, int32_t *labels) {
    draws d = {task->seed, ls_rng_stream("recall") + (uint64_t)index, 0};
    const int64_t S = task->S, quarter = S / 4;
    int32_t key[RECALL_KEYS], value[RECALL_KEYS];
    for (int64_t i = 0; i < S; i++) {
        tokens[i] = 0;
        labels[i] = LS_LABEL_IGNORED;
    }
    shuffle(&d, key);
    for (int i = 0; i < RECALL_KEYS; i++) value[i] = (int32_t)below(&d, RECALL_VALUES);
    /* The number of entries grows with S: in a longer sequence they are farther away, but not rarer. */
    const int64_t entries = RECALL_KEYS * ls_max(1, S / 512);
    for (int64_t i = 0; i < entries;
         i++) { /* one entry at a random place in each of equal parts of the second quarter */
        const int64_t start = quarter + ls_part_start(quarter, entries, i);
        const int64_t room = quarter + ls_part_start(quarter, entries, i + 1) - start;
        const int64_t which = i % RECALL_KEYS;
        tokens[start + below(&d, room)] = recall_entry(key[which], value[which]);
    }
    for (int64_t at = 3 * quarter; at < S; at++) {
        const int64_t which = below(&d, RECALL_KEYS);
        tokens[at] = 1 + key[which];
        labels[at] = recall_answer(value[which]);
    }
}
