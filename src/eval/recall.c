/* The recall command: for each length a decoder, for each text a prefill, and the answer token by token. */
#include "eval/decoder.h"
#include "eval/needle.h"
#include "eval/recall_impl.h"
#include "format/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct asking {
    const ls_recall_options *options;
    const ls_trained *trained;
    const ls_decoder *decoder; /* of the length at work */
    ls_haystack haystack;
    int length; /* its index */
    ls_progress *progress;
    ls_recall_result *result; /* shared with the ranks; rank 0 writes */
} asking;

double ls_recall_surprise(const float *logits, int64_t V, int32_t id, bool *likeliest) {
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < V; v++)
        if ((double)logits[v] > most)
            most = (double)logits[v]; /* gcc 12 breaks down at fmax here, on aarch64 */
    for (int64_t v = 0; v < V; v++) sum += exp((double)logits[v] - most);
    *likeliest = (double)logits[id] == most;
    for (int64_t v = 0; v < id; v++) *likeliest &= (double)logits[v] < most; /* of equal ones the first */
    return most + log(sum) - (double)logits[id];
}

/* One text: how the model likes its answer. Every rank finds the same. */
static ls_status ask(const asking *a, const ls_rank *rank, int32_t *ids, int64_t depth, int64_t sample) {
    ls_recall_cell *cell = &a->result->cell[a->length][depth];
    const int64_t n = a->haystack.length, V = ls_model_describe(a->trained->model).V;
    ls_needle needle;
    LS_TRY(ls_needle_make(&a->haystack, a->result->depth[depth], sample, ids, &needle));
    const int64_t asked = n - needle.n_answer;
    LS_TRY(ls_decoder_prefill(a->decoder, rank, ids, asked - 1));
    double loss = 0;
    bool right = true;
    for (int64_t i = asked; i < n; i++) {
        const float *logits;
        bool likeliest;
        LS_TRY(ls_decoder_next(a->decoder, rank, ids[i - 1], i - 1, &logits));
        loss += ls_recall_surprise(logits, V, ids[i], &likeliest);
        right &= likeliest;
    }
    if (rank->rank != 0) return ls_ok();
    cell->loss += loss / (double)needle.n_answer / (double)a->options->samples;
    cell->right += right;
    cell->samples++;
    return ls_ok();
}

static ls_status ask_all(const asking *a, const ls_rank *rank, int32_t *ids) {
    const int64_t texts = a->options->depths * a->options->samples;
    for (int64_t t = 0; t < texts; t++) {
        ls_status wish = ls_ok();
        if (ls_comm_stop_requested(rank->comm)) wish = ls_error(LS_INTERRUPTED, "stopped");
        LS_TRY(ls_comm_agree(rank->comm, wish));
        LS_TRY(ask(a, rank, ids, t / a->options->samples, t % a->options->samples));
        if (rank->rank == 0 && a->progress->terminal)
            ls_progress_show(a->progress, a->length * texts + t + 1, "");
    }
    return ls_ok();
}

static ls_status on_rank(ls_rank *rank, void *context) {
    const asking *a = context;
    LS_TRY(ls_comm_agree(rank->comm, ls_trained_fill(a->trained, rank, a->options->seed)));
    int32_t *ids = malloc(sizeof *ids * (size_t)a->haystack.length);
    if (ids == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a text of %lld tokens", (long long)a->haystack.length);
    const ls_status status = ask_all(a, rank, ids);
    free(ids);
    return status;
}

/* All texts of one length. */
static ls_status ask_length(asking *a, ls_decoder *decoder, ls_data **data) {
    const ls_recall_options *o = a->options;
    const int64_t length = a->result->length[a->length];
    a->haystack = (ls_haystack){
        .tokenizer = a->trained->tokenizer, .length = length, .samples = o->samples, .seed = o->seed};
    if (o->n_data > 0) {
        const ls_data_options text = {.paths = o->data,
                                      .n_paths = o->n_data,
                                      .tokenizer = a->trained->tokenizer,
                                      .folder = ls_model_directory(a->trained->model),
                                      .form = o->form,
                                      .sequence = length};
        LS_TRY(ls_data_open(&text, data));
        a->haystack.data = *data;
    }
    LS_TRY(ls_decoder_open(a->trained->model, length, length, o->dtype, &o->spread, decoder));
    a->decoder = decoder;
    return ls_session_run(decoder->session, on_rank, a);
}

static ls_status ask_lengths(asking *a) {
    const ls_recall_options *o = a->options;
    ls_progress progress = ls_progress_start("recall", o->n_lengths * o->depths * o->samples);
    a->progress = &progress;
    ls_status status = ls_ok();
    for (a->length = 0; a->length < o->n_lengths && status.code == LS_OK; a->length++) {
        ls_decoder decoder = {.most = 0};
        ls_data *data = NULL;
        status = ask_length(a, &decoder, &data);
        ls_decoder_close(&decoder);
        ls_data_close(data);
    }
    if (progress.terminal) ls_progress_end(&progress);
    a->progress = NULL;
    return status;
}

/* --- options ------------------------------------------------------------------------------------------------------------------ */

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
    for (int i = 0; i < r->n_depths; i++)
        r->depth[i] = r->n_depths > 1 ? (double)i / (double)(r->n_depths - 1) : 0.5;
}

static ls_status recall(ls_recall_options *o, ls_trained *trained, ls_recall_result *shared) {
    LS_TRY(ls_trained_open_changed(o->model, o->checkpoint, &o->rope, trained));
    choose_lengths(o, trained);
    LS_TRY(check_lengths(o, trained));
    if (o->out != NULL) LS_TRY(ls_file_make_directories(o->out));
    begin_result(o, shared);
    const double began = ls_seconds();
    asking a = {.options = o, .trained = trained, .result = shared};
    LS_TRY(ask_lengths(&a));
    shared->seconds = ls_seconds() - began;
    return o->out != NULL ? ls_recall_write(shared, o->out) : ls_ok();
}

ls_status ls_recall(const ls_recall_options *options, ls_recall_result *result) {
    LS_NEED(options, "options");
    LS_NEED(result, "result");
    LS_TRY(ls_file_check_paths(options->data, options->n_data));
    ls_recall_options completed = *options;
    ls_trained trained = {.model = NULL};
    void *shared;
    LS_TRY(complete(&completed));
    LS_TRY(ls_shared_map(sizeof *result, &shared));
    const ls_status status = recall(&completed, &trained, shared);
    if (status.code == LS_OK) *result = *(const ls_recall_result *)shared;
    ls_shared_unmap(shared, sizeof *result);
    ls_trained_close(&trained);
    return status;
}
