/*
 * A session: one job spread over ranks. It checks what the user asked for, plans, compiles, verifies and launches the
 * job. Every command that runs programs uses it:
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
 * Checks what the user asked for and fills in defaults: ranks, at least 1 (0: the mesh's product if it is complete,
 * else 1), threads (0: cores / ranks, at least 1), isa (NULL: the machine's best; an isa that the machine lacks is an
 * error), mesh, names. Errors are LS_USAGE and name the flag and its value.
 */
LS_MUST_USE ls_status ls_spread_resolve(const ls_spread *spread, ls_plan_request *out);

/* LS_USAGE unless a sequence has 1 to 2^30 tokens and a step 1 to 2^24 sequences. */
LS_MUST_USE ls_status ls_step_size_check(int64_t seq, int64_t batch);

/*
 * ls_spread_resolve for ranks that run on this machine: memory of 0 becomes an equal share of the machine's memory for
 * each rank.
 */
LS_MUST_USE ls_status ls_session_request(const ls_spread *spread, ls_plan_request *out);

/*
 * Plans the job (ls_plan_make), proves the programs of all ranks, class by class (ls_compile_proved), and makes the
 * world. LS_USAGE if no plan meets the request. To run an earlier plan again, name its mesh, strategy, layout and isa
 * in the spread.
 */
LS_MUST_USE ls_status ls_session_open(const ls_job *job, const ls_spread *spread, ls_session **out);
/*
 * ls_session_open for a plan that was made for this job, and is copied; of the spread only as_threads and wait_timeout
 * count.
 */
LS_MUST_USE ls_status ls_session_open_planned(const ls_job *job, const ls_plan *plan, const ls_spread *spread,
                                              ls_session **out);
void ls_session_close(ls_session *session); /* NULL is allowed */

const ls_plan *ls_session_plan(const ls_session *session);
int ls_session_ranks(const ls_session *session);
/*
 * The programs of rank 0, owned by the session. It holds no other rank's; to have those, compile the job for the plan's
 * target.
 */
const ls_image *ls_session_image(const ls_session *session);
/* Bytes that a rank maps, by its programs. */
typedef struct ls_rank_bytes {
    int64_t space[LS_SPACES];
    int64_t persistent;  /* private: parameters, gradients, optimiser, inputs, tables */
    int64_t activations; /* private: the rest, which lives within programs */
    int64_t slots;       /* symmetric: the slots where peers put */
} ls_rank_bytes;
const ls_rank_bytes *ls_session_bytes(const ls_session *session, int rank);
/* The session that an engine, or attention alone, runs on. */
const ls_session *ls_engine_session(const ls_engine *engine);
const ls_session *ls_shared_attention_session(const ls_shared_attention *attention);
/* strategy, mesh, layout, isa and bytes as planned; seconds is 0, for the caller to fill in. */
ls_spread_result ls_session_describe(const ls_session *session);

/* One rank, in its own process or thread. All pointers are valid until `work` returns. */
typedef struct ls_rank {
    int rank, ranks;
    ls_comm *comm;
    const ls_image *image;
    ls_executor *executor;     /* its memory is zero but for the constant tables */
    int micro, step, evaluate; /* the image's programs of these names; -1: it has none */
} ls_rank;

/* Returns the rank's status. A rank that is a process loses what it writes outside shared memory (ls_shared_map). */
typedef ls_status (*ls_rank_work)(ls_rank *rank, void *context);

/*
 * Starts the ranks and returns when all have ended (see ls_launch for signals and failures). LS_INVALID names the ranks
 * whose programs differ. A session runs once, and once more after each ls_session_renew.
 */
LS_MUST_USE ls_status ls_session_run(ls_session *session, ls_rank_work work, void *context);
/* After a run: maps new memory for the ranks, so that the same programs can run again. */
LS_MUST_USE ls_status ls_session_renew(ls_session *session);
/* Whether a signal (Ctrl-C) asked the ranks to stop, whatever status they returned. */
bool ls_session_stop_requested(const ls_session *session);

/* Zeroed memory that forked ranks share with the caller; to be mapped before ls_session_run. bytes >= 1. */
LS_MUST_USE ls_status ls_shared_map(size_t bytes, void **out);
void ls_shared_unmap(void *memory, size_t bytes); /* NULL is allowed */

/* --- steps (step.c) ----------------------------------------------------------------------------------------------- */

/*
 * Whether this rank's part of the tensor is to be copied into a global array: of ranks that hold equal copies only the
 * first one's is, since two may not write one place at a time.
 */
bool ls_rank_contributes(const ls_rank *rank, const ls_binding *binding);

/*
 * Writes or reads a bound number of type G. Where the image binds no such name, put does nothing and get returns NaN.
 */
void ls_rank_put_number(const ls_rank *rank, const char *name, double value);
double ls_rank_get_number(const ls_rank *rank, const char *name);

/* The numbers that a step begins with; all but `stop` are equal on every rank. */
typedef struct ls_step_numbers {
    int64_t tokens;      /* labels of the whole step that count, over all ranks and micro-batches */
    int64_t update;      /* the number of the update, from 1 */
    double lr, clip;     /* clip 0: gradients are not clipped */
    double beta1, beta2; /* as in the job */
    bool stop;           /* this rank was asked to stop */
} ls_step_numbers;
/* Writes them where the programs micro, step and evaluate read them. */
void ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *numbers);

/* The program of a micro-batch: micro, or step with the update for the last one. */
int ls_rank_step_program(const ls_rank *rank, int64_t micro_batch, int64_t micro_batches);

typedef struct ls_micro_batches {
    int64_t count;
    /* Writes the inputs of a micro-batch; NULL: the inputs stay as they are. */
    ls_status (*feed)(void *context, int64_t micro_batch);
    void *context;
} ls_micro_batches;
/* Calls ls_rank_begin_step, then feeds and runs each micro-batch. Collective; blocks until this rank's part is done. */
LS_MUST_USE ls_status ls_rank_run_step(const ls_rank *rank, const ls_step_numbers *numbers,
                                       const ls_micro_batches *batches);

/* The results of a step, equal on every rank. */
typedef struct ls_step_sums {
    double loss;      /* sum over the step's tokens */
    double grad_norm; /* before clipping */
    bool stop;        /* some rank was asked to stop */
    bool applied;     /* parameters were updated */
} ls_step_sums;
ls_step_sums ls_rank_read_step(const ls_rank *rank);

/* values[n] become their sums over the ranks, added in rank order. Collective. */
LS_MUST_USE ls_status ls_rank_sum(const ls_rank *rank, double *values, int n);

/* --- trial.c ------------------------------------------------------------------------------------------------------ */

/* Trials: the candidates with the best predictions are run and measured. */

/*
 * ls_plan_make. If the spread sets `measure`, the few candidates with the best predictions are run on all their ranks,
 * on inputs of zeros and with the job's typical documents; the plan is sorted by the measured times, so that
 * plan->target is the fastest. Logs one line for each. Errors are those of planning, and of opening and running a
 * session.
 */
LS_MUST_USE ls_status ls_plan_decide(const ls_job *job, const ls_plan_request *request, const ls_spread *spread,
                                     ls_plan *plan);

/*
 * Runs one candidate of a plan on all its ranks, on inputs of zeros: once to warm up, then a few measured times.
 * *seconds: the median over the measured runs of the slowest rank's time for the timed programs of the image.
 */
LS_MUST_USE ls_status ls_plan_try(const ls_job *job, const ls_plan_request *request, const ls_spread *spread,
                                  const ls_plan *plan, int candidate, double *seconds);

/* --- resident.c --------------------------------------------------------------------------------------------------- */

/*
 * A rank's resident memory as the operating system counts it: in all (bytes), and of the two arenas of its programs
 * (arenas). Of the shared heap only the rank's own part counts. With ranks as threads of one process, `bytes` equals
 * `arenas`.
 */
typedef struct ls_resident {
    int64_t bytes, arenas;
} ls_resident;
ls_resident ls_resident_bytes(const ls_rank *rank);

/*
 * Bytes of the arenas in huge pages; 0 if the system does not say. In a mapping that other ranks' arenas share, all its
 * huge pages are taken to be this rank's, as far as they fit in its arenas: an upper bound.
 */
int64_t ls_resident_huge(const ls_rank *rank);

/* --- sequences.c -------------------------------------------------------------------------------------------------- */

/* A source of sequences. Its functions are pure functions of the index: each rank calls them for itself. */
typedef struct ls_sequences {
    /*
     * Writes sequence `index` >= 0: tokens[S], and labels[S] with the token that follows each; LS_LABEL_IGNORED: none.
     */
    void (*read)(const void *context, int64_t index, int32_t *tokens, int32_t *labels);
    const void *context;
    /*
     * If not NULL, called instead of `read`: writes positions and document bounds, too. If it fails, it fails on all
     * ranks.
     */
    ls_status (*sample)(const void *context, int64_t index, ls_sample *out);
} ls_sequences;

/* The sequences of one micro-batch, whole. */
typedef struct ls_batch {
    int64_t B, S;
    int32_t *tokens, *labels, *positions; /* [B,S] global */
    int32_t *ends;                        /* [B,S+1]: bounds of documents */
    int32_t *seen;                        /* [B,S] as in ls_sample; NULL: not needed */
    int *n_ends;                          /* [B] */
    bool apart;                           /* some sequence holds several documents */
} ls_batch;

/* seen: whether `seen` is needed. */
LS_MUST_USE ls_status ls_batch_make(int64_t B, int64_t S, bool seen, ls_batch *out);
void ls_batch_free(ls_batch *batch); /* a zeroed one is allowed */
/* Reads sequence `index` into row b. Row 0 is to be read first. */
LS_MUST_USE ls_status ls_batch_read(ls_batch *batch, int64_t b, const ls_sequences *from, int64_t index);
/*
 * Copies this rank's part of the batch into the programs' inputs (those of ls_language_model), and sets the document
 * bounds.
 */
LS_MUST_USE ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank);

/* The losses of one forward pass, in memory that the ranks share; made before they start. */
typedef struct ls_score_room {
    int64_t B, S;  /* B: of all dp ranks together, as in the graph */
    float *losses; /* [B,S] global */
    size_t bytes;
} ls_score_room;

LS_MUST_USE ls_status ls_score_room_make(int64_t B, int64_t S, ls_score_room *out);
void ls_score_room_free(ls_score_room *room); /* NULL and a zeroed one are allowed */

/*
 * Called on rank 0 for each sequence, in order. losses[S] are in the order of positions. The sample has tokens, labels
 * and seen.
 */
typedef void (*ls_scored)(void *context, int64_t index, const ls_sample *sample, const float *losses);

/* The name of the tensor of losses, f32[B,S]; the job must fetch it. */
#define LS_SCORE_LOSSES "token_loss"

/*
 * Computes the losses of sequences 0 .. n-1, token by token, with a forward-only program of the image whose inputs are
 * those of ls_language_model. Collective. LS_INTERRUPTED on all ranks after a signal. progress: advanced on rank 0 by
 * sequences; NULL: none.
 */
LS_MUST_USE ls_status ls_score(const ls_rank *rank, int program, const ls_score_room *room, const ls_sequences *from,
                               int64_t n, ls_scored on_scored, void *context, ls_progress *progress);

/* --- attention.c -------------------------------------------------------------------------------------------------- */

/* One attention op and its gradient as a graph, for the attention command, the library's call and the benchmarks. */

enum { LS_Q, LS_K, LS_V, LS_GRAD_O, LS_SINK, LS_ATTENTION_INPUTS };
enum { LS_O, LS_LSE, LS_DQ, LS_DK, LS_DV, LS_DSINK, LS_ATTENTION_RESULTS };

/* The names of the graph's inputs and results: "q", "grad_o", "o", "dsink", ... */
extern const char *const ls_attention_input[LS_ATTENTION_INPUTS];
extern const char *const ls_attention_result[LS_ATTENTION_RESULTS];

typedef struct ls_attention_graph {
    ls_graph *graph;                        /* the caller destroys it, whatever the status is */
    ls_tensor result[LS_ATTENTION_RESULTS]; /* the first n_results exist */
    int n_results, forward_nodes;
} ls_attention_graph;

/*
 * Uses the sizes, mask, scale, softcap, sink and gradients of the options, which must be valid. Copies the mask's
 * arrays.
 */
LS_MUST_USE ls_status ls_attention_graph_build(const ls_attention_options *options, ls_attention_graph *out);

/*
 * A job that fetches all results: with one program for the whole graph, or (apart) with evaluate and backward. It
 * points into g.
 */
ls_job ls_attention_graph_job(const ls_attention_graph *g, bool apart);

#endif
