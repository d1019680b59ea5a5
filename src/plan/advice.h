/*
 * What would fit where a job does not: the smallest change to the ranks or to the sequence.
 */
#ifndef LS_PLAN_ADVICE_H
#define LS_PLAN_ADVICE_H

#include "plan/plan.h"

/* The same job at another sequence length: *graph is the adviser's to destroy, whatever the status. */
typedef struct ls_plan_variants {
    ls_status (*make)(void *context, int64_t seq, ls_graph **graph, ls_job *job);
    void *context;
    int64_t seq; /* as asked for */
} ls_plan_variants;

/*
 * The refusal (LS_NO_MEMORY, of planning the request; `refused` is the plan that it left) with what would fit: "--ranks 4 would fit, or
 * --seq 112". As it is where the plan does not lack memory. Plans many variants, which takes seconds for large models; runs nothing.
 */
LS_MUST_USE ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request,
                                     const ls_plan *refused, ls_status refusal);

#endif
