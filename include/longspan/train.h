/*
 * Training: one call from a model and a text to checkpoints and metrics.
 */
#ifndef LONGSPAN_TRAIN_H
#define LONGSPAN_TRAIN_H

#include "longspan/data.h"
#include "longspan/eval.h"
#include "longspan/job.h"

/* Fields are the flags of `longspan train`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_train_options {
    const char *model; /* config.json, or a directory with one */
    ls_rope_change rope;
    const char *const *data; /* text, or token shards */
    int n_data;
    ls_text_form form; /* of text */
    const char *pack; /* how documents come into sequences: "join", "best", "stream" */
    const char *out;
    int64_t seq, steps, batch, accumulate;
    const char *dtype; /* "f32" or "bf16" */
    double lr, beta1, beta2, eps, weight_decay, clip;
    int64_t warmup;
    const char *schedule; /* "cosine", "constant", "wsd" */
    uint64_t seed;
    int64_t save_every, keep;
    bool resume, replan;
    const char *eval_data;
    int64_t eval_every;
    double max_seconds; /* stop after this time, with a checkpoint; 0: never */
    const char *trace;  /* file: what every queue did when in the last steps, for Perfetto; NULL: none */
    ls_spread spread;
} ls_train_options;

typedef struct ls_train_result {
    int64_t steps; /* done, resumed ones included */
    double first_loss, last_loss, eval_loss,
        unigram_loss; /* nats per token; eval_loss NaN without --eval-data */
    double tokens_per_second, wait_fraction;
    int64_t predicted_bytes, measured_bytes; /* of the rank that maps most */
    int64_t one_rank_bytes;                  /* what one rank alone would map */
    char strategy[32], mesh[64], reason[400], checkpoint[512];
    char model[512]; /* the folder that other programs load; empty when interrupted */
    bool interrupted;
    ls_loss_table
        positions; /* at the end, of the evaluation text or else of the training text; n 0: not made */
} ls_train_result;

/*
 * Trains. Blocks until done, stopped (LS_INTERRUPTED: a checkpoint was written) or failed (LS_DIVERGED: a value that is
 * not finite; the update was not applied, the last checkpoint is good).
 */
LS_MUST_USE ls_status ls_train(const ls_train_options *options, ls_train_result *result);

#endif
