/* What the files of this folder share: the cost of one candidate. */
#ifndef LS_PLAN_IMPL_H
#define LS_PLAN_IMPL_H

#include "plan/plan.h"

/*
 * Compiles the job for the ranks that matter (all up to 16, which are then played on a clock; of more the first, the middle and the
 * last, each by itself) and fills seconds, waiting, bytes and imbalance of the candidate. A refusal of the compiler is written into
 * `refused`; *status is then that refusal.
 */
void ls_plan_cost(const ls_job *job, const ls_target *target, const ls_host *host,
                  ls_plan_candidate *candidate, ls_status *status);

/*
 * Fills target->saving: what the request asks for, and as much more of what it leaves open as rank 0 needs to fit into
 * `allowed` bytes (0: any number); where nothing fits, what comes nearest. The status is the compiler's.
 */
LS_MUST_USE ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                                     ls_target *target);

#endif
