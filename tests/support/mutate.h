/* Random edits of valid programs, judged by both verifiers and the interpreter. */
#ifndef TESTS_MUTATE_H
#define TESTS_MUTATE_H

#include <stdint.h>

#include "images.h"

/*
 * wrong: a hang, another value read or left, or poison, under some seed of the interpreter; else harmless. Most
 * harmless edits that are rejected break a rule of the form, which the interpreter does not need: a slot is put into
 * only after it was granted, a word rises by one and is awaited each time, a value has its name. Others are rejected
 * because two accesses are not ordered.
 */
typedef struct mutation_counts {
    int wrong_rejected, wrong_accepted, harmless_rejected, harmless_accepted;
    int harmless_unordered; /* of harmless_rejected: for the order of two accesses */
} mutation_counts;

/* By the play of all ranks (program/verify.h), and by the local verifier (program/verify_local.h). */
typedef struct mutation_verdicts {
    mutation_counts play, local;
} mutation_verdicts;

/*
 * Makes `edits` edits, one at a time, spread over these sets and over kinds of edits, runs each under up to `seeds`
 * seeds, and prints the counts, in all and by kind. Wrong edits that a verifier accepts are described on standard
 * output. Fails the test where there are any, or where those that a verifier rejects are no more than half of all
 * edits. Frees the sets.
 */
mutation_verdicts judge_mutations_of(const image_set *sets, int n, uint64_t first, int edits, int seeds);
/* The same over strategies, meshes, and ways in which blocks are transferred (mutated.c). */
mutation_verdicts judge_mutations(uint64_t first, int edits, int seeds);
/*
 * The same over what is cut over the ranks (--shard) and over optimisers: steps of several micro-batches, in which
 * gradients are scattered and parameters gathered group by group, or whole matrices exchanged.
 */
mutation_verdicts judge_sharded_mutations(uint64_t first, int edits, int seeds);
/* The same over programs that offload results of the forward pass and the optimiser's state. */
mutation_verdicts judge_offload_mutations(uint64_t first, int edits, int seeds);
/* Over ways by which states come to ranks, neighbours' tokens, and canonical sums of both. */
mutation_verdicts judge_state_mutations(uint64_t first, int edits, int seeds);
/* Over stages of a pipeline, whose ranks have lists that differ. */
mutation_verdicts judge_stage_mutations(uint64_t first, int edits, int seeds);

#endif
