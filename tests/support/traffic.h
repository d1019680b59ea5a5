/* What is published of the bytes that attention sends under the full mask. */
#ifndef TESTS_TRAFFIC_H
#define TESTS_TRAFFIC_H

#include "tensor/tensor.h"

/* d: elements of a token's queries, e: of its keys, h: query heads. T: the working type, G: that of sums. */
typedef struct traffic_problem {
    const char *strategy;
    int R, U; /* blocks, and ranks of a block */
    double d, e, h;
    ls_dtype T, G;
    bool lse; /* is a result too, at the token's rank */
} traffic_problem;

/* Bytes that one rank sends for each token that it holds. */
typedef struct traffic {
    double forward, backward;
} traffic;

/* False: nothing is published of the strategy. */
bool traffic_published(const traffic_problem *p, traffic *out);

#endif
