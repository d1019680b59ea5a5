/* The loss of a model on a text: forward passes over its sequences. */
#include "eval/eval_impl.h"
#include "graph/graph.h"
#include "weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- on open data ------------------------------------------------------------------------------------------------- */

/* What rank 0 computes and the caller receives. */
typedef struct outcome {
    ls_loss_sums sums;
    double seconds;
    int64_t resident; /* the largest value of all ranks */
} outcome;

typedef struct evaluation {
    const ls_eval_options *options; /* with defaults filled in */
    const ls_trained *trained;
    const ls_data *data;
    int64_t n; /* number of sequences */
    ls_typical typical;
    ls_graph *graph;
    ls_tensor fetched[3]; /* losses and, if wanted, ids and log-probabilities of the likeliest words */
    ls_job job;
    ls_session *session;
} evaluation;

/*
 * The number of batches that a program runs if the mesh has stages: a few for each stage, but not many more than there
 * are. With p stages and m batches, all stages work during m of m + p - 1 turns.
 */
static int batches_at_once(const evaluation *e) {
    enum { FOR_A_STAGE = 4 };
    const int stages = ls_spread_stages(&e->options->spread);
    return stages == 1 ? 1 : stages * (int)ls_min(FOR_A_STAGE, ls_ceil_div(e->n, e->options->batch * stages));
}

static ls_status open_program(evaluation *e) {
    const ls_eval_options *o = e->options;
    ls_language_model lm;
    e->graph = ls_graph_create(strcmp(o->dtype, "bf16") == 0 ? LS_BF16 : LS_F32);
    LS_TRY(ls_model_build(e->trained->model, e->graph, o->batch, o->seq, false, &lm));
    LS_TRY(ls_model_need_token_loss(e->trained->model, &lm, "an evaluation"));
    e->fetched[0] = lm.token_loss;
    if (o->top > 0) {
        LS_TRY(ls_model_need_logits(e->trained->model, &lm, "--top"));
        const ls_likeliest top = ls_model_likeliest(e->graph, lm.logits, (int)o->top,
                                                    ls_tokenizer_vocabulary(e->trained->tokenizer), o->temperature);
        LS_TRY(ls_graph_status(e->graph));
        e->fetched[1] = top.ids;
        e->fetched[2] = top.logprobs;
    }
    LS_TRY(ls_typical_read(e->data, ls_model_takes(e->trained->model).marks, o->seq, &e->typical));
    e->job = (ls_job){.graph = e->graph,
                      .programs = ls_forward_programs(e->graph),
                      .documents = e->typical.terms,
                      .n_documents = e->typical.n,
                      .fetch = e->fetched,
                      .n_fetch = o->top > 0 ? 3 : 1,
                      .micro_batches = batches_at_once(e),
                      .filled_together = true};
    return ls_session_open(&e->job, &o->spread, &e->session);
}

typedef struct adding {
    ls_loss_sums *sums;
    int64_t seq;
    ls_logprobs *logprobs; /* NULL: not wanted */
    ls_teacher_file *teacher;
} adding;

static void add_losses(void *context, const ls_sample *sample, const float *losses) {
    const adding *a = context;
    ls_loss_sums_add(a->sums, a->seq, sample, losses);
    if (a->logprobs != NULL) ls_logprobs_add(a->logprobs, sample->labels, losses);
    if (a->teacher != NULL) ls_teacher_file_add(a->teacher, sample);
}

/* to: what rank 0 collects for each token besides the sums. */
static ls_status score_text(const evaluation *e, const ls_rank *rank, adding to, outcome *out) {
    to.sums = &out->sums;
    to.seq = e->options->seq;
    const ls_text_sequences text = {e->data, e->n, ls_model_takes(e->trained->model).marks, e->options->seq};
    const ls_sequences from = ls_text_sequences_of(&text);
    ls_progress progress = ls_progress_start("evaluating", e->n);
    const bool shown = rank->rank == 0 && progress.terminal;
    const double began = ls_seconds();
    const ls_evaluation all = {
        .from = &from, .n = e->n, .progress = shown ? &progress : NULL, .on_sequence = add_losses, .context = &to};
    const ls_status status = ls_rank_evaluate(rank, &all, NULL);
    if (shown) ls_progress_end(&progress);
    LS_TRY(status);
    bool finite = true;
    if (rank->rank == 0) {
        out->seconds = ls_seconds() - began;
        const ls_loss_table table = ls_loss_sums_table(&out->sums, INFINITY);
        finite = table.all.tokens == 0 || isfinite(table.all.loss);
    }
    LS_TRY(ls_comm_broadcast(rank->comm, &finite, sizeof finite));
    return finite ? ls_ok() : ls_weights_not_finite(rank->executor, rank->comm, "the loss is");
}

/* The same; also writes the log-probability of each token. */
static ls_status score_tokens(const evaluation *e, const ls_rank *rank, outcome *out) {
    const bool writes = rank->rank == 0;
    ls_logprobs *logprobs = writes ? ls_logprobs_create(e->data, e->options->seq, e->n) : NULL;
    const bool fails = writes && logprobs == NULL;
    ls_status status =
        ls_comm_agree(rank->comm, fails ? ls_error(LS_NO_MEMORY, "no memory for %s", e->options->logprobs) : ls_ok());
    if (status.code == LS_OK) status = score_text(e, rank, (adding){.logprobs = logprobs}, out);
    if (status.code == LS_OK)
        status = ls_comm_agree(rank->comm, writes ? ls_logprobs_write(logprobs, e->options->logprobs) : ls_ok());
    ls_logprobs_destroy(logprobs);
    return status;
}

/* Writes the model's likeliest words, as a teacher. */
static ls_status teach(const evaluation *e, const ls_rank *rank, outcome *out) {
    const ls_eval_options *o = e->options;
    const ls_teacher_options options = {e->data, o->seq, e->n, (int)o->top, o->temperature, o->logprobs};
    const bool writes = rank->rank == 0;
    ls_teacher_file *file = NULL;
    ls_status status = ls_comm_agree(rank->comm, writes ? ls_teacher_file_create(&options, &file) : ls_ok());
    if (status.code == LS_OK) status = score_text(e, rank, (adding){.teacher = file}, out);
    if (status.code == LS_OK) status = ls_comm_agree(rank->comm, writes ? ls_teacher_file_finish(file) : ls_ok());
    ls_teacher_file_destroy(file);
    return status;
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const evaluation *e = input;
    outcome *out = result;
    LS_TRY(ls_trained_fill(e->trained, rank, e->options->seed));
    LS_TRY(e->options->logprobs == NULL ? score_text(e, rank, (adding){.logprobs = NULL}, out)
           : e->options->top > 0        ? teach(e, rank, out)
                                        : score_tokens(e, rank, out));
    out->resident = ls_resident_bytes(rank).arenas;
    return ls_comm_max_i64(rank->comm, &out->resident, 1);
}

static ls_status write_files(const evaluation *e, const ls_eval_result *result) {
    const char *out = e->options->out;
    LS_PATH path = NULL;
    if (out == NULL) return ls_ok();
    LS_TRY(ls_path_join(out, "eval.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "model", ls_model_folder(e->trained->model));
    ls_json_put_text(w, "checkpoint", e->trained->checkpoint);
    ls_json_put_int(w, "seq", e->options->seq);
    ls_json_put_text(w, "pack", ls_data_pack(e->data));
    ls_json_put_int(w, "text_sequences", result->text_sequences);
    ls_loss_table_put(&result->table, w);
    LS_TRY(ls_json_end_file(w, path));
    return ls_loss_table_draw(&result->table, out);
}

/* At home: fills in the result, and writes the files. */
static ls_status report(const evaluation *e, const outcome *found, ls_eval_result *result) {
    ls_eval_result made = {.table = ls_loss_sums_table(&found->sums, LS_LOSS_BIN_ERROR),
                           .text_sequences = ls_data_summarise(e->data)->windows,
                           .resident_bytes = found->resident,
                           .spread = ls_session_describe(e->session)};
    if (made.table.all.tokens == 0)
        return ls_error(LS_INVALID, "%lld sequences have no label to predict: all their tokens are masked",
                        (long long)e->n);
    made.perplexity = exp(made.table.all.loss);
    made.spread.seconds = found->seconds;
    LS_TRY(write_files(e, &made));
    *result = made;
    return ls_ok();
}

static ls_status evaluate(evaluation *e, outcome *found, ls_eval_result *result) {
    const bool writes = ls_is_home() && e->options->out != NULL;
    LS_TRY(ls_home_agree(writes ? ls_file_make_folders(e->options->out) : ls_ok()));
    const bool lists = ls_is_home() && e->options->logprobs != NULL;
    LS_TRY(ls_home_agree(lists ? ls_file_try(e->options->logprobs) : ls_ok()));
    LS_TRY(open_program(e));
    LS_TRY(ls_session_run(e->session, on_rank, e, found, sizeof *found));
    return ls_home_agree(ls_is_home() ? report(e, found, result) : ls_ok());
}

ls_status ls_evaluate_text(const ls_eval_options *options, const ls_trained *trained, const ls_data *data,
                           ls_eval_result *result) {
    const int64_t windows = ls_data_summarise(data)->windows;
    evaluation e = {.options = options, .trained = trained, .data = data, .n = windows};
    if (options->sequences > 0) e.n = ls_min(options->sequences, windows);
    outcome *found = calloc(1, sizeof *found);
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for the losses of an evaluation");
    if (found != NULL) status = evaluate(&e, found, result);
    free(found);
    ls_session_close(e.session);
    ls_graph_destroy(e.graph);
    ls_typical_free(&e.typical);
    return status;
}

/* --- from options ------------------------------------------------------------------------------------------------- */

static ls_status complete_top(ls_eval_options *o) {
    if (o->top < 0 || o->top > LS_MOST_TEACHER)
        return ls_error(LS_USAGE, "--top %lld; expected 0 to %d words", (long long)o->top, LS_MOST_TEACHER);
    if (o->top > 0 && o->logprobs == NULL) return ls_error(LS_USAGE, "--top needs a file for the words (logprobs)");
    if (o->temperature != 0 && o->temperature != 1 && o->top == 0)
        return ls_error(LS_USAGE, "--temperature %g needs --top, whose log-probabilities it is of", o->temperature);
    if (o->temperature == 0) o->temperature = 1;
    if (!(o->temperature >= 1e-3 && o->temperature <= 1e3))
        return ls_error(LS_USAGE, "--temperature %g; expected 0.001 to 1000", o->temperature);
    return ls_ok();
}

static ls_status complete(ls_eval_options *o) {
    if (o->n_data < 1) return ls_error(LS_USAGE, "--data is missing; expected files or folders of text");
    if (o->seq == 0) o->seq = 1024;
    if (o->batch == 0) o->batch = 1;
    LS_TRY(ls_step_size_check(o->seq, o->batch));
    if (o->sequences < 0) return ls_error(LS_USAGE, "--sequences %lld; expected 1 or more", (long long)o->sequences);
    if (o->pack == NULL) o->pack = "auto";
    if (o->dtype == NULL) o->dtype = "f32";
    if (strcmp(o->dtype, "f32") != 0 && strcmp(o->dtype, "bf16") != 0)
        return ls_error(LS_USAGE, "--dtype is %s; expected f32 or bf16", o->dtype);
    LS_TRY(complete_top(o));
    ls_plan_request request;
    return ls_spread_resolve(&o->spread, &request);
}

/* Words of a teacher must be those of a document by itself. */
static ls_status check_top(const ls_eval_options *o, const ls_trained *trained, const ls_data *data) {
    const int64_t known = ls_tokenizer_vocabulary(trained->tokenizer);
    if (o->top > known)
        return ls_error(LS_USAGE, "--top is %lld, and the tokenizer has %lld words", (long long)o->top,
                        (long long)known);
    if (o->top > 0 && ls_data_pairs(data))
        return ls_error(LS_USAGE, "--top with --records %s, which hold answers to compare; expected another kind",
                        o->form.records);
    if (o->top > 0 && !ls_data_apart(data))
        return ls_error(LS_USAGE, "--top with --pack %s, whose documents see each other; expected best or stream",
                        ls_data_pack(data));
    return ls_ok();
}

static ls_status open_and_evaluate(const ls_eval_options *o, ls_trained *trained, ls_data **data,
                                   ls_eval_result *result) {
    LS_TRY(ls_trained_open_changed(o->model, o->checkpoint, &o->rope, &o->adapter, trained));
    const ls_data_options text = {.paths = o->data,
                                  .n_paths = o->n_data,
                                  .tokenizer = trained->tokenizer,
                                  .folder = ls_model_folder(trained->model),
                                  .form = o->form,
                                  .sequence = o->seq,
                                  .pack = o->pack};
    const ls_status opened = ls_data_open(&text, data);
    LS_TRY(ls_text_alike("--data", *data, opened));
    if (ls_data_apart(*data)) LS_TRY(ls_model_check_apart(trained->model, o->seq));
    LS_TRY(check_top(o, trained, *data));
    ls_data_log_left_out(*data);
    ls_data_log_packing(*data);
    return ls_evaluate_text(o, trained, *data, result);
}

ls_status ls_evaluate(const ls_eval_options *options, ls_eval_result *result) {
    LS_NEED(options, "options");
    LS_NEED(result, "result");
    LS_TRY(ls_check_texts("data", options->data, options->n_data));
    ls_eval_options completed = *options;
    ls_trained trained = {.model = NULL};
    ls_data *data = NULL;
    LS_TRY(complete(&completed));
    const ls_status status = open_and_evaluate(&completed, &trained, &data, result);
    ls_data_close(data);
    ls_trained_close(&trained);
    return status;
}
