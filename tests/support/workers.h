/* Long tests: the work divided over processes, one per core, and over parts that are run one by one. */
#ifndef TESTS_WORKERS_H
#define TESTS_WORKERS_H

#include <stdbool.h>
#include <stddef.h>

/* Part `index` (from 0) of `parts`. */
typedef struct test_part {
    int index, parts;
} test_part;

/* LS_TEST_PART=I/N, as tools/run-in-parts.sh sets it; without it part 0 of 1. *asked: it is set. */
test_part test_part_asked_for(bool *asked);

/*
 * Forks a process for each core, 8 at most, and calls `work` in each with its part of all of `part`, and zeroed memory
 * of so many bytes that outlives it. What fails there ends the process as a failed test. Then `add` gets what each has
 * left. Fails the test where a process has failed.
 */
void run_workers(test_part part, void (*work)(test_part part, const void *input, void *account), const void *input,
                 size_t bytes, void (*add)(void *sum, const void *account), void *sum);

#endif
