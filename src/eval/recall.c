/* Recall of a pass key: one decoder for each length; each text is prefilled, and its answer scored token by token. */
#include "eval/eval_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double accuracy_of(const ls_recall_cell *c) {
    return c->samples > 0 ? (double)c->right / (double)c->samples : 0;
}

static ls_recall_cell total(const ls_recall_result *r) {
    ls_recall_cell all = {0, 0, 0};
    for (int l = 0; l < r->n_lengths; l++) {
        for (int d = 0; d < r->n_depths; d++) {
            all.samples += r->cell[l][d].samples;
            all.right += r->cell[l][d].right;
            all.loss += r->cell[l][d].loss / (double)(r->n_lengths * r->n_depths);
        }
    }
    return all;
}

/* Whether a caller's result stays within its arrays, and there is a file. */
static bool can_write(const ls_recall_result *r, FILE *out) {
    return r != NULL && out != NULL && r->n_lengths <= LS_RECALL_LENGTHS && r->n_depths <= LS_RECALL_DEPTHS;
}

void ls_recall_print(const ls_recall_result *r, FILE *out) {
    if (!can_write(r, out)) return;
    fprintf(out, "%-8s", "depth");
    for (int l = 0; l < r->n_lengths; l++) fprintf(out, " %9lld", (long long)r->length[l]);
    fputs("   tokens\n", out);
    for (int d = 0; d < r->n_depths; d++) {
        ls_print_to(out, "%5.0f %% ", 100 * r->depth[d]);
        for (int l = 0; l < r->n_lengths; l++) ls_print_to(out, " %7.0f %%", 100 * accuracy_of(&r->cell[l][d]));
        fputc('\n', out);
    }
    const ls_recall_cell all = total(r);
    ls_print_to(out, "\n%lld of %lld pass keys right · loss of an answer's token %.4f nats\n", (long long)all.right,
                (long long)all.samples, all.loss);
}

static void put(const ls_recall_result *r, ls_json_writer *w) {
    const ls_recall_cell all = total(r);
    ls_json_put_double(w, "accuracy", accuracy_of(&all));
    ls_json_put_double(w, "loss", all.loss);
    ls_json_put_int(w, "samples", all.samples);
    ls_json_put_double(w, "seconds", r->seconds);
    ls_json_open_array(w, "cells");
    for (int l = 0; l < r->n_lengths; l++) {
        for (int d = 0; d < r->n_depths; d++) {
            const ls_recall_cell *c = &r->cell[l][d];
            ls_json_open_object(w, NULL);
            ls_json_put_int(w, "length", r->length[l]);
            ls_json_put_double(w, "depth", r->depth[d]);
            ls_json_put_int(w, "samples", c->samples);
            ls_json_put_int(w, "right", c->right);
            ls_json_put_double(w, "accuracy", accuracy_of(c));
            ls_json_put_double(w, "loss", c->loss);
            ls_json_close(w);
        }
    }
    ls_json_close(w);
}

void ls_recall_result_json(const ls_recall_result *result, FILE *out) {
    if (!can_write(result, out)) return;
    ls_json_writer *w = ls_json_begin(0);
    put(result, w);
    ls_json_end(w, out);
}

/* --- the picture -------------------------------------------------------------------------------------------------- */

enum { LEFT = 92, TOP = 92, RIGHT = 40, BOTTOM = 64, CELL_WIDTH = 84, CELL_HEIGHT = 44, SHADES = 6, LEAST_COLUMNS = 5 };

/* From none right to all right: a single hue with increasing contrast. */
static const char *const light_shades[SHADES] = {"#f3f4f6", "#d3e4f5", "#a5c9ea", "#6ba6d9", "#2f7fc1", "#0b5394"};
static const char *const dark_shades[SHADES] = {"#23262c", "#1f3a54", "#22527c", "#2a6ea8", "#3d8dd0", "#6cb4f2"};
/* The colours of the numbers in the cells. */
static const char *const light_ink[SHADES] = {"#3b3f46", "#22303c", "#16222d", "#0d1720", "#ffffff", "#ffffff"};
static const char *const dark_ink[SHADES] = {"#c9ccd2", "#dbe6f0", "#e6eff8", "#f2f7fc", "#ffffff", "#0d1720"};

/* The strongest shade means all right, the faintest none right; no other accuracy gets these two. */
static int shade_of(double accuracy) {
    if (accuracy >= 1) return SHADES - 1;
    const int shade = (int)(accuracy * (SHADES - 1) + 0.999);
    return shade < SHADES - 1 ? shade : SHADES - 2;
}

static void draw_cell(FILE *out, const ls_recall_result *r, int l, int d) {
    const ls_recall_cell *c = &r->cell[l][d];
    const double x = LEFT + l * CELL_WIDTH, y = TOP + d * CELL_HEIGHT;
    char css[24], text[160];
    const int shade = shade_of(accuracy_of(c));
    snprintf(css, sizeof css, "s%d", shade);
    ls_print(text, sizeof text, "%lld tokens, depth %.0f %%: %lld of %lld right, loss %.4f", (long long)r->length[l],
             100 * r->depth[d], (long long)c->right, (long long)c->samples, c->loss);
    ls_svg_box(out, css, x + 1, y + 1, CELL_WIDTH - 2, CELL_HEIGHT - 2, text);
    snprintf(css, sizeof css, "x i%d", shade);
    ls_print(text, sizeof text, "%.0f %%", 100 * accuracy_of(c));
    ls_svg_text(out, css, x + CELL_WIDTH / 2.0, y + CELL_HEIGHT / 2.0 + 5, text);
}

static void draw(FILE *out, const void *context) {
    const ls_recall_result *r = context;
    const ls_recall_cell all = total(r);
    const double bottom = TOP + r->n_depths * CELL_HEIGHT;
    char text[120];
    ls_svg_text(out, "title", LEFT, 38, "Recall of a pass key");
    snprintf(text, sizeof text, "%lld of %lld right", (long long)all.right, (long long)all.samples);
    ls_svg_text(out, "small", LEFT, 64, text);
    for (int d = 0; d < r->n_depths; d++) {
        ls_print(text, sizeof text, "%.0f %%", 100 * r->depth[d]);
        ls_svg_text(out, "y", LEFT - 10, TOP + (d + 0.5) * CELL_HEIGHT + 5, text);
        for (int l = 0; l < r->n_lengths; l++) draw_cell(out, r, l, d);
    }
    for (int l = 0; l < r->n_lengths; l++) {
        snprintf(text, sizeof text, "%lld", (long long)r->length[l]);
        ls_svg_text(out, "x", LEFT + (l + 0.5) * CELL_WIDTH, bottom + 22, text);
    }
    ls_svg_text(out, "x", LEFT + r->n_lengths * CELL_WIDTH / 2.0, bottom + 48, "tokens");
    ls_svg_text_upwards(out, "x", 24, (TOP + bottom) / 2, "depth of the key");
}

ls_status ls_recall_write(const ls_recall_result *r, const char *folder) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, "recall.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    put(r, w);
    LS_TRY(ls_json_end_file(w, path));
    LS_TRY(ls_path_join(folder, "recall.svg", &path));
    const ls_svg_palette palettes[] = {{"s", "fill", light_shades, dark_shades, SHADES},
                                       {"i", "fill", light_ink, dark_ink, SHADES}};
    const int columns = r->n_lengths > LEAST_COLUMNS ? r->n_lengths : LEAST_COLUMNS;
    const ls_svg_look look = {.width = LEFT + columns * CELL_WIDTH + RIGHT,
                              .height = TOP + r->n_depths * CELL_HEIGHT + BOTTOM,
                              .palettes = palettes,
                              .n_palettes = 2};
    return ls_svg_write(path, &look, draw, r);
}

/* --- running it --------------------------------------------------------------------------------------------------- */

/* The state of one ls_recall. */
typedef struct asking {
    const ls_recall_options *options;
    const ls_trained *trained;
    const ls_decoder *decoder; /* decoder for the current length */
    ls_haystack haystack;
    int length; /* index of the current length */
    const double *depths;
    ls_progress *progress;
} asking;

/* The answers of one length, by depth. */
typedef struct answers {
    ls_recall_cell cell[LS_RECALL_DEPTHS];
} answers;

double ls_recall_surprise(const float *logits, int64_t V, int32_t id, bool *likeliest) {
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < V; v++)
        if ((double)logits[v] > most) most = (double)logits[v]; /* fmax here crashes gcc 12 on aarch64 */
    for (int64_t v = 0; v < V; v++) sum += exp((double)logits[v] - most);
    *likeliest = (double)logits[id] == most;
    for (int64_t v = 0; v < id; v++) *likeliest &= (double)logits[v] < most; /* of equal ones, the first counts */
    return most + log(sum) - (double)logits[id];
}

/* Memory in which the texts of one length are made and scored. */
typedef struct room {
    int32_t *ids;
    float *logits;
} room;

/* Scores the answer of one text. All ranks compute the same result. */
static ls_status ask(const asking *a, const ls_rank *rank, const room *at, double depth, int64_t sample,
                     ls_recall_cell *cell) {
    const int64_t n = a->haystack.length, V = ls_model_describe(a->trained->model).outputs;
    ls_needle needle;
    LS_TRY(ls_needle_make(&a->haystack, depth, sample, at->ids, &needle));
    const int64_t asked = n - needle.n_answer;
    LS_TRY(ls_decoder_prefill(a->decoder, rank, at->ids, asked - 1));
    double loss = 0;
    bool right = true;
    for (int64_t i = asked; i < n; i++) {
        bool likeliest;
        LS_TRY(ls_decoder_next(a->decoder, rank, at->ids[i - 1], i - 1, at->logits));
        loss += ls_recall_surprise(at->logits, V, at->ids[i], &likeliest);
        right &= likeliest;
    }
    cell->loss += loss / (double)needle.n_answer / (double)a->options->samples;
    cell->right += right;
    cell->samples++;
    return ls_ok();
}

static ls_status ask_all(const asking *a, const ls_rank *rank, const room *at, answers *out) {
    const int64_t texts = a->options->depths * a->options->samples;
    for (int64_t t = 0; t < texts; t++) {
        ls_status stop = ls_ok();
        if (ls_comm_stop_requested(rank->comm)) stop = ls_error(LS_INTERRUPTED, "stopped");
        LS_TRY(ls_comm_agree(rank->comm, stop));
        const int64_t depth = t / a->options->samples;
        LS_TRY(ask(a, rank, at, a->depths[depth], t % a->options->samples, &out->cell[depth]));
        if (rank->rank == 0 && a->progress->terminal) ls_progress_show(a->progress, a->length * texts + t + 1, "");
    }
    return ls_ok();
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const asking *a = input;
    LS_TRY(ls_trained_fill(a->trained, rank, a->options->seed));
    const room at = {malloc(sizeof *at.ids * (size_t)a->haystack.length),
                     malloc(sizeof *at.logits * (size_t)ls_model_describe(a->trained->model).outputs)};
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for a text of %lld tokens", (long long)a->haystack.length);
    if (at.ids != NULL && at.logits != NULL) status = ask_all(a, rank, &at, result);
    free(at.logits);
    free(at.ids);
    return status;
}

/* Scores all texts of one length. */
static ls_status ask_length(asking *a, int64_t length, ls_decoder *decoder, ls_data **data, answers *out) {
    const ls_recall_options *o = a->options;
    a->haystack =
        (ls_haystack){.tokenizer = a->trained->tokenizer, .length = length, .samples = o->samples, .seed = o->seed};
    if (o->n_data > 0) {
        const ls_data_options text = {.paths = o->data,
                                      .n_paths = o->n_data,
                                      .tokenizer = a->trained->tokenizer,
                                      .folder = ls_model_folder(a->trained->model),
                                      .form = o->form,
                                      .sequence = length};
        const ls_status opened = ls_data_open(&text, data);
        LS_TRY(ls_text_alike("--data", *data, opened));
        a->haystack.data = *data;
    }
    LS_TRY(ls_decoder_open(a->trained->model, length, length, o->dtype, &o->spread, decoder));
    a->decoder = decoder;
    return ls_session_run(decoder->session, on_rank, a, out, sizeof *out);
}

static ls_status ask_lengths(asking *a, ls_recall_result *out) {
    const ls_recall_options *o = a->options;
    ls_progress progress = ls_progress_start("recall", o->n_lengths * o->depths * o->samples);
    a->progress = &progress;
    ls_status status = ls_ok();
    for (a->length = 0; a->length < o->n_lengths && status.code == LS_OK; a->length++) {
        ls_decoder decoder = {.most = 0};
        ls_data *data = NULL;
        answers found = {{{0, 0, 0}}};
        status = ask_length(a, out->length[a->length], &decoder, &data, &found);
        memcpy(out->cell[a->length], found.cell, sizeof found.cell);
        ls_decoder_close(&decoder);
        ls_data_close(data);
    }
    if (progress.terminal) ls_progress_end(&progress);
    a->progress = NULL;
    return status;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static ls_status check_lengths(const ls_recall_options *o, const ls_trained *trained) {
    const int64_t longest = ls_model_describe(trained->model).longest;
    for (int i = 0; i < o->n_lengths; i++) {
        if (o->lengths[i] < 1 || o->lengths[i] > 1 << 30)
            return ls_error(LS_USAGE, "--lengths %lld; expected 1 to %d", (long long)o->lengths[i], 1 << 30);
        if (longest > 0 && o->lengths[i] > longest)
            ls_log("%lld tokens are more than the model's %lld positions", (long long)o->lengths[i],
                   (long long)longest);
    }
    return ls_ok();
}

static void choose_lengths(ls_recall_options *o, const ls_trained *trained) {
    const int64_t longest = ls_model_describe(trained->model).longest;
    const int64_t most = longest > 0 ? ls_min(longest, 8192) : 8192;
    if (o->n_lengths > 0) return;
    for (int64_t part = 4; part >= 1; part /= 2) o->lengths[o->n_lengths++] = most / part;
}

static ls_status complete(ls_recall_options *o) {
    if (o->depths == 0) o->depths = 5;
    if (o->samples == 0) o->samples = 5;
    if (o->depths < 1 || o->depths > LS_RECALL_DEPTHS || o->samples < 1 || o->samples > 1 << 20)
        return ls_error(LS_USAGE, "--depths %lld and --samples %lld; expected 1 to %d and 1 to %d",
                        (long long)o->depths, (long long)o->samples, LS_RECALL_DEPTHS, 1 << 20);
    if (o->n_lengths < 0 || o->n_lengths > LS_RECALL_LENGTHS)
        return ls_error(LS_USAGE, "%d --lengths; expected 1 to %d", o->n_lengths, LS_RECALL_LENGTHS);
    ls_plan_request request;
    return ls_spread_resolve(&o->spread, &request);
}

static void begin_result(const ls_recall_options *o, ls_recall_result *r) {
    r->n_lengths = o->n_lengths;
    r->n_depths = (int)o->depths;
    for (int i = 0; i < o->n_lengths; i++) r->length[i] = o->lengths[i];
    for (int i = 0; i < r->n_depths; i++) r->depth[i] = r->n_depths > 1 ? (double)i / (double)(r->n_depths - 1) : 0.5;
}

static ls_status recall(ls_recall_options *o, ls_trained *trained, ls_recall_result *out) {
    LS_TRY(ls_trained_open_changed(o->model, o->checkpoint, &o->rope, &o->adapter, trained));
    choose_lengths(o, trained);
    LS_TRY(check_lengths(o, trained));
    const bool writes = ls_is_home() && o->out != NULL;
    LS_TRY(ls_home_agree(writes ? ls_file_make_folders(o->out) : ls_ok()));
    begin_result(o, out);
    const double began = ls_seconds();
    asking a = {.options = o, .trained = trained, .depths = out->depth};
    LS_TRY(ask_lengths(&a, out));
    out->seconds = ls_seconds() - began;
    return ls_home_agree(writes ? ls_recall_write(out, o->out) : ls_ok());
}

ls_status ls_recall(const ls_recall_options *options, ls_recall_result *result) {
    LS_NEED(options, "options");
    LS_NEED(result, "result");
    LS_TRY(ls_check_texts("data", options->data, options->n_data));
    ls_recall_options completed = *options;
    ls_trained trained = {.model = NULL};
    ls_recall_result made = {.n_lengths = 0};
    LS_TRY(complete(&completed));
    const ls_status status = recall(&completed, &trained, &made);
    if (status.code == LS_OK) *result = made;
    ls_trained_close(&trained);
    return status;
}
