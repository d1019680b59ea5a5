/*
 * A session: one job spread over ranks. It checks what the user asked for, plans, compiles, verifies and launches the
 * job. Every command that runs programs uses it:
 *
 *     ls_session *session;
 *     LS_TRY(ls_session_open(&job, &spread, &session));      plan, images, proof, world
 *     status = ls_session_run(session, work, &input, &result, sizeof result);
 *                                                            forks; each rank compares, makes its executor, works
 *     ls_session_close(session);
 *
 * The graph and everything else that the job points to are borrowed until the session is closed.
 *
 * Other folders include this header alone; it includes those of the other subjects.
 */
#ifndef LS_SESSION_H
#define LS_SESSION_H

#include "compile/compile.h"
#include "longspan/attention.h"
#include "longspan/engine.h"
#include "longspan/spread.h"
#include "plan/plan.h"
#include "run/run.h"
#include "session/alike.h"
#include "session/attention.h"
#include "session/evaluation.h"
#include "session/gather.h"
#include "session/home.h"
#include "session/resident.h"
#include "session/sequences.h"
#include "session/step.h"
#include "session/trial.h"

typedef struct ls_session ls_session;

/*
 * Checks what the user asked for and fills in defaults: ranks, at least 1 (0: the launched ones, otherwise the product
 * of the mesh if the mesh is complete, otherwise 1), threads (0: cores / ranks of this machine, at least 1), isa (NULL:
 * the machine's best; an isa that the machine lacks is an error), mesh, names. Errors are LS_USAGE and name the flag
 * and its value. If the ranks were launched, the call is collective: all processes must have been given the same values
 * and use the same instruction set, and threads that were not given become those of rank 0.
 */
LS_MUST_USE ls_status ls_spread_resolve(const ls_spread *spread, ls_plan_request *out);

/* The number of pipeline stages in its mesh; 1 if it names no mesh, or the mesh cannot be read. */
int ls_spread_stages(const ls_spread *spread);

/* LS_USAGE unless a sequence has 1 to 2^30 tokens and a step 1 to 2^24 sequences. */
LS_MUST_USE ls_status ls_step_size_check(int64_t seq, int64_t batch);

/*
 * ls_spread_resolve for ranks that run on this machine: memory of 0 becomes an equal share of the machine's memory for
 * each rank.
 */
LS_MUST_USE ls_status ls_session_request(const ls_spread *spread, ls_plan_request *out);

/*
 * Plans the job (ls_plan_decide), compiles and proves the programs of all ranks, class by class, and makes the world.
 * If the ranks were launched, the call is collective: all processes plan and prove together, and get the same status
 * (home.h). LS_USAGE if no plan meets the request. To run an earlier plan again, name its mesh, strategy, layout and
 * isa in the spread.
 */
LS_MUST_USE ls_status ls_session_open(const ls_job *job, const ls_spread *spread, ls_session **out);
/*
 * ls_session_open for a plan that was made for this job. The plan is copied; of the spread, only as_threads and
 * wait_timeout are used.
 */
LS_MUST_USE ls_status ls_session_open_planned(const ls_job *job, const ls_plan *plan, const ls_spread *spread,
                                              ls_session **out);
void ls_session_close(ls_session *session); /* NULL is allowed */

const ls_plan *ls_session_plan(const ls_session *session);
int ls_session_ranks(const ls_session *session);
/*
 * The programs of rank 0, owned by the session; if the ranks were launched, those of this process's rank. The session
 * has no other rank's programs; to get those, compile the job for the plan's target.
 */
const ls_image *ls_session_image(const ls_session *session);
/* Bytes that a rank maps for its programs. */
typedef struct ls_rank_bytes {
    int64_t space[LS_SPACES];
    int64_t on_host;     /* part of them in memory of the host; all of them if the device has no memory of its own */
    int64_t persistent;  /* private: parameters, gradients, optimiser, inputs, tables */
    int64_t activations; /* private: the rest, which does not outlive a program */
    int64_t slots;       /* symmetric: the slots where peers put */
    int words;           /* signal words */
} ls_rank_bytes;
const ls_rank_bytes *ls_session_bytes(const ls_session *session, int rank);
/* The session of an engine, or of attention alone. */
const ls_session *ls_engine_session(const ls_engine *engine);
const ls_session *ls_shared_attention_session(const ls_shared_attention *attention);
/* strategy, mesh, layout, isa and bytes as planned; seconds is 0, for the caller to fill in. */
ls_spread_result ls_session_describe(const ls_session *session);

/*
 * Starts the ranks, calls `work` on each with the input, and returns when all have ended (see ls_launch for signals and
 * failures). result[bytes] becomes rank 0's result if the status is LS_OK, or if it is LS_INTERRUPTED and rank 0
 * returned; otherwise it does not change. If another program started the ranks, it changes at home only (home.h), and
 * all processes get the same status. LS_INVALID names the ranks whose programs differ. A session runs once, and once
 * more after each ls_session_renew.
 */
LS_MUST_USE ls_status ls_session_run(ls_session *session, ls_rank_work work, const void *input, void *result,
                                     size_t bytes);
/*
 * Instead of a run: starts the ranks as threads that remain until the session is closed, and calls `work` on each.
 * There `work` serves calls (ls_crew_serve with the rank's crew). Returns when all ranks wait for the first call. The
 * caller must close the session, whatever the status. LS_USAGE if another program started the ranks.
 */
LS_MUST_USE ls_status ls_session_start(ls_session *session, ls_rank_work work, const void *input);
LS_MUST_USE ls_status ls_session_call(ls_session *session, const void *task); /* ls_crew_call */
ls_executor *ls_session_first_executor(const ls_session *session); /* rank 0's executor, after a successful start */
/* After a run: maps new memory for the ranks, so that the same programs can run again. */
LS_MUST_USE ls_status ls_session_renew(ls_session *session);
/* Whether a signal (Ctrl-C) asked the ranks to stop, whatever status they returned. */
bool ls_session_stop_requested(const ls_session *session);
/*
 * Seconds that ls_session_open took to compile and prove the programs of all classes, or to wait for other processes to
 * do so.
 */
double ls_session_prove_seconds(const ls_session *session);

#endif
