/* The outcome of a training, and the comparison of two. */
#ifndef RECALL_OUTCOME_H
#define RECALL_OUTCOME_H

#include "longspan/status.h"

#include <stdint.h>

/* Rank 0 fills it in and sends it to the caller. */
typedef struct outcome {
    int64_t ranks, steps;
    int64_t queries;           /* answers of the final measurement */
    int64_t planned, measured; /* bytes of rank 0: planned, and resident at the end */
    double accuracy, seconds;
    double crossing; /* share of the pairs (entry, question) whose positions are on different ranks */
    double loss[];   /* [steps] */
} outcome;

/* Prints both as a table with their loss curves in characters, and draws the curves to folder/curves.svg. */
LS_MUST_USE ls_status outcome_compare(const outcome *one, const outcome *many, const char *folder);

#endif
