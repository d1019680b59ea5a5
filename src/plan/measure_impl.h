/* What the measurements of this machine share: measure.c, measure_attention.c. */
#ifndef LS_PLAN_MEASURE_IMPL_H
#define LS_PLAN_MEASURE_IMPL_H

#include "plan/timed_call.h"
#include "program/cost.h"

enum { LS_MEASURED_RUNS = 7 }; /* of which the fastest counts */

/* What attention of a type costs on this thread, forward and backward, at heads of 64 to 128; `tokens`: of the longest call. LS_NO_MEMORY, LS_UNSUPPORTED. */
LS_MUST_USE ls_status ls_measure_attention(ls_arena *arena, ls_dtype T, ls_isa isa, int64_t tokens,
                                           ls_attention_cost out[LS_PASSES]);

#endif
