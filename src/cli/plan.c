/* longspan plan: what training would use and map, and if that does not fit, what would. Nothing is run. */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "model/model.h"
#include "plan/plan.h"
#include "report/report.h"
#include "session/session.h"

#include <stdio.h>
#include <string.h>

/* A training step of the model at one sequence length, planned. */
typedef struct planned {
    ls_graph *graph;
    ls_job job;
    ls_plan plan;
    ls_image *image; /* of the rank that maps most */
} planned;

typedef struct planning {
    const ls_plan_job *job;
    ls_model *model;
    ls_dtype dtype;
    const ls_optimizer *optimizer;
    ls_plan_request request;
    planned chosen;
    size_t one_rank_bytes;
} planning;

static void free_planned(planned *p) {
    ls_image_destroy(p->image);
    ls_plan_free(&p->plan);
    ls_graph_destroy(p->graph);
}

/* The job of a step at one sequence length (ls_plan_variants). */
static ls_status make_job(void *context, int64_t seq, ls_graph **graph, ls_job *job) {
    const planning *g = context;
    ls_language_model lm;
    *graph = ls_graph_create(g->dtype);
    LS_TRY(ls_model_build(g->model, *graph, g->job->batch / g->job->accumulate, seq, true, &lm));
    *job = (ls_job){.graph = *graph,
                    .programs = ls_step_programs(*graph, 0, (int)g->job->accumulate - 1, g->job->ema),
                    .optimizer = g->optimizer,
                    .average = g->job->ema,
                    .hyper = ls_optimizer_defaults(g->optimizer),
                    .micro_batches = (int)g->job->accumulate,
                    .filled_together = true};
    return ls_ok();
}

/* Makes the plan, and the image of the rank that maps most. */
static ls_status make_plan(planning *g, planned *out) {
    LS_TRY(make_job(g, g->job->seq, &out->graph, &out->job));
    const ls_status status = ls_plan_decide(&out->job, &g->request, &g->job->spread, &out->plan);
    const ls_plan_variants variants = {make_job, g, g->job->seq};
    if (status.code == LS_NO_MEMORY) /* only home has candidates */
        return ls_home_agree(ls_plan_advise(&variants, &g->request, &out->plan, status));
    LS_TRY(status);
    ls_target target = out->plan.target;
    target.rank = out->plan.candidates[0].most_rank;
    return ls_compile(&out->job, &target, &out->image);
}

/* --- as a page ---------------------------------------------------------------------------------------------------- */

static void print_bytes(FILE *out, const char *name, size_t bytes) {
    char text[LS_BYTES_TEXT];
    fprintf(out, "  %-12s %12s\n", name, ls_bytes_text((double)bytes, text));
}

static void print_peak(const ls_image *image, const ls_memory_account *account, ls_space space, FILE *out) {
    enum { NAMED = 6 };
    const ls_peak *peak = &account->peak[space];
    int largest[NAMED];
    const int n = ls_image_largest(image, space, peak, largest, NAMED);
    char mapped[LS_BYTES_TEXT], least[LS_BYTES_TEXT];
    fprintf(out, "\n%s: %s mapped, lower bound %s", ls_space_texts[space].title,
            ls_bytes_text((double)image->bytes[space], mapped), ls_bytes_text((double)image->least[space], least));
    if (peak->program >= 0)
        fprintf(out, "; peak in %s at %d, %s", image->programs[peak->program].name, peak->instr,
                image->programs[peak->program].instrs[peak->instr].op);
    fputc('\n', out);
    for (int i = 0; i < n; i++) {
        const ls_buffer *b = &image->buffers[largest[i]];
        fprintf(out, "  %-28s %-12s %12s\n", b->name, ls_buffer_kind_name(b->kind),
                ls_bytes_text((double)b->bytes, mapped));
    }
}

/* The number of ranks on the host that has the most. */
static int ranks_of_host(const ls_image *image) {
    return (int)ls_min(ls_mesh_ranks(&image->mesh), ls_max(1, image->host_ranks));
}

static void print_sharers(const ls_image *image, size_t mapped, FILE *out) {
    char share[LS_BYTES_TEXT], all[LS_BYTES_TEXT];
    if (image->sharers == 1) return;
    const int ranks = ranks_of_host(image);
    fprintf(out, "  %d ranks of a host hold it once: %s of it count for each; all %d of a host map at most %s\n",
            image->sharers, ls_bytes_text((double)ls_image_common_share(image), share), ranks,
            ls_bytes_text((double)mapped * ranks, all));
}

static void print_page(const planning *g, FILE *out) {
    const ls_image *image = g->chosen.image;
    const ls_memory_account account = ls_memory_account_of(image);
    char text[LS_BYTES_TEXT];
    ls_candidates_print(&g->chosen.plan, out);
    char place[64];
    snprintf(place, sizeof place, "with %s kernels on %d thread%s", ls_isa_name(image->isa), image->threads,
             image->threads == 1 ? "" : "s");
    if (image->kernels != LS_DEVICE_CPU) snprintf(place, sizeof place, "on %s", image->device);
    fprintf(out, "\nrank %d of %d maps most, %s (%zu bytes), %s:\n", g->chosen.plan.candidates[0].most_rank,
            ls_mesh_ranks(&image->mesh), ls_bytes_text((double)account.mapped, text), account.mapped, place);
    for (int k = 0; k < LS_BUFFER_KINDS; k++) {
        if (account.kind_bytes[k] > 0) print_bytes(out, ls_buffer_kind_name((ls_buffer_kind)k), account.kind_bytes[k]);
    }
    print_bytes(out, "unused", account.unused);
    for (int s = 0; s < LS_SPACES; s++)
        if (ls_space_is_usual((ls_space)s) || image->bytes[s] > 0) print_peak(image, &account, (ls_space)s, out);
    print_sharers(image, account.mapped, out);
    fprintf(out, "\none rank alone would need %s\n", ls_bytes_text((double)g->one_rank_bytes, text));
}

/* --- as JSON ------------------------------------------------------------------------------------------------------ */

static void put_peak(ls_json_writer *w, const ls_image *image, const ls_memory_account *account, ls_space space) {
    enum { NAMED = 16 };
    const ls_peak *peak = &account->peak[space];
    int largest[NAMED];
    const int n = ls_image_largest(image, space, peak, largest, NAMED);
    ls_json_open_object(w, ls_space_texts[space].name);
    ls_json_put_int(w, "mapped", (int64_t)image->bytes[space]);
    ls_json_put_int(w, "lower_bound", (int64_t)image->least[space]);
    ls_json_put_int(w, "live_at_peak", (int64_t)peak->bytes);
    ls_json_put_text(w, "program", peak->program >= 0 ? image->programs[peak->program].name : NULL);
    ls_json_put_int(w, "instruction", peak->instr);
    ls_json_open_array(w, "largest");
    for (int i = 0; i < n; i++) {
        const ls_buffer *b = &image->buffers[largest[i]];
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", b->name);
        ls_json_put_text(w, "kind", ls_buffer_kind_name(b->kind));
        ls_json_put_int(w, "bytes", (int64_t)b->bytes);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_close(w);
}

static void print_json(const planning *g, FILE *out) {
    const ls_image *image = g->chosen.image;
    const ls_memory_account account = ls_memory_account_of(image);
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "reason", g->chosen.plan.reason);
    ls_json_put_int(w, "ranks", ls_mesh_ranks(&image->mesh));
    ls_json_put_int(w, "threads", image->threads);
    ls_json_put_text(w, "transfers", ls_transfers_of(image));
    ls_json_put_text(w, "isa", ls_isa_name(image->isa));
    ls_json_put_text(w, "device", g->chosen.plan.target.device);
    ls_candidates_put(&g->chosen.plan, w);
    ls_json_put_int(w, "most_rank", g->chosen.plan.candidates[0].most_rank);
    ls_json_put_int(w, "predicted_bytes", (int64_t)account.mapped);
    if (image->sharers > 1) {
        ls_json_put_int(w, "sharers", image->sharers);
        ls_json_put_int(w, "host_predicted_bytes", (int64_t)account.mapped * ranks_of_host(image));
    }
    ls_json_put_int(w, "one_rank_bytes", (int64_t)g->one_rank_bytes);
    ls_json_open_object(w, "bytes_by_kind");
    for (int k = 0; k < LS_BUFFER_KINDS; k++)
        ls_json_put_int(w, ls_buffer_kind_name((ls_buffer_kind)k), (int64_t)account.kind_bytes[k]);
    ls_json_put_int(w, "unused", (int64_t)account.unused);
    ls_json_close(w);
    for (int s = 0; s < LS_SPACES; s++) put_peak(w, image, &account, (ls_space)s);
    ls_json_end(w, out);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static ls_status build(planning *g) {
    const ls_plan_job *job = g->job;
    LS_TRY(ls_step_size_check(job->seq, job->batch));
    if (job->batch % job->accumulate != 0)
        return ls_error(LS_USAGE, "--batch %lld does not divide into --accumulate %lld micro-batches",
                        (long long)job->batch, (long long)job->accumulate);
    LS_TRY(ls_job_dtype(job->dtype, LS_F32, &g->dtype));
    LS_TRY(ls_optimizer_find(job->optimizer, &g->optimizer));
    LS_TRY(ls_spread_resolve(&job->spread, &g->request));
    LS_TRY(ls_model_open_changed(job->model, &job->rope, &g->model));
    LS_TRY(ls_model_adapt(g->model, &job->adapter));
    LS_TRY(make_plan(g, &g->chosen));
    ls_image *alone;
    LS_TRY(ls_compile_alone(&g->chosen.job, &g->chosen.plan.target, &alone));
    g->one_rank_bytes = ls_memory_account_of(alone).mapped;
    ls_image_destroy(alone);
    return ls_ok();
}

ls_status ls_run_plan(const ls_plan_job *job, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    ls_plan_job filled = *job;
    filled.seq = job->seq > 0 ? job->seq : 1024;
    filled.batch = ls_max(job->batch, 1);
    filled.accumulate = ls_max(job->accumulate, 1);
    planning g = {.job = &filled};
    const ls_status status = build(&g);
    LS_ASSERT(status.code != LS_OK || g.chosen.image != NULL);
    if (status.code == LS_OK && job->json)
        print_json(&g, out);
    else if (status.code == LS_OK)
        print_page(&g, out);
    free_planned(&g.chosen);
    ls_model_close(g.model);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct plan_flags {
    cli_common common;
    ls_plan_job job;
} plan_flags;

#define AT(field) offsetof(plan_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("model", "PATH", AT(model),
                      "config.json, or graph.json of an imported model; or a folder with one"),
    CLI_INT("seq", "N", "1024", 1, 0x1p30, AT(seq), "tokens of a sequence"),
    CLI_INT("batch", "N", "1", 1, 0x1p24, AT(batch), "sequences of a step, over all dp ranks and micro-batches"),
    CLI_INT("accumulate", "N", "1", 1, 0x1p24, AT(accumulate), "micro-batches that a step is cut into"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_OPTIMIZER(AT(optimizer), "what updates the parameters"),
    CLI_EMA(AT(ema)),
    CLI_LORA(offsetof(plan_flags, common.adapter.lora)),
};
#undef AT

static ls_status run(void *context) {
    plan_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.adapter = flags->common.adapter;
    flags->job.json = flags->common.json;
    return ls_run_plan(&flags->job, stdout);
}

static bool needs_ranks(const void *context) {
    const plan_flags *flags = context;
    return flags->common.spread.measure;
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "what train would use: mesh, strategy, layout, time, bytes",
    .usage = "--model PATH [--seq N] [--ranks R] [--memory BYTES] [options]",
    .about =
        "Compiles a training step for every candidate and runs nothing (with --measure, a few steps on zeros). Prints what is chosen and why, the "
        "predicted time, sent bytes and memory of each candidate, and the memory of the rank that maps most, by kind of buffer: train maps exactly that.\n"
        "With --memory, the exit code is 1 when a rank needs more; the message says how much it needs, which buffers are at the peak, and what would fit.",
    .opens = true,
    .spreads = true,
    .configures = true,
    .needs_ranks = needs_ranks,
    CLI_OWN(options, run, plan_flags),
};
