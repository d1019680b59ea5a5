/*
 * train: the optimiser steps of one rank, and on top of them the whole of longspan/train.h. The header for others.
 *
 * A trainer sits on a rank of a session whose job has the programs step (AdamW), micro when it accumulates, and evaluate for
 * evaluation, and whose graph is a language model. All calls but the pure ones are collective: every rank of the session
 * makes them alike.
 */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "session/session.h"

typedef struct ls_trainer ls_trainer;

/* micro_batch: sequences of one run of program micro or step over all dp ranks, the B of the graph. Borrows the rank. */
LS_MUST_USE ls_status ls_trainer_create(const ls_rank *rank, int64_t micro_batch, int64_t accumulate,
                                        int64_t S, ls_trainer **out);
void ls_trainer_destroy(ls_trainer *trainer); /* NULL is allowed */

typedef struct ls_step_hyper {
    double lr, clip, beta1, beta2; /* clip 0: none; the betas as in the job */
} ls_step_hyper;

/* Why training may end after a step. */
typedef enum ls_stop { LS_STOP_NOT, LS_STOP_TIME, LS_STOP_SIGNAL } ls_stop;

/* What is to be done after a step. Each rank asks for itself, all get what any of them wishes. */
typedef struct ls_wish {
    ls_stop stop;
    bool save; /* a checkpoint */
} ls_wish;

typedef struct ls_step_report {
    double loss;        /* mean over the valid tokens of the step; NaN without any */
    double grad_norm;   /* before clipping */
    int64_t tokens;     /* valid ones: N */
    bool applied;       /* false: N = 0, or loss or norm are not finite; parameters are as they were */
    ls_wish wish;       /* the strongest of any rank: the same on all ranks */
    double seconds;     /* of this rank */
    uint64_t data_hash; /* ls_data_hash of the step's sequences in their order; 0 without valid tokens */
    double wait_seconds, copy_seconds; /* the maximum over ranks */
    int64_t peak_bytes;                /* resident so far, the maximum over ranks (ls_resident_bytes) */
} ls_step_report;

/*
 * Step number `step` (from 0): takes sequences step·batch ... of `from`, batch = micro_batch·accumulate. When every label is
 * ignored nothing is computed and nothing changes.
 */
LS_MUST_USE ls_status ls_trainer_step(ls_trainer *trainer, const ls_sequences *from, int64_t step,
                                      const ls_step_hyper *hyper, ls_wish wish, ls_step_report *out);

/*
 * After a step with tokens that was not applied: repeats its micro-batches and writes one clause about the first result that
 * is not finite (over all ranks) to out. Gradient sums are zero afterwards.
 */
LS_MUST_USE ls_status ls_trainer_explain(ls_trainer *trainer, const ls_sequences *from, int64_t step,
                                         const ls_step_report *report, char *out, size_t room);

/*
 * Mean loss of sequences 0 .. n-1 of `from` (n is rounded up to whole micro-batches) by program evaluate; sums of a step under
 * way are kept. look (may be NULL) is called after each micro-batch, while its results are in memory.
 */
typedef void (*ls_trainer_look)(void *context, const ls_rank *rank);
LS_MUST_USE ls_status ls_trainer_evaluate(ls_trainer *trainer, const ls_sequences *from, int64_t n,
                                          ls_trainer_look look, void *context, double *loss);

#endif
