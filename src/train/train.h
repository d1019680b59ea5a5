/*
 * train: the optimiser steps of one rank, groups of parameters, and longspan/train.h, which is built on these. This is
 * the header for other folders.
 *
 * A trainer works on one rank of a session. The session's graph is a language model, and its job has the programs step
 * (AdamW) and, if it accumulates, micro. All calls but ls_trainer_destroy are collective: every rank of the session
 * makes them with the same arguments, except for the wish. They block until the rank is done, and return LS_PEER if
 * another rank fails.
 */
#ifndef LS_TRAIN_H
#define LS_TRAIN_H

#include "model/model.h"
#include "session/session.h"

typedef struct ls_trainer ls_trainer;

/*
 * micro_batch: the B of the graph, which is the number of sequences over all dp ranks that program micro or step runs
 * at once. S: tokens of a sequence. mean: what the loss is divided by. The trainer borrows the rank, which must outlive
 * it.
 */
LS_MUST_USE ls_status ls_trainer_create(const ls_rank *rank, int64_t micro_batch, int64_t accumulate, int64_t S,
                                        ls_mean mean, ls_trainer **out);
void ls_trainer_destroy(ls_trainer *trainer); /* NULL is allowed */

/* Figures of the pairs of answers in a step, if the loss compares answers: means over the pairs. */
typedef struct ls_answers_figures {
    int64_t pairs; /* 0: the loss does not compare answers */
    double loss;
    double reward[2]; /* of the wanted answer, and of the other one */
    /* fraction of the pairs whose wanted answer has the larger reward; NaN if answers are judged one by one */
    double right;
    /* as in ls_answer_settings; NaN unless answers are judged one by one */
    double divergence;
} ls_answers_figures;

/*
 * Weights of tokens for a loss that can be computed only when the losses of all tokens of a step are known. losses
 * f32[n,S], on rank 0: those of the step's sequences, the first of which is number `first`. Sets weights f32[n,S] on
 * every rank; the backward pass minimises the sum of weight times token loss. Collective.
 */
typedef struct ls_weighing {
    ls_status (*weigh)(void *context, int64_t first, int64_t n, const float *losses, float *weights,
                       ls_answers_figures *out);
    void *context;
} ls_weighing;
/*
 * From now on noise is added to the embeddings in steps. The graph must have an input LS_MODEL_NOISE (ls_model_noise).
 */
void ls_trainer_noise(ls_trainer *trainer, uint64_t seed);
/*
 * From now on a step first runs all micro-batches forward. The graph must have an input LS_MODEL_WEIGHTS
 * (ls_model_weigh).
 */
LS_MUST_USE ls_status ls_trainer_weigh(ls_trainer *trainer, const ls_weighing *weighing);

typedef struct ls_step_hyper {
    /* clip: largest norm of the gradient, 0: no clipping; beta1 and beta2 are those of the job */
    double lr, clip, beta1, beta2;
} ls_step_hyper;

/* Why training should end after a step. */
typedef enum ls_stop { LS_STOP_NOT, LS_STOP_TIME, LS_STOP_SIGNAL, LS_STOP_PATIENCE } ls_stop;

/* What a rank wants to happen after a step. All ranks receive the strongest wish of any rank. */
typedef struct ls_wish {
    ls_stop stop;
    bool save; /* write a checkpoint */
} ls_wish;

typedef struct ls_step_report {
    double loss;      /* mean over the valid tokens of the step; NaN without any */
    double grad_norm; /* before clipping */
    int64_t tokens;   /* N: the number of valid tokens in the step */
    /* false: N = 0, or the loss or the norm is not finite; the parameters are unchanged */
    bool applied;
    ls_wish wish;                      /* the strongest wish of any rank, the same on all ranks */
    double seconds;                    /* seconds of this rank */
    uint64_t data_hash;                /* ls_data_hash of the step; 0 without valid tokens */
    double wait_seconds, copy_seconds; /* the maximum over ranks */
    int64_t peak_bytes;                /* largest resident memory so far, the maximum over ranks (ls_resident_bytes) */
    ls_answers_figures answers;
    int64_t read_bytes; /* bytes of files that were read for the step's sequences: the maximum over ranks */
} ls_step_report;

/*
 * Runs step number `step` (from 0) on the sequences of `from` from step·batch on, where batch = micro_batch·accumulate.
 * If every label is ignored, nothing is computed and nothing changes.
 */
LS_MUST_USE ls_status ls_trainer_step(ls_trainer *trainer, const ls_sequences *from, int64_t step,
                                      const ls_step_hyper *hyper, ls_wish wish, ls_step_report *out);

/*
 * Finds out why a step with tokens was not applied: repeats its micro-batches, and writes one clause to `out`, which
 * has `room` bytes, about the first result over all ranks that is not finite. Gradient sums are zero afterwards.
 */
LS_MUST_USE ls_status ls_trainer_explain(ls_trainer *trainer, const ls_sequences *from, int64_t step,
                                         const ls_step_report *report, char *out, size_t room);

/* --- groups.c: --group PATTERN:SETTINGS --------------------------------------------------------------------------- */

typedef struct ls_groups {
    const char *const *texts; /* [n] as on the command line */
    int n;
    double weight_decay; /* of matrices for which no group gives another */
} ls_groups;

/*
 * Applies groups to a graph that is not differentiated yet: freezes parameters, and sets *own to the factor of the
 * learning rate, the decay and, if a group names one, the optimiser of each parameter, in the order of declaration.
 * *own lives as long as the graph. LS_USAGE for a group that cannot be parsed or that matches no parameter (with the
 * nearest name), and if nothing is left to train.
 */
LS_MUST_USE ls_status ls_groups_apply(const ls_groups *groups, const ls_model *model, const ls_optimizer *optimizer,
                                      ls_graph *graph, const ls_parameter_settings **own);

#endif
