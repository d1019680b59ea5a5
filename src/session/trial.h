/* Trials: the candidates of a plan with the best predictions are run and measured. */
#ifndef LS_SESSION_TRIAL_H
#define LS_SESSION_TRIAL_H

#include "longspan/spread.h"
#include "plan/plan.h"

/*
 * Runs ls_plan_make at home (home.h); all processes get its plan and status. If it fails, only home's *plan holds
 * candidates. If the spread sets `measure`, the few candidates with the best predictions are run on all their ranks, on
 * inputs of zeros and with the job's typical documents. The plan is then sorted by the measured times, so that
 * plan->target is the fastest. Logs one line for each candidate. Errors are those of planning, and of opening and
 * running a session.
 */
LS_MUST_USE ls_status ls_plan_decide(const ls_job *job, const ls_plan_request *request, const ls_spread *spread,
                                     ls_plan *plan);

/*
 * Runs one candidate of a plan on all its ranks, on inputs of zeros: once to warm up, and then several measured times.
 * *seconds becomes the median, over the measured runs, of the slowest rank's time for a step. The time of a step is
 * that of each program, times the number of times that a step runs it.
 */
LS_MUST_USE ls_status ls_plan_try(const ls_job *job, const ls_plan_request *request, const ls_spread *spread,
                                  const ls_plan *plan, int candidate, double *seconds);

#endif
