/* What a run records at each step: metrics.jsonl, an event file for TensorBoard, loss.svg. */
#include "train/train_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ls_status ls_record_path(const ls_training *t, const char *name, char **out) {
    return ls_path_join(t->options.out, name, out);
}

ls_status ls_record_export_path(const ls_training *t, char **out) {
    return ls_record_path(t, ls_model_written(t->model).adapter != NULL ? "adapter" : "model", out);
}

void ls_record_warn(ls_optional_output output, unsigned *warned, ls_status status) {
    const unsigned bit = 1u << output;
    if (status.code == LS_OK || (*warned & bit) != 0) return;
    *warned |= bit;
    ls_log("warning: %s; the training continues (this warning is not repeated)", status.text);
}

/* --- events for TensorBoard --------------------------------------------------------------------------------------- */

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

ls_status ls_record_begin_events(ls_training *t) {
    char name[200], host[65] = "host";
    if (!t->options.tensorboard) return ls_ok();
    (void)gethostname(host, sizeof host - 1);
    ls_print(name, sizeof name, "events.out.tfevents.%010.0f.%s.%d", floor(wall_time()), host, (int)getpid());
    LS_TRY(ls_record_path(t, name, &t->events));
    const ls_status status = ls_tfevents_begin(t->events, wall_time(), t->resumed_from != NULL ? t->start.step + 1 : 0);
    if (status.code != LS_OK) ls_path_free(&t->events);
    return status;
}

ls_status ls_record_event(const ls_training *t, int64_t step, double lr, const ls_step_report *report,
                          const ls_evaluated *evaluated) {
    if (t->events == NULL) return ls_ok();
    ls_tfevents_scalar scalars[5 + LS_MOST_EVAL_SETS] = {
        {"train/loss", report->loss},
        {"train/grad_norm", report->grad_norm},
        {"train/lr", lr},
        {"speed/tokens_per_second", (double)report->tokens / fmax(report->seconds, 1e-9)},
        {"eval/loss", evaluated->loss[0]}, /* left out when NaN */
    };
    int n = 5;
    char names[LS_MOST_EVAL_SETS][80];
    for (int i = 0; i < t->eval_sets.n && t->eval_sets.n > 1; i++) {
        snprintf(names[i], sizeof names[i], "eval/loss_%.60s", t->eval_sets.name[i]);
        scalars[n++] = (ls_tfevents_scalar){names[i], evaluated->loss[i]};
    }
    return ls_tfevents_append(t->events, wall_time(), step, scalars, n);
}

/* --- metrics.jsonl ------------------------------------------------------------------------------------------------ */

static void put_start_up(const ls_start_up *s, ls_json_writer *w) {
    ls_json_open_object(w, "start_up");
    ls_json_put_double(w, "read_seconds", s->read);
    ls_json_put_double(w, "plan_seconds", s->plan);
    ls_json_put_double(w, "prove_seconds", s->prove);
    ls_json_put_double(w, "ranks_seconds", s->ranks);
    ls_json_put_double(w, "compile_seconds", s->compile);
    ls_json_put_double(w, "prepare_seconds", s->prepare);
    ls_json_put_double(w, "touch_seconds", s->touch);
    ls_json_put_double(w, "weights_seconds", s->weights);
    ls_json_put_double(w, "exchange_seconds", s->exchange);
    ls_json_put_int(w, "weights_read_bytes", s->loaded);
    ls_json_put_int(w, "huge_page_bytes", s->huge);
    ls_json_put_int(w, "recorded_bytes", s->recorded);
    ls_json_close(w);
}

/* Writes how many of the step's sequences come from each data set. */
static void put_mixture(const ls_training *t, int64_t step, ls_json_writer *w) {
    const int64_t batch = t->options.batch;
    for (int k = 0; k < t->mixture.n && t->mixture.n > 1; k++) {
        char name[100];
        int64_t own, n = 0;
        for (int64_t b = 0; b < batch; b++) n += ls_mixture_find(&t->mixture, (step - 1) * batch + b, &own) == k;
        snprintf(name, sizeof name, "sequences_%.80s", t->mixture.set[k].name);
        ls_json_put_int(w, name, n);
    }
}

static void put_answers(const ls_answers_figures *a, ls_json_writer *w) {
    const struct number {
        const char *name;
        double value;
    } numbers[] = {{"reward_chosen", a->reward[0]},
                   {"reward_rejected", a->reward[1]},
                   {"reward_margin", a->reward[0] - a->reward[1]},
                   {"reward_accuracy", a->right},
                   {"divergence", a->divergence}};
    ls_json_put_int(w, "pairs", a->pairs);
    for (size_t i = 0; i < LS_COUNT(numbers); i++)
        if (isfinite(numbers[i].value)) ls_json_put_double(w, numbers[i].name, numbers[i].value);
}

ls_status ls_record_step(const ls_training *t, int64_t step, double lr, const ls_step_report *report,
                         const ls_evaluated *evaluated, const ls_start_up *start_up) {
    LS_PATH path = NULL;
    LS_TRY(ls_record_path(t, "metrics.jsonl", &path));
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "step", step);
    ls_json_put_double(w, "loss", report->loss);
    ls_json_put_double(w, "grad_norm", report->grad_norm);
    ls_json_put_double(w, "lr", lr);
    ls_json_put_int(w, "tokens", report->tokens);
    ls_json_put_double(w, "seconds", report->seconds);
    ls_json_put_double(w, "tokens_per_second", (double)report->tokens / fmax(report->seconds, 1e-9));
    ls_json_put_double(w, "wait_seconds", report->wait_seconds);
    ls_json_put_double(w, "copy_seconds", report->copy_seconds);
    ls_json_put_int(w, "peak_bytes", report->peak_bytes);
    ls_json_put_int(w, "read_bytes", report->read_bytes);
    ls_json_put_hex(w, "data_hash", report->data_hash);
    if (report->answers.pairs > 0) put_answers(&report->answers, w);
    if (isfinite(evaluated->loss[0])) ls_json_put_double(w, "eval_loss", evaluated->loss[0]);
    for (int i = 0; i < t->eval_sets.n && t->eval_sets.n > 1; i++) {
        char name[100];
        snprintf(name, sizeof name, "eval_loss_%.80s", t->eval_sets.name[i]);
        if (isfinite(evaluated->loss[i])) ls_json_put_double(w, name, evaluated->loss[i]);
    }
    put_mixture(t, step, w);
    if (start_up != NULL) put_start_up(start_up, w);
    return ls_jsonl_append(path, w);
}

/*
 * Reads columns of metrics.jsonl: *out is [n, rows], freed by the caller. If the file does not exist, *rows is 0 and
 * *out NULL.
 */
static ls_status read_columns(const ls_training *t, const char *const *keys, int n, double **out, int64_t *rows) {
    LS_PATH path = NULL;
    LS_TRY(ls_record_path(t, "metrics.jsonl", &path));
    *rows = 0;
    *out = NULL;
    return ls_file_exists(path) ? ls_jsonl_columns(path, keys, n, out, rows) : ls_ok();
}

/* *out becomes a value from a step's line; NaN if there is none. */
static ls_status read_value(const ls_training *t, int64_t step, const char *key, double *out) {
    double *column;
    int64_t rows;
    LS_TRY(read_columns(t, (const char *[]){"step", key}, 2, &column, &rows));
    *out = NAN;
    for (int64_t i = 0; i < rows; i++)
        if (column[i] == (double)step && isfinite(column[rows + i])) *out = column[rows + i];
    free(column);
    return ls_ok();
}

ls_status ls_record_evaluation(const ls_training *t, int64_t step, double *loss) {
    LS_TRY(read_value(t, step, "eval_loss", loss));
    if (isnan(*loss)) *loss = INFINITY;
    return ls_ok();
}

ls_status ls_record_learning_rate(const ls_training *t, int64_t step, double *lr) {
    return read_value(t, step, "lr", lr);
}

ls_status ls_record_losses(const ls_training *t, double *first, double *last, int64_t *idle) {
    double *loss;
    int64_t rows;
    LS_TRY(read_columns(t, (const char *[]){"loss"}, 1, &loss, &rows));
    *first = *last = NAN;
    *idle = 0;
    for (int64_t i = 0; i < rows; i++) {
        *idle += !isfinite(loss[i]);
        if (!isfinite(loss[i])) continue;
        if (isnan(*first)) *first = loss[i];
        *last = loss[i];
    }
    free(loss);
    return ls_ok();
}

/* --- loss.svg ----------------------------------------------------------------------------------------------------- */

/* A running mean of y over about a twentieth of the steps; values that are not finite are left out. */
static void smooth(const double *y, int64_t n, double *out) {
    const double weight = 2.0 / ((double)ls_max(n / 20, 3) + 1.0);
    double mean = NAN;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(y[i])) mean = isfinite(mean) ? mean + weight * (y[i] - mean) : y[i];
        out[i] = mean;
    }
}

/*
 * Removes the points whose y is not finite, so that the line connects the others. Returns the number of remaining
 * points.
 */
static int64_t keep_finite(double *x, double *y, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(y[i])) continue;
        x[kept] = x[i];
        y[kept++] = y[i];
    }
    return kept;
}

ls_status ls_record_chart(const ls_training *t) {
    enum { STEP, LOSS, EVAL, COLUMNS };
    static const char *const keys[COLUMNS] = {"step", "loss", "eval_loss"};
    LS_PATH path = NULL;
    LS_TRY(ls_record_path(t, "loss.svg", &path));
    double *column;
    int64_t n;
    LS_TRY(read_columns(t, keys, COLUMNS, &column, &n));
    double *mean = calloc((size_t)(2 * n) + 1, sizeof *mean);
    if (mean == NULL) {
        free(column);
        return ls_error(LS_NO_MEMORY, "no memory for a chart of %lld steps", (long long)n);
    }
    double *eval_steps = mean + n;
    for (int64_t i = 0; i < n; i++) eval_steps[i] = column[STEP * n + i];
    if (n > 0) smooth(column + LOSS * n, n, mean);
    const int64_t evals = n > 0 ? keep_finite(eval_steps, column + EVAL * n, n) : 0;
    const ls_chart_series series[] = {{"training", column, n > 0 ? column + LOSS * n : NULL, n, NULL},
                                      {"training, smoothed", column, mean, n, NULL},
                                      {"evaluation", eval_steps, n > 0 ? column + EVAL * n : NULL, evals, NULL}};
    const ls_chart_level level = {"unigram entropy", t->unigram};
    const ls_chart chart = {.title = "Loss",
                            .x_label = "step",
                            .y_label = "nats per token",
                            .series = series,
                            .n_series = evals > 0 ? 3 : 2,
                            .levels = &level,
                            .n_levels = 1};
    const ls_status status = ls_svg_write_chart(path, &chart);
    free(mean);
    free(column);
    return status;
}
