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

/* An option as given on a command line: its name without dashes, and its values; n 0: a flag. */
typedef struct ls_given_option {
    const char *name;
    const char *const *values;
    int n;
} ls_given_option;

/* The fields are the flags of `longspan train`. Zero and NULL mean the default, which the command's help shows. */
typedef struct ls_train_options {
    const char *model; /* config.json, or a folder with one */
    ls_rope_change rope;
    ls_adapter_choice adapter;
    const char *const *data; /* text, or token shards */
    int n_data;
    ls_text_form form;    /* if data is text */
    const char *pack;     /* how documents are packed into sequences: "auto", "join", "best", "stream" */
    bool group_by_length; /* the sequences of a step have documents of similar lengths */
    const char *out;
    int64_t seq, batch, accumulate;
    /*
     * in total, including those before a resume; a resumed run may ask for more steps, and then follows their schedule
     */
    int64_t steps;
    double epochs;     /* instead of steps: how many times the data is read */
    const char *dtype; /* "f32" or "bf16" */
    double lr, clip;
    double ema; /* decay of an average of the trained weights, which is evaluated and exported; 0: none */
    /*
     * On tokens: "sft"; "distil", with a teacher's words (form.records "teacher"). On pairs of answers: "dpo", "ipo",
     * "hinge", "simpo", "orpo", "reward". On single answers: "kto".
     */
    const char *loss;
    double distil_weight;         /* distil: weight of the divergence from the teacher in the loss; default 1 */
    double loss_beta, loss_gamma; /* loss_beta: for losses of answers, default 0.1; loss_gamma: simpo's margin, default
                                     0.5, below 0: none */
    double center_rewards;        /* reward: factor of the squared sum of a pair's two scores; default 0 */
    double desirable_weight, undesirable_weight; /* kto: weights of wanted and unwanted answers; default 1 */
    const char *imitate; /* orpo: what is learnt of wanted answers: "text", with the prompt; or "answers" */
    /* sft: the share of a label that is spread over all words, the factor of (log Z)², and alpha of NEFTune's noise. */
    double label_smoothing, z_loss, neftune;
    const char *optimizer; /* "adamw", "sgd", "lion", "muon" */
    /*
     * For optimisers that have them; one that the optimiser does not have is refused. weight_decay and momentum below
     * 0: none.
     */
    double beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
    double min_lr; /* learning rate at the end of the schedule; below 0: 0 */
    int64_t warmup;
    const char *schedule; /* "cosine", "linear", "constant", "wsd" */
    /*
     * "PATTERN:lr=0.1,decay=0", "PATTERN:frozen", or "PATTERN:frozen=bf16" (kept in that type): settings for parameters
     * by name; if several patterns match a name, the last one counts.
     */
    const char *const *groups;
    int n_groups;
    uint64_t seed;
    int64_t save_every; /* steps between checkpoints; 0: they are made by time (save_seconds) */
    /*
     * Seconds between checkpoints that are made by time; the two newest of these are kept. Below 0: none are made by
     * time. 0: 900 if save_every is 0, else none.
     */
    double save_seconds;
    int64_t keep; /* how many of the newest checkpoints to keep; 0: all */
    /* Save and keep a checkpoint after each evaluation that is better than all before; the link "best" points to it. */
    bool keep_best;
    bool resume, replan;
    bool trust_data;       /* do not compare token shards with their checksums */
    int64_t restarts;      /* how many times the ranks are started again after one has died; 0: never */
    const char *eval_data; /* a path, or several as "NAME=PATH,NAME=PATH"; the first decides which evaluation is best */
    int64_t eval_every;
    int64_t patience;       /* with keep_best: stop after this many evaluations that were not better; 0: never */
    int64_t eval_sequences; /* number of sequences that an evaluation reads, evenly spread over eval_data; 0: all */
    double max_seconds;     /* stop after this time, with a checkpoint; 0: never */
    bool tensorboard;       /* an event file for TensorBoard beside metrics.jsonl */
    const char *trace;      /* file for a trace of every queue in the last steps, for Perfetto; NULL: none */
    ls_spread spread;
    /* Kept in run.json as "options", for `--config run.json`: the options that the caller was given. May be empty. */
    const ls_given_option *given;
    int n_given;
} ls_train_options;

/* Owns its paths, which ls_train_result_free frees. A zeroed result has none. */
typedef struct ls_train_result {
    int64_t steps;      /* done, including those before a resume */
    int64_t idle_steps; /* those of them that had no label to learn */
    /*
     * nats per token. first and last: of the steps with labels, NaN if there are none; eval_loss: NaN without
     * --eval-data
     */
    double first_loss, last_loss, eval_loss, unigram_loss;
    double tokens_per_second, wait_fraction;
    int64_t predicted_bytes, measured_bytes; /* memory of the rank that maps most, in bytes */
    int64_t one_rank_bytes;                  /* memory that a single rank would map, in bytes */
    char strategy[80], mesh[64], reason[400];
    char *checkpoint;
    char *model; /* folder of the model or adapter that other programs can load; NULL if interrupted */
    bool interrupted;
    int64_t best_step; /* with keep_best: step of the best evaluation; 0: none */
    double best_loss;  /* NaN: none */
    /* Loss by position at the end, of the evaluation text or else of the training text; n 0: not evaluated. */
    ls_loss_table positions;
} ls_train_result;

/*
 * Trains. Blocks until done, stopped by a signal (LS_INTERRUPTED: a checkpoint was written, and the result is set) or
 * failed (the result is zeroed). LS_DIVERGED: a value is not finite; the update was not applied, and the last
 * checkpoint is valid. The caller frees the result.
 *
 * If another program launched this process as one rank of several, each of them calls this function, and all return the
 * same status; only rank 0 writes files and logs, and has the whole result.
 */
LS_MUST_USE ls_status ls_train(const ls_train_options *options, ls_train_result *result);
void ls_train_result_free(ls_train_result *result); /* zeroes the result; NULL is allowed */

LS_PUBLIC_END

#endif
