/*
 * Training steps of a model on random weights and tokens: micro-batch and update in one program, on the ranks and threads asked for. The
 * figure is the work of a step over its time: 6 operations for each weight that products use and token, and attention's for the pairs
 * that the mask leaves, whatever is computed again; the floor the best rate of square products before and after the steps, with
 * as many threads. The step of median length is told apart by what it was spent on.
 */
#include "cli/bench/step_impl.h"
#include "plan/plan.h"
#include "report/report.h"
#include "session/session.h"

#include <math.h>
#include <stdlib.h>

static const ls_adamw adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

/* --- one rank -------------------------------------------------------------------------------------------------------------- */

double *ls_bench_step_seconds(const ls_bench_step *b, int rank, int round) {
    return b->seconds + ((size_t)rank * (size_t)b->rounds + (size_t)round) * (size_t)b->instrs;
}

double *ls_bench_step_predicted(const ls_bench_step *b, int rank) {
    return b->predicted + (size_t)rank * (size_t)b->instrs;
}

static void scatter(const ls_rank *rank, const char *name, const ls_array *array) {
    const ls_binding *binding = ls_image_find(rank->image, name);
    if (binding != NULL) ls_executor_scatter(rank->executor, binding, array->data);
}

/* In [-1, 1), by the number of the element alone: the same on every rank. */
static double scrambled(uint64_t n) {
    n *= 0x9e3779b97f4a7c15u;
    n ^= n >> 32;
    n *= 0xd6e8feb86659fd93u;
    return (double)(int64_t)n * 0x1p-63;
}

/* Norms 1, the rest uniform with the deviation in *context: normal numbers take their time. */
static ls_status read_weights(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const double most = *(const double *)context * sqrt(3);
    for (int64_t i = 0; i < count; i++)
        out[i] = flat->shape.ndim == 1 ? 1 : most * scrambled((uint64_t)(flat->start + start + i));
    return ls_ok();
}

static ls_status set_up(const ls_bench_step *b, const ls_rank *rank) {
    double deviation = ls_model_describe(b->model).initializer_range;
    const ls_weight_source source = {.read = read_weights, .context = &deviation};
    LS_TRY(ls_weights_fill(rank->executor, &source));
    scatter(rank, "tokens", &b->tokens);
    scatter(rank, "labels", &b->labels);
    scatter(rank, "positions", &b->positions);
    return ls_executor_record(rank->executor, 4 * ls_trace_spans(rank->image, 0, 1));
}

/* The spans of the run's instructions. */
static void collect(const ls_executor *executor, uint64_t run, double *seconds) {
    for (size_t i = 0, n = ls_executor_spans(executor); i < n; i++) {
        const ls_span_time *span = ls_executor_span(executor, i);
        if (span->program == LS_PROGRAM_STEP && span->run == run && span->instr >= 0)
            seconds[span->instr] = span->end - span->begin;
    }
}

/* Run 0 warms up. */
static ls_status step(const ls_bench_step *b, const ls_rank *rank, int run) {
    ls_bench_step_times *mine = &b->times[rank->rank];
    const ls_step_numbers numbers = {.tokens = b->tokens.count,
                                     .update = run + 1,
                                     .lr = 1e-4,
                                     .clip = 1,
                                     .beta1 = adamw.beta1,
                                     .beta2 = adamw.beta2};
    LS_TRY(ls_comm_barrier(rank->comm));
    const ls_run_times before = ls_executor_times(rank->executor);
    LS_TRY(ls_rank_run_step(rank, &numbers, &(ls_micro_batches){.count = 1}));
    const ls_run_times after = ls_executor_times(rank->executor);
    mine->peak = ls_max(mine->peak, ls_resident_bytes(rank).bytes);
    const ls_step_sums sums = ls_rank_read_step(rank);
    mine->loss = sums.loss / (double)b->tokens.count;
    if (!sums.applied)
        return ls_error(LS_INVALID, "step %d: loss %g or its gradient is not finite", run + 1, mine->loss);
    if (run == 0) {
        mine->first = after.total - before.total;
        return ls_ok();
    }
    mine->total[run - 1] = after.total - before.total;
    mine->waiting[run - 1] = after.waiting - before.waiting;
    collect(rank->executor, (uint64_t)run, ls_bench_step_seconds(b, rank->rank, run - 1));
    return ls_ok();
}

static ls_status on_rank(ls_rank *rank, void *context) {
    const ls_bench_step *b = context;
    ls_bench_step_times *mine = &b->times[rank->rank];
    mine->began = ls_seconds();
    mine->touched = ls_executor_touched(rank->executor);
    LS_TRY(set_up(b, rank));
    mine->ready = ls_seconds();
    mine->huge = ls_resident_huge(rank);
    for (int run = 0; run <= b->rounds; run++) LS_TRY(step(b, rank, run));
    return ls_ok();
}

/* --- all ranks --------------------------------------------------------------------------------------------------------------- */

/* Of the machine, with as many threads as all ranks have. Nothing of it is left, so that ranks may be forked after it. */
static ls_status look_at_peak(ls_bench_step *b, double *sustained) {
    const ls_target *target = &ls_session_plan(b->session)->target;
    ls_machine machine;
    ls_machine_detect(&machine);
    const int threads = b->ranks * target->threads;
    ls_pool *pool;
    ls_bench_peak peak;
    LS_TRY(ls_pool_create(threads, threads <= machine.cores, &pool));
    const ls_status status = ls_bench_peak_open(b->dtype, target->isa, pool, &peak);
    if (status.code == LS_OK) {
        for (int i = 0; i < 2; i++) ls_bench_peak_look(&peak);
        *sustained = ls_bench_peak_sustain(&peak, 0.5);
        b->floor = fmax(b->floor, peak.best);
        ls_bench_peak_close(&peak);
    }
    ls_pool_destroy(pool);
    return status;
}

static void see(void *context, int rank, int instr, double begin, double end) {
    if (instr >= 0) ls_bench_step_predicted(context, rank)[instr] = end - begin;
}

/* What the clock says of the step that is run. */
static ls_status predict(ls_bench_step *b) {
    const ls_image *images[LS_BENCH_MOST_RANKS];
    for (int r = 0; r < b->ranks; r++) images[r] = ls_session_image(b->session, r);
    b->predicted = calloc((size_t)b->ranks * (size_t)b->instrs, sizeof *b->predicted);
    b->clock = calloc((size_t)b->ranks, sizeof *b->clock);
    if (b->predicted == NULL || b->clock == NULL) return ls_error(LS_NO_MEMORY, "no memory for a prediction");
    ls_host host;
    b->host_measured = b->host != NULL || ls_host_load(images[0]->isa, &host);
    const ls_rates rates = ls_plan_rates(images[0], b->host != NULL ? b->host : &host);
    return ls_simulate(images, b->ranks, LS_PROGRAM_STEP, &rates, &(ls_simulation_watch){see, b}, b->clock);
}

static ls_status run_session(ls_bench_step *b) {
    const size_t of_ranks = ls_round_up(sizeof *b->times * (size_t)b->ranks, 64);
    for (int r = 0; r < b->ranks; r++) {
        const ls_image *image = ls_session_image(b->session, r);
        if (image == NULL || r >= LS_BENCH_MOST_RANKS) /* more than are proved together */
            return ls_error(LS_USAGE, "--ranks %d are too many for this bench", b->ranks);
        b->instrs = (int)ls_max(b->instrs, image->programs[LS_PROGRAM_STEP].n_instrs);
    }
    b->shared_bytes =
        of_ranks + sizeof *b->seconds * (size_t)b->ranks * (size_t)b->rounds * (size_t)b->instrs;
    LS_TRY(predict(b));
    if (!b->without_floor) LS_TRY(look_at_peak(b, &b->products[0]));
    LS_TRY(ls_shared_map(b->shared_bytes, &b->shared));
    b->times = b->shared;
    b->seconds = (double *)(void *)((char *)b->shared + of_ranks);
    b->launched = ls_seconds();
    LS_TRY(ls_session_run(b->session, on_rank, b));
    return b->without_floor ? ls_ok() : look_at_peak(b, &b->products[1]);
}

/* --- all of it ----------------------------------------------------------------------------------------------------------------- */

/* Random tokens; each label is the next of its sequence, and the last one the first. */
static ls_status make_inputs(ls_bench_step *b) {
    const int64_t B = b->options.batch, S = b->options.seq, size[] = {B, S};
    const uint64_t V = (uint64_t)ls_model_describe(b->model).V;
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->tokens));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->labels));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->positions));
    int32_t *tokens = b->tokens.data, *labels = b->labels.data, *positions = b->positions.data;
    for (int64_t i = 0; i < B * S; i++)
        tokens[i] = (int32_t)ls_rng_below(0, ls_rng_stream("tokens"), (uint64_t)i, V);
    for (int64_t i = 0; i < B * S; i++) {
        labels[i] = tokens[i / S * S + (i + 1) % S];
        positions[i] = (int32_t)(i % S);
    }
    return ls_ok();
}

static ls_status open_session(ls_bench_step *b) {
    const ls_bench_options *o = &b->options;
    const ls_spread spread = {.ranks = o->ranks, .threads = o->threads, .strategy = o->strategy};
    ls_language_model lm;
    const double start = ls_seconds();
    b->graph = ls_graph_create(b->dtype);
    LS_TRY(ls_model_build(b->model, b->graph, o->batch, o->seq, true, &lm));
    b->job = (ls_job){.graph = b->graph, .update = LS_UPDATE_ADAMW, .adamw = adamw};
    LS_TRY(ls_session_open(&b->job, &spread, &b->session));
    b->opened = ls_seconds() - start;
    b->ranks = ls_session_ranks(b->session);
    return ls_ok();
}

ls_status ls_bench_step_run(ls_bench_step *b) {
    ls_bench_options *o = &b->options;
    ls_bench_fill_in(&o->seq, 2048);
    ls_bench_fill_in(&o->batch, 1);
    ls_bench_fill_in(&o->ranks, 1);
    LS_TRY(ls_bench_rounds(o, 5, &b->rounds));
    LS_TRY(ls_job_dtype(o->dtype, LS_BF16, &b->dtype));
    LS_TRY(open_session(b));
    LS_TRY(make_inputs(b));
    return run_session(b);
}

void ls_bench_step_close(ls_bench_step *b) {
    ls_shared_unmap(b->shared, b->shared_bytes);
    free(b->predicted);
    free(b->clock);
    ls_session_close(b->session);
    ls_graph_destroy(b->graph);
    ls_array_free(&b->tokens);
    ls_array_free(&b->labels);
    ls_array_free(&b->positions);
    ls_model_close(b->model);
}

ls_status ls_run_bench_step(const ls_bench_job *job, FILE *out) {
    ls_bench_step b = {.options = job->options};
    ls_status status = ls_bench_model_open(&b.options, &b.model);
    if (status.code == LS_OK) status = ls_bench_step_run(&b);
    if (status.code == LS_OK) status = ls_bench_step_print(&b, job->json, out);
    ls_bench_step_close(&b);
    return status;
}
