/* Random edits of valid programs, judged by the verifier and the interpreter. */
#ifndef TESTS_MUTATE_H
#define TESTS_MUTATE_H

#include <stdint.h>

/* wrong: a hang, another value read or left, or poison, under some seed of the interpreter; else harmless. */
typedef struct mutation_counts {
    int wrong_rejected, wrong_accepted, harmless_rejected, harmless_accepted;
} mutation_counts;

/*
 * Makes `edits` edits, one at a time, spread over strategies, meshes and kinds of edits, runs each under up to `seeds` seeds, and
 * prints the counts, in all and by kind. Wrong edits that the verifier accepts are described on standard output.
 */
mutation_counts count_mutations(uint64_t first, int edits, int seeds);

#endif
