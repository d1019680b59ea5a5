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
#ifndef LS_SESSION_H
#define LS_SESSION_H

#include "compile/compile.h"
#include "data/data.h"
#include "longspan/attention.h"
#include "longspan/engine.h"
#include "longspan/spread.h"
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
/* The session that an engine, or attention alone, runs on. */
const ls_session *ls_engine_session(const ls_engine *engine);
const ls_session *ls_shared_attention_session(const ls_shared_attention *attention);
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

/* --- steps (step.c) ----------------------------------------------------------------------------------------------------------- */

/* A bound number of type G; nothing, or NaN, where the image binds no such name. */
void ls_rank_put_number(const ls_rank *rank, const char *name, double value);
double ls_rank_get_number(const ls_rank *rank, const char *name);

/* What a step begins with: the same on every rank but for `stop`. */
typedef struct ls_step_numbers {
    int64_t tokens;      /* labels of the whole step that count, over all ranks and micro-batches */
    int64_t update;      /* the number of the update, from 1 */
    double lr, clip;     /* clip 0: gradients are not clipped */
    double beta1, beta2; /* as in the job */
    double stop;         /* this rank's wish to stop, as a number that is summed over the ranks */
} ls_step_numbers;
/* Writes them where the programs micro, step and evaluate read them. */
void ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *numbers);

/* Which program a micro-batch runs: the last one of a step brings the update. */
int ls_rank_step_program(int64_t micro_batch, int64_t micro_batches);

typedef struct ls_micro_batches {
    int64_t count;
    ls_status (*feed)(void *context, int64_t micro_batch); /* writes its inputs; NULL: they are there */
    void *context;
} ls_micro_batches;
/* ls_rank_begin_step, then each micro-batch is fed and run. Collective; blocks until this rank's part is done. */
LS_MUST_USE ls_status ls_rank_run_step(const ls_rank *rank, const ls_step_numbers *numbers,
                                       const ls_micro_batches *batches);

/* What a step ended with: the same on every rank. */
typedef struct ls_step_sums {
    double loss;      /* sum over the step's tokens */
    double grad_norm; /* before clipping */
    double stop;      /* the sum of the wishes to stop */
    bool applied;     /* parameters were updated */
} ls_step_sums;
ls_step_sums ls_rank_read_step(const ls_rank *rank);

/* values[n] become their sums over the ranks, added in rank order. Collective. */
LS_MUST_USE ls_status ls_rank_sum(const ls_rank *rank, double *values, int n);

/* --- trial.c ------------------------------------------------------------------------------------------------------------------- */

/*
 * Trials: the best candidates of a plan are run for real, because a prediction is one.
 */

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

/* --- resident.c ---------------------------------------------------------------------------------------------------------------- */

/* How much memory a rank keeps. */

/*
 * What the operating system says this rank keeps in memory: all (bytes) and of the two arenas that programs use (arenas).
 * The heap counts with the rank's own part. With ranks as threads of one process, `bytes` is that of the arenas.
 */
typedef struct ls_resident {
    int64_t bytes, arenas;
} ls_resident;
ls_resident ls_resident_bytes(const ls_rank *rank);

/*
 * Bytes of the arenas that lie in huge pages; 0 where the system does not tell. A mapping that also holds other ranks' arenas counts
 * with what its huge pages can be of this rank's.
 */
int64_t ls_resident_huge(const ls_rank *rank);

/* --- score.c ------------------------------------------------------------------------------------------------------------------- */

/*
 * score: losses of given sequences under a model, token by token. The ranks run forward passes; rank 0 is handed each sequence with
 * its losses in the order of positions, whatever the layout.
 */

/*
 * Where sequences come from. Gives sequence `index` >= 0 as tokens[S] and labels[S] (the token that follows; -100:
 * ignored). A pure function of the index: each rank calls it for itself.
 */
typedef struct ls_sequences {
    void (*read)(const void *context, int64_t index, int32_t *tokens, int32_t *labels);
    const void *context;
    /* NULL, or what is called instead: gives positions and the bounds of documents too, and may fail, on all ranks alike. */
    ls_status (*sample)(const void *context, int64_t index, ls_sample *out);
} ls_sequences;

/* Room for the sequences of a batch, as they are read. */
typedef struct ls_batch {
    int64_t B, S;
    int32_t *tokens, *labels, *positions; /* [B,S] global */
    int32_t *ends;                        /* [B,S+1]: bounds of documents */
    int32_t *seen;                        /* [B,S] (ls_sample); NULL: not asked for */
    int *n_ends;                          /* [B] */
    bool apart;                           /* a sequence that was read holds several documents */
} ls_batch;

/* seen: asked for. */
LS_MUST_USE ls_status ls_batch_make(int64_t B, int64_t S, bool seen, ls_batch *out);
void ls_batch_free(ls_batch *batch); /* a zeroed one is allowed */
/* Sequence `index` as row b, beginning with row 0. */
LS_MUST_USE ls_status ls_batch_read(ls_batch *batch, int64_t b, const ls_sequences *from, int64_t index);
/* Puts this rank's part where the image's programs read it: the inputs of ls_language_model, and the bounds of documents. */
LS_MUST_USE ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank);

/* What the ranks of a scoring share; made before they start. B sequences of a pass over all dp ranks, the B of the graph. */
typedef struct ls_score_room {
    int64_t B, S;
    float *losses; /* [B,S] global */
    size_t bytes;
} ls_score_room;

LS_MUST_USE ls_status ls_score_room_make(int64_t B, int64_t S, ls_score_room *out);
void ls_score_room_free(ls_score_room *room); /* NULL and a zeroed one are allowed */

/* On rank 0, for each sequence in its order; the sample has tokens, labels and what of their documents was seen. */
typedef void (*ls_scored)(void *context, int64_t index, const ls_sample *sample, const float *losses);

/* The tensor that must be among the job's fetched ones, in type f32. */
#define LS_SCORE_LOSSES "token_loss"

/*
 * Sequences 0 .. n-1 by that program of the image (forward alone, its inputs those of ls_language_model). Collective. LS_INTERRUPTED
 * on all ranks after a signal. progress: of rank 0, advanced by sequences; NULL: none.
 */
LS_MUST_USE ls_status ls_score(const ls_rank *rank, int program, const ls_score_room *room,
                               const ls_sequences *from, int64_t n, ls_scored see, void *context,
                               ls_progress *progress);

/* --- attention_graph.c --------------------------------------------------------------------------------------------------------- */

/* One attention op as a graph, with its gradient: what the attention command, the library's call and the benchmarks spread. */

enum { LS_Q, LS_K, LS_V, LS_GRAD_O, LS_SINK, LS_ATTENTION_INPUTS };
enum { LS_O, LS_LSE, LS_DQ, LS_DK, LS_DV, LS_DSINK, LS_ATTENTION_RESULTS };

/* What the graph's inputs and results are called: "q", "grad_o", "o", "dsink", ... */
extern const char *const ls_attention_input[LS_ATTENTION_INPUTS];
extern const char *const ls_attention_result[LS_ATTENTION_RESULTS];

typedef struct ls_attention_graph {
    ls_graph *graph;                        /* the owner destroys it, whatever the status was */
    ls_tensor result[LS_ATTENTION_RESULTS]; /* those that there are come first */
    int n_results, forward_nodes;
} ls_attention_graph;

/* Sizes, mask, scale, softcap, sink and gradients of the options, which are sound; the mask's arrays are copied. */
LS_MUST_USE ls_status ls_attention_graph_build(const ls_attention_options *options, ls_attention_graph *out);

/* All results are fetched. The job points into the graph. */
ls_job ls_attention_graph_job(const ls_attention_graph *g);

#endif
