/* What the files of plan share: the cost of one candidate, what it must save, and the measurements of this machine. */
#ifndef LS_PLAN_IMPL_H
#define LS_PLAN_IMPL_H

#include "plan/plan.h"

/*
 * Fills in bytes, imbalance, seconds and instrs of the candidate. together: simulates the programs of all ranks, and
 * fills in `waiting` too. Otherwise takes the programs of the first, the middle and the last rank, and seconds is the
 * time of the slowest of them without any waiting, which is never more than the simulated time. A refusal of the
 * compiler is returned, and written into `refused`.
 */
LS_MUST_USE ls_status ls_plan_cost(const ls_job *job, const ls_target *target, const ls_host *host, bool together,
                                   ls_plan_candidate *candidate);

/*
 * Fills in target->saving: what the request fixes, and of what it leaves free the least, or what is fastest, with which
 * rank 0 fits into `allowed` bytes (0: no limit). If nothing fits, it is the saving that needs fewest bytes. The status
 * is the compiler's.
 */
LS_MUST_USE ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                                     ls_target *target);

/* --- measurements of this machine (measure.c and measure_*.c) ----------------------------------------------------- */

/* Runs of each call in one pass over all measurements; the median counts. */
enum { LS_MEASURED_RUNS = 3 };

/*
 * *seconds becomes the time of a call that runs on every thread of the pool at once (NULL: on this thread alone). The
 * first run is not counted. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_measure_call(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                      const ls_kernel_call *call, double *seconds);

/*
 * Measures what attention of a type costs a core, forward and backward, while all threads of the pool compute it, with
 * heads of size 32 to 128. tokens: length of the longest call. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_measure_attention(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, int64_t tokens,
                                           ls_attention_cost out[LS_PASSES]);

/*
 * Measures the costs by bytes of the kernels with a sample. cache: bytes of a core's share. LS_NO_MEMORY,
 * LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_measure_streams(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, double cache,
                                         ls_byte_cost out[LS_KERNEL_IDS]);

/* Measures puts and signals between ranks, one on each core: fills in out->put and out->latency. */
LS_MUST_USE ls_status ls_measure_puts(double cache, ls_host *out);

#endif
