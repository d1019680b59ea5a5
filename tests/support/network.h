/*
 * A graph of a loss over any mesh, in f64: the loss and all gradients, for comparison with one rank. Integer inputs are filled by name:
 * "positions" count the tokens, "labels" hold the next token and ignore the last one, anything else is random ids.
 */
#ifndef TESTS_NETWORK_H
#define TESTS_NETWORK_H

#include "compile/compile.h"

typedef struct network {
    const char *name;
    ls_tensor (*loss)(ls_graph *graph);
    int64_t ids; /* tokens are 0..ids-1 */
} network;

typedef struct network_result {
    ls_graph *graph;
    ls_image *image; /* of rank 0: where each parameter lies in the gradient */
    double loss;
    double *gradient; /* f64[image->flat_elements], summed over the ranks */
} network_result;

/* target: rank is ignored. On LS_OK the caller frees the result. */
LS_MUST_USE ls_status network_solve(const network *n, const ls_target *target, network_result *out);
void network_free(network_result *result);

/*
 * The largest relative difference: of the loss, or of the gradient of one parameter (against at least 1e-3 of the largest
 * gradient's norm). what: the one that differs most.
 */
double network_difference(const network_result *a, const network_result *b, const char **what);

/* Compiles it for all ranks, with the update: LS_OK when the verifier accepts the programs and all skeletons are equal. */
LS_MUST_USE ls_status network_verify(const network *n, const ls_target *target);

#endif
