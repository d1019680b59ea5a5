/* What a training came to, and two of them beside each other. */
#ifndef RECALL_OUTCOME_H
#define RECALL_OUTCOME_H

#include "longspan/status.h"

#include <stdint.h>

/* Rank 0 leaves it in shared memory. */
typedef struct outcome {
    int64_t ranks, steps;
    int64_t queries;           /* answers of the final measurement */
    int64_t planned, measured; /* bytes of rank 0: as compiled, and resident at the end */
    double accuracy, seconds;
    double
        crossing; /* of all ways from an entry's place to a question's: the part that leads to another rank */
    double loss[]; /* [steps] */
} outcome;

/* Prints both as a table with their curves in characters, and draws the curves into directory/curves.svg. */
LS_MUST_USE ls_status outcome_compare(const outcome *one, const outcome *many, const char *directory);

#endif
