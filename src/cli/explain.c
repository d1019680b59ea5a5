/*
 * longspan explain: the programs of a training step, and the candidates from which its plan was chosen. Runs nothing
 * without --run or --measure.
 */
#include "cli/cli_impl.h"

#include "report/report.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct explanation {
    const ls_explain_job *job;
    ls_model *model;
    ls_graph *graph;
    int forward_nodes;
    ls_job step;
    ls_plan plan;
    ls_host host;     /* rates for predictions */
    ls_target target; /* of the job's rank, as is the image */
    ls_image *image;
    int wanted; /* the program to print or draw; -1: print all, draw the step */
} explanation;

/* --- as a page ---------------------------------------------------------------------------------------------------- */

/* Whether the user wants the program. */
static bool is_wanted(const explanation *e, int program) { return e->wanted < 0 || e->wanted == program; }

static ls_passes passes_of(const explanation *e) { return (ls_passes){e->graph, e->forward_nodes, e->image}; }

static ls_status print_page(const explanation *e, FILE *out) {
    ls_candidates_print(&e->plan, out);
    if (e->job->passes) {
        const ls_passes passes = passes_of(e);
        fputc('\n', out);
        ls_passes_print(&passes, out);
        fputc('\n', out);
        LS_TRY(ls_stages_print(&e->step, &e->target, out));
    }
    for (int p = 0; p < e->image->n_programs; p++) {
        if (!is_wanted(e, p)) continue;
        fputc('\n', out);
        if (e->job->passes)
            ls_program_ops_print(e->image, p, out);
        else
            ls_program_print(e->image, p, (int)e->job->rank, out);
    }
    return ls_ok();
}

/* --- as JSON ------------------------------------------------------------------------------------------------------ */

static ls_status put_program(ls_json_writer *w, const ls_image *image, int program, int rank) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&page, &bytes);
    if (memory == NULL) return ls_error(LS_NO_MEMORY, "no memory to print program %s", image->programs[program].name);
    ls_program_print(image, program, rank, memory);
    const bool printed = fclose(memory) == 0;
    const ls_program_cost cost = ls_program_measure(image, program);
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "name", image->programs[program].name);
    ls_json_put_double(w, "flops", cost.flops);
    ls_json_put_double(w, "bytes_sent", cost.bytes_sent);
    ls_json_put_double(w, "bytes_read", cost.bytes_read);
    ls_json_put_int(w, "puts", cost.transfers);
    ls_json_put_int(w, "kernels", cost.kernels);
    ls_program_ops_put(image, program, w);
    ls_json_open_array(w, "lines");
    char *rest = NULL;
    for (char *line = printed ? strtok_r(page, "\n", &rest) : NULL; line != NULL; line = strtok_r(NULL, "\n", &rest))
        ls_json_put_text(w, NULL, line);
    ls_json_close(w);
    ls_json_close(w);
    free(page);
    return printed ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory to print program %s", image->programs[program].name);
}

static ls_status put_all(const explanation *e, ls_json_writer *w) {
    ls_json_put_text(w, "reason", e->plan.reason);
    ls_json_put_int(w, "rank", e->job->rank);
    ls_candidates_put(&e->plan, w);
    const ls_passes passes = passes_of(e);
    ls_passes_put(&passes, w);
    if (e->job->passes) LS_TRY(ls_stages_put(&e->step, &e->target, w));
    ls_json_open_array(w, "programs");
    for (int p = 0; p < e->image->n_programs; p++) {
        if (is_wanted(e, p)) LS_TRY(put_program(w, e->image, p, (int)e->job->rank));
    }
    ls_json_close(w);
    return ls_ok();
}

static ls_status print_json(const explanation *e, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    const ls_status status = put_all(e, w);
    if (status.code == LS_OK)
        ls_json_end(w, out);
    else
        ls_json_writer_destroy(w);
    return status;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* Sets e->wanted to the program with the name that the user gave. */
static ls_status find_program(explanation *e) {
    const ls_job_programs *programs = &e->step.programs;
    const char *name = e->job->program;
    char known[128] = "";
    e->wanted = -1;
    for (int p = 0; p < programs->n && name != NULL; p++) {
        const size_t used = strlen(known);
        if (strcmp(name, programs->list[p].name) == 0) e->wanted = p;
        snprintf(known + used, sizeof known - used, "%s%s", p > 0 ? ", " : "", programs->list[p].name);
    }
    if (name == NULL || e->wanted >= 0) return ls_ok();
    return ls_error(LS_USAGE, "--program %s; expected one of %s (micro: with --accumulate)", name, known);
}

static ls_status build(explanation *e) {
    const ls_explain_job *job = e->job;
    ls_dtype dtype;
    LS_TRY(ls_step_size_check(job->seq, job->batch > 0 ? job->batch : 1));
    if (job->run && job->schedule == NULL)
        return ls_error(LS_USAGE, "--run measures what --schedule FILE draws; expected that flag too");
    LS_TRY(ls_job_dtype(job->dtype, LS_F32, &dtype));
    LS_TRY(ls_model_open_changed(job->model, &job->rope, &e->model));
    LS_TRY(ls_model_adapt(e->model, &job->adapter));
    e->graph = ls_graph_create(dtype);
    ls_language_model lm;
    LS_TRY(ls_model_build(e->model, e->graph, job->batch > 0 ? job->batch : 1, job->seq, true, &lm));
    e->forward_nodes = lm.forward_nodes;
    ls_plan_request request;
    LS_TRY(ls_spread_resolve(&job->spread, &request));
    if (job->rank < 0 || job->rank >= request.ranks)
        return ls_error(LS_USAGE, "--rank %lld; expected 0 to %d", (long long)job->rank, request.ranks - 1);
    e->step = (ls_job){.graph = e->graph,
                       .programs = ls_training_programs(e->graph, lm.forward_nodes, LS_UPDATE_APPLY,
                                                        (int)ls_max(job->accumulate, 1) - 1),
                       .micro_batches = (int)ls_max(job->accumulate, 1),
                       .filled_together = true};
    LS_TRY(ls_optimizer_find(job->optimizer, &e->step.optimizer));
    e->step.hyper = ls_optimizer_defaults(e->step.optimizer);
    LS_TRY(find_program(e));
    LS_TRY(ls_plan_decide(&e->step, &request, &job->spread, &e->plan));
    e->host = request.host;
    e->target = e->plan.target;
    e->target.rank = (int)job->rank;
    return ls_compile(&e->step, &e->target, &e->image);
}

/* A model is named after its folder or, if that is "." or "..", after its architecture. */
static void name_model(const explanation *e, char *out, size_t room) {
    const char *begin = ls_model_folder(e->model), *end = begin + strlen(begin);
    while (end > begin + 1 && end[-1] == '/') end--;
    for (const char *c = begin; c < end; c++) {
        if (*c == '/') begin = c + 1;
    }
    snprintf(out, room, "%.*s", (int)(end - begin), begin);
    if (out[strspn(out, "./")] == 0) snprintf(out, room, "%s", ls_model_architecture(e->model));
}

/* Draws the job's program, or without one the whole step. */
static ls_status draw_schedule(const explanation *e, const char *title) {
    const ls_timeline_step step = {.model = e->model,
                                   .B = e->job->batch > 0 ? e->job->batch : 1,
                                   .S = e->job->seq,
                                   .job = &e->step,
                                   .plan = &e->plan,
                                   .spread = &e->job->spread,
                                   .program = e->wanted >= 0 ? e->wanted : ls_program_find(e->image, LS_PROGRAM_STEP)};
    return ls_timeline_draw(&step, &e->host, (int)e->job->rank, e->job->run, title, e->job->schedule);
}

static ls_status draw(const explanation *e) {
    char title[128];
    name_model(e, title, sizeof title);
    if (e->job->memory_map != NULL && ls_is_home())
        LS_TRY(ls_memory_map_write(e->image, (int)e->job->rank, title, e->job->memory_map));
    return e->job->schedule != NULL ? draw_schedule(e, title) : ls_ok();
}

ls_status ls_run_explain(const ls_explain_job *job, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    explanation e = {.job = job};
    ls_status status = build(&e);
    if (status.code == LS_OK) status = draw(&e);
    if (status.code == LS_OK && job->json)
        status = print_json(&e, out);
    else if (status.code == LS_OK)
        status = print_page(&e, out);
    ls_image_destroy(e.image);
    ls_plan_free(&e.plan);
    ls_graph_destroy(e.graph);
    ls_model_close(e.model);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct explain_flags {
    cli_common common;
    ls_explain_job job;
} explain_flags;

#define AT(field) offsetof(explain_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("model", "PATH", AT(model),
                      "config.json, or graph.json of an imported model; or a folder with one"),
    CLI_INT("seq", "N", "1024", 1, 0x1p30, AT(seq), "tokens of a sequence"),
    CLI_INT("batch", "N", "1", 1, 0x1p24, AT(batch), "sequences of a micro-batch, over all dp ranks"),
    CLI_INT("accumulate", "N", "1", 1, CLI_ANY, AT(accumulate),
            "micro-batches of a step; all but the last run program micro, the last runs program step"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_OPTIMIZER(AT(optimizer), "what updates the parameters"),
    CLI_LORA(offsetof(explain_flags, common.adapter.lora)),
    CLI_INT("rank", "N", "0", 0, 1023, AT(rank), "the rank whose programs to print"),
    CLI_CHOICE("program", "NAME", "micro|step|evaluate", NULL, AT(program), "the program to print; all when left out"),
    CLI_FLAG("passes", AT(passes),
             "instead of the programs, print what each pass made, and the ops by count, flops and bytes"),
    CLI_TEXT("memory-map", "FILE", AT(memory_map), "draw the rank's memory over its programs into an SVG file"),
    CLI_TEXT("schedule", "FILE", AT(schedule),
             "draw the predicted queues of all ranks over time into an SVG file: of --program, else of the step"),
    CLI_FLAG("run", AT(run),
             "with --schedule: run the program here, and draw the measured queues below the predicted ones"),
};
#undef AT

static ls_status run(void *context) {
    explain_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.adapter = flags->common.adapter;
    flags->job.json = flags->common.json;
    return ls_run_explain(&flags->job, stdout);
}

static bool needs_ranks(const void *context) {
    const explain_flags *flags = context;
    return flags->job.run || flags->common.spread.measure;
}

const cli_command cli_explain = {
    .name = "explain",
    .summary = "print the compiled programs of a rank, and the candidates they were chosen from",
    .usage = "--model PATH [--seq N] [--ranks R] [--rank N] [options]",
    .about =
        "Compiles a training step and, without --run or --measure, runs nothing. Prints the candidates: the predicted time, sent bytes and memory "
        "on the busiest rank. Then prints the programs, one instruction a line, with its queue, operands, the peer and generation of a "
        "transfer, and the instructions of other queues that it comes after.",
    .opens = true,
    .spreads = true,
    .runs = true,
    .needs_ranks = needs_ranks,
    CLI_OWN(options, run, explain_flags),
};
