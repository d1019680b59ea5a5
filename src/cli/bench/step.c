/*
 * Training steps of a model on random weights and tokens: micro-batch and update in one program, on the given ranks and
 * threads. The figure is the work of a step divided by its time. The work is 6 operations for each token and weight of
 * a product, and the operations of attention for the pairs that the mask leaves; recomputed results do not count. The
 * floor is the best rate of square products before and after the steps, with as many threads. A table shows where the
 * time of the step of median length went.
 */
#include "cli/bench/bench_impl.h"
#include "plan/plan.h"
#include "report/report.h"
#include "session/session.h"

#include <math.h>
#include <stdlib.h>

/* --- one rank ----------------------------------------------------------------------------------------------------- */

double *ls_bench_step_seconds(const ls_bench_step *b, int rank, int round) {
    return b->seconds + ((size_t)rank * (size_t)b->rounds + (size_t)round) * (size_t)b->instrs;
}

double *ls_bench_step_predicted(const ls_bench_step *b, int rank) {
    return b->predicted + (size_t)rank * (size_t)b->instrs;
}

static ls_status scatter(const ls_rank *rank, const char *name, const ls_array *array) {
    const ls_binding *binding = ls_image_find(rank->image, name);
    return binding != NULL ? ls_executor_scatter(rank->executor, binding, array->data) : ls_ok();
}

/* A number in [-1, 1) that depends only on the index of an element, so that all ranks get the same number. */
static double hashed(uint64_t n) {
    n *= 0x9e3779b97f4a7c15u;
    n ^= n >> 32;
    n *= 0xd6e8feb86659fd93u;
    return (double)(int64_t)n * 0x1p-63;
}

/*
 * Weights of norms are 1; other weights are uniform with standard deviation *context, because normal numbers would take
 * longer to make.
 */
static ls_status read_weights(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const double most = *(const double *)context * sqrt(3);
    for (int64_t i = 0; i < count; i++)
        out[i] = flat->shape.ndim == 1 ? 1 : most * hashed((uint64_t)ls_flat_on_host(flat, start + i));
    return ls_ok();
}

static ls_status set_up(const ls_bench_step *b, const ls_rank *rank) {
    double deviation = ls_model_describe(b->model).initializer_range;
    if (deviation == 0) deviation = 0.02; /* a graph.json gives none */
    const ls_weight_source source = {.read = read_weights, .context = &deviation};
    LS_TRY(ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL));
    LS_TRY(scatter(rank, "tokens", &b->tokens));
    LS_TRY(scatter(rank, "labels", &b->labels));
    return scatter(rank, "positions", &b->positions);
}

/*
 * Sets seconds[instruction] from the recorded spans of a run, which are in the order in which they ended. An
 * instruction on a device begins when the one before it on its queue has ended, however early it was launched.
 */
static void collect(const ls_rank *rank, uint64_t run, double *seconds) {
    enum { MOST_QUEUES = 16 };
    const ls_program *p = &rank->image->programs[rank->step];
    double ended[MOST_QUEUES] = {0};
    for (size_t i = 0, n = ls_executor_spans(rank->executor); i < n; i++) {
        const ls_span_time *span = ls_executor_span(rank->executor, i);
        if (span->program != rank->step || span->run != run || span->instr < 0) continue;
        double *before = &ended[p->instrs[span->instr].queue % MOST_QUEUES];
        seconds[span->instr] = span->end - fmax(span->begin, *before);
        *before = span->end;
    }
}

/*
 * Run 0 warms up. seconds[run][instruction]: of the other runs. A device that replays its programs does not do so while
 * spans are recorded, so for the spans the rounds are run a second time.
 */
static ls_status run_step(const ls_bench_step *b, const ls_rank *rank, int run, ls_bench_step_times *mine,
                          double *seconds) {
    const ls_step_numbers numbers = {.divisor = (double)b->tokens.count,
                                     .update = run + 1,
                                     .lr = 1e-4,
                                     .clip = 1,
                                     .beta1 = b->job.hyper.beta1,
                                     .beta2 = b->job.hyper.beta2};
    LS_TRY(ls_comm_barrier(rank->comm));
    const ls_run_times before = ls_executor_times(rank->executor);
    LS_TRY(ls_rank_run_step(rank, &numbers, &(ls_micro_batches){.count = 1}));
    const ls_run_times after = ls_executor_times(rank->executor);
    mine->peak = ls_max(mine->peak, ls_resident_bytes(rank).bytes);
    ls_step_sums sums;
    LS_TRY(ls_rank_read_step(rank, &sums));
    mine->loss = sums.loss / (double)b->tokens.count;
    if (!sums.applied)
        return ls_error(LS_INVALID, "step %d: loss %g or its gradient is not finite", run + 1, mine->loss);
    if (run == 0) {
        mine->first = after.total - before.total;
        return ls_ok();
    }
    const int round = (run - 1) % b->rounds;
    mine->traced[round] = after.total - before.total;
    mine->waiting[round] = after.waiting - before.waiting;
    if (run <= b->rounds) mine->total[round] = mine->traced[round];
    collect(rank, (uint64_t)run, seconds + (size_t)round * (size_t)b->instrs);
    return ls_ok();
}

static ls_status run_steps(const ls_bench_step *b, const ls_rank *rank, ls_bench_step_times *mine, double *seconds) {
    const size_t spans = 4 * ls_trace_spans(rank->image, rank->step, 1);
    const bool twice = ls_executor_replays(rank->executor);
    if (!twice) LS_TRY(ls_executor_record(rank->executor, spans));
    for (int run = 0; run <= b->rounds; run++) LS_TRY(run_step(b, rank, run, mine, seconds));
    if (!twice) return ls_ok();
    LS_TRY(ls_executor_record(rank->executor, spans));
    for (int run = b->rounds + 1; run <= 2 * b->rounds; run++) LS_TRY(run_step(b, rank, run, mine, seconds));
    return ls_ok();
}

static ls_status time_steps(const ls_bench_step *b, const ls_rank *rank, double *seconds, size_t bytes) {
    ls_bench_step_times mine = {.began = ls_seconds(), .touched = ls_executor_touched(rank->executor)};
    LS_TRY(set_up(b, rank));
    mine.ready = ls_seconds();
    ls_comm_end_at_stop(rank->comm, true);
    mine.huge = ls_executor_huge(rank->executor);
    LS_TRY(run_steps(b, rank, &mine, seconds));
    size_t unused, total;
    if (ls_executor_account(rank->executor, &unused, &total)) {
        mine.device_bytes = (int64_t)total;
        mine.device_used = (int64_t)(total - unused);
    }
    LS_TRY(ls_comm_gather_home(rank->comm, &mine, sizeof mine, b->times, sizeof mine));
    return ls_comm_gather_home(rank->comm, seconds, bytes, b->seconds, bytes);
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const ls_bench_step *b = input;
    const size_t n = (size_t)b->rounds * (size_t)b->instrs;
    double *seconds = calloc(n, sizeof *seconds);
    if (seconds == NULL) return ls_error(LS_NO_MEMORY, "no memory for the times of %zu instructions", n);
    const ls_status status = time_steps(b, rank, seconds, n * sizeof *seconds);
    free(seconds);
    return status;
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

typedef struct floor_work {
    const ls_bench_step *b;
    double rate[2]; /* the best rate, and the mean rate */
} floor_work;

static ls_status run_floor(void *context) {
    floor_work *f = context;
    const ls_bench_step *b = f->b;
    ls_bench_place place;
    ls_bench_peak peak;
    LS_TRY(ls_bench_place_open(&b->options, &b->of, b->ranks * ls_session_plan(b->session)->target.threads, &place));
    ls_status status = ls_bench_peak_open(&place.timed, b->dtype, &peak);
    if (status.code == LS_OK) {
        for (int i = 0; i < 2 && status.code == LS_OK; i++) status = ls_bench_peak_update(&peak);
        if (status.code == LS_OK) status = ls_bench_peak_sustain(&peak, 0.5, &f->rate[1]);
        f->rate[0] = peak.best;
        ls_bench_peak_close(&peak);
    }
    ls_bench_place_close(&place);
    return status;
}

/*
 * Updates the floor with as many threads, or as many GPUs, as all ranks have, and measures the mean rate of products.
 * If ranks will be processes, this happens in a separate process, because they cannot use a driver that this process
 * has initialised.
 */
static ls_status measure_floor(ls_bench_step *b, double *sustained) {
    const double gpus = b->of.device == LS_DEVICE_CPU ? 1 : (double)ls_min(b->ranks, ls_max(1, b->of.facts.units));
    floor_work f = {.b = b};
    LS_TRY(ls_bench_as_threads(&b->options) ? run_floor(&f) : ls_apart(run_floor, &f, f.rate, sizeof f.rate));
    *sustained = gpus * f.rate[1];
    b->floor = fmax(b->floor, gpus * f.rate[0]);
    return ls_ok();
}

static void note_prediction(void *context, int rank, int instr, double begin, double end) {
    if (instr >= 0) ls_bench_step_predicted(context, rank)[instr] = end - begin;
}

/* Simulates the step. */
static ls_status predict(ls_bench_step *b) {
    const ls_image *first = ls_session_image(b->session);
    const ls_image **images = calloc((size_t)b->ranks, sizeof *images);
    b->predicted = calloc((size_t)b->ranks * (size_t)b->instrs, sizeof *b->predicted);
    b->simulated = calloc((size_t)b->ranks, sizeof *b->simulated);
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for a prediction");
    if (images != NULL && b->predicted != NULL && b->simulated != NULL) {
        ls_host host;
        b->host_measured = b->host != NULL || ls_host_load(&b->of, &host, NULL);
        const ls_rates rates = ls_plan_rates(first, b->host != NULL ? b->host : &host);
        for (int r = 0; r < b->ranks; r++) images[r] = ls_images_of(&b->images, r);
        status =
            ls_simulate(images, b->ranks, b->step, &rates, &(ls_simulation_watch){note_prediction, b}, b->simulated);
    }
    free(images);
    return status;
}

static ls_status run_session(ls_bench_step *b) {
    LS_TRY(ls_compile_classes(&b->job, &ls_session_plan(b->session)->target, &b->images));
    for (int r = 0; r < b->ranks; r++)
        b->instrs = (int)ls_max(b->instrs, ls_images_of(&b->images, r)->programs[b->step].n_instrs);
    LS_TRY(predict(b));
    if (!b->without_floor) LS_TRY(measure_floor(b, &b->products[0]));
    b->times = calloc((size_t)b->ranks, sizeof *b->times);
    b->seconds = calloc((size_t)b->ranks * (size_t)b->rounds * (size_t)b->instrs, sizeof *b->seconds);
    if (b->times == NULL || b->seconds == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the times of %d ranks", b->ranks);
    b->launched = ls_seconds();
    LS_TRY(ls_session_run(b->session, on_rank, b, NULL, 0));
    return b->without_floor ? ls_ok() : measure_floor(b, &b->products[1]);
}

/* --- the session -------------------------------------------------------------------------------------------------- */

/*
 * Makes random tokens. The label of a token is the next token of its sequence; the label of the last token is the first
 * token.
 */
static ls_status make_inputs(ls_bench_step *b) {
    const int64_t B = b->options.batch, S = b->options.seq, size[] = {B, S};
    const uint64_t V = (uint64_t)ls_model_describe(b->model).V;
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->tokens));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->labels));
    LS_TRY(ls_array_make(LS_I32, 2, size, &b->positions));
    int32_t *tokens = b->tokens.data, *labels = b->labels.data, *positions = b->positions.data;
    for (int64_t i = 0; i < B * S; i++) tokens[i] = (int32_t)ls_rng_below(0, ls_rng_stream("tokens"), (uint64_t)i, V);
    for (int64_t i = 0; i < B * S; i++) {
        labels[i] = tokens[i / S * S + (i + 1) % S];
        positions[i] = (int32_t)(i % S);
    }
    return ls_ok();
}

static ls_status open_session(ls_bench_step *b) {
    const ls_bench_options *o = &b->options;
    const ls_spread spread = {.ranks = o->ranks,
                              .threads = o->threads,
                              .strategy = o->strategy,
                              .mesh = o->mesh,
                              .shard = o->shard,
                              .sums = o->sums,
                              .device = o->device,
                              .kernels = o->kernels,
                              .as_threads = ls_bench_as_threads(o)};
    ls_language_model lm;
    const double start = ls_seconds();
    b->graph = ls_graph_create(b->dtype);
    LS_TRY(ls_model_build(b->model, b->graph, o->batch, o->seq, true, &lm));
    b->job = (ls_job){
        .graph = b->graph, .programs = ls_training_programs(b->graph, 0, LS_UPDATE_APPLY, 0), .micro_batches = 1};
    LS_TRY(ls_optimizer_find(o->optimizer, &b->job.optimizer));
    b->job.hyper = ls_optimizer_defaults(b->job.optimizer);
    LS_TRY(ls_session_open(&b->job, &spread, &b->session));
    b->opened = ls_seconds() - start;
    b->ranks = ls_session_ranks(b->session);
    b->step = ls_program_find(ls_session_image(b->session), LS_PROGRAM_STEP);
    return ls_ok();
}

ls_status ls_bench_step_run(ls_bench_step *b) {
    ls_bench_options *o = &b->options;
    ls_device_traits device;
    LS_TRY(ls_bench_device(o, &b->of));
    LS_TRY(ls_device_choose(o->device, &b->of.name, &device));
    b->later = !device.at_once;
    ls_bench_fill_in(&o->seq, 2048);
    ls_bench_fill_in(&o->batch, 1);
    if (o->mesh == NULL) ls_bench_fill_in(&o->ranks, 1); /* else the product of its sizes */
    LS_TRY(ls_bench_rounds(o, 5, &b->rounds));
    LS_TRY(ls_job_dtype(o->dtype, LS_BF16, &b->dtype));
    LS_TRY(open_session(b));
    LS_TRY(make_inputs(b));
    return run_session(b);
}

void ls_bench_step_close(ls_bench_step *b) {
    free(b->times);
    free(b->seconds);
    free(b->predicted);
    free(b->simulated);
    ls_images_destroy(&b->images);
    ls_session_close(b->session);
    ls_graph_destroy(b->graph);
    ls_array_free(&b->tokens);
    ls_array_free(&b->labels);
    ls_array_free(&b->positions);
    ls_model_close(b->model);
}

/* --- the figures -------------------------------------------------------------------------------------------------- */

typedef struct figures {
    int round;            /* the step of median length */
    double seconds, mean; /* of that step: seconds of the slowest rank; the mean over the ranks, with spans recorded */
    double predicted;     /* simulated */
    ls_bench_figure rate;
    double beside; /* the rate divided by the mean rate of products before and after the steps */
    double tokens_per_second;
    /*
     * Seconds of the start-up: until all ranks had memory and kernels; to touch memory; to set weights; by how much the
     * first step took longer.
     */
    double mapped, touched, set, first;
    double loss;
    int64_t peak, huge;
    int64_t device_used, device_bytes; /* memory of the GPU that is used most: in use, and in total */
    ls_bench_table table;
} figures;

static double slowest(const ls_bench_step *b, int round) {
    double most = 0;
    for (int r = 0; r < b->ranks; r++) most = fmax(most, b->times[r].total[round]);
    return most;
}

static double slowest_traced(const ls_bench_step *b, int round) {
    double most = 0;
    for (int r = 0; r < b->ranks; r++) most = fmax(most, b->times[r].traced[round]);
    return most;
}

static int median_round(const ls_bench_step *b) {
    double steps[LS_BENCH_MOST_ROUNDS];
    for (int i = 0; i < b->rounds; i++) steps[i] = slowest(b, i);
    return ls_median_place(steps, b->rounds);
}

double ls_bench_step_median(const ls_bench_step *b) { return slowest(b, median_round(b)); }

/* Operations of a step. With a causal mask each token sees the tokens up to itself. */
static double work_of(const ls_bench_step *b) {
    const ls_model_sizes n = ls_model_describe(b->model);
    const double B = (double)b->options.batch, S = (double)b->options.seq;
    const double weights = (double)(ls_model_parameters(b->model) - (n.tied ? 0 : n.V * n.E));
    const double pairs = B * S * (S + 1) / 2;
    return 6 * weights * B * S + 14 * pairs * (double)(n.Hq * n.D * n.L);
}

/*
 * Seconds of a rank's instructions in a traced step. A processor executes the instructions of all queues one after the
 * other. A GPU executes queues concurrently, so only the compute queue counts, with its waits.
 */
static double known_seconds(const ls_bench_step *b, int rank, int round) {
    const ls_program *p = &ls_images_of(&b->images, rank)->programs[b->step];
    const double *seconds = ls_bench_step_seconds(b, rank, round);
    double known = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const bool counts = b->later ? p->instrs[i].queue == LS_COMPUTE : !ls_traits(&p->instrs[i])->awaits;
        if (counts) known += seconds[i];
    }
    return known;
}

static void fill_table(const ls_bench_step *b, figures *f) {
    double waiting = 0, known = 0, idle = 0, ended = 0;
    f->predicted = ls_simulated_seconds(b->simulated, b->ranks);
    for (int r = 0; r < b->ranks; r++) {
        ls_bench_table_add(&f->table, ls_images_of(&b->images, r), b->step, ls_bench_step_seconds(b, r, f->round),
                           ls_bench_step_predicted(b, r), b->ranks);
        idle += b->simulated[r].waiting / b->ranks;
        ended += (f->predicted - b->simulated[r].end) / b->ranks;
        known += known_seconds(b, r, f->round) / b->ranks;
        if (!b->later) waiting += b->times[r].waiting[f->round] / b->ranks;
        f->mean += b->times[r].traced[f->round] / b->ranks;
    }
    ls_bench_table_add_row(&f->table, "between instructions", f->mean - known - waiting, 0);
    if (b->ranks > 1) {
        if (!b->later) ls_bench_table_add_row(&f->table, "waiting for other ranks", waiting, idle);
        ls_bench_table_add_row(&f->table, "ended before the slowest", slowest_traced(b, f->round) - f->mean, ended);
    }
    ls_bench_table_end(&f->table);
}

static void compute_figures(const ls_bench_step *b, figures *f) {
    f->round = median_round(b);
    f->seconds = slowest(b, f->round);
    f->tokens_per_second = (double)b->tokens.count / f->seconds;
    const double rate = work_of(b) / f->seconds;
    f->rate = ls_bench_rate_figure(&b->of, b->floor, rate);
    f->beside = rate / ((b->products[0] + b->products[1]) / 2);
    f->loss = b->times[0].loss;
    for (int r = 0; r < b->ranks; r++) {
        const ls_bench_step_times *t = &b->times[r];
        f->mapped = fmax(f->mapped, t->began - b->launched - t->touched.seconds);
        f->touched = fmax(f->touched, t->touched.seconds);
        f->huge = r == 0 ? t->huge : ls_min(f->huge, t->huge);
        f->set = fmax(f->set, t->ready - t->began);
        f->first = fmax(f->first, t->first - f->seconds);
        f->peak = ls_max(f->peak, t->peak);
        f->device_used = ls_max(f->device_used, t->device_used);
        f->device_bytes = ls_max(f->device_bytes, t->device_bytes);
    }
    fill_table(b, f);
}

static void print_page(const ls_bench_step *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    char text[5][LS_SECONDS_TEXT], bytes[3][LS_BYTES_TEXT];
    const int threads = ls_session_plan(b->session)->target.threads;
    char each[32] = "";
    if (b->of.device == LS_DEVICE_CPU) snprintf(each, sizeof each, " of %d thread%s", threads, threads == 1 ? "" : "s");
    fprintf(
        out,
        "training step · %s · B %lld · S %lld · %s · %s · %d rank%s%s · %s · %s · shard %s · %s sums · the median of %d\n\n",
        ls_bench_model_name(&b->options), (long long)b->options.batch, (long long)b->options.seq,
        ls_dtype_name(b->dtype), ls_bench_machine_name(&b->of), b->ranks, b->ranks == 1 ? "" : "s", each,
        chosen.strategy, chosen.mesh, chosen.shard, chosen.sums, b->rounds);
    fprintf(out, "%-30s", "");
    ls_bench_print_titles("figure", out);
    fprintf(out, "%-30s", "6·N·tokens + attention");
    ls_bench_print_figure(&f->rate, out);
    fprintf(out, "%s a step, %.1f tokens/s, loss %.3f; %.3f of square products for half a second before and after\n",
            ls_seconds_text(f->seconds, text[0]), f->tokens_per_second, f->loss, f->beside);
    fprintf(out, "%s predicted, %.3f of what was measured, by %s rates\n", ls_seconds_text(f->predicted, text[0]),
            f->predicted / f->seconds, b->host_measured ? "this machine's" : "nominal");
    fprintf(
        out,
        "start-up: plan, compile and verify %s; start, map and prepare %s; touch memory %s; set weights %s; first step longer by %s\n",
        ls_seconds_text(b->opened, text[0]), ls_seconds_text(f->mapped, text[1]), ls_seconds_text(f->touched, text[2]),
        ls_seconds_text(f->set, text[3]), ls_seconds_text(f->first, text[4]));
    fprintf(out, "memory of a rank: %s mapped, %s of it in huge pages, %s resident at most\n",
            ls_bytes_text((double)chosen.predicted_bytes, bytes[0]), ls_bytes_text((double)f->huge, bytes[1]),
            ls_bytes_text((double)f->peak, bytes[2]));
    if (f->device_bytes > 0)
        fprintf(
            out,
            "memory of a GPU: %s of %s in use after the last step, of all its ranks and what the driver and libraries take\n",
            ls_bytes_text((double)f->device_used, bytes[0]), ls_bytes_text((double)f->device_bytes, bytes[1]));
    fputc('\n', out);
    ls_bench_table_print(&f->table, out);
    fprintf(
        out,
        "\nfloor: the fastest run of a square product on as many threads, or GPUs · N: weights that products use · rates: of one rank, "
        "operands in full%s\n",
        b->later
            ? " · instructions end when the host notices, up to 0.1 ms later, and have what they wait for; puts run beside them"
            : "");
}

static void print_json(const ls_bench_step *b, const figures *f, FILE *out) {
    const ls_spread_result chosen = ls_session_describe(b->session);
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "model", ls_bench_model_name(&b->options));
    ls_json_put_int(w, "batch", b->options.batch);
    ls_json_put_int(w, "seq", b->options.seq);
    ls_json_put_text(w, "dtype", ls_dtype_name(b->dtype));
    ls_json_put_text(w, "isa", chosen.isa);
    ls_json_put_text(w, "device", b->of.name);
    ls_json_put_int(w, "ranks", b->ranks);
    ls_json_put_int(w, "threads", ls_session_plan(b->session)->target.threads);
    ls_json_put_text(w, "strategy", chosen.strategy);
    ls_json_put_text(w, "mesh", chosen.mesh);
    ls_json_put_text(w, "shard", chosen.shard);
    ls_json_put_text(w, "sums", chosen.sums);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_bench_put_figure(&f->rate, w);
    ls_json_put_double(w, "beside", f->beside);
    ls_json_put_double(w, "work", work_of(b));
    ls_json_put_double(w, "seconds", f->seconds);
    ls_json_put_double(w, "predicted_seconds", f->predicted);
    ls_json_put_bool(w, "host_measured", b->host_measured);
    ls_json_put_double(w, "tokens_per_second", f->tokens_per_second);
    ls_json_put_double(w, "loss", f->loss);
    ls_json_open_object(w, "start_up");
    ls_json_put_double(w, "compile", b->opened);
    ls_json_put_double(w, "map_and_prepare", f->mapped);
    ls_json_put_double(w, "touch", f->touched);
    ls_json_put_double(w, "set_weights", f->set);
    ls_json_put_double(w, "first_step_longer", f->first);
    ls_json_close(w);
    ls_json_put_int(w, "mapped_bytes", chosen.predicted_bytes);
    ls_json_put_int(w, "huge_page_bytes", f->huge);
    ls_json_put_int(w, "peak_bytes", f->peak);
    if (f->device_bytes > 0) ls_json_put_int(w, "device_used_bytes", f->device_used);
    if (f->device_bytes > 0) ls_json_put_int(w, "device_bytes", f->device_bytes);
    ls_bench_table_put(&f->table, w);
    ls_json_end(w, out);
}

static ls_status print_figures(const ls_bench_step *b, bool json, FILE *out) {
    figures *f = calloc(1, sizeof *f);
    if (f == NULL) return ls_error(LS_NO_MEMORY, "no memory for the figures of a bench");
    compute_figures(b, f);
    if (json)
        print_json(b, f, out);
    else
        print_page(b, f, out);
    free(f);
    return ls_ok();
}

/* --- the bench ---------------------------------------------------------------------------------------------------- */

ls_status ls_run_bench_step(const ls_bench_job *job, FILE *out) {
    ls_bench_step b = {.options = job->options};
    ls_status status = ls_bench_model_open(&b.options, &b.model);
    if (status.code == LS_OK) status = ls_bench_step_run(&b);
    if (status.code == LS_OK) status = print_figures(&b, job->json, out);
    ls_bench_step_close(&b);
    return status;
}
