/*
 * A session: one job spread over ranks, from the user's wishes to running executors. Every command that runs programs goes
 * this way, so that ranks are counted, planned, compiled, compared and launched in one place:
 *
 *     ls_session *session;
 *     LS_TRY(ls_session_open(&job, &spread, &session));      plan, images, proof, world
 *     status = ls_session_run(session, work, &context);      forks; each rank compares, makes its executor, works
 *     ls_session_close(session);
 *
 * The graph and everything else that the job points to are borrowed until the session is closed.
 */
#ifndef LS_PLAN_SESSION_H
#define LS_PLAN_SESSION_H

#include "longspan/job.h"
#include "plan/plan.h"
#include "run/run.h"

typedef struct ls_session ls_session;

/*
 * What the user asked for, checked and completed: ranks in 1..LS_MAX_RANKS (0: the mesh's product if it is complete, else 1),
 * threads (0: cores / ranks, at least 1), isa (NULL: the machine's best; one that the machine lacks is an error), mesh, names.
 * Errors are LS_USAGE and name the flag and its value.
 */
LS_MUST_USE ls_status ls_spread_resolve(const ls_spread *spread, ls_plan_request *out);

/* LS_USAGE for a step of a sequence length or a number of sequences that cannot be: 1 to 2^30 and 1 to 2^24. */
LS_MUST_USE ls_status ls_step_size_check(int64_t seq, int64_t batch);

/* The same as ls_spread_resolve for ranks that are to run here: without a word about memory each has its share of this machine's. */
LS_MUST_USE ls_status ls_session_request(const ls_spread *spread, ls_plan_request *out);

/*
 * Plans the job (ls_plan_make), verifies the programs of all ranks together (up to 64), and makes the world. LS_USAGE when the request fits no plan.
 * To run exactly an earlier plan, name its mesh, strategy, layout and isa in the spread.
 */
LS_MUST_USE ls_status ls_session_open(const ls_job *job, const ls_spread *spread, ls_session **out);
/* The same for a plan that was made, for this job; of the spread only as_threads and wait_timeout count. */
LS_MUST_USE ls_status ls_session_open_planned(const ls_job *job, const ls_plan *plan, const ls_spread *spread,
                                              ls_session **out);
void ls_session_close(ls_session *session); /* NULL is allowed */

const ls_plan *ls_session_plan(const ls_session *session);
int ls_session_ranks(const ls_session *session);
/* The rank's programs, the session's. NULL where they were not proved (more than 64 ranks): it compiles them itself; never of rank 0. */
const ls_image *ls_session_image(const ls_session *session, int rank);
/* strategy, mesh, layout, isa, bytes as planned; seconds 0: the caller's to measure. */
ls_spread_result ls_session_describe(const ls_session *session);

/* One rank at work, in its own process or thread. All pointers end with the call of work. */
typedef struct ls_rank {
    int rank, ranks;
    ls_comm *comm;
    const ls_image *image;
    ls_executor *executor; /* memory zero, tables filled */
} ls_rank;

/* The rank's status is its result. With processes, what it writes outside shared memory (ls_shared_map) is lost. */
typedef ls_status (*ls_rank_work)(ls_rank *rank, void *context);

/*
 * Starts the ranks and returns when all have ended (see ls_launch for signals and failures). Images that are not the same program
 * are an LS_INVALID error that names the ranks. A session runs once, and once more after each ls_session_renew.
 */
LS_MUST_USE ls_status ls_session_run(ls_session *session, ls_rank_work work, void *context);
/* After a run: new memory for the ranks, so that the same programs run again. */
LS_MUST_USE ls_status ls_session_renew(ls_session *session);
/* Whether somebody asked the ranks to stop (Ctrl-C and the like), whatever they ended with. */
bool ls_session_stop_requested(const ls_session *session);

/* Zeroed memory that forked ranks share with the caller: map before ls_session_run. bytes >= 1. LS_NO_MEMORY names them. */
LS_MUST_USE ls_status ls_shared_map(size_t bytes, void **out);
void ls_shared_unmap(void *memory, size_t bytes); /* NULL is allowed */

#endif
