/*
 * Training: one call from a model and a text to checkpoints and metrics.
 */
#ifndef LONGSPAN_TRAIN_H
#define LONGSPAN_TRAIN_H

#include "longspan/adapter.h"
#include "longspan/data.h"
#include "longspan/eval.h"
#include "longspan/linkage.h"
#include "longspan/spread.h"

LS_PUBLIC_BEGIN

/* An option as a command line had it: its name without dashes, and its values; none: a flag. */
typedef struct ls_given_option {
    const char *name;
    const char *const *values;
    int n;
} ls_given_option;

/* The fields are the flags of `longspan train`. Zero and NULL mean the default, which the help of the command shows. */
typedef struct ls_train_options {
    const char *model; /* config.json, or a folder with one */
    ls_rope_change rope;
    ls_adapter_choice adapter;
    const char *const *data; /* text, or token shards */
    int n_data;
    ls_text_form form;    /* of text */
    const char *pack;     /* how documents are packed into sequences: "auto", "join", "best", "stream" */
    bool group_by_length; /* a step's sequences have documents of similar lengths */
    const char *out;
    int64_t seq, batch, accumulate;
    /* in all, including those before a resume; a resumed run may have more steps, and then follows their schedule */
    int64_t steps;
    double epochs;     /* instead of steps: how many times the data is read */
    const char *dtype; /* "f32" or "bf16" */
    double lr, clip;
    double ema; /* decay of an average of the trained weights, which is evaluated and exported; 0: there is none */
    /*
     * "sft", of tokens; "distil", of tokens with a teacher's words (form.records "teacher"); or, of pairs of answers,
     * "dpo", "ipo", "hinge", "simpo", "orpo", "reward"; or, of single ones, "kto"
     */
    const char *loss;
    double distil_weight;         /* of distil: the part of the loss that is the divergence from the teacher; 1 */
    double loss_beta, loss_gamma; /* of the losses of answers: 0.1; and of simpo its margin: 0.5, below 0: none */
    double center_rewards;        /* of reward: factor of the square of what both scores of a pair add up to; 0 */
    double desirable_weight, undesirable_weight; /* of kto: of answers that are wanted, and of others; 1 */
    const char *imitate; /* of orpo, what is learnt of wanted answers besides: "text", with the prompt; or "answers" */
    /* Of "sft": the share of a label that all words have, the factor of (log Z)², and alpha of NEFTune's noise. */
    double label_smoothing, z_loss, neftune;
    const char *optimizer; /* "adamw", "sgd", "lion", "muon" */
    /* Of the optimiser, where it has them: another one is refused. weight_decay and momentum below 0: none. */
    double beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
    double min_lr; /* learning rate at the end of the schedule; below 0: 0 */
    int64_t warmup;
    const char *schedule; /* "cosine", "linear", "constant", "wsd" */
    /*
     * "PATTERN:lr=0.1,decay=0", "PATTERN:frozen", or "PATTERN:frozen=bf16", which is kept in that type: parameters by
     * name; of several that match a name, the last counts
     */
    const char *const *groups;
    int n_groups;
    uint64_t seed;
    int64_t save_every; /* steps between checkpoints; 0: they are due by time (save_seconds) */
    /*
     * Seconds between checkpoints that are due by time; the two newest of them are kept. Below 0: none are due by time.
     * 0: 900 if save_every is 0, else none.
     */
    double save_seconds;
    int64_t keep; /* how many of the newest checkpoints to keep; 0: all */
    /* Save and keep a checkpoint after each evaluation that is better than all before; the link "best" leads to it. */
    bool keep_best;
    bool resume, replan;
    bool trust_data;       /* do not compare token shards with their checksums */
    int64_t restarts;      /* how many times the ranks are started again after one died; 0: never */
    const char *eval_data; /* a path, or several as "NAME=PATH,NAME=PATH": the first decides what is best */
    int64_t eval_every;
    int64_t patience;       /* with keep_best: stop when as many evaluations were not better; 0: never */
    int64_t eval_sequences; /* that an evaluation reads, evenly spread over eval_data; 0: all */
    double max_seconds;     /* stop after this time, with a checkpoint; 0: never */
    bool tensorboard;       /* an event file for TensorBoard beside metrics.jsonl */
    const char *trace;      /* file for a trace of every queue in the last steps, for Perfetto; NULL: none */
    ls_spread spread;
    /* What run.json keeps as "options", for `--config run.json`: the options that the caller was given. May be none. */
    const ls_given_option *given;
    int n_given;
} ls_train_options;

/* Owns its paths: ls_train_result_free frees them. A zeroed one has none. */
typedef struct ls_train_result {
    int64_t steps;      /* done, including those before a resume */
    int64_t idle_steps; /* of these: without any label to learn */
    /* nats per token; first and last of the steps with labels, NaN without any; eval_loss NaN without --eval-data */
    double first_loss, last_loss, eval_loss, unigram_loss;
    double tokens_per_second, wait_fraction;
    int64_t predicted_bytes, measured_bytes; /* memory of the rank that maps most */
    int64_t one_rank_bytes;                  /* memory that one rank alone would map */
    char strategy[80], mesh[64], reason[400];
    char *checkpoint;
    char *model; /* the folder that other programs load, of a model or of its adapter; NULL when interrupted */
    bool interrupted;
    int64_t best_step; /* with keep_best: step of the best evaluation; 0: none */
    double best_loss;  /* NaN: none */
    /* loss by position at the end, of the evaluation text or else of the training text; n 0: not evaluated */
    ls_loss_table positions;
} ls_train_result;

/*
 * Where another program launched this process as one rank of several, all of them call this, and all return the same
 * status; rank 0 alone writes files, logs, and has the whole result.
 *
 * Trains. Blocks until done, stopped by a signal (LS_INTERRUPTED: a checkpoint was written, and the result is set) or
 * failed (the result is zeroed). LS_DIVERGED: a value is not finite; the update was not applied, and the last
 * checkpoint is good.
 */
LS_MUST_USE ls_status ls_train(const ls_train_options *options, ls_train_result *result);
void ls_train_result_free(ls_train_result *result); /* leaves a zeroed one; NULL is allowed */

LS_PUBLIC_END

#endif
