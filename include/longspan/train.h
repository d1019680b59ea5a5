/*
 * Training: one call from a model and a text to checkpoints and metrics.
 */
#ifndef LONGSPAN_TRAIN_H
#define LONGSPAN_TRAIN_H

#include "longspan/data.h"
#include "longspan/eval.h"
#include "longspan/linkage.h"
#include "longspan/spread.h"

LS_PUBLIC_BEGIN

/* Fields are the flags of `longspan train`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_train_options {
    const char *model; /* config.json, or a directory with one */
    ls_rope_change rope;
    const char *const *data; /* text, or token shards */
    int n_data;
    ls_text_form form; /* of text */
    const char *pack;  /* how documents come into sequences: "join", "best", "stream" */
    const char *out;
    int64_t seq, batch, accumulate;
    int64_t
        steps; /* in all, resumed ones included; with resume more than before: the schedule is that of the new number */
    double epochs;     /* instead of steps: times that the data is read */
    const char *dtype; /* "f32" or "bf16" */
    double lr, beta1, beta2, eps, weight_decay, clip;
    double min_lr; /* what the schedule ends at; below 0: 0 */
    int64_t warmup;
    const char *schedule; /* "cosine", "linear", "constant", "wsd" */
    const char *const *
        groups; /* "PATTERN:lr=0.1,decay=0" or "PATTERN:frozen": parameters by name; the last that matches counts */
    int n_groups;
    uint64_t seed;
    int64_t save_every; /* steps between checkpoints; 0: as save_seconds says */
    double
        save_seconds; /* seconds between checkpoints, of which the two newest are kept beside others; 0: 900 where save_every is 0,
                            else as below 0: the clock makes none */
    int64_t keep; /* newest checkpoints to keep; 0: all */
    bool
        keep_best; /* after each evaluation that is better than all before: a checkpoint, which stays, and a link "best" to it */
    bool resume, replan;
    bool trust_data;  /* token shards are not compared with their checksums before they are used */
    int64_t restarts; /* times that the ranks are started again after one died unasked; 0: none */
    const char *eval_data;
    int64_t eval_every;
    double max_seconds; /* stop after this time, with a checkpoint; 0: never */
    bool tensorboard;   /* an event file for TensorBoard beside metrics.jsonl */
    const char *trace;  /* file: what every queue did when in the last steps, for Perfetto; NULL: none */
    ls_spread spread;
} ls_train_options;

/* Room for any path that the system takes; an --out that leaves none for what lies in it is refused before the run. */
#define LS_TRAIN_PATH 4096

typedef struct ls_train_result {
    int64_t steps; /* done, resumed ones included */
    double first_loss, last_loss, eval_loss,
        unigram_loss; /* nats per token; eval_loss NaN without --eval-data */
    double tokens_per_second, wait_fraction;
    int64_t predicted_bytes, measured_bytes; /* of the rank that maps most */
    int64_t one_rank_bytes;                  /* what one rank alone would map */
    char strategy[32], mesh[64], reason[400];
    char checkpoint[LS_TRAIN_PATH];
    char model[LS_TRAIN_PATH]; /* the folder that other programs load; empty when interrupted */
    bool interrupted;
    int64_t best_step; /* of the best evaluation that has a checkpoint; 0: none (keep_best) */
    double best_loss;  /* NaN: none */
    ls_loss_table
        positions; /* at the end, of the evaluation text or else of the training text; n 0: not made */
} ls_train_result;

/*
 * Trains. Blocks until done, stopped (LS_INTERRUPTED: a checkpoint was written) or failed (LS_DIVERGED: a value that is
 * not finite; the update was not applied, the last checkpoint is good).
 */
LS_MUST_USE ls_status ls_train(const ls_train_options *options, ls_train_result *result);

LS_PUBLIC_END

#endif
