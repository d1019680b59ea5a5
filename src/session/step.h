/* One rank of a session, and its training step: the numbers before it, its micro-batches, the numbers after it. */
#ifndef LS_SESSION_STEP_H
#define LS_SESSION_STEP_H

#include "run/run.h"

/* One rank, in its own process or thread. All pointers are valid until `work` returns. */
typedef struct ls_rank {
    int rank, ranks;
    ls_comm *comm;
    const ls_image *image;
    ls_executor *executor;               /* its memory is zero but for the constant tables */
    int micro, step, evaluate, exchange; /* the image's programs of these names; -1: it has none */
    double
        compile_seconds; /* of the rank that took longest to compile its programs; 0: none did, the session has them */
    double prepare_seconds; /* to make the executor of this rank, with the exchange of addresses */
    ls_crew *crew;          /* whose tasks it does; NULL: ls_session_run started it */
} ls_rank;

/*
 * What ls_session_run calls on each rank. `input` is the caller's, and the ranks only read it. Each rank has a `result`
 * of its own, zero at first: the caller gets that of rank 0, and those of the others are dropped. Arrays that are too
 * large for a copy on rank 0 go to the caller's memory in pieces: ls_rank_gather_tensor_home, ls_comm_gather_home.
 */
typedef ls_status (*ls_rank_work)(ls_rank *rank, const void *input, void *result);

/*
 * Writes or reads a bound number of type G. Where the image binds no such name, put does nothing and *out is NaN.
 */
LS_MUST_USE ls_status ls_rank_put_number(const ls_rank *rank, const char *name, double value);
LS_MUST_USE ls_status ls_rank_get_number(const ls_rank *rank, const char *name, double *out);

/* The numbers that a step begins with; all but `stop` are equal on every rank. */
typedef struct ls_step_numbers {
    /*
     * what the loss is divided by: labels of the whole step that count, over all ranks and micro-batches, or what a
     * model has instead (ls_mean); 0: loss and gradients are 0
     */
    double divisor;
    int64_t update;      /* the number of the update, from 1 */
    double lr, clip;     /* clip 0: gradients are not clipped */
    double beta1, beta2; /* as in the job */
    bool stop;           /* this rank was asked to stop */
} ls_step_numbers;
/* Writes them where the programs micro, step and evaluate read them. */
LS_MUST_USE ls_status ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *numbers);

/*
 * Sets the sums of gradients to zero before a step of several micro-batches, which adds to them: where they persist and
 * no update has cleared them, they still hold those of the last step. A step of one micro-batch overwrites them.
 */
LS_MUST_USE ls_status ls_rank_clear_sums(const ls_rank *rank, int64_t micro_batches);

/* Whether a program runs when this micro-batch has been fed; else with those that follow it (ls_image.micro_batches).
 */
bool ls_rank_runs_after(const ls_rank *rank, int64_t micro_batch);
/* The program of a micro-batch: micro, or step with the update for the last one. */
int ls_rank_step_program(const ls_rank *rank, int64_t micro_batch, int64_t micro_batches);

typedef struct ls_micro_batches {
    int64_t count;
    /* Writes the inputs of a micro-batch; NULL: the inputs stay as they are. */
    ls_status (*feed)(void *context, int64_t micro_batch);
    /* Reads the results of a micro-batch, once its program has run; NULL: nobody wants them. */
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
 * Exchanges the parameters and their average, so that the average is what is evaluated, read or saved. To be called
 * again before the next step. Collective; does nothing where there is no average.
 */
LS_MUST_USE ls_status ls_rank_exchange(const ls_rank *rank);
/* The average begins as the parameters, which are set. Not collective; does nothing where there is none. */
LS_MUST_USE ls_status ls_rank_begin_average(const ls_rank *rank);

/* values[n] become their sums over the ranks, added in rank order. Collective. */
LS_MUST_USE ls_status ls_rank_sum(const ls_rank *rank, double *values, int n);

#endif
