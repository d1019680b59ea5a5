/* What the files of this folder share: the cost of one candidate. */
#ifndef LS_PLAN_IMPL_H
#define LS_PLAN_IMPL_H

#include "plan/plan.h"

enum { LS_PLAN_ALL = 16 }; /* most ranks that are played together */

/*
 * Fills bytes, imbalance and seconds of the candidate. together (of LS_PLAN_ALL ranks at most): from the programs of all ranks, played on
 * a clock, and `waiting` too; else from those of the first, the middle and the last, and seconds are what the slowest of these takes if it never
 * waits: what is played never takes less. A refusal of the compiler is returned, and written into `refused`.
 */
LS_MUST_USE ls_status ls_plan_cost(const ls_job *job, const ls_target *target, const ls_host *host,
                                   bool together, ls_plan_candidate *candidate);

/*
 * Fills target->saving: what the request asks for, and as much more of what it leaves open as rank 0 needs to fit into
 * `allowed` bytes (0: any number); where nothing fits, what comes nearest. The status is the compiler's.
 */
LS_MUST_USE ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                                     ls_target *target);

#endif
