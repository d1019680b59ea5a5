/* A training from its options to its result: everything before and after the ranks run. */
#include "train/train_impl.h"

#include "checkpoint/checkpoint.h"
#include "eval/eval.h"
#include "plan/plan.h"
#include "session/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- a fresh start or a resumed run ------------------------------------------------------------------------------- */

/* Removes the metrics of an earlier run that ended before its first checkpoint. */
static ls_status remove_old_metrics(const ls_training *t) {
    LS_PATH path = NULL;
    LS_TRY(ls_record_path(t, "metrics.jsonl", &path));
    if (ls_file_exists(path)) ls_log("%s has no checkpoint: starting over", t->options.out);
    return ls_file_remove_tree(path);
}

/* At home: takes the lock of the folder, and checks that it holds no run unless one is resumed. */
static ls_status claim(ls_training *t) {
    LS_TRY(ls_folder_claim(t));
    return t->options.resume ? ls_ok() : ls_folder_refuse_existing(t);
}

/* Finds the newest intact checkpoint; all processes check it together. */
static ls_status find_whole(ls_training *t) {
    ls_launched launched;
    LS_TRY(ls_launched_find(&launched));
    const ls_checkpoint_share share = {.process = launched.rank,
                                       .processes = (int)ls_max(1, launched.ranks),
                                       .agree = ls_home_agree,
                                       .tell = ls_home_tell};
    return ls_checkpoint_find_whole(t->options.out, &share, &t->resumed_from);
}

/* Reads the state and run.json of the run to resume. */
static ls_status open_resumed(ls_training *t) {
    LS_PATH path = NULL;
    LS_TRY(ls_checkpoint_state(t->resumed_from, &t->start));
    LS_TRY(ls_record_path(t, "run.json", &path));
    return ls_json_read(path, LS_JSON_MOST_BYTES, &t->record);
}

/* Removes the metrics of steps after the checkpoint, since these steps will be repeated. Called after all checks. */
static ls_status drop_later_metrics(const ls_training *t) {
    LS_PATH path = NULL;
    int64_t dropped = 0, strange = 0;
    LS_TRY(ls_record_path(t, "metrics.jsonl", &path));
    LS_TRY(ls_jsonl_truncate(path, "step", t->start.step, &dropped, &strange));
    if (strange > 0)
        ls_log("warning: %s line %lld is no record of a step: such lines are kept, and ignored", path,
               (long long)strange);
    ls_log("resuming after step %lld from %s%s", (long long)t->start.step, t->resumed_from,
           dropped > 0 ? "; later metrics are dropped" : "");
    return ls_ok();
}

/* Finds the best evaluation of the resumed run, if its checkpoint exists. */
static ls_status find_best(ls_training *t) {
    t->best_loss = INFINITY;
    const int64_t step = t->options.keep_best && t->resumed_from != NULL ? ls_checkpoint_best(t->options.out) : -1;
    if (step < 1) return ls_ok();
    if (step <= t->other_evaluations) {
        ls_log("the best evaluation so far, after step %lld, read other sequences: it does not count any more",
               (long long)step);
        return ls_ok();
    }
    LS_TRY(ls_record_evaluation(t, step, &t->best_loss));
    t->best_step = isfinite(t->best_loss) ? step : 0;
    return ls_ok();
}

/* --- the memory of each rank -------------------------------------------------------------------------------------- */

/* LS_NO_MEMORY if the ranks of this machine together map more memory than it has. */
static ls_status check_fits(const ls_training *t) {
    const int ranks = ls_session_ranks(t->session);
    int64_t all = 0, most = 0;
    for (int r = 0; r < ranks; r++) {
        all += ls_session_bytes(t->session, r)->on_host;
        most = ls_max(most, ls_session_bytes(t->session, r)->on_host);
    }
    ls_machine machine;
    ls_hosts hosts;
    ls_machine_detect(&machine);
    LS_TRY(ls_hosts_find(ranks, &hosts));
    all = all / ranks * hosts.machine_ranks;
    if (machine.memory_bytes != 0 && all > (int64_t)machine.memory_bytes)
        return ls_error(LS_NO_MEMORY,
                        "%d ranks need %lld bytes together (%lld the largest), but this machine has %zu; use a "
                        "shorter --seq or a larger --accumulate",
                        hosts.machine_ranks, (long long)all, (long long)most, machine.memory_bytes);
    return ls_ok();
}

/* Finds t->one_rank_bytes by compiling for one rank. */
static ls_status compile_alone(ls_training *t) {
    ls_image *alone;
    LS_TRY(ls_compile_alone(&t->job, &ls_session_plan(t->session)->target, &alone));
    t->one_rank_bytes = (int64_t)ls_image_mapped(alone);
    ls_image_destroy(alone);
    return ls_ok();
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* Makes the job of a step at one sequence length (ls_plan_variants). */
static ls_status make_job(void *context, int64_t seq, ls_graph **graph, ls_job *job) {
    const ls_training *t = context;
    const ls_train_options *o = &t->options;
    *graph = ls_graph_create(strcmp(o->dtype, "bf16") == 0 ? LS_BF16 : LS_F32);
    ls_language_model lm;
    LS_TRY(ls_model_build(t->model, *graph, o->batch / o->accumulate, seq, false, &lm));
    const ls_optimizer *optimizer;
    LS_TRY(ls_optimizer_find(o->optimizer, &optimizer));
    const ls_parameter_settings *own;
    const ls_groups groups = {o->groups, o->n_groups, o->weight_decay};
    LS_TRY(ls_groups_apply(&groups, t->model, optimizer, *graph, &own));
    LS_TRY(ls_graph_differentiate_loss(*graph, lm.loss));
    const bool typical = seq == o->seq; /* t->typical is made for the sequence length of the options */
    const bool evaluates = t->eval_data != NULL || t->compares != NULL;
    const int forward = evaluates ? lm.forward_nodes : 0;
    *job = (ls_job){.graph = *graph,
                    .programs = ls_step_programs(*graph, forward, (int)o->accumulate - 1, o->ema),
                    .fetch = ls_arena_copy((*graph)->arena, &lm.token_loss, sizeof lm.token_loss),
                    .n_fetch = t->compares != NULL,
                    .documents = t->typical.terms,
                    .n_documents = typical ? t->typical.n : 0,
                    .optimizer = optimizer,
                    .hyper = {o->beta1, o->beta2, o->eps, o->weight_decay, o->momentum, o->nesterov ? 1 : 0},
                    .average = o->ema,
                    .own = own,
                    .micro_batches = (int)o->accumulate,
                    .filled_together = true};
    return ls_ok();
}

/*
 * Logs the effect of grouping by length on the replicas of the plan, each of which waits at the end of a step for the
 * busiest one. Stages of a pipeline also wait for micro-batches.
 */
static ls_status log_balance(const ls_training *t) {
    const ls_mesh *mesh = &ls_session_plan(t->session)->target.mesh;
    const int replicas = ls_mesh_replicas(mesh);
    double grouped, shuffled;
    if (!t->options.group_by_length) return ls_ok();
    LS_TRY(ls_data_balance(t->data, t->options.accumulate, replicas, &grouped, &shuffled));
    if (isnan(grouped))
        ls_log("group by length: an epoch has fewer sequences than a step, so there is nothing to group");
    else if (replicas > 1)
        ls_log("group by length: the busiest of %d replicas has %.3f times the mean of attention's work, %.3f without",
               replicas, grouped, shuffled);
    else if (ls_mesh_axes(mesh, LS_AXIS_STAGE) == 0)
        ls_log("group by length: no replica waits for another one, as there is one; the order alone is another");
    return ls_ok();
}

static void log_average(const ls_training *t) {
    const ls_train_options *o = &t->options;
    if (o->ema == 0) return;
    ls_log("average: decay %g, about the last %.0f steps; the weights of the start have %.3g of it after %lld steps",
           o->ema, 1 / (1 - o->ema), pow(o->ema, (double)o->steps), (long long)o->steps);
}

static ls_status open_program(ls_training *t) {
    const ls_train_options *o = &t->options;
    LS_TRY(ls_typical_read(t->data, ls_model_takes(t->model).marks, o->seq, &t->typical));
    LS_TRY(make_job(t, o->seq, &t->graph, &t->job));
    ls_plan_request request = {0};
    LS_TRY(ls_session_request(&o->spread, &request));
    ls_plan plan = {.n_candidates = 0};
    const ls_status planned = ls_plan_decide(&t->job, &request, &o->spread, &plan);
    const ls_plan_variants variants = {make_job, t, o->seq};
    ls_status status = planned;
    if (planned.code == LS_NO_MEMORY)
        status = ls_home_agree(ls_plan_advise(&variants, &request, &plan, planned)); /* only home has candidates */
    if (planned.code == LS_OK) status = ls_session_open_planned(&t->job, &plan, &o->spread, &t->session);
    ls_plan_free(&plan);
    LS_TRY(status);
    LS_TRY(ls_home_agree(check_fits(t)));
    LS_TRY(ls_home_agree(ls_is_home() ? compile_alone(t) : ls_ok()));
    ls_log("spread: %s", ls_session_plan(t->session)->reason);
    return ls_home_agree(ls_is_home() ? log_balance(t) : ls_ok());
}

/* --- the result --------------------------------------------------------------------------------------------------- */

static ls_status describe(const ls_training *t, const ls_train_outcome *o, ls_train_result *out) {
    const ls_spread_result spread = ls_session_describe(t->session);
    *out = (ls_train_result){.steps = o->steps,
                             .eval_loss = o->eval_loss,
                             .unigram_loss = t->unigram,
                             .tokens_per_second = (double)o->tokens / fmax(o->seconds, 1e-9),
                             .wait_fraction = o->wait / fmax(o->seconds, 1e-9),
                             .measured_bytes = o->arenas,
                             .one_rank_bytes = t->one_rank_bytes,
                             .best_step = o->best_step,
                             .best_loss = o->best_step > 0 ? o->best_loss : NAN};
    for (int r = 0; r < ls_session_ranks(t->session); r++)
        out->predicted_bytes = ls_max(out->predicted_bytes, ls_session_bytes(t->session, r)->on_host);
    snprintf(out->strategy, sizeof out->strategy, "%s", spread.strategy);
    snprintf(out->mesh, sizeof out->mesh, "%s", spread.mesh);
    snprintf(out->reason, sizeof out->reason, "%s", ls_session_plan(t->session)->reason);
    return ls_checkpoint_path(t->options.out, o->saved, &out->checkpoint);
}

/* --- the model's folder ------------------------------------------------------------------------------------------- */

/* Checks, before any work, that the trained model can be exported to its folder in the run. */
static ls_status check_export(const ls_training *t) {
    LS_PATH out = NULL;
    LS_TRY(ls_record_export_path(t, &out));
    return ls_export_check(out, ls_model_folder(t->model));
}

/* Exports the trained model. The checkpoint is already complete; the message of a failure says so. */
static ls_status export_model(const ls_training *t, ls_train_result *result) {
    LS_PATH out = NULL;
    ls_export_result exported;
    LS_TRY(ls_record_export_path(t, &out));
    const ls_export_options options = {
        .checkpoint = result->checkpoint, .out = out, .carry = ls_model_folder(t->model), .dtype = LS_ST_DTYPES};
    LS_TRY(ls_error_in(ls_checkpoint_export(&options, &exported),
                       "the training is done and its checkpoint is whole, but the model was not exported"));
    ls_log("%s: %s, %s%s%s", ls_model_written(t->model).adapter != NULL ? "adapter" : "model", out,
           ls_st_dtype_name(exported.dtype), exported.carried[0] ? ", with " : "", exported.carried);
    if (exported.averaged)
        ls_log(
            "%s is the average of the weights (--ema %g); longspan checkpoint export --last has those of the last step",
            out, t->options.ema);
    result->model = out;
    out = NULL;
    return ls_ok();
}

/* Runs the ranks once. *result is set if they finished (LS_OK) or stopped on request (LS_INTERRUPTED). */
static ls_status run_ranks(ls_training *t, ls_train_result *result) {
    t->launched = ls_seconds();
    ls_train_outcome outcome = ls_train_nothing_yet(t); /* it keeps this value if the ranks are killed */
    const ls_status status = ls_session_run(t->session, ls_train_rank, t, &outcome, sizeof outcome);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    LS_TRY(ls_home_tell(&outcome, sizeof outcome));
    ls_train_result made;
    LS_TRY(describe(t, &outcome, &made));
    made.interrupted = status.code == LS_INTERRUPTED;
    unsigned warned = 0;
    made.first_loss = made.last_loss = NAN;
    if (ls_is_home())
        ls_record_warn(LS_OUTPUT_METRICS, &warned,
                       ls_record_losses(t, &made.first_loss, &made.last_loss, &made.idle_steps));
    *result = made;
    return status;
}

/* --- restarts ----------------------------------------------------------------------------------------------------- */

/* Sets the state to the newest intact checkpoint or, if there is none, to the beginning. */
static ls_status go_back(ls_training *t) {
    int64_t newest;
    LS_TRY(ls_folder_reclaim(t));
    LS_TRY(ls_checkpoint_newest(t->options.out, &newest));
    if (newest < 0 && t->resumed_from == NULL) return ls_ok();
    LS_TRY(find_whole(t));
    return ls_checkpoint_state(t->resumed_from, &t->start);
}

/* Starts the ranks again after one died; `died` is the status that reports it. */
static ls_status restart_ranks(ls_training *t, ls_status died, int64_t restart) {
    const int64_t began = t->start.step, most = t->options.restarts;
    if (restart > most) return ls_error_in(died, "not started again, as %lld restarts were made", (long long)most);
    LS_TRY(go_back(t));
    if (restart > 1 && t->start.step <= began)
        return ls_error_in(died, "not started again: the last restart came no further than step %lld, where it began",
                           (long long)began);
    ls_log("%s; the ranks are started again from step %lld (restart %lld of %lld)", died.text, (long long)t->start.step,
           (long long)restart, (long long)most);
    LS_TRY(t->resumed_from != NULL ? drop_later_metrics(t) : remove_old_metrics(t));
    ls_folder_clean(t);
    LS_TRY(find_best(t));
    unsigned warned = 0;
    ls_record_warn(LS_OUTPUT_EVENTS, &warned, ls_record_begin_events(t));
    return ls_session_renew(t->session);
}

/*
 * Runs the ranks. If one dies (LS_PEER), restarts them as often as the options allow, but not after a request to stop.
 */
static ls_status run_to_the_end(ls_training *t, ls_train_result *result) {
    ls_status status = run_ranks(t, result);
    for (int64_t restart = 1; status.code == LS_PEER && t->options.restarts > 0; restart++) {
        if (ls_session_stop_requested(t->session)) return status;
        LS_TRY(restart_ranks(t, status, restart));
        status = run_ranks(t, result);
    }
    return status;
}

/*
 * Evaluates the loss by position with the saved weights, like `longspan eval`: on the sequences of the evaluations or,
 * without these, on a few of the training's text. A failure is only logged, because the training is done.
 */
enum { MOST_TRAINED = 8 };
static void evaluate_positions(ls_training *t, ls_train_result *result) {
    const ls_train_options *o = &t->options;
    const ls_data *data = t->eval_data != NULL ? t->eval_data : t->data;
    /*
     * Of the training's text, at most a tenth of the sequences that were read, but at least two, for a standard error.
     */
    const int64_t done = (result->steps - t->start.step) * o->batch;
    const int64_t some = ls_min(ls_max(done / 10, 2), MOST_TRAINED);
    if (t->compares != NULL && (t->compares->scores || t->compares->judges)) {
        ls_log("no loss by position: %s", t->compares->scores ? "the model scores answers, and predicts no words"
                                                              : "half of the answers are to other prompts");
        return;
    }
    ls_eval_options options = {.pack = o->pack,
                               .seq = o->seq,
                               .batch = o->batch / o->accumulate,
                               .sequences = t->eval_data != NULL ? ls_settings_evaluated(t, t->eval_data) : some,
                               .dtype = o->dtype,
                               .out = o->out,
                               .spread = o->spread};
    options.spread.recompute = options.spread.offload = NULL; /* there is no backward pass */
    options.spread.measure = false;
    const ls_trained trained = {.model = t->model, .tokenizer = t->tokenizer, .checkpoint = result->checkpoint};
    ls_eval_result evaluated = {.text_sequences = 0};
    const ls_status status = ls_evaluate_text(&options, &trained, data, &evaluated);
    if (status.code == LS_OK)
        result->positions = evaluated.table;
    else
        ls_log("no loss by position: %s", status.text);
}

static ls_status check_options(const ls_train_options *o) {
    if (o->model == NULL) return ls_error(LS_USAGE, "--model is missing; expected a config.json or its folder");
    if (o->out == NULL) return ls_error(LS_USAGE, "--out is missing; expected a folder");
    if (o->n_data < 1) return ls_error(LS_USAGE, "--data is missing; expected files or folders of text");
    if (o->restarts < 0) return ls_error(LS_USAGE, "--restart %lld; expected 0 or more", (long long)o->restarts);
    if (o->restarts > 0 && !ls_home_starts_ranks())
        return ls_error(
            LS_USAGE,
            "--restart %lld: another program started the ranks, and would have to start them again; expected 0",
            (long long)o->restarts);
    if (o->replan && !o->resume) return ls_error(LS_USAGE, "--replan is given without --resume; expected both");
    if (o->steps != 0 && o->epochs != 0)
        return ls_error(LS_USAGE, "--steps %lld and --epochs %g are both given; expected one of them",
                        (long long)o->steps, o->epochs);
    ls_plan_request request;
    return ls_spread_resolve(&o->spread, &request);
}

/* Reads and checks everything that the steps need; at home it also makes the folder. */
static ls_status prepare(ls_training *t) {
    LS_TRY(ls_settings_resolve(t));
    LS_TRY(ls_training_open_model(t));
    LS_TRY(check_export(t));
    LS_TRY(ls_training_open_text(t));
    if (t->record != NULL) LS_TRY(ls_record_check(t));
    LS_TRY(ls_settings_count_steps(t));
    return ls_is_home() ? ls_folder_make(t) : ls_ok();
}

/* Compares what must be equal in the processes of launched ranks, after each has read it; `mine`: status of reading. */
static ls_status compare_processes(const ls_training *t, ls_status mine) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    if (mine.code == LS_OK && alike != NULL) {
        ls_settings_add(t, alike);
        ls_alike_add(alike, "--resume", "%s, after step %lld", t->options.resume ? "given" : "left out",
                     (long long)t->start.step);
        ls_alike_add(alike, "--keep-best", "%s", t->options.keep_best ? "given" : "left out");
        ls_alike_add_model(alike, t->model);
        if (t->resumed_from == NULL) ls_alike_add_folder(alike, "--model", ls_model_folder(t->model));
        ls_alike_add(alike, "--data", "with hash %016llx", (unsigned long long)t->content);
        ls_alike_add(alike, "--eval-data", "with hash %016llx",
                     (unsigned long long)ls_eval_sets_content(&t->eval_sets));
    }
    return ls_alike_end(alike, mine);
}

/* At home: prepares the folder for the first step. */
static ls_status begin_files(ls_training *t) {
    LS_TRY(t->record != NULL ? drop_later_metrics(t) : remove_old_metrics(t));
    ls_folder_clean(t);
    LS_TRY(find_best(t));
    unsigned warned = 0;
    ls_record_warn(LS_OUTPUT_EVENTS, &warned, ls_record_begin_events(t));
    const ls_status recorded = ls_record_run(t);
    if (t->record == NULL) LS_TRY(recorded); /* nothing is lost yet, and a resume needs run.json */
    ls_record_warn(LS_OUTPUT_RUN, &warned, recorded);
    return ls_ok();
}

/* At home, after the last step. */
static ls_status end_files(ls_training *t, ls_train_result *result) {
    LS_TRY(ls_folder_reclaim(t));
    return export_model(t, result);
}

static ls_status train(ls_training *t, ls_train_result *result) {
    LS_TRY(check_options(&t->options));
    LS_TRY(ls_home_agree(ls_is_home() ? claim(t) : ls_ok()));
    ls_home_log_launcher();
    if (t->options.resume) {
        LS_TRY(find_whole(t));
        LS_TRY(ls_home_agree(open_resumed(t)));
    }
    LS_TRY(compare_processes(t, prepare(t)));
    LS_TRY(ls_folder_try(t));
    t->start_up.read = ls_seconds() - t->began;
    LS_TRY(open_program(t));
    t->start_up.prove = ls_session_prove_seconds(t->session);
    t->start_up.plan = ls_seconds() - t->began - t->start_up.read - t->start_up.prove;
    log_average(t);
    LS_TRY(ls_home_agree(ls_is_home() ? begin_files(t) : ls_ok()));
    LS_TRY(ls_home_tell(&t->best_step, sizeof t->best_step));
    LS_TRY(ls_home_tell(&t->best_loss, sizeof t->best_loss));
    LS_TRY(run_to_the_end(t, result));
    ls_session_close(t->session); /* frees its memory, which the evaluation needs */
    t->session = NULL;
    /* Not reached if interrupted, because the user does not want to wait. */
    LS_TRY(ls_home_agree(ls_is_home() ? end_files(t, result) : ls_ok()));
    evaluate_positions(t, result);
    return ls_ok();
}

void ls_train_result_free(ls_train_result *result) {
    if (result == NULL) return;
    free(result->checkpoint);
    free(result->model);
    *result = (ls_train_result){.checkpoint = NULL};
}

ls_status ls_train(const ls_train_options *options, ls_train_result *result) {
    LS_NEED(options, "options");
    LS_NEED(result, "result");
    *result = (ls_train_result){.checkpoint = NULL};
    LS_TRY(ls_check_texts("data", options->data, options->n_data));
    LS_TRY(ls_check_texts("groups", options->groups, options->n_groups));
    ls_training t = {.options = *options, .began = ls_seconds()};
    const ls_status status = train(&t, result);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) ls_train_result_free(result);
    ls_session_close(t.session);
    if (t.graph != NULL) ls_graph_destroy(t.graph);
    ls_typical_free(&t.typical);
    ls_eval_sets_close(&t.eval_sets);
    ls_mixture_close(&t.mixture);
    ls_tokenizer_close(t.tokenizer);
    ls_model_close(t.model);
    ls_json_free(t.record);
    ls_lock_release(t.lock);
    free(t.resumed_from);
    free(t.events);
    free(t.groups);
    return status;
}
