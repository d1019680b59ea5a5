/* One rank of a session, and its training step: the numbers before it, its micro-batches, and the numbers after it. */
#ifndef LS_SESSION_STEP_H
#define LS_SESSION_STEP_H

#include "run/run.h"

/* One rank, in its own process or thread. All pointers are valid until `work` returns. */
typedef struct ls_rank {
    int rank, ranks;
    ls_comm *comm;
    const ls_image *image;
    ls_executor *executor;               /* its memory is zero except for the constant tables */
    int micro, step, evaluate, exchange; /* indices of the image's programs with these names; -1: none */
    double compile_seconds; /* of the rank whose programs took longest to compile; 0: no rank compiled, because the
                               session has the programs */
    double prepare_seconds; /* to make this rank's executor, including the exchange of addresses */
    ls_crew *crew;          /* the crew whose tasks the rank runs; NULL: ls_session_run started the rank */
} ls_rank;

/*
 * What ls_session_run calls on each rank. `input` is the caller's, and the ranks only read it. Each rank has its own
 * `result`, initially zero: the caller gets that of rank 0, and the others are dropped. Arrays that are too large to be
 * copied on rank 0 go to the caller's memory in pieces: ls_rank_gather_tensor_home, ls_comm_gather_home.
 */
typedef ls_status (*ls_rank_work)(ls_rank *rank, const void *input, void *result);

/* Write or read a bound number of type G. If the image binds no such name, put does nothing and *out becomes NaN. */
LS_MUST_USE ls_status ls_rank_put_number(const ls_rank *rank, const char *name, double value);
LS_MUST_USE ls_status ls_rank_get_number(const ls_rank *rank, const char *name, double *out);

/* The numbers with which a step begins; all but `stop` are equal on every rank. */
typedef struct ls_step_numbers {
    /*
     * divisor of the loss: the labels that count in the whole step, over all ranks and micro-batches, or what the model
     * has instead (ls_mean); 0: loss and gradients are 0
     */
    double divisor;
    int64_t update;      /* number of the update, from 1 */
    double lr, clip;     /* clip 0: gradients are not clipped */
    double beta1, beta2; /* as in the job */
    bool stop;           /* this rank was asked to stop */
} ls_step_numbers;
/* Writes the numbers to where the programs micro, step and evaluate read them. */
LS_MUST_USE ls_status ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *numbers);

/*
 * Sets the sums of gradients to zero before a step of several micro-batches, which adds to them. If the sums persist
 * and no update has cleared them, they would still hold those of the previous step. A step of one micro-batch
 * overwrites them.
 */
LS_MUST_USE ls_status ls_rank_clear_sums(const ls_rank *rank, int64_t micro_batches);

/*
 * Whether a program runs once this micro-batch has been fed. If not, the program runs after a later micro-batch, for
 * several at once (ls_image.micro_batches).
 */
bool ls_rank_runs_after(const ls_rank *rank, int64_t micro_batch);
/* The program that runs a micro-batch: micro or, for the last one with the update, step. */
int ls_rank_step_program(const ls_rank *rank, int64_t micro_batch, int64_t micro_batches);

typedef struct ls_micro_batches {
    int64_t count;
    /* Writes the inputs of a micro-batch; NULL: the inputs are not changed. */
    ls_status (*feed)(void *context, int64_t micro_batch);
    /* Reads the results of a micro-batch after its program has run; NULL: they are not read. */
    ls_status (*read)(void *context, int64_t micro_batch);
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
LS_MUST_USE ls_status ls_rank_read_step(const ls_rank *rank, ls_step_sums *out);

/*
 * Exchanges the parameters and their average, so that the average is evaluated, read or saved. Must be called again
 * before the next step. Collective; does nothing if there is no average.
 */
LS_MUST_USE ls_status ls_rank_exchange(const ls_rank *rank);
/*
 * Initialises the average with the parameters, which must be set. Not collective; does nothing if there is no average.
 */
LS_MUST_USE ls_status ls_rank_begin_average(const ls_rank *rank);

/* values[n] become their sums over the ranks, added in rank order. Collective. */
LS_MUST_USE ls_status ls_rank_sum(const ls_rank *rank, double *values, int n);

#endif
