/*
 * longspan grad: one forward and backward pass of a model on given tokens. The program step sums the gradients over the
 * ranks and leaves each rank its shard of the flat space of parameters; rank 0 writes the pieces of all ranks into one
 * file (grad_file.c).
 */
#include "cli/grad_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct grad_run {
    const ls_grad_job *job;
    ls_dtype dtype;
    ls_model *model;
    ls_grad_inputs in;
    int64_t micro_batches, rows; /* rows: sequences of each */
    double divisor;              /* N, by which the loss is divided */
    ls_graph *graph;
    ls_language_model lm;
    ls_array logits;  /* without data if they are not written */
    char *partial;    /* path of the file until it is complete */
    ls_st_plan *plan; /* one entry per parameter, in the image's order */
} grad_run;

/* --- before the ranks --------------------------------------------------------------------------------------------- */

static ls_status read_inputs(grad_run *r) {
    LS_TRY(ls_job_dtype(r->job->dtype, LS_F32, &r->dtype));
    LS_TRY(ls_model_open_changed(r->job->model, &r->job->rope, &r->model));
    LS_TRY(ls_model_adapt(r->model, &r->job->adapter));
    LS_TRY(ls_grad_inputs_read(r->job, r->model, ls_dtype_accumulator(r->dtype), &r->in));
    r->divisor = ls_grad_inputs_divisor(&r->in, r->model);
    r->rows = r->in.tokens.size[0] / r->micro_batches;
    if (r->rows * r->micro_batches == r->in.tokens.size[0]) return ls_ok();
    return ls_error(LS_USAGE, "%s: %lld sequences do not divide into --accumulate %lld micro-batches", r->job->tokens,
                    (long long)r->in.tokens.size[0], (long long)r->micro_batches);
}

/*
 * Checks that all processes of launched ranks have read the same inputs. mine: the status of reading them in this
 * process.
 */
static ls_status compare_inputs(const grad_run *r, ls_status mine) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    if (mine.code == LS_OK) {
        ls_alike_add_model(alike, r->model);
        ls_alike_add_folder(alike, "--model", ls_model_folder(r->model));
        ls_grad_inputs_add(&r->in, r->model, alike);
    }
    return ls_alike_end(alike, mine);
}

static ls_status open_inputs(grad_run *r) {
    LS_TRY(compare_inputs(r, read_inputs(r)));
    if (r->divisor == 0) ls_log("nothing counts (labels are -100, or weights 0): loss and gradients are 0");
    return ls_ok();
}

static ls_status build(grad_run *r) {
    r->graph = ls_graph_create(r->dtype);
    const int64_t *tokens = r->in.tokens.size;
    LS_TRY(ls_model_build(r->model, r->graph, r->rows, tokens[1], true, &r->lm));
    if (r->job->logits == NULL) return ls_ok();
    LS_TRY(ls_model_need_logits(r->model, &r->lm, "--logits"));
    const int64_t size[] = {tokens[0], tokens[1], ls_graph_tensor(r->graph, r->lm.logits)->shape.dim[2].size};
    return ls_array_make(ls_graph_tensor(r->graph, r->lm.logits)->dtype, 3, size, &r->logits);
}

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static ls_status fill_weights(const grad_run *r, ls_rank *rank) {
    ls_weight_source source;
    LS_TRY(ls_comm_agree(rank->comm, ls_model_weights(r->model, rank->image, r->job->seed, &source)));
    if (rank->rank == 0 && !ls_weights_from_file(&source))
        ls_log("%s has no *.safetensors: random weights from seed %llu", ls_model_folder(r->model),
               (unsigned long long)r->job->seed);
    const ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    ls_weights_close(&source);
    return status;
}

/* What is sent home beside the files. */
typedef struct outcome {
    double loss;    /* summed over the tokens */
    double seconds; /* of the slowest rank */
} outcome;

/* A run on a rank. */
typedef struct running {
    const grad_run *run;
    const ls_rank *rank;
} running;

static ls_status feed(void *context, int64_t micro_batch) {
    const running *r = context;
    return ls_grad_inputs_put(&r->run->in, r->run->model, r->rank, &(ls_micro_rows){micro_batch, r->run->rows});
}

/* Writes the logits of a micro-batch to the caller's array. */
static ls_status read_logits(void *context, int64_t micro_batch) {
    const running *r = context;
    const ls_array *logits = &r->run->logits;
    const size_t bytes = logits->bytes / (size_t)r->run->micro_batches;
    if (logits->data == NULL) return ls_ok();
    return ls_rank_gather_micro_home(r->rank, "logits", micro_batch,
                                     (char *)logits->data + bytes * (size_t)micro_batch);
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const grad_run *r = input;
    outcome *out = result;
    running on = {r, rank};
    ls_comm_end_at_stop(rank->comm, true);
    LS_TRY(fill_weights(r, rank));
    LS_TRY(ls_comm_barrier(rank->comm)); /* so that the seconds do not include waiting for other ranks to start */
    LS_TRY(ls_rank_run_step(rank, &(ls_step_numbers){.divisor = r->divisor},
                            &(ls_micro_batches){r->micro_batches, feed, read_logits, &on}));
    out->seconds = ls_executor_times(rank->executor).total;
    LS_TRY(ls_comm_max_f64(rank->comm, &out->seconds, 1));
    ls_step_sums sums;
    LS_TRY(ls_rank_read_step(rank, &sums));
    out->loss = sums.loss;
    return ls_grad_file_write(rank, r->partial, r->plan);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static ls_status run_ranks(const grad_run *r, ls_session *session, ls_grad_result *result) {
    outcome found = {0, 0};
    LS_TRY(ls_session_run(session, on_rank, r, &found, sizeof found));
    result->tokens = r->in.valid;
    result->loss = r->divisor != 0 ? found.loss / r->divisor : 0;
    result->spread = ls_session_describe(session);
    result->spread.seconds = found.seconds;
    return ls_ok();
}

static ls_status write_logits(const grad_run *r) {
    const ls_array *a = &r->logits;
    if (a->data == NULL) return ls_ok();
    return ls_npy_write(r->job->logits, a->dtype == LS_F64 ? LS_NPY_F8 : LS_NPY_F4, a->ndim, a->size, a->data);
}

/* At home: creates the file under a temporary name, for rank 0 to fill. */
static ls_status create_file(grad_run *r, ls_st_writer **writer) {
    if (r->job->logits != NULL) LS_TRY(ls_file_try(r->job->logits));
    LS_TRY(ls_path_print(&r->partial, "%s.partial-%ld", r->job->out, (long)getpid()));
    return ls_st_create(r->partial, r->plan, writer);
}

/* At home, after the ranks have ended: completes the file. */
static ls_status finish_file(const grad_run *r, ls_st_writer *writer) {
    LS_TRY(ls_st_finish(writer));
    LS_TRY(write_logits(r));
    return ls_file_rename(r->partial, r->job->out);
}

static ls_status run_and_write(grad_run *r, ls_session *session, ls_grad_result *result) {
    ls_st_writer *writer = NULL;
    LS_TRY(ls_grad_file_plan(ls_session_image(session), &r->plan));
    ls_status status = ls_home_agree(ls_is_home() ? create_file(r, &writer) : ls_ok());
    if (status.code == LS_OK) status = run_ranks(r, session, result);
    if (status.code == LS_OK)
        status = ls_home_agree(ls_is_home() ? finish_file(r, writer) : ls_ok());
    else if (writer != NULL)
        ls_st_abandon(writer);
    if (status.code != LS_OK && r->partial != NULL) unlink(r->partial);
    return status;
}

static ls_status compute(grad_run *r, ls_grad_result *result) {
    LS_TRY(open_inputs(r));
    LS_TRY(build(r));
    const ls_job job = {
        .graph = r->graph,
        .programs = ls_training_programs(r->graph, r->lm.forward_nodes, LS_UPDATE_REDUCE, (int)r->micro_batches - 1),
        .documents = r->in.documents,
        .n_documents = r->in.apart ? (int)r->in.tokens.size[0] : 0,
        .fetch = &r->lm.logits,
        .n_fetch = r->job->logits != NULL,
        .micro_batches = (int)r->micro_batches,
        .filled_together = true};
    ls_session *session;
    LS_TRY(ls_session_open(&job, &r->job->spread, &session));
    const ls_status status = run_and_write(r, session, result);
    ls_session_close(session);
    return status;
}

ls_status ls_run_grad(const ls_grad_job *job, ls_grad_result *result) {
    LS_NEED(job, "job");
    LS_NEED(result, "result");
    LS_NEED(job->tokens, "job->tokens");
    LS_NEED(job->out, "job->out");
    LS_TRY(ls_check_texts("inputs", job->inputs, job->n_inputs));
    grad_run r = {.job = job, .micro_batches = ls_max(1, job->accumulate)};
    ls_grad_result done = {.loss = 0};
    const ls_status status = compute(&r, &done);
    free(r.partial);
    ls_grad_inputs_free(&r.in);
    ls_array_free(&r.logits);
    ls_st_plan_destroy(r.plan);
    ls_graph_destroy(r.graph);
    ls_model_close(r.model);
    if (status.code == LS_OK) *result = done;
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct grad_flags {
    cli_common common;
    ls_grad_job job;
    ls_option_list inputs;
} grad_flags;

#define AT(field) offsetof(grad_flags, job.field)
static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_REQUIRED_TEXT("tokens", "FILE", AT(tokens), "token ids [B,S], i4 or i8 .npy"),
    CLI_TEXT("labels", "FILE", AT(labels),
             "target at each position [B,S], -100 is ignored; the next token when left out. For an imported graph "
             "that shifts its labels: the user's own, which are shifted here"),
    CLI_TEXT("position-ids", "FILE", AT(positions),
             "position of each token in its document [B,S], i4 or i8 .npy: a document begins at each 0, and sees no "
             "other; one document in each row when left out"),
    CLI_TEXT("documents", "FILE", AT(documents),
             "number of each token's document [B,S], i4 or i8 .npy: a document begins where it changes, and sees no "
             "other; positions count on through them"),
    CLI_LIST("input", "NAME=FILE", offsetof(grad_flags, inputs),
             "of an imported graph: another input [B,S], i4 or i8, or f4 or f8 .npy; one word for each"),
    CLI_INT("accumulate", "N", "1", 1, 0x1p24, AT(accumulate), "micro-batches that the sequences are cut into"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of random weights, if the model has none"),
    CLI_REQUIRED_TEXT("out", "FILE", AT(out), "safetensors with the weights' names and shapes, F32 (F64 for f64)"),
    CLI_TEXT("logits", "FILE", AT(logits), "write the logits too, [B,S,V], f4 (f8 for f64) .npy"),
};
#undef AT

static ls_status run(void *context) {
    grad_flags *flags = context;
    ls_grad_result result;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.adapter = flags->common.adapter;
    flags->job.inputs = flags->inputs.items;
    flags->job.n_inputs = flags->inputs.count;
    LS_TRY(ls_run_grad(&flags->job, &result));
    if (flags->common.json) {
        ls_grad_result_json(&result, stdout);
        return ls_ok();
    }
    printf("loss %.9g over %lld tokens\n", result.loss, (long long)result.tokens);
    cli_print_spread(&result.spread);
    const char *logits = flags->job.logits;
    printf("wrote %s%s%s\n", flags->job.out, logits != NULL ? ", " : "", logits != NULL ? logits : "");
    return ls_ok();
}

const cli_command cli_grad = {
    .name = "grad",
    .summary = "loss and gradients of a model on given tokens",
    .usage = "--model PATH --tokens FILE [--labels FILE] --out FILE [options]",
    .about =
        "One forward and backward pass. The loss is the mean over all labels that are not -100, in nats, and the gradients are those of this mean. "
        "An imported graph says itself what the sum of its losses is divided by.",
    .opens = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, grad_flags),
};
