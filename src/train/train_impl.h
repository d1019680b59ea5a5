/* Shared by the files of train: the state of one training, from its options to its results. */
#ifndef LS_TRAIN_IMPL_H
#define LS_TRAIN_IMPL_H

#include "checkpoint/checkpoint.h"
#include "data/data.h"
#include "eval/eval.h"
#include "format/format.h"
#include "longspan/train.h"
#include "model/model.h"
#include "session/session.h"
#include "train/train.h"

/* Seconds that the stages before the first step of this call took, in their order. */
typedef struct ls_start_up {
    double read;      /* read model, tokenizer and text */
    double plan;      /* compare candidates, choose */
    double prove;     /* compile and prove the programs of all classes of ranks */
    double ranks;     /* start processes or threads, until all have compiled their own programs */
    double compile;   /* part of `ranks`: the longest compilation of a rank */
    double prepare;   /* map memory, prepare kernels, exchange addresses */
    double touch;     /* touch the arenas' pages for the first time */
    double weights;   /* this rank's share of the weights: make it, or read and convert it */
    double exchange;  /* exchange the shares of the weights */
    int64_t loaded;   /* bytes that a rank read from files of weights or of a checkpoint; the maximum over ranks */
    int64_t huge;     /* bytes of the arenas that lie in huge pages */
    int64_t recorded; /* bytes of the device's memory that recordings of the programs use */
} ls_start_up;

/* The result of rank 0 at the end of the steps. */
typedef struct ls_train_outcome {
    int64_t steps;        /* steps done, including those before a resume */
    int64_t tokens;       /* of this call's steps */
    double seconds, wait; /* of this call's steps */
    double eval_loss;     /* NaN: no evaluation was made */
    int64_t best_step;    /* with keep_best; 0: none */
    double best_loss;
    int64_t arenas; /* resident bytes of the arenas; the maximum over ranks */
    int64_t saved;  /* step of the last checkpoint */
} ls_train_outcome;

/* The texts that evaluations read (eval_sets.c). The loss on the first one decides which evaluation is best. */
enum { LS_MOST_EVAL_SETS = 8 };
typedef struct ls_eval_sets {
    int n;
    const char *name[LS_MOST_EVAL_SETS]; /* NULL: a single set has no name */
    const char *path[LS_MOST_EVAL_SETS];
    ls_data *data[LS_MOST_EVAL_SETS];
    char *text; /* holds the names and paths */
} ls_eval_sets;

/* --- answer_losses.c: losses that compare a wanted answer with another one, or judge an answer -------------------- */

/*
 * Sums of one answer: the log-probabilities of its tokens by the model and by the reference, and the number of tokens;
 * and the sum over all tokens of its document that are learnt, which include the prompt's if the document is imitated
 * as a whole.
 */
typedef struct ls_answer_sums {
    double own, reference, learnt;
    int64_t tokens, learnt_tokens;
    bool wanted;   /* for a loss that judges */
    double margin; /* for the wanted answer of a pair: by how much it is better, as its record says */
} ls_answer_sums;
typedef struct ls_answer_settings {
    double beta, gamma;
    double centre;                 /* factor of the squared sum of both scores of a pair */
    double desirable, undesirable; /* if answers are judged: factors of the losses of wanted and of other answers */
    /* if answers are judged: the mean gain over the reference of answers to other prompts, at least 0; constant */
    double divergence;
} ls_answer_settings;
/*
 * Of a pair, the wanted answer first: the loss, and its derivative with respect to the log-probability of each token of
 * an answer.
 */
typedef struct ls_answers_loss {
    double loss, weight[2];
} ls_answers_loss;
typedef struct ls_answer_loss {
    const char *name, *about;
    bool reference; /* it reads the reference's log-probabilities; rewards are beta times the gain over the reference */
    bool imitates;  /* the mean loss of tokens of wanted answers is added, for the tokens that --imitate names */
    bool scores;    /* it reads scores, which the scoring head gives (ls_model_score), instead of log-probabilities */
    /* sums[0] is an answer, wanted or not; sums[1] is an answer to another prompt, for the divergence */
    bool judges;
    ls_answers_loss (*of_pair)(const ls_answer_sums sums[2], const ls_answer_settings *settings);
} ls_answer_loss;
#define LS_LOSS_OF_TOKENS "sft"     /* loss of labels, which does not compare answers */
#define LS_LOSS_OF_TEACHER "distil" /* loss of a teacher's words, which does not compare answers */
/*
 * *out becomes NULL for a loss that does not compare answers; *distils: it is the loss of a teacher's words. LS_USAGE
 * lists the known names.
 */
LS_MUST_USE ls_status ls_loss_find(const char *name, const ls_answer_loss **out, bool *distils);

/* What an evaluation found; NaN: there was no evaluation. */
typedef struct ls_evaluated {
    double loss[LS_MOST_EVAL_SETS];
} ls_evaluated;

typedef struct ls_training {
    ls_train_options options; /* ls_settings_resolve fills in the defaults */
    /* lock of the folder `out`, held from before the first read of the folder until the end */
    ls_lock *lock;
    ls_model *model;
    ls_tokenizer *tokenizer;
    ls_mixture mixture;
    const ls_data *data;      /* data of the mixture's first set */
    const ls_data *eval_data; /* data of the first evaluation set; NULL: none */
    ls_eval_sets eval_sets;
    const ls_answer_loss *compares; /* NULL: the loss does not compare answers */
    bool distils;                   /* the loss is that of a teacher's words */
    ls_typical typical;             /* typical documents of the data, for the sequence length of the options */
    ls_graph *graph;
    ls_job job;
    ls_session *session;
    char *resumed_from;   /* path of a checkpoint; NULL: a fresh start */
    ls_train_state start; /* state before the first step of this call */
    int64_t best_step;    /* step of the best evaluation of the resumed run, with keep_best; 0: none */
    double best_loss;     /* infinite: none */
    /* evaluations up to this step read other sequences, so none of them counts as the best */
    int64_t other_evaluations;
    int64_t one_rank_bytes;
    double unigram;   /* entropy of the text by a unigram model, nats per token */
    uint64_t content; /* hash of the training data (ls_data_content) */
    double began;     /* when the call began (ls_seconds) */
    double launched;  /* when the ranks were last started (ls_seconds) */
    ls_start_up start_up;
    char *events;        /* path of the event file for TensorBoard; NULL: none */
    ls_json *record;     /* run.json of the resumed run; NULL otherwise */
    const char **groups; /* the groups of the resumed run, which options.groups points to; NULL otherwise */
} ls_training;

static inline ls_train_origin ls_train_origin_of(const ls_training *t) {
    return (ls_train_origin){t->job.optimizer, t->job.hyper, t->options.seq, t->options.batch};
}

/* --- comparing.c: steps on pairs of answers ----------------------------------------------------------------------- */

typedef struct ls_comparing ls_comparing;
/* For one rank, in a training whose loss compares answers. Not collective. */
LS_MUST_USE ls_status ls_comparing_create(const ls_training *t, const ls_rank *rank, ls_comparing **out);
void ls_comparing_destroy(ls_comparing *comparing); /* NULL is allowed */
/*
 * Computes the reference with the weights that the rank has, and keeps it in the run's folder; a resumed run reads it
 * from there. Collective.
 */
LS_MUST_USE ls_status ls_comparing_begin(ls_comparing *comparing);
/* ls_weighing.weigh, whose context is an ls_comparing. */
LS_MUST_USE ls_status ls_comparing_weigh(void *comparing, int64_t first, int64_t n, const float *losses, float *weights,
                                         ls_answers_figures *out);
/* The mean loss of the pairs in the first n sequences of an evaluation set. Collective. */
LS_MUST_USE ls_status ls_comparing_evaluate(const ls_comparing *comparing, int set, int64_t n, double *loss);

/* --- eval_sets.c -------------------------------------------------------------------------------------------------- */

/*
 * text: a path, or "NAME=PATH,NAME=PATH..."; NULL: no sets. options: as for the training's text. Logs what the sets
 * contain. *out must be zeroed before the call, and must be closed also after an error.
 */
LS_MUST_USE ls_status ls_eval_sets_open(const char *text, const ls_data_options *options, const ls_model *model,
                                        ls_eval_sets *out);
/* Identifies the documents of all sets; 0 without sets. */
uint64_t ls_eval_sets_content(const ls_eval_sets *sets);
void ls_eval_sets_close(ls_eval_sets *sets); /* a zeroed one is allowed */

/* --- open.c: the model and the texts -------------------------------------------------------------------------------
 */

LS_MUST_USE ls_status ls_training_open_model(ls_training *t); /* opens the model and its tokenizer */
LS_MUST_USE ls_status ls_training_open_text(ls_training *t);  /* opens the texts of the steps and of evaluations */

/* --- settings.c: the table of options and the learning rate ------------------------------------------------------- */

/*
 * Completes the options. On resume, options that were not given come from run.json (t->record), and those that were
 * given must agree with it: LS_USAGE names the flag, both values and the file.
 */
LS_MUST_USE ls_status ls_settings_resolve(ls_training *t);
/*
 * Computes what depends on the amount of data: the number of steps of --epochs, and the interval of evaluations. Logs
 * the result, and reports a learning rate that jumps because a resumed run has another number of steps. LS_USAGE if a
 * resumed run has already done more steps.
 */
LS_MUST_USE ls_status ls_settings_count_steps(ls_training *t);
/*
 * How many sequences an evaluation reads: the number in the options, but at most all; 0 if there is no text to evaluate
 * on.
 */
int64_t ls_settings_evaluated(const ls_training *t, const ls_data *data);
/* Adds all settings to the list of what must be equal on the ranks. */
void ls_settings_add(const ls_training *t, ls_alike *alike);
/* Writes all settings as fields of an open object, in the form that ls_settings_resolve reads back. */
void ls_settings_write(const ls_training *t, ls_json_writer *writer);

/* --- learning_rate.c ---------------------------------------------------------------------------------------------- */

/* LS_USAGE, with the known names, if there is no schedule of that name. */
LS_MUST_USE ls_status ls_schedule_check(const char *name);
/* The learning rate of step number n (from 1). The schedule's name has been checked. */
double ls_schedule_lr(const ls_train_options *options, int64_t n);

/* --- folder.c: the folder of a run (--out) ------------------------------------------------------------------------ */

/*
 * Takes the lock of the folder if the folder exists and the lock is not held yet. While the lock is held, no other run
 * may change the folder.
 */
LS_MUST_USE ls_status ls_folder_claim(ls_training *t);
/* LS_USAGE if the folder already holds a run: a run is never overwritten. */
LS_MUST_USE ls_status ls_folder_refuse_existing(const ls_training *t);
/*
 * Creates the folder if it is missing, and claims it. Called after all checks, so that a refused call leaves no folder.
 */
LS_MUST_USE ls_status ls_folder_make(ls_training *t);
/*
 * For launched ranks, each of which writes its part of a checkpoint: checks that all processes can write to the folder,
 * and that it is the same folder. Collective; LS_IO names the rank that cannot, and why.
 */
LS_MUST_USE ls_status ls_folder_try(const ls_training *t);
/*
 * Removes what killed runs left behind: unfinished files and checkpoints, and checkpoints beyond `keep`. A failure is
 * only logged.
 */
void ls_folder_clean(const ls_training *t);
/*
 * Checks, on rank 0 during the steps, that the folder is still the one that was locked. If it was removed or replaced:
 * logs that, creates the folder again, takes a lock there (*lock, which the caller releases), writes run.json and sets
 * *remade, since the new folder has no checkpoint. LS_USAGE if another run holds the new folder.
 */
LS_MUST_USE ls_status ls_folder_watch(const ls_training *t, ls_lock **lock, bool *remade);
/* Takes the lock again if a rank created the folder again; called when the ranks have ended. */
LS_MUST_USE ls_status ls_folder_reclaim(ls_training *t);

/* --- groups.c ----------------------------------------------------------------------------------------------------- */

/* Writes the array "parameters" of run.json: one object for each set of parameters with the same settings. */
void ls_groups_write(const ls_job *job, ls_json_writer *writer);

/* --- record.c, run_file.c: the files of a run --------------------------------------------------------------------- */

LS_MUST_USE ls_status ls_record_path(const ls_training *t, const char *name, char **out);
/* The folder that is exported at the end: "model" in the run's folder, or "adapter" if an adapter is trained. */
LS_MUST_USE ls_status ls_record_export_path(const ls_training *t, char **out);
/* Writes run.json. */
LS_MUST_USE ls_status ls_record_run(const ls_training *t);
/*
 * Compares the model and the data with those of run.json, and its seed with that of the checkpoint. LS_USAGE if they
 * differ.
 */
LS_MUST_USE ls_status ls_record_check(const ls_training *t);
/*
 * Creates the event file for TensorBoard (t->events); its name has the time, the host and the process. Does nothing
 * without --tensorboard.
 */
LS_MUST_USE ls_status ls_record_begin_events(ls_training *t);
/*
 * Appends a line to metrics.jsonl. evaluated NaN: there was no evaluation after this step. start_up: NULL except for
 * the first step of this call.
 */
LS_MUST_USE ls_status ls_record_step(const ls_training *t, int64_t step, double lr, const ls_step_report *report,
                                     const ls_evaluated *evaluated, const ls_start_up *start_up);
/* Appends an event to the event file, if there is one. */
LS_MUST_USE ls_status ls_record_event(const ls_training *t, int64_t step, double lr, const ls_step_report *report,
                                      const ls_evaluated *evaluated);
/* Draws loss.svg from metrics.jsonl. */
LS_MUST_USE ls_status ls_record_chart(const ls_training *t);
/* *loss becomes the result of the evaluation after a step, from metrics.jsonl; infinite if there was none. */
LS_MUST_USE ls_status ls_record_evaluation(const ls_training *t, int64_t step, double *loss);
/* *lr becomes the learning rate of a step, from metrics.jsonl; NaN if there is none. */
LS_MUST_USE ls_status ls_record_learning_rate(const ls_training *t, int64_t step, double *lr);
/*
 * The first and the last loss in metrics.jsonl, NaN if it has none; and the number of steps without a loss, because
 * they had nothing to learn.
 */
LS_MUST_USE ls_status ls_record_losses(const ls_training *t, double *first, double *last, int64_t *idle);

/* Outputs without which a training can continue. */
typedef enum ls_optional_output {
    LS_OUTPUT_RUN,
    LS_OUTPUT_METRICS,
    LS_OUTPUT_EVENTS,
    LS_OUTPUT_CHART,
    LS_OUTPUT_BEST
} ls_optional_output;

/* Logs a failure to write an optional output, once for each output; *warned has a bit for each one that was logged. */
void ls_record_warn(ls_optional_output output, unsigned *warned, ls_status status);

/* --- saves.c: checkpoints ----------------------------------------------------------------------------------------- */

/* The state of one rank. The caller sets t, rank and saved. Times are those of ls_seconds. */
typedef struct ls_saves {
    const ls_training *t;
    const ls_rank *rank;
    int64_t saved;    /* step of the newest checkpoint; -1: there is none */
    int64_t bytes;    /* bytes of one checkpoint */
    bool failed;      /* the last attempt failed */
    bool is_short;    /* rank 0: space was short when last measured */
    double tried;     /* when a checkpoint was last attempted; initially, when the steps began */
    double measured;  /* when the free space was last measured */
    double warned;    /* when a failure was last logged */
    int64_t timed[2]; /* steps of the two newest checkpoints that were due by time, oldest first; -1: none */
} ls_saves;

/* Before the first step: logs a warning if the disk has too little space. */
LS_MUST_USE ls_status ls_saves_begin(ls_saves *saves);
/*
 * Before each step: whether this rank wants a checkpoint after it, because it is due by time (save_seconds) or because
 * the last one failed.
 */
bool ls_saves_wanted(ls_saves *saves);
/*
 * After each step, on all ranks: writes a checkpoint if one is due. wanted: whether any rank wants one. A checkpoint
 * that cannot be written (LS_IO on any rank) is logged and tried again later; other failures are returned.
 */
LS_MUST_USE ls_status ls_saves_after(ls_saves *saves, int64_t step, double loss, bool wanted);
/* Writes a checkpoint now; LS_IO is handled as in ls_saves_after. On success, saves->saved is `step`. */
LS_MUST_USE ls_status ls_saves_try(ls_saves *saves, int64_t step, double loss);
/* Writes the last checkpoint. Every failure is returned, with the name of the newest checkpoint that exists. */
LS_MUST_USE ls_status ls_saves_last(ls_saves *saves, int64_t step, double loss);

/* --- loop.c ------------------------------------------------------------------------------------------------------- */

/* The outcome before the first step of this call. */
ls_train_outcome ls_train_nothing_yet(const ls_training *t);
/* Runs the whole training of one rank, from an ls_training to an ls_train_outcome. */
ls_status ls_train_rank(ls_rank *rank, const void *training, void *outcome);

#endif
