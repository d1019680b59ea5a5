/*
 * Trials: the best candidates of a plan are run for real, because a prediction is one.
 */
#ifndef LS_PLAN_TRIAL_H
#define LS_PLAN_TRIAL_H

#include "plan/session.h"

/*
 * ls_plan_make, and where the spread says `measure`: each of the few candidates that are predicted to be fastest is run on all its ranks, on
 * zeros (with the job's typical documents), and the plan is put in the order of what was measured; plan->target is then the fastest. One line for each is
 * logged. Errors are those of planning, and of opening and running a session.
 */
LS_MUST_USE ls_status ls_plan_decide(const ls_job *job, const ls_plan_request *request,
                                     const ls_spread *spread, ls_plan *plan);

/*
 * Runs one candidate of a plan on all its ranks, on zeros, a few times after one that warms up. *seconds: the median over these of the slowest
 * rank's program (step, or micro where there is none).
 */
LS_MUST_USE ls_status ls_plan_try(const ls_job *job, const ls_plan_request *request, const ls_spread *spread,
                                  const ls_plan *plan, int candidate, double *seconds);

#endif
