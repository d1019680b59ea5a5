/* The files of a run: run.json, metrics.jsonl, an event file for TensorBoard, loss.svg. */
#include "train/train_impl.h"

#include "ls_version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ls_status ls_record_path(const ls_training *t, const char *name, char **out) {
    return ls_path_join(t->options.out, name, out);
}

void ls_record_warn(ls_optional_output output, unsigned *warned, ls_status status) {
    const unsigned bit = 1u << output;
    if (status.code == LS_OK || (*warned & bit) != 0) return;
    *warned |= bit;
    ls_log("warning: %s; the training continues (this warning is not repeated)", status.text);
}

/* --- run.json ----------------------------------------------------------------------------------------------------- */

static void write_model(const ls_training *t, ls_json_writer *w) {
    const ls_model_sizes m = ls_model_describe(t->model);
    ls_json_open_object(w, "model");
    ls_json_put_text(w, "path", t->options.model);
    ls_json_put_text(w, "architecture", ls_model_architecture(t->model));
    ls_json_put_int(w, "parameters", ls_model_parameters(t->model));
    ls_json_put_int(w, "V", m.V);
    ls_json_put_int(w, "E", m.E);
    ls_json_put_int(w, "F", m.F);
    ls_json_put_int(w, "L", m.L);
    ls_json_put_int(w, "Hq", m.Hq);
    ls_json_put_int(w, "Hkv", m.Hkv);
    ls_json_put_int(w, "D", m.D);
    ls_json_put_bool(w, "tied", m.tied);
    ls_json_put_text(w, "config", ls_model_config_text(t->model));
    ls_json_close(w);
}

static void write_data(const ls_training *t, ls_json_writer *w) {
    const ls_data_summary *d = ls_data_summarise(t->data);
    ls_json_open_object(w, "data");
    ls_json_open_array(w, "paths");
    for (int i = 0; i < t->options.n_data; i++) ls_json_put_text(w, NULL, t->options.data[i]);
    ls_json_close(w);
    ls_json_put_text(w, "tokenizer", ls_tokenizer_name(t->tokenizer));
    ls_json_put_int(w, "documents", d->documents);
    ls_json_put_int(w, "tokens", d->tokens);
    ls_json_put_int(w, "sequences", d->windows);
    ls_json_put_int(w, "longest_document", d->longest_document);
    ls_json_put_double(w, "unigram_nats", t->unigram);
    ls_json_put_hex(w, "content", t->content);
    ls_json_close(w);
}

static void write_spread(const ls_training *t, ls_json_writer *w) {
    const ls_plan *plan = ls_session_plan(t->session);
    const ls_spread_result spread = ls_session_describe(t->session);
    char drop[24];
    ls_json_open_object(w, "spread");
    ls_json_put_int(w, "ranks", ls_session_ranks(t->session));
    ls_json_put_int(w, "threads", plan->target.threads);
    ls_json_put_text(w, "strategy", spread.strategy);
    ls_json_put_text(w, "mesh", spread.mesh);
    ls_json_put_text(w, "layout", spread.layout);
    ls_json_put_text(w, "transfers", spread.transfers);
    ls_json_put_text(w, "shard", spread.shard);
    ls_json_put_text(w, "sums", spread.sums);
    ls_json_put_text(w, "isa", spread.isa);
    ls_json_put_text(w, "device", spread.device);
    ls_json_put_text(w, "kernels", spread.kernels);
    snprintf(drop, sizeof drop, "%lld", (long long)spread.recompute);
    ls_json_put_text(w, "recompute", drop);
    ls_json_put_text(w, "offload", spread.offload);
    ls_json_put_text(w, "tile", spread.tile);
    ls_json_put_int(w, "tile_rows", spread.tile_rows);
    ls_json_put_int(w, "memory", t->options.spread.memory);
    ls_json_put_bool(w, "as_threads", t->options.spread.as_threads);
    ls_json_put_text(w, "reason", plan->reason);
    ls_json_close(w);
}

static void write_memory(const ls_training *t, ls_json_writer *w) {
    ls_json_open_array(w, "predicted_bytes"); /* of the ranks that share the first sequence */
    const ls_mesh *mesh = &ls_session_plan(t->session)->target.mesh;
    for (int i = 0; i < ls_mesh_sequence_ranks(mesh); i++) {
        const ls_rank_bytes *b = ls_session_bytes(t->session, ls_mesh_sequence_rank(mesh, i));
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "private", b->space[LS_PRIVATE]);
        ls_json_put_int(w, "symmetric", b->space[LS_SYMMETRIC]);
        ls_json_put_int(w, "host", b->space[LS_HOST]);
        ls_json_put_int(w, "persistent", b->persistent);
        ls_json_put_int(w, "activations", b->activations);
        ls_json_put_int(w, "slots", b->slots);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_put_int(w, "one_rank_bytes", t->one_rank_bytes);
}

ls_status ls_record_run(const ls_training *t) {
    LS_PATH path = NULL;
    char skeleton[32];
    LS_TRY(ls_record_path(t, "run.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "version", LS_VERSION);
    ls_json_put_text(w, "commit", LS_COMMIT);
    write_model(t, w);
    write_data(t, w);
    ls_json_open_object(w, "settings");
    ls_settings_write(t, w);
    ls_json_close(w);
    ls_groups_write(&t->job, w);
    write_spread(t, w);
    snprintf(skeleton, sizeof skeleton, "%016llx", (unsigned long long)ls_image_skeleton(ls_session_image(t->session)));
    ls_json_put_text(w, "program", skeleton);
    write_memory(t, w);
    return ls_json_end_file(w, path);
}

/*
 * Compares the hash of the data, which tells texts with equal token counts apart. run.json files of older versions have
 * none.
 */
static ls_status check_content(const ls_training *t, ls_json_value data) {
    const char *recorded;
    char here[20];
    LS_TRY(ls_json_text_or(data, "content", NULL, &recorded));
    snprintf(here, sizeof here, "%016llx", (unsigned long long)t->content);
    if (recorded == NULL || strcmp(recorded, here) == 0) return ls_ok();
    return ls_error(LS_USAGE,
                    "--data is not the text of %s/run.json: as many tokens, but of other content (%s, expected %.20s)",
                    t->options.out, here, recorded);
}

/* The seed of run.json may have been edited; that of the checkpoint is protected by a hash. */
static ls_status check_seed(const ls_training *t) {
    if (t->options.seed == t->start.seed) return ls_ok();
    return ls_error(LS_USAGE, "%s/run.json: seed is %llu, but %s was trained with %llu; expected the same",
                    t->options.out, (unsigned long long)t->options.seed, t->resumed_from,
                    (unsigned long long)t->start.seed);
}

ls_status ls_record_check(const ls_training *t) {
    LS_TRY(check_seed(t));
    ls_json_value run = ls_json_root(t->record), model, data;
    LS_TRY(ls_json_object(run, "model", &model));
    LS_TRY(ls_json_object(run, "data", &data));
    const char *config;
    LS_TRY(ls_json_text(model, "config", &config));
    if (strcmp(config, ls_model_config_text(t->model)) != 0)
        return ls_error(LS_USAGE, "--model %s is not the model of %s/run.json; expected the same config.json",
                        t->options.model, t->options.out);
    const ls_data_summary *d = ls_data_summarise(t->data);
    int64_t tokens;
    double nats;
    LS_TRY(ls_json_int(data, "tokens", 0, INT64_MAX, &tokens));
    LS_TRY(ls_json_double(data, "unigram_nats", 0, 1e9, &nats));
    if (tokens != d->tokens || nats != t->unigram)
        return ls_error(LS_USAGE, "--data is not the text of %s/run.json: %lld tokens, expected %lld%s", t->options.out,
                        (long long)d->tokens, (long long)tokens, tokens == d->tokens ? " of other content" : "");
    return check_content(t, data);
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
                          double eval_loss) {
    if (t->events == NULL) return ls_ok();
    const ls_tfevents_scalar scalars[] = {
        {"train/loss", report->loss},
        {"train/grad_norm", report->grad_norm},
        {"train/lr", lr},
        {"speed/tokens_per_second", (double)report->tokens / fmax(report->seconds, 1e-9)},
        {"eval/loss", eval_loss}, /* left out when NaN */
    };
    return ls_tfevents_append(t->events, wall_time(), step, scalars, LS_COUNT(scalars));
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

ls_status ls_record_step(const ls_training *t, int64_t step, double lr, const ls_step_report *report, double eval_loss,
                         const ls_start_up *start_up) {
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
    if (isfinite(eval_loss)) ls_json_put_double(w, "eval_loss", eval_loss);
    if (start_up != NULL) put_start_up(start_up, w);
    return ls_jsonl_append(path, w);
}

/*
 * Reads columns of metrics.jsonl: *out is [n, rows], freed by the caller. *rows 0 and *out NULL when the file does not
 * exist.
 */
static ls_status read_columns(const ls_training *t, const char *const *keys, int n, double **out, int64_t *rows) {
    LS_PATH path = NULL;
    LS_TRY(ls_record_path(t, "metrics.jsonl", &path));
    *rows = 0;
    *out = NULL;
    return ls_file_exists(path) ? ls_jsonl_columns(path, keys, n, out, rows) : ls_ok();
}

/* *out becomes a value of a step's line; NaN where there is none. */
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

/* Removes the points where y is not finite, so that the line joins the others. Returns how many are left. */
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
