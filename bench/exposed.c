/*
 * How much of a training step is exposed communication: communication that no computation hides. One JSON object on
 * standard output.
 *
 *   build/bench/exposed CONFIG SEQ STRATEGY RANKS [TRANSPORT [STEPS [awake|asleep [SHARD [WAY]]]]]
 *   build/bench/exposed examples/tiny/config.json 16384 ring 2 chaos:1:0.005 20
 *
 * STRATEGY "dp": each rank has its own sequence. SHARD: what is cut over the ranks, as in `train`. WAY: the way in
 * which ranks compute linear recurrences: maps, owners or heads; the cheapest if left out.
 *
 * A step is the program step on weights of zero; the ranks start together. For each step and rank:
 *   waiting  time in which all queues waited for other ranks
 *   copying  time inside puts
 *   compute  the rest
 * puts: puts of a rank in a step. imbalance: compute of the busiest rank minus the mean over the ranks, for which the
 * others must wait whatever the communication costs. exposed: waiting plus copying, the mean over the ranks, minus
 * imbalance. All are divided by the step's time, and are medians of STEPS steps after one that warms up.
 *
 * asleep: kernels sleep for their nominal time instead of computing. So the figures depend only on the program, not on
 * what else runs on the machine's cores, and more ranks than cores can be measured.
 */
#include "base/base.h"
#include "compile/compile.h"
#include "model/model.h"
#include "program/program.h"
#include "run/run.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STEPS = 1000 };

typedef struct sample {
    double total, waiting, copying, hop; /* hop: the longest forward attention kernel */
} sample;

typedef struct bench {
    ls_job job;
    ls_target target;
    const char *transport;
    int ranks, batch, steps;
    int puts; /* of rank 0 in a step */
    bool asleep;
    sample *samples; /* by step and rank, in shared memory */
} bench;

/* --- kernels that sleep ------------------------------------------------------------------------------------------- */

static void sleep_for(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    (void)pool;
    const double seconds = *(const double *)call->params;
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static const ls_kernel asleep = {.run = sleep_for};

/*
 * The shortest sleep, in seconds. The time of shorter kernels is added up first, because the clock wakes a thread 50
 * microseconds late.
 */
#define SHORTEST 100e-6

static void put_to_sleep(ls_image *image) {
    const ls_rates rates = ls_rates_of(image->kernels, image->isa, image->dtype, image->threads);
    for (int p = 0; p < image->n_programs; p++) {
        double carried = 0; /* time of short kernels, added to the next sleep */
        for (int i = 0; i < image->programs[p].n_instrs; i++) {
            ls_instr *instr = &image->programs[p].instrs[i];
            if (instr->kind != LS_INSTR_KERNEL) continue;
            double *seconds = LS_NEW(image->arena, double);
            carried += instr->kind == LS_INSTR_KERNEL ? ls_instr_seconds(instr, INFINITY, &rates) : 0;
            if (carried >= SHORTEST) {
                *seconds = carried - SHORTEST / 2;
                carried = 0;
            }
            instr->kernel = &asleep;
            instr->params = seconds;
        }
    }
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

/* The longest forward attention kernel in the recorded spans. */
static double longest_hop(const ls_executor *executor) {
    const ls_image *image = ls_executor_image(executor);
    double most = 0;
    for (size_t i = 0, n = ls_executor_spans(executor); i < n; i++) {
        const ls_span_time *span = ls_executor_span(executor, i);
        if (span->instr < 0) continue;
        const ls_instr *instr = &image->programs[span->program].instrs[span->instr];
        if (strcmp(instr->op, "attention") == 0) most = fmax(most, span->end - span->begin);
    }
    return most;
}

static ls_status step(const bench *b, ls_executor *executor, ls_comm *comm, int index) {
    LS_TRY(ls_comm_barrier(comm));
    const ls_run_times before = ls_executor_times(executor);
    LS_TRY(ls_executor_run(executor, ls_program_find(ls_executor_image(executor), LS_PROGRAM_STEP)));
    const ls_run_times after = ls_executor_times(executor);
    if (index < 0) return ls_ok();
    b->samples[ls_comm_rank(comm) * b->steps + index] =
        (sample){after.total - before.total, after.waiting - before.waiting, after.copying - before.copying,
                 longest_hop(executor)};
    return ls_ok();
}

static ls_status run_steps(const bench *b, const ls_image *image, ls_comm *comm) {
    ls_executor *executor;
    LS_TRY(ls_executor_create(image, comm, &executor));
    ls_status status =
        ls_executor_record(executor, (size_t)image->programs[ls_program_find(image, LS_PROGRAM_STEP)].n_instrs * 3);
    for (int i = -1; i < b->steps && status.code == LS_OK; i++) status = step(b, executor, comm, i);
    ls_executor_destroy(executor);
    LS_TRY(status);
    const size_t bytes = sizeof(sample) * (size_t)b->steps;
    return ls_comm_gather_home(comm, b->samples + ls_comm_rank(comm) * b->steps, bytes, b->samples, bytes);
}

static ls_status rank_main(ls_comm *comm, void *context) {
    const bench *b = context;
    ls_target target = b->target;
    target.rank = ls_comm_rank(comm);
    ls_image *image;
    LS_TRY(ls_compile(&b->job, &target, &image));
    if (b->asleep) put_to_sleep(image);
    const ls_status status = run_steps(b, image, comm);
    ls_image_destroy(image);
    return status;
}

/* --- the figures -------------------------------------------------------------------------------------------------- */

typedef struct figures {
    double step[MOST_STEPS], hop[MOST_STEPS];                                                    /* seconds */
    double waiting[MOST_STEPS], copying[MOST_STEPS], imbalance[MOST_STEPS], exposed[MOST_STEPS]; /* shares */
} figures;

static void reckon(const bench *b, figures *f, int i) {
    sample sum = {0};
    double busiest = 0;
    for (int r = 0; r < b->ranks; r++) {
        const sample *s = &b->samples[r * b->steps + i];
        sum.total += s->total / b->ranks;
        sum.waiting += s->waiting / b->ranks;
        sum.copying += s->copying / b->ranks;
        sum.hop += s->hop / b->ranks;
        busiest = fmax(busiest, s->total - s->waiting - s->copying);
    }
    const double imbalance = busiest - (sum.total - sum.waiting - sum.copying);
    f->step[i] = sum.total;
    f->hop[i] = sum.hop;
    f->waiting[i] = sum.waiting / sum.total;
    f->copying[i] = sum.copying / sum.total;
    f->imbalance[i] = imbalance / sum.total;
    f->exposed[i] = (sum.waiting + sum.copying - imbalance) / sum.total;
}

static void print(const bench *b, int64_t S) {
    static figures f;
    for (int i = 0; i < b->steps; i++) reckon(b, &f, i);
    char mesh[64];
    ls_mesh_print(&b->target.mesh, mesh, sizeof mesh);
    printf(
        "{\"bench\": \"exposed\", \"mesh\": \"%s\", \"seq\": %lld, \"transport\": \"%s\", \"asleep\": %s, "
        "\"steps\": %d, \"shard\": \"%s\", \"way\": \"%s\", \"puts\": %d, \"step_seconds\": %.4f, \"hop_seconds\": %.4f, \"waiting\": %.4f, \"copying\": %.4f, "
        "\"imbalance\": %.4f, \"exposed\": %.4f}\n",
        mesh, (long long)S, b->transport != NULL ? b->transport : "shm", b->asleep ? "true" : "false", b->steps,
        ls_target_shard(&b->target)->name, b->target.recurrence_way != NULL ? b->target.recurrence_way : "cheapest",
        b->puts, ls_median(f.step, b->steps), ls_median(f.hop, b->steps), ls_median(f.waiting, b->steps),
        ls_median(f.copying, b->steps), ls_median(f.imbalance, b->steps), ls_median(f.exposed, b->steps));
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

static ls_status mesh_of(const char *strategy, int ranks, ls_mesh *out) {
    const int D = strcmp(strategy, "dp") == 0 ? ranks : 1;
    const int U = strcmp(strategy, "ulysses") == 0 ? ranks : strcmp(strategy, "usp") == 0 ? 2 : 1;
    char text[64];
    snprintf(text, sizeof text, "dp=%d,ring=%d,ulysses=%d", D, ranks / U / D, U);
    return ls_mesh_parse(text, out);
}

static int count_puts(const ls_image *image) {
    const ls_program *step = &image->programs[ls_program_find(image, LS_PROGRAM_STEP)];
    int n = 0;
    for (int i = 0; i < step->n_instrs; i++) n += step->instrs[i].kind == LS_INSTR_PUT;
    return n;
}

static ls_status launch(bench *b) {
    ls_images images = {.of_class = NULL};
    ls_world *world;
    LS_TRY(ls_compile_classes(&b->job, &b->target, &images));
    ls_rank_needs *needs = calloc((size_t)b->ranks, sizeof *needs);
    ls_status status = needs != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for what %d ranks need", b->ranks);
    for (int r = 0; r < b->ranks && needs != NULL; r++) needs[r] = ls_needs_of(ls_images_of(&images, r));
    b->puts = count_puts(ls_images_of(&images, 0));
    if (status.code == LS_OK) status = ls_world_for(ls_images_of(&images, 0), needs, b->transport, false, 60, &world);
    ls_images_destroy(&images);
    free(needs);
    LS_TRY(status);
    status = ls_launch(world, b->ranks, false, rank_main, b);
    ls_world_destroy(world);
    return status;
}

static ls_status measure(bench *b, const ls_model *model, int64_t S) {
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(LS_F32);
    ls_status status = ls_model_build(model, graph, b->batch, S, true, &lm);
    b->samples = calloc((size_t)(b->steps * b->ranks), sizeof(sample));
    if (b->samples == NULL) status = ls_error(LS_NO_MEMORY, "no memory for the times of %d ranks", b->ranks);
    if (status.code == LS_OK) {
        b->job = (ls_job){.graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_APPLY, 0)};
        status = launch(b);
        if (status.code == LS_OK) print(b, S);
    }
    free(b->samples);
    ls_graph_destroy(graph);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: exposed CONFIG SEQ STRATEGY RANKS [TRANSPORT [STEPS [awake|asleep [SHARD [WAY]]]]]\n");
        return 2;
    }
    ls_machine machine;
    ls_machine_detect(&machine);
    const bool dp = strcmp(argv[3], "dp") == 0;
    bench b = {.ranks = atoi(argv[4]),
               .batch = dp ? atoi(argv[4]) : 1,
               .transport = argc > 5 && strcmp(argv[5], "shm") != 0 ? argv[5] : NULL,
               .steps = argc > 6 ? atoi(argv[6]) : 20,
               .asleep = argc > 7 && strcmp(argv[7], "asleep") == 0};
    b.steps = (int)ls_min(ls_max(b.steps, 1), MOST_STEPS);
    b.target = (ls_target){.strategy = dp ? "local" : argv[3],
                           .layout = dp ? LS_LAYOUT_CONTIGUOUS : LS_LAYOUT_ZIGZAG,
                           .isa = machine.isa,
                           .recurrence_way = argc > 9 ? argv[9] : NULL,
                           .threads = 1};
    ls_model *model;
    ls_status status = mesh_of(argv[3], b.ranks, &b.target.mesh);
    int shard = -1;
    if (status.code == LS_OK && argc > 8) status = ls_shard_parse(argv[8], &shard);
    if (shard >= 0) b.target.shard = &ls_shard_modes[shard];
    if (status.code == LS_OK) status = ls_model_open(argv[1], &model);
    if (status.code == LS_OK) {
        status = measure(&b, model, atoll(argv[2]));
        ls_model_close(model);
    }
    if (status.code != LS_OK) ls_log("%s", status.text);
    return status.code == LS_OK ? 0 : 1;
}
