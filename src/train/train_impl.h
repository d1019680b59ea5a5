/* What the files of train share: the whole of one training, from its options to its results. */
#ifndef LS_TRAIN_IMPL_H
#define LS_TRAIN_IMPL_H

#include "checkpoint/checkpoint.h"
#include "data/data.h"
#include "eval/eval.h"
#include "format/format.h"
#include "longspan/train.h"
#include "model/model.h"
#include "session/session.h"
#include "train/trainer.h"

/* Evaluation reads this many sequences, or all when there are fewer. */
#define LS_EVAL_SEQUENCES 8

/* Bytes that a rank maps, as compiled. */
typedef struct ls_rank_bytes {
    int64_t space[LS_SPACES];
    int64_t persistent;  /* private: parameters, gradients, optimiser, inputs, tables */
    int64_t activations; /* private: the rest, which lives within programs */
    int64_t slots;       /* symmetric: where peers put */
} ls_rank_bytes;

/* Seconds before the first step of this call, one after the other. */
typedef struct ls_start_up {
    double read;    /* model, tokenizer and text */
    double plan;    /* candidates, programs and their proof */
    double ranks;   /* processes or threads, memory mapped, kernels prepared */
    double touch;   /* first touch of the arenas */
    double weights; /* made, or read from a checkpoint */
    int64_t huge;   /* bytes of the arenas in huge pages */
} ls_start_up;

/* What rank 0 leaves for the caller, in memory that both see. */
typedef struct ls_train_outcome {
    int64_t steps;        /* done, resumed ones included */
    int64_t tokens;       /* of this call's steps */
    double seconds, wait; /* of this call's steps */
    double eval_loss;     /* NaN: none */
    int64_t best_step;    /* with keep_best; 0: none */
    double best_loss;
    int64_t arenas; /* resident bytes of the arenas, the rank with most */
    bool interrupted;
    int64_t saved; /* step of the last checkpoint */
} ls_train_outcome;

typedef struct ls_training {
    ls_train_options options; /* completed: every default filled in */
    ls_lock *lock;            /* of the folder `out`, from before anything in it is read until the end */
    ls_model *model;
    ls_tokenizer *tokenizer;
    ls_data *data, *eval_data;
    ls_typical typical; /* documents of the data, at the sequence length of the options */
    ls_graph *graph;
    ls_job job;
    ls_session *session;
    char *resumed_from;   /* a checkpoint; NULL: a fresh start */
    ls_train_state start; /* where to begin */
    int64_t best_step;    /* with keep_best, of the run that is resumed; 0: none */
    double best_loss;     /* infinite: none */
    int64_t steps_before; /* of the run that is resumed, as it was planned; 0: a fresh start */
    ls_rank_bytes *ranks; /* [ranks] */
    int64_t one_rank_bytes;
    double unigram;   /* nats per token */
    uint64_t content; /* of the training data (ls_data_content) */
    double began;     /* ls_seconds */
    double launched;  /* the ranks, when last */
    ls_start_up start_up;
    char *events; /* file for TensorBoard; NULL: none */
    ls_train_outcome *outcome;
    ls_json *record;     /* run.json of the run that is resumed; NULL otherwise */
    const char **groups; /* of that run, where none were given: the options' array */
} ls_training;

/* --- settings.c ---------------------------------------------------------------------------------------------------------- */

/*
 * Completes the options. On resume what was left out comes from run.json (t->record), and what was given must agree
 * with it: LS_USAGE names flag, both values and the file.
 */
LS_MUST_USE ls_status ls_settings_resolve(ls_training *t);
/* What depends on how much data there is: the number of steps of --epochs; and whether a resumed run may have so many. Says what it means. */
LS_MUST_USE ls_status ls_settings_count_steps(ls_training *t);
/* All settings as fields of an open object, so that they can be read back. */
void ls_settings_write(const ls_training *t, ls_json_writer *writer);

/* --- folder.c: --out ------------------------------------------------------------------------------------------------------ */

/* Takes the lock of the folder, if that is there and the lock is not ours: from then on no other run may change it. */
LS_MUST_USE ls_status ls_folder_claim(ls_training *t);
/* A run is never overwritten: LS_USAGE where there is one. */
LS_MUST_USE ls_status ls_folder_refuse_existing(const ls_training *t);
/* Makes a folder that is not there yet, after all checks, and claims it. */
LS_MUST_USE ls_status ls_folder_make(ls_training *t);
/* Removes what runs that were killed left: unfinished files and checkpoints, those beyond `keep`. A failure is told. */
void ls_folder_clean(const ls_training *t);
/*
 * For rank 0, while steps are done. Where the folder was removed, or another stands in its place: says so, makes it again, takes a lock
 * there (*lock, which the caller releases) and writes run.json; *again: all that had been saved is elsewhere. LS_USAGE when another
 * run has the new folder: this one has no place any more.
 */
LS_MUST_USE ls_status ls_folder_watch(const ls_training *t, ls_lock **lock, bool *again);
/* After the ranks, one of which may have found the folder gone. */
LS_MUST_USE ls_status ls_folder_reclaim(ls_training *t);

/* --- schedule.c ---------------------------------------------------------------------------------------------------------- */

/* Learning rate of step number n (from 1). */
double ls_schedule_lr(const ls_train_options *options, int64_t n);
bool ls_schedule_known(const char *name);

/* --- groups.c: --group PATTERN:SETTINGS ---------------------------------------------------------------------------------- */

/*
 * Freezes parameters of a graph that is not differentiated yet, as the options' groups say, and gives the learning rate's factor and
 * the decay of each, in the order of declaration; they live as long as the graph. LS_USAGE for a group that cannot be read or that
 * matches no parameter, with the nearest name, and where nothing is left to train.
 */
LS_MUST_USE ls_status ls_groups_apply(const ls_train_options *options, ls_graph *graph,
                                      const ls_adamw_own **own);
/* Array "parameters" of run.json: the parameters of a job that are trained alike, by what distinguishes them. */
void ls_groups_write(const ls_job *job, ls_json_writer *writer);

/* --- record.c: the files of a run ---------------------------------------------------------------------------------------- */

LS_MUST_USE ls_status ls_record_path(const ls_training *t, const char *name, char **out);
/* run.json. */
LS_MUST_USE ls_status ls_record_run(const ls_training *t);
/* Compares model and data with those that run.json tells of, and its seed with the checkpoint's. */
LS_MUST_USE ls_status ls_record_check(const ls_training *t);
/* Begins an event file for TensorBoard, whose name has the time, the host and the process, in t->events; not without --tensorboard. */
LS_MUST_USE ls_status ls_record_begin_events(ls_training *t);
/* One line of metrics.jsonl; eval_loss NaN: not evaluated after this step; start_up NULL: not the first step of this call. */
LS_MUST_USE ls_status ls_record_step(const ls_training *t, int64_t step, double lr,
                                     const ls_step_report *report, double eval_loss,
                                     const ls_start_up *start_up);
/* One event, where there is a file for them. */
LS_MUST_USE ls_status ls_record_event(const ls_training *t, int64_t step, double lr,
                                      const ls_step_report *report, double eval_loss);
/* loss.svg from metrics.jsonl. */
LS_MUST_USE ls_status ls_record_chart(const ls_training *t);
/* What was evaluated after a step; infinite where nothing was. */
LS_MUST_USE ls_status ls_record_evaluation(const ls_training *t, int64_t step, double *loss);
/* Loss of the first and of the last line of metrics.jsonl; NaN when there is none. */
LS_MUST_USE ls_status ls_record_losses(const ls_training *t, double *first, double *last);

/*
 * What a run can do without: a failure to write it is told, once for each (*told has a bit of each that was), and the training goes on.
 */
typedef enum ls_spare {
    LS_SPARE_RUN,
    LS_SPARE_METRICS,
    LS_SPARE_EVENTS,
    LS_SPARE_CHART,
    LS_SPARE_BEST
} ls_spare;
void ls_record_spare(ls_spare what, unsigned *told, ls_status status);

/* --- saves.c: checkpoints ------------------------------------------------------------------------------------------------ */

/* One rank's. The caller sets t, rank and saved. */
typedef struct ls_saves {
    const ls_training *t;
    const ls_rank *rank;
    int64_t saved;             /* step of the newest checkpoint; -1: there is none */
    int64_t bytes;             /* that one takes */
    bool failed;               /* the last try did */
    bool is_short;             /* rank 0: of space, when it was asked last */
    double tried, asked, said; /* when last (ls_seconds); tried: or when the steps began */
    int64_t timed[2];          /* steps of the newest that the clock made; -1: none */
} ls_saves;

/* Before the first step: says where the space will not do. */
LS_MUST_USE ls_status ls_saves_begin(ls_saves *saves);
/* Before each step: whether this rank wishes a checkpoint after it, by the clock (save_seconds, or because one failed). */
bool ls_saves_wish(ls_saves *saves);
/*
 * After each step, on all ranks; wished: what the ranks wish together. Writes a checkpoint where one is due. One that cannot be written
 * (LS_IO on any rank) is told and tried again later; other failures are returned.
 */
LS_MUST_USE ls_status ls_saves_after(ls_saves *saves, int64_t step, double loss, bool wished);
/* Writes one in any case, with the same patience; saves->saved is `step` when it stands. */
LS_MUST_USE ls_status ls_saves_try(ls_saves *saves, int64_t step, double loss);
/* The same at the end: a failure is returned, and names what was kept. */
LS_MUST_USE ls_status ls_saves_last(ls_saves *saves, int64_t step, double loss);

/* --- memory.c ------------------------------------------------------------------------------------------------------------ */

/* Fills t->ranks and t->one_rank_bytes by compiling; refuses what does not fit (LS_NO_MEMORY with the numbers). */
LS_MUST_USE ls_status ls_train_memory(ls_training *t);

/* --- loop.c -------------------------------------------------------------------------------------------------------------- */

/* A rank's whole training; context is the ls_training. */
ls_status ls_train_rank(ls_rank *rank, void *context);

#endif
