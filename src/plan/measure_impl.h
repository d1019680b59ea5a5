/* What the measurements of this machine share: measure.c, measure_attention.c. */
#ifndef LS_PLAN_MEASURE_IMPL_H
#define LS_PLAN_MEASURE_IMPL_H

#include "plan/plan.h"
#include "program/program.h"

/* Of everything in one pass; the median counts. */
enum { LS_MEASURED_RUNS = 3 };

/* Seconds of a call on every thread of the pool at once, NULL: on this one alone; the first run is not counted. LS_NO_MEMORY, LS_UNSUPPORTED. */
LS_MUST_USE ls_status ls_measure_call(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                      const ls_kernel_call *call, double *seconds);

/*
 * What attention of a type costs a core while all threads of the pool are busy with it, forward and backward, at heads of 32 to 128;
 * `tokens`: of the longest call. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_measure_attention(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool,
                                           int64_t tokens, ls_attention_cost out[LS_PASSES]);

/* What the kernels with a sample cost, as the last; cache: bytes, a core's share. */
LS_MUST_USE ls_status ls_measure_streams(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, double cache,
                                         ls_byte_cost out[LS_KERNEL_IDS]);

/* Puts and signals between ranks, one on each core: fills put and latency. */
LS_MUST_USE ls_status ls_measure_puts(double cache, ls_host *out);

#endif
