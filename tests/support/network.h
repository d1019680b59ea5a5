/*
 * A graph of a loss over any mesh, in any type: the loss and all gradients, for comparison with one rank and with f64.
 * Integer inputs are filled by name: "positions" count the tokens, "places" those of documents, "labels" hold the next
 * token and ignore the last one, anything else is random ids.
 */
#ifndef TESTS_NETWORK_H
#define TESTS_NETWORK_H

#include "compile/compile.h"

typedef struct network {
    const char *name;
    ls_tensor (*loss)(ls_graph *graph);
    int64_t ids;           /* tokens are 0..ids-1 */
    const char *transport; /* NULL: shm */
    const char *config;    /* the text of a config.json, of which the network is the model; NULL: it is `loss` */
    int64_t B, S;          /* of a model: sequences of so many tokens */
    const ls_mask *mask;   /* of all attention, in place of its own; NULL: its own */
    const ls_optimizer *optimizer; /* that network_train takes; NULL: the first of the table, AdamW */
    bool filled_together;          /* ls_job.filled_together */
} network;

typedef struct network_result {
    ls_graph *graph;
    ls_image *image; /* of rank 0: where each parameter lies in the gradient */
    double loss;
    double *gradient; /* f64[image->whole_elements], summed over the ranks; of network_train: the parameters */
} network_result;

/*
 * Runs it in `dtype` with parameters rounded to `rounded` first, so that f64 gives the exact result for another type.
 * target: rank is ignored. On LS_OK the caller frees the result.
 */
LS_MUST_USE ls_status network_solve(const network *n, const ls_target *target, ls_dtype dtype, ls_dtype rounded,
                                    network_result *out);
/* The same in f64, in several micro-batches of the same inputs, whose losses and gradients are added. */
LS_MUST_USE ls_status network_accumulate(const network *n, const ls_target *target, int micro, network_result *out);
/* Both: in `dtype`, with parameters rounded to `rounded`, in several micro-batches. */
LS_MUST_USE ls_status network_gradient(const network *n, const ls_target *target, ls_dtype dtype, ls_dtype rounded,
                                       int micro, network_result *out);
/*
 * Steps of the optimiser in f64, of so many micro-batches each: the loss of the last one, and the parameters after it.
 */
LS_MUST_USE ls_status network_train(const network *n, const ls_target *target, int micro, int steps,
                                    network_result *out);
void network_free(network_result *result);
/*
 * Solves it in f64 with messages late, cut up and out of order, by chaos:1 to chaos:`seeds`: LS_OK when loss and
 * gradients have the bits that they have without.
 */
LS_MUST_USE ls_status network_under_chaos(const network *n, const ls_target *target, int seeds);

/*
 * The error of a gradient, of parameter i in the order of declaration: |a - b| / max(|b|, 1e-3 of the norm of its
 * kind). A kind is one parameter over all layers: the names that are the same but for numbers. Kinds whose gradient is
 * zero in theory, and in b but for rounding (biases of keys, under a softmax without rotations), are measured against
 * the whole gradient's norm: a thousandth of it would demand more digits than a sum in f32 has.
 * -1: the error of the loss.
 */
double network_error(const network_result *a, const network_result *b, int i);
/* The root of the mean square over the parameters of its kind in all layers. */
double network_error_of_kind(const network_result *a, const network_result *b, int i);
/*
 * The error of rounding of each result on one rank in f32 or bf16, for any order of the sums: errors[1 + i] is the
 * largest network_error_of_kind(-1: of the loss) over the instruction sets of this process. exact: of one rank in f64,
 * in so many micro-batches, parameters rounded to dtype. It follows the condition of the sums; a single instruction set
 * may be lucky.
 */
LS_MUST_USE ls_status network_own_errors(const network *n, ls_dtype dtype, int micro, const network_result *exact,
                                         double *errors);
/*
 * How far results move when parameters do, by half a rounding of the type up or down at random: errors[1 + i] is the
 * largest network_error_of_kind over so many draws, in f64 on one rank; the rest as above. What is worse conditioned
 * may be off by more than the roundings of one order of sums show.
 */
LS_MUST_USE ls_status network_condition(const network *n, ls_dtype dtype, int micro, const network_result *exact,
                                        int draws, double *errors);
/* The largest of these; what: the one that differs most. */
double network_difference(const network_result *a, const network_result *b, const char **what);

/*
 * Compiles it for all ranks, with the update of a step of so many micro-batches: LS_OK when all frames are equal,
 * both verifiers accept the programs, and the interpreter finds the same values under three orders of deliveries (up to
 * 4 ranks: it takes long).
 */
LS_MUST_USE ls_status network_verify(const network *n, const ls_target *target, int micro);

#endif
