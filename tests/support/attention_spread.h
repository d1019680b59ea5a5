/*
 * One attention problem on ranks: compiled for each of them, verified, run by threads over shared memory. All outputs
 * of a program hold NaN before it runs, and it runs twice.
 */
#ifndef TESTS_ATTENTION_SPREAD_H
#define TESTS_ATTENTION_SPREAD_H

#include "compile/compile.h"
#include "plain_attention.h"

/*
 * The bytes that a rank's programs send, read in place and hold in slots (the maximum over ranks), and that all ranks
 * send together.
 */
typedef struct attention_traffic {
    double sent_forward, sent_backward, read_forward, read_backward;
    double slot_bytes;
    double sent_by_all;
} attention_traffic;

typedef struct attention_result {
    double *out[PLAIN_OUTPUTS]; /* as in plain_attention */
    bool same_bits;        /* in both runs, and in a third on the device that LS_TEST_DEVICE of the environment names */
    const char *transfers; /* as ls_transfers_of says */
    attention_traffic traffic;
} attention_result;

/*
 * Runs it forward and backward under the target (rank is filled in) in this dtype. *refused: the compiler's refusal
 * (LS_USAGE, LS_UNSUPPORTED), after which nothing ran, else LS_OK. Another error is returned. attention_result_free
 * frees what it points to.
 */
ls_status attention_spread(const plain_attention *problem, const ls_target *target, ls_dtype dtype,
                           attention_result *out, ls_status *refused);
void attention_result_free(attention_result *result);

/*
 * Runs it once, and *digest becomes a hash of the bits of all results of all ranks, the same however these are spread
 * over processes and hosts: on rank 0, when somebody launched this process as a rank.
 */
ls_status attention_digest(const plain_attention *problem, const ls_target *target, ls_dtype dtype, uint64_t *digest,
                           ls_status *refused);

/* Compiles and verifies alone; inputs of the problem are not needed. */
ls_status attention_traffic_of(const plain_attention *problem, const ls_target *target, ls_dtype dtype,
                               attention_traffic *out);

#endif
