/*
 * Training steps of a model on random weights and tokens: micro-batch and update in one program, on the ranks and threads asked for. The
 * figure is the work of a step over its time: 6 operations for each weight that products use and token, and attention's for the pairs
 * that the mask leaves, whatever is computed again; the floor the best rate of square products before and after the steps, with
 * as many threads. The step of median length is told apart by what it was spent on.
 */
#include "base/median.h"
#include "job/bench_impl.h"
#include "longspan/units.h"
#include "plan/resident.h"
#include "plan/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one rank, in memory that it shares with the caller. */
typedef struct rank_times {
    double began, ready; /* clock: memory mapped and kernels prepared; weights and inputs set */
    double first;        /* seconds of the first step, which touches fresh memory */
    double loss;         /* of the last step */
    int64_t peak;        /* bytes resident, the most after any step */
    double total[LS_BENCH_MOST_ROUNDS], waiting[LS_BENCH_MOST_ROUNDS];
} rank_times;

typedef struct bench {
    ls_bench_options options; /* defaults filled in */
    ls_dtype dtype;
    ls_model *model;
    ls_graph *graph;
    ls_job job;
    ls_array tokens, labels, positions;
    ls_session *session;
    int ranks, rounds;
    int instrs;   /* room for those of any rank's program */
    void *shared; /* with the ranks: */
    size_t shared_bytes;
    rank_times *times;       /* by rank */
    double *seconds;         /* by rank, round, instruction */
    double opened, launched; /* seconds to plan, compile and prove; clock */
    double floor;            /* operations per second */
} bench;

static const ls_adamw_params adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

/* --- one rank -------------------------------------------------------------------------------------------------------------- */

static double *seconds_at(const bench *b, int rank, int round) {
    return b->seconds + ((size_t)rank * (size_t)b->rounds + (size_t)round) * (size_t)b->instrs;
}

static void scatter(const ls_rank *rank, const char *name, const ls_array *array) {
    const ls_binding *binding = ls_image_find(rank->image, name);
    if (binding != NULL) ls_executor_scatter(rank->executor, binding, array->data);
}

/* Norms 1 and the rest even numbers of the deviation in *context, without the price of normal ones. */
static ls_status read_weights(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const double most = *(const double *)context * sqrt(3);
    const ls_view view = ls_view_dense(out, LS_F64, 1, &count);
    ls_view_scribble(&view, (uint32_t)(flat->start + start));
    for (int64_t i = 0; i < count; i++) out[i] = flat->shape.ndim == 1 ? 1 : most * out[i];
    return ls_ok();
}

static ls_status set_up(const bench *b, const ls_rank *rank) {
    double deviation = ls_model_describe(b->model).initializer_range;
    const ls_weight_source source = {read_weights, &deviation};
    LS_TRY(ls_weights_fill(rank->executor, &source));
    scatter(rank, "tokens", &b->tokens);
    scatter(rank, "labels", &b->labels);
    scatter(rank, "positions", &b->positions);
    const double seed = 1 / (double)b->tokens.count;
    void *to = ls_executor_tensor(rank->executor, "seed");
    if (rank->image->accumulator == LS_F64)
        *(double *)to = seed;
    else
        *(float *)to = (float)seed;
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
static ls_status step(const bench *b, const ls_rank *rank, int run) {
    rank_times *mine = &b->times[rank->rank];
    double *hyper = ls_executor_tensor(rank->executor, LS_BIND_HYPER);
    const double *result = ls_executor_tensor(rank->executor, LS_BIND_RESULT);
    const double *control = ls_executor_tensor(rank->executor, LS_BIND_CONTROL);
    hyper[LS_HYPER_LR] = 1e-4;
    hyper[LS_HYPER_CLIP] = 1;
    hyper[LS_HYPER_STEP] = run + 1;
    hyper[LS_HYPER_BETA1] = adamw.beta1;
    hyper[LS_HYPER_BETA2] = adamw.beta2;
    LS_TRY(ls_comm_barrier(rank->comm));
    const ls_run_times before = ls_executor_times(rank->executor);
    LS_TRY(ls_executor_run(rank->executor, LS_PROGRAM_STEP));
    const ls_run_times after = ls_executor_times(rank->executor);
    mine->peak = ls_max(mine->peak, ls_resident_bytes(rank).bytes);
    mine->loss = result[LS_TOTAL_LOSS] / (double)b->tokens.count;
    if (control[LS_CONTROL_APPLY] == 0)
        return ls_error(LS_INVALID, "step %d: loss %g or its gradient is not finite", run + 1, mine->loss);
    if (run == 0) {
        mine->first = after.total - before.total;
        return ls_ok();
    }
    mine->total[run - 1] = after.total - before.total;
    mine->waiting[run - 1] = after.waiting - before.waiting;
    collect(rank->executor, (uint64_t)run, seconds_at(b, rank->rank, run - 1));
    return ls_ok();
}

static ls_status on_rank(ls_rank *rank, void *context) {
    const bench *b = context;
    rank_times *mine = &b->times[rank->rank];
    mine->began = ls_seconds();
    LS_TRY(set_up(b, rank));
    mine->ready = ls_seconds();
    for (int run = 0; run <= b->rounds; run++) LS_TRY(step(b, rank, run));
    return ls_ok();
}

/* --- all ranks --------------------------------------------------------------------------------------------------------------- */

/* Of the machine, with as many threads as all ranks have. Nothing of it is left, so that ranks may be forked after it. */
static ls_status look_at_peak(bench *b) {
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
        b->floor = fmax(b->floor, peak.best);
        ls_bench_peak_close(&peak);
    }
    ls_pool_destroy(pool);
    return status;
}

static ls_status run_session(bench *b) {
    const size_t of_ranks = ls_round_up(sizeof *b->times * (size_t)b->ranks, 64);
    for (int r = 0; r < b->ranks; r++) {
        const ls_image *image = ls_session_image(b->session, r);
        if (image == NULL) /* more than are proved together */
            return ls_error(LS_USAGE, "--ranks %d are too many for this bench", b->ranks);
        b->instrs = (int)ls_max(b->instrs, image->programs[LS_PROGRAM_STEP].n_instrs);
    }
    b->shared_bytes =
        of_ranks + sizeof *b->seconds * (size_t)b->ranks * (size_t)b->rounds * (size_t)b->instrs;
    LS_TRY(look_at_peak(b));
    LS_TRY(ls_shared_map(b->shared_bytes, &b->shared));
    b->times = b->shared;
    b->seconds = (double *)(void *)((char *)b->shared + of_ranks);
    b->launched = ls_seconds();
    LS_TRY(ls_session_run(b->session, on_rank, b));
    return look_at_peak(b);
}

/* --- the figures --------------------------------------------------------------------------------------------------------------- */

typedef struct figures {
    int round;            /* the step of median length */
    double seconds, mean; /* of it: the slowest rank's; the mean over the ranks */
    ls_bench_figure rate;
    double tokens_per_second;
    double mapped, set,
        first; /* start-up: seconds until all ranks were there, had their weights; the first step over the median */
    double loss;
    int64_t peak;
    ls_bench_table table;
} figures;

static double slowest(const bench *b, int round) {
    double most = 0;
    for (int r = 0; r < b->ranks; r++) most = fmax(most, b->times[r].total[round]);
    return most;
}

static int median_round(const bench *b) {
    double steps[LS_BENCH_MOST_ROUNDS], sorted[LS_BENCH_MOST_ROUNDS];
    for (int i = 0; i < b->rounds; i++) sorted[i] = steps[i] = slowest(b, i);
    (void)ls_median(sorted, b->rounds);
    int round = 0;
    while (steps[round] != sorted[(b->rounds - 1) / 2]) round++;
    return round;
}

/* What a step must compute: a causal mask leaves each token those up to it. */
static double work_of(const bench *b) {
    const ls_model_sizes n = ls_model_describe(b->model);
    const double S = (double)b->options.seq;
    const double weights = (double)(ls_model_parameters(b->model) - (n.tied ? 0 : n.V * n.E));
    const double pairs = S * (S + 1) / 2;
    return 6 * weights * S + 14 * pairs * (double)(n.Hq * n.D * n.L);
}

static void fill_table(const bench *b, figures *f) {
    double waiting = 0, known = 0;
    for (int r = 0; r < b->ranks; r++) {
        ls_bench_table_add(&f->table, ls_session_image(b->session, r), LS_PROGRAM_STEP,
                           seconds_at(b, r, f->round), b->ranks);
        waiting += b->times[r].waiting[f->round] / b->ranks;
        f->mean += b->times[r].total[f->round] / b->ranks;
    }
    for (int i = 0; i < f->table.n; i++) known += f->table.row[i].seconds;
    ls_bench_table_add_row(&f->table, "between instructions", f->mean - known - waiting);
    if (b->ranks > 1) {
        ls_bench_table_add_row(&f->table, "waiting for other ranks", waiting);
        ls_bench_table_add_row(&f->table, "ended before the slowest", f->seconds - f->mean);
    }
    ls_bench_table_end(&f->table);
}

static void reckon(const bench *b, figures *f) {
    f->round = median_round(b);
    f->seconds = slowest(b, f->round);
    f->tokens_per_second = (double)b->tokens.count / f->seconds;
    const double rate = work_of(b) / f->seconds;
    f->rate = (ls_bench_figure){"GFLOP/s", b->floor * 1e-9, rate * 1e-9, rate / b->floor};
    f->loss = b->times[0].loss;
    for (int r = 0; r < b->ranks; r++) {
        const rank_times *t = &b->times[r];
        f->mapped = fmax(f->mapped, t->began - b->launched);
        f->set = fmax(f->set, t->ready - t->began);
        f->first = fmax(f->first, t->first - f->seconds);
        f->peak = ls_max(f->peak, t->peak);
    }
    fill_table(b, f);
}

static void print_page(const bench *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    char text[4][LS_SECONDS_TEXT], bytes[2][LS_BYTES_TEXT];
    fprintf(
        out,
        "training step · %s · S %lld · %s · %s · %d rank%s of %d thread%s · %s · %s · the median of %d\n\n",
        ls_bench_model_name(&b->options), (long long)b->options.seq, ls_dtype_name(b->dtype), chosen.isa,
        b->ranks, b->ranks == 1 ? "" : "s", ls_session_plan(b->session)->target.threads,
        ls_session_plan(b->session)->target.threads == 1 ? "" : "s", chosen.strategy, chosen.mesh, b->rounds);
    fprintf(out, "%-30s", "");
    ls_bench_print_titles("figure", out);
    fprintf(out, "%-30s", "6·N·tokens + attention");
    ls_bench_print_figure(&f->rate, out);
    fprintf(out, "%s a step, %.1f tokens/s, loss %.3f\n", ls_seconds_text(f->seconds, text[0]),
            f->tokens_per_second, f->loss);
    fprintf(
        out,
        "start-up: plan, compile and prove %s; start, map and prepare %s; set weights %s; first step longer by %s\n",
        ls_seconds_text(b->opened, text[0]), ls_seconds_text(f->mapped, text[1]),
        ls_seconds_text(f->set, text[2]), ls_seconds_text(f->first, text[3]));
    fprintf(out, "memory of a rank: %s mapped, %s resident at most\n\n",
            ls_bytes_text((double)chosen.predicted_bytes, bytes[0]),
            ls_bytes_text((double)f->peak, bytes[1]));
    ls_bench_table_print(&f->table, out);
    fprintf(
        out,
        "\nfloor: the fastest run of a square product on as many threads · N: weights that products use · rates: of one rank, operands "
        "in full\n");
}

static void print_json(const bench *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "model", ls_bench_model_name(&b->options));
    ls_json_put_int(w, "seq", b->options.seq);
    ls_json_put_text(w, "dtype", ls_dtype_name(b->dtype));
    ls_json_put_text(w, "isa", chosen.isa);
    ls_json_put_int(w, "ranks", b->ranks);
    ls_json_put_int(w, "threads", ls_session_plan(b->session)->target.threads);
    ls_json_put_text(w, "strategy", chosen.strategy);
    ls_json_put_text(w, "mesh", chosen.mesh);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_bench_put_figure(&f->rate, w);
    ls_json_put_double(w, "work", work_of(b));
    ls_json_put_double(w, "seconds", f->seconds);
    ls_json_put_double(w, "tokens_per_second", f->tokens_per_second);
    ls_json_put_double(w, "loss", f->loss);
    ls_json_open_object(w, "start_up");
    ls_json_put_double(w, "compile", b->opened);
    ls_json_put_double(w, "map_and_prepare", f->mapped);
    ls_json_put_double(w, "set_weights", f->set);
    ls_json_put_double(w, "first_step_longer", f->first);
    ls_json_close(w);
    ls_json_put_int(w, "mapped_bytes", chosen.predicted_bytes);
    ls_json_put_int(w, "peak_bytes", f->peak);
    ls_bench_table_put(&f->table, w);
    ls_json_close(w);
    fprintf(out, "%s\n", ls_json_written(w, NULL));
    ls_json_writer_destroy(w);
}

/* --- all of it ----------------------------------------------------------------------------------------------------------------- */

/* Random tokens; each label is the next of them, and the last one the first. */
static ls_status make_inputs(bench *b) {
    const int64_t S = b->options.seq, size[] = {1, S};
    const uint64_t V = (uint64_t)ls_model_describe(b->model).V;
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->tokens));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->labels));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->positions));
    int32_t *tokens = b->tokens.data, *labels = b->labels.data, *positions = b->positions.data;
    for (int64_t i = 0; i < S; i++)
        tokens[i] = (int32_t)ls_rng_below(0, ls_rng_stream("tokens"), (uint64_t)i, V);
    for (int64_t i = 0; i < S; i++) {
        labels[i] = tokens[(i + 1) % S];
        positions[i] = (int32_t)i;
    }
    return ls_ok();
}

static ls_status open_session(bench *b) {
    const ls_bench_options *o = &b->options;
    const ls_spread spread = {.ranks = o->ranks, .threads = o->threads, .strategy = o->strategy};
    ls_language_model lm;
    const double start = ls_seconds();
    b->graph = ls_graph_create(b->dtype);
    LS_TRY(ls_model_build(b->model, b->graph, 1, o->seq, true, &lm));
    b->job = (ls_job){.graph = b->graph, .update = LS_UPDATE_ADAMW, .adamw = adamw};
    LS_TRY(ls_session_open(&b->job, &spread, &b->session));
    b->opened = ls_seconds() - start;
    b->ranks = ls_session_ranks(b->session);
    return ls_ok();
}

static ls_status run(bench *b) {
    ls_bench_options *o = &b->options;
    ls_bench_fill_in(&o->seq, 2048);
    ls_bench_fill_in(&o->ranks, 1);
    LS_TRY(ls_bench_rounds(o, 5, &b->rounds));
    LS_TRY(ls_job_dtype(o->dtype, LS_BF16, &b->dtype));
    LS_TRY(ls_bench_model_open(o, &b->model));
    LS_TRY(open_session(b));
    LS_TRY(make_inputs(b));
    return run_session(b);
}

ls_status ls_run_bench_step(const ls_bench_job *job, FILE *out) {
    bench b = {.options = job->options};
    ls_status status = run(&b);
    figures *f = calloc(1, sizeof *f);
    if (status.code == LS_OK && f == NULL) status = ls_error(LS_NO_MEMORY, "no memory for a bench");
    if (status.code == LS_OK) {
        reckon(&b, f);
        if (job->json)
            print_json(&b, f, out);
        else
            print_page(&b, f, out);
    }
    free(f);
    ls_shared_unmap(b.shared, b.shared_bytes);
    ls_session_close(b.session);
    ls_graph_destroy(b.graph);
    ls_array_free(&b.tokens);
    ls_array_free(&b.labels);
    ls_array_free(&b.positions);
    ls_model_close(b.model);
    return status;
}
