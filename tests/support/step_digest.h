/* A hash of all results of a training sequence on every rank, run by the executor over a given transport. */
#ifndef TESTS_STEP_DIGEST_H
#define TESTS_STEP_DIGEST_H

#include "support/images.h"

/*
 * The programs of ls_phase_walk on random parameters and tokens; ranks are threads. *digest: of the bits of all ranks.
 */
ls_status step_digest(const image_set *set, const char *transport, uint64_t *digest);
ls_status step_digest_of_processes(const image_set *set, uint64_t *digest); /* the same, where ranks are processes */

/* Inspected: the results of every second run are. Traced: and each instruction of each run must have one span. */
typedef enum digest_watching { DIGEST_PLAIN, DIGEST_INSPECTED, DIGEST_TRACED } digest_watching;
ls_status step_digest_watched(const image_set *set, const char *transport, digest_watching watching, uint64_t *digest);

/*
 * Runs `seeds` seeds of chaos, spread over strategies, meshes and layouts, and fails the test when a digest differs
 * from that of the plain transport. Prints how many were equal.
 */
void chaos_changes_nothing(int first_seed, int seeds);
/*
 * The same on the device delayed: `seeds` seeds for each program, with holds, without, with messages, and recorded.
 * chaos: over that transport.
 */
void delayed_changes_nothing(int first_seed, int seeds, bool chaos);
/* Like it, for ranks on several pretended hosts, whose pairs use several transports. */
void hosts_change_nothing(void);

/*
 * The same on the device cuda, by the driver for tests: its streams execute the host's kernels. Of programs that put;
 * with graphs and without, inspected and traced, in turn.
 */
void cuda_changes_nothing(int first_seed, int seeds);
/* The same where messages go by the library that the device names; ranks are processes, each with a GPU. */
void routes_change_nothing(const char *device, int seed);
/* The kernels of all images become such that a stream executes them (cuda/host_kernels.h). */
void put_kernels_on_streams(const image_set *set);

#endif
