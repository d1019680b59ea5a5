/* The training of one rank: weights or a checkpoint, then step after step. Only rank 0 writes files and logs. */
#include "train/train_impl.h"

#include "eval/eval.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHART_SECONDS 10.0 /* between updates of the chart */
#define TRACED_STEPS 4     /* the trace covers the last steps */
#define WATCH_SECONDS 1.0  /* between checks of the folder */
#define LINE_SECONDS 2.0   /* between progress lines, if the output is not a terminal */

typedef struct loop {
    const ls_training *t;
    const ls_rank *rank;
    ls_trainer *trainer;
    ls_comparing *comparing; /* NULL: the loss does not compare answers */
    ls_sequences train;
    ls_progress progress;
    double charted, printed; /* when the chart was last drawn and progress was last shown (ls_seconds) */
    double step_seconds;     /* duration of the last step; 0 before the first step */
    ls_start_up start_up;
    unsigned warned; /* bits of ls_record_warn */
    ls_lock *lock;   /* rank 0: lock of the folder; the training's own lock unless the folder was created again */
    double watched;  /* when the folder was last checked (ls_seconds) */
    bool remade;     /* the folder was created again since the last step, so a checkpoint is wanted */
    ls_saves saves;
    ls_train_outcome *outcome;
} loop;

/* --- weights ------------------------------------------------------------------------------------------------------ */

static ls_status fresh_weights(const loop *l, ls_weights_figures *figures) {
    ls_weight_source source;
    LS_TRY(ls_comm_agree(l->rank->comm, ls_model_weights(l->t->model, l->rank->image, l->t->options.seed, &source)));
    if (l->rank->rank == 0 && ls_weights_from_file(&source))
        ls_log("weights: the *.safetensors of %s", ls_model_folder(l->t->model));
    else if (l->rank->rank == 0)
        ls_log("weights: random, from seed %llu", (unsigned long long)l->t->options.seed);
    ls_status status = ls_weights_fill_shared(l->rank->executor, l->rank->comm, &source, figures);
    ls_weights_close(&source);
    if (status.code == LS_OK) status = ls_rank_begin_average(l->rank);
    return status;
}

/* A checkpoint has the average in place of the weights. */
static ls_status checkpoint_weights(const loop *l, ls_weights_figures *figures) {
    ls_train_state state;
    const ls_train_origin as = ls_train_origin_of(l->t);
    LS_TRY(ls_checkpoint_load(l->rank->executor, l->rank->comm, l->t->resumed_from, l->t->model, &as, &state, figures));
    return ls_rank_exchange(l->rank);
}

/* Sets the weights, and logs facts about them at the start. */
static ls_status set_weights(loop *l) {
    const double began = ls_seconds();
    ls_weights_figures figures = {0};
    LS_TRY(l->t->resumed_from == NULL ? fresh_weights(l, &figures) : checkpoint_weights(l, &figures));
    l->start_up.weights = ls_seconds() - began - figures.exchange;
    l->start_up.exchange = figures.exchange;
    l->start_up.loaded = figures.bytes;
    return ls_comm_max_i64(l->rank->comm, &l->start_up.loaded, 1);
}

/* --- around a step ------------------------------------------------------------------------------------------------ */

static ls_status not_finite_error(loop *l, int64_t step, const ls_step_report *report) {
    char what[400];
    LS_PATH last = NULL;
    LS_TRY(ls_trainer_explain(l->trainer, &l->train, step, report, what, sizeof what));
    if (ls_checkpoint_find(l->t->options.out, &last).code != LS_OK) LS_TRY(ls_path_print(&last, "none yet"));
    return ls_error(LS_DIVERGED, "step %lld: %s; the update was not applied; last good checkpoint: %s",
                    (long long)step + 1, what, last);
}

/* Evaluated sequences are spread over the text, because packers put the longest documents first. */
static ls_status evaluate_set(const loop *l, int set, double *loss) {
    const ls_training *t = l->t;
    const ls_data *data = t->eval_sets.data[set];
    const int64_t n = ls_settings_evaluated(t, data);
    const ls_text_sequences text = {data, n, ls_model_takes(t->model).marks, t->options.seq};
    const ls_sequences from = ls_text_sequences_of(&text);
    if (l->comparing != NULL) return ls_comparing_evaluate(l->comparing, set, n, loss);
    return ls_rank_evaluate(l->rank, &(ls_evaluation){.from = &from, .n = n, .mean = ls_model_takes(t->model).mean},
                            loss);
}

/*
 * Evaluates the average if there is one, otherwise the parameters. The losses become NaN if no evaluation is due, or if
 * a request to stop ended it (*stopped).
 */
static ls_status evaluate(loop *l, int64_t step, ls_evaluated *out, bool *stopped) {
    const ls_train_options *o = &l->t->options;
    const ls_eval_sets *sets = &l->t->eval_sets;
    for (int i = 0; i < LS_MOST_EVAL_SETS; i++) out->loss[i] = NAN;
    if (sets->n == 0 || (step % o->eval_every != 0 && step != o->steps)) return ls_ok();
    ls_status status = ls_rank_exchange(l->rank);
    for (int i = 0; i < sets->n && status.code == LS_OK; i++) status = evaluate_set(l, i, &out->loss[i]);
    *stopped = status.code == LS_INTERRUPTED;
    if (*stopped || status.code == LS_OK) LS_TRY(ls_rank_exchange(l->rank));
    if (*stopped && l->rank->rank == 0) ls_log("step %lld: %s", (long long)step, status.text);
    return *stopped ? ls_ok() : status;
}

/* Saves and marks the best evaluation so far. All ranks have the same numbers, so they all decide the same. */
static ls_status keep_best(loop *l, int64_t step, double loss, double eval_loss) {
    const ls_train_options *o = &l->t->options;
    if (!o->keep_best || !(eval_loss < l->outcome->best_loss)) return ls_ok(); /* also false for NaN: not evaluated */
    LS_TRY(ls_saves_try(&l->saves, step, loss));
    if (l->saves.saved != step) return ls_ok();
    const bool first = l->rank->rank == 0;
    const ls_status marked = ls_comm_agree(l->rank->comm, first ? ls_checkpoint_mark_best(o->out, step) : ls_ok());
    if (marked.code != LS_OK && marked.code != LS_IO) return marked;
    if (first) ls_record_warn(LS_OUTPUT_BEST, &l->warned, marked);
    if (marked.code != LS_OK) return ls_ok();
    l->outcome->best_step = step;
    l->outcome->best_loss = eval_loss;
    return ls_ok();
}

/* Whether the allowed number of evaluations in a row were not better than the best. All ranks decide the same. */
static bool lost_patience(const loop *l, int64_t step, double eval_loss) {
    const ls_train_options *o = &l->t->options;
    const int64_t from = l->outcome->best_step > 0 ? l->outcome->best_step : l->t->start.step;
    return o->patience > 0 && !isnan(eval_loss) && (step - from) / o->eval_every >= o->patience;
}

/* Rank 0 writes metrics, events, chart and progress. step: number of steps done, including this one. */
static void report_step(loop *l, int64_t step, double lr, const ls_step_report *report, const ls_evaluated *evaluated) {
    const double eval_loss = evaluated->loss[0];
    ls_record_warn(
        LS_OUTPUT_METRICS, &l->warned,
        ls_record_step(l->t, step, lr, report, evaluated, step == l->t->start.step + 1 ? &l->start_up : NULL));
    ls_record_warn(LS_OUTPUT_EVENTS, &l->warned, ls_record_event(l->t, step, lr, report, evaluated));
    const int64_t steps = l->t->options.steps;
    const double now = ls_seconds();
    const bool last = step == steps || report->wish.stop != LS_STOP_NOT;
    if (now - l->charted > CHART_SECONDS && !last) { /* finish() draws the last chart */
        ls_record_warn(LS_OUTPUT_CHART, &l->warned, ls_record_chart(l->t));
        l->charted = now;
    }
    if (report->tokens == 0)
        ls_log("step %lld: all labels are ignored (N = 0); the update was skipped", (long long)step);
    if (!l->progress.terminal && !last && now - l->printed < LINE_SECONDS) return;
    l->printed = now;
    char note[160];
    if (report->tokens == 0)
        ls_print(note, sizeof note, "nothing to learn");
    else
        ls_print(note, sizeof note, "loss %.4f · %.1fk tokens/s", report->loss,
                 (double)report->tokens / fmax(report->seconds, 1e-9) / 1e3);
    const size_t used = strlen(note);
    if (isfinite(eval_loss)) ls_print(note + used, sizeof note - used, " · eval %.4f", eval_loss);
    ls_progress_show(&l->progress, step, note);
}

static void add_to_outcome(loop *l, int64_t step, const ls_step_report *report, double eval_loss) {
    ls_train_outcome *o = l->outcome;
    o->steps = step;
    o->tokens += report->tokens;
    o->seconds += report->seconds;
    o->wait += report->wait_seconds;
    if (isfinite(eval_loss)) o->eval_loss = eval_loss;
}

static ls_stop stop_wish(const loop *l) {
    if (ls_comm_stop_requested(l->rank->comm)) return LS_STOP_SIGNAL;
    const double most = l->t->options.max_seconds;
    if (most <= 0 || l->rank->rank != 0) return LS_STOP_NOT;
    /* The next step takes about as long as the last one. If the time would be up at its end, it is the last step. */
    return ls_seconds() - l->t->began + l->step_seconds >= most ? LS_STOP_TIME : LS_STOP_NOT;
}

/* Rank 0 checks every WATCH_SECONDS that the folder is still there. */
static ls_status watch_folder(loop *l) {
    const double now = ls_seconds();
    bool remade = false;
    if (l->rank->rank != 0 || now - l->watched < WATCH_SECONDS) return ls_ok();
    l->watched = now;
    ls_lock *before = l->lock;
    LS_TRY(ls_folder_watch(l->t, &l->lock, &remade));
    if (remade && before != l->t->lock) ls_lock_release(before);
    l->remade |= remade;
    return ls_ok();
}

/* Runs one step and what follows it. *stop: why this step was the last, or LS_STOP_NOT; *loss: loss of the step. */
static ls_status advance(loop *l, int64_t step, ls_stop *stop, double *loss) {
    const ls_train_options *o = &l->t->options;
    const ls_step_hyper hyper = {ls_schedule_lr(o, step + 1), o->clip, o->beta1, o->beta2};
    ls_step_report report;
    LS_TRY(watch_folder(l));
    const ls_wish wish = {stop_wish(l), l->remade | ls_saves_wanted(&l->saves)};
    LS_TRY(ls_trainer_step(l->trainer, &l->train, step, &hyper, wish, &report));
    if (!report.applied && report.tokens > 0) return not_finite_error(l, step, &report);
    ls_evaluated evaluated;
    bool stopped = false;
    LS_TRY(evaluate(l, step + 1, &evaluated, &stopped));
    const double eval_loss = evaluated.loss[0];
    if (stopped) report.wish.stop = LS_STOP_SIGNAL;
    if (l->rank->rank == 0) report_step(l, step + 1, hyper.lr, &report, &evaluated);
    add_to_outcome(l, step + 1, &report, eval_loss);
    LS_TRY(keep_best(l, step + 1, report.loss, eval_loss));
    LS_TRY(ls_saves_after(&l->saves, step + 1, report.loss, report.wish.save));
    l->remade = false;
    l->step_seconds = report.seconds;
    const bool goes_on = report.wish.stop == LS_STOP_NOT;
    *stop = goes_on && lost_patience(l, step + 1, eval_loss) ? LS_STOP_PATIENCE : report.wish.stop;
    *loss = report.loss;
    return ls_ok();
}

/* --- the steps ---------------------------------------------------------------------------------------------------- */

/* Fills in the rest of the outcome, and draws the last chart. */
static ls_status finish(loop *l) {
    l->outcome->saved = l->saves.saved;
    l->outcome->arenas = ls_resident_bytes(l->rank).arenas;
    LS_TRY(ls_comm_max_i64(l->rank->comm, &l->outcome->arenas, 1));
    if (l->rank->rank == 0) ls_record_warn(LS_OUTPUT_CHART, &l->warned, ls_record_chart(l->t));
    return ls_ok();
}

static ls_status start_trace(const loop *l) {
    const ls_train_options *o = &l->t->options;
    if (o->trace == NULL) return ls_ok();
    LS_TRY(ls_trace_try(l->rank, o->trace));
    const size_t spans = ls_trace_spans(l->rank->image, l->rank->micro, TRACED_STEPS * (o->accumulate - 1)) +
                         ls_trace_spans(l->rank->image, l->rank->step, TRACED_STEPS);
    return ls_comm_agree(l->rank->comm, ls_executor_record(l->rank->executor, spans));
}

static ls_status run_loop(loop *l) {
    const ls_train_options *o = &l->t->options;
    const double here = ls_seconds();
    l->start_up = l->t->start_up;
    l->start_up.touch = ls_executor_touched(l->rank->executor).seconds;
    l->start_up.compile = l->rank->compile_seconds;
    l->start_up.prepare = l->rank->prepare_seconds - l->start_up.touch;
    l->start_up.ranks = here - l->t->launched - l->rank->prepare_seconds;
    l->start_up.huge = ls_executor_huge(l->rank->executor);
    l->start_up.recorded = ls_executor_recorded(l->rank->executor);
    LS_TRY(set_weights(l));
    if (l->comparing != NULL) LS_TRY(ls_comparing_begin(l->comparing));
    LS_TRY(start_trace(l));
    LS_TRY(ls_saves_begin(&l->saves));
    l->progress = ls_progress_start("training", o->steps);
    l->progress.before = l->t->start.step;
    if (o->max_seconds > 0) l->progress.limit = l->t->began + o->max_seconds;
    ls_stop stop = LS_STOP_NOT;
    double loss = l->t->start.last_loss;
    int64_t step = l->t->start.step;
    while (step < o->steps && stop == LS_STOP_NOT) LS_TRY(advance(l, step++, &stop, &loss));
    if (l->rank->rank == 0) ls_progress_end(&l->progress);
    LS_TRY(ls_saves_last(&l->saves, step, loss));
    if (o->trace != NULL) LS_TRY(ls_trace_write(l->rank, o->trace));
    LS_TRY(finish(l));
    if (stop == LS_STOP_NOT || step == o->steps) return ls_ok();
    if (stop == LS_STOP_TIME) {
        if (l->rank->rank == 0)
            ls_log("time is up (%.0f s) after step %lld of %lld; continue with --resume", o->max_seconds,
                   (long long)step, (long long)o->steps);
        return ls_ok();
    }
    if (stop == LS_STOP_PATIENCE) {
        if (l->rank->rank == 0)
            ls_log(
                "stopped after step %lld of %lld: the last %lld evaluations were not better than that after step %lld",
                (long long)step, (long long)o->steps, (long long)o->patience, (long long)l->outcome->best_step);
        return ls_ok();
    }
    LS_PATH checkpoint = NULL;
    LS_TRY(ls_checkpoint_path(o->out, step, &checkpoint));
    return ls_error(LS_INTERRUPTED, "stopped after step %lld of %lld; continue with --resume; checkpoint: %s",
                    (long long)step, (long long)o->steps, checkpoint);
}

/* Reads a sequence of the training, from one of its data sets. */
static ls_status read_mixed(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    const ls_training *t = context;
    int64_t own;
    const int set = ls_mixture_find(&t->mixture, index, &own);
    const ls_text_sequences text = {t->mixture.set[set].data, 0, ls_model_takes(t->model).marks, t->options.seq};
    const ls_sequences from = ls_text_sequences_of(&text);
    return from.sample(from.context, own, part, out);
}

ls_train_outcome ls_train_nothing_yet(const ls_training *t) {
    return (ls_train_outcome){
        .steps = t->start.step, .eval_loss = NAN, .best_step = t->best_step, .best_loss = t->best_loss};
}

static ls_status compare_answers(loop *l) {
    LS_TRY(ls_comparing_create(l->t, l->rank, &l->comparing));
    return ls_trainer_weigh(l->trainer, &(ls_weighing){ls_comparing_weigh, l->comparing});
}

ls_status ls_train_rank(ls_rank *rank, const void *training, void *outcome) {
    const ls_training *t = training;
    const int64_t S = t->options.seq;
    loop l = {.t = t,
              .rank = rank,
              .train = {.context = t, .sample = read_mixed},
              .charted = ls_seconds(),
              .lock = t->lock,
              .saves = {.t = t, .rank = rank, .saved = t->resumed_from != NULL ? t->start.step : -1},
              .outcome = outcome};
    *l.outcome = ls_train_nothing_yet(t);
    ls_status status = ls_trainer_create(rank, t->options.batch / t->options.accumulate, t->options.accumulate, S,
                                         ls_model_takes(t->model).mean, &l.trainer);
    if (status.code == LS_OK && t->options.neftune > 0) ls_trainer_noise(l.trainer, t->options.seed);
    if (status.code == LS_OK && t->compares != NULL) status = compare_answers(&l);
    status = ls_comm_agree(rank->comm, status);
    if (status.code == LS_OK) status = run_loop(&l);
    ls_comparing_destroy(l.comparing);
    ls_trainer_destroy(l.trainer);
    if (l.lock != t->lock) ls_lock_release(l.lock);
    return status;
}
