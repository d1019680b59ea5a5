/* The timeline of one program of a step: predicted by the simulator, measured in a run, and drawn. */
#include "report/report.h"
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the prediction ----------------------------------------------------------------------------------------------- */

/* The most instructions of all ranks together; their images take about 3 GiB. */
enum { MOST_INSTRS = 1 << 22 };

/* The programs of all ranks and their simulated spans. */
typedef struct prediction {
    int ranks, program;
    ls_images images;
    const ls_image **image; /* by rank, like the next two */
    ls_timeline_rank *rank;
    ls_span_time **spans; /* the spans of rank[], writable */
    ls_arena *arena;
} prediction;

/* Adds a span. Consecutive idle times are joined, so a rank has at most one more idle span than instructions. */
static void add_span(void *context, int rank, int instr, double begin, double end) {
    prediction *p = context;
    ls_timeline_rank *to = &p->rank[rank];
    ls_span_time *last = to->n > 0 ? &p->spans[rank][to->n - 1] : NULL;
    if (instr < 0 && last != NULL && last->instr == LS_SPAN_ASLEEP) {
        last->end = end;
        return;
    }
    p->spans[rank][to->n++] = (ls_span_time){begin, end, p->program, instr < 0 ? LS_SPAN_ASLEEP : instr, 0};
}

static ls_status predict(const ls_timeline_step *step, const ls_host *host, prediction *p) {
    p->image = LS_NEW_ARRAY(p->arena, const ls_image *, p->ranks);
    p->rank = LS_NEW_ARRAY(p->arena, ls_timeline_rank, p->ranks);
    p->spans = LS_NEW_ARRAY(p->arena, ls_span_time *, p->ranks);
    for (int r = 0; r < p->ranks; r++) {
        LS_TRY(ls_compile_class_of(step->job, &step->plan->target, r, &p->images));
        p->image[r] = ls_images_of(&p->images, r);
        const int64_t instrs = p->image[r]->programs[p->program].n_instrs;
        if (instrs * p->ranks > MOST_INSTRS)
            return ls_error(LS_UNSUPPORTED,
                            "--schedule: %d ranks with %lld instructions each; expected at most %d of all ranks",
                            p->ranks, (long long)instrs, MOST_INSTRS);
        p->spans[r] = LS_NEW_ARRAY(p->arena, ls_span_time, 2 * p->image[r]->programs[p->program].n_instrs + 2);
        p->rank[r] = (ls_timeline_rank){p->spans[r], 0};
    }
    ls_simulated_rank *times = LS_NEW_ARRAY(p->arena, ls_simulated_rank, p->ranks);
    const ls_rates rates = ls_plan_rates(p->image[0], host);
    return ls_simulate(p->image, p->ranks, p->program, &rates, &(ls_simulation_watch){add_span, p}, times);
}

/* --- the measurement ---------------------------------------------------------------------------------------------- */

enum { RUNS = 3, SEED = 1 };

/* The spans of one run, in memory of the arena. */
typedef struct measurement {
    ls_arena *arena;
    ls_timeline_rank *rank; /* [ranks]; NULL: not measured */
} measurement;

typedef struct running {
    const ls_timeline_step *step;
    const prediction *predicted;
    size_t capacity; /* most spans of one rank */
    /* Memory of the caller, to which ranks send their spans: */
    ls_span_time *spans; /* [ranks][capacity] */
    uint64_t *n;         /* [ranks]: number of recorded spans */
} running;

static const ls_span_time *spans_of(const running *r, int rank) { return r->spans + r->capacity * (size_t)rank; }

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static ls_status fill_weights(const ls_timeline_step *step, const ls_rank *rank) {
    ls_weight_source source;
    ls_comm_end_at_stop(rank->comm, true);
    LS_TRY(ls_model_check_fed(step->model));
    LS_TRY(ls_comm_agree(rank->comm, ls_model_weights(step->model, rank->image, SEED, &source)));
    const ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    ls_weights_close(&source);
    return status;
}

/* Element i of input 0, 1 or 2: random tokens, the tokens that follow as labels, positions. */
static int32_t input_at(int input, uint64_t i, int64_t S, int64_t V) {
    if (input == 2) return (int32_t)(i % (uint64_t)S);
    return (int32_t)ls_rng_below(SEED, 0, i + (uint64_t)input, (uint64_t)V);
}

static ls_status set_inputs(const ls_timeline_step *step, const ls_rank *rank) {
    static const char *const names[] = {"tokens", "labels", "positions"};
    const int64_t n = step->B * step->S, V = ls_model_describe(step->model).V;
    int32_t *values = malloc((size_t)n * sizeof *values);
    if (values == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)n);
    ls_status status = ls_ok();
    for (int input = 0; input < (int)LS_COUNT(names) && status.code == LS_OK; input++) {
        const ls_binding *binding = ls_image_find(rank->image, names[input]);
        if (binding == NULL) continue; /* the model has no positions */
        for (int64_t i = 0; i < n; i++) values[i] = input_at(input, (uint64_t)i, step->S, V);
        status = ls_executor_scatter(rank->executor, binding, values);
    }
    free(values);
    return status;
}

/* The learning rate is small, so that the weights hardly change. */
static ls_status set_step_numbers(const ls_timeline_step *step, const ls_rank *rank) {
    return ls_rank_begin_step(
        rank,
        &(ls_step_numbers){
            .divisor = (double)(step->B * step->S), .update = 1, .lr = 1e-6, .clip = 1, .beta1 = 0.9, .beta2 = 0.95});
}

/* Sends the spans of this rank, oldest first, to the caller. */
static ls_status send_spans(const running *r, const ls_rank *rank) {
    const uint64_t n = ls_executor_spans(rank->executor);
    ls_span_time *spans = malloc((n + 1) * sizeof *spans);
    for (uint64_t i = 0; spans != NULL && i < n; i++) spans[i] = *ls_executor_span(rank->executor, i);
    ls_status status = ls_comm_agree(
        rank->comm,
        spans != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for %llu spans", (unsigned long long)n));
    if (status.code == LS_OK) status = ls_comm_gather_home(rank->comm, &n, sizeof n, r->n, sizeof n);
    if (status.code == LS_OK)
        status = ls_comm_gather_home(rank->comm, spans, n * sizeof *spans, r->spans, r->capacity * sizeof *spans);
    free(spans);
    return status;
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const running *r = input;
    LS_TRY(fill_weights(r->step, rank));
    LS_TRY(set_inputs(r->step, rank));
    LS_TRY(set_step_numbers(r->step, rank));
    LS_TRY(ls_executor_record(rank->executor, r->capacity));
    for (int i = -1; i < RUNS; i++) {
        LS_TRY(ls_comm_barrier(rank->comm));
        LS_TRY(ls_executor_run(rank->executor, r->step->program));
    }
    return send_spans(r, rank);
}

/* --- in the caller ------------------------------------------------------------------------------------------------ */

/* Finds when the first rank begins a run, and when the last rank ends it. */
static void find_ends(const running *r, int ranks, uint64_t run, double *begin, double *end) {
    *begin = INFINITY;
    *end = -INFINITY;
    for (int rank = 0; rank < ranks; rank++) {
        const ls_span_time *spans = spans_of(r, rank);
        for (uint64_t i = 0; i < r->n[rank]; i++) {
            if (spans[i].instr != LS_SPAN_PROGRAM || spans[i].run != run) continue;
            *begin = fmin(*begin, spans[i].begin);
            *end = fmax(*end, spans[i].end);
        }
    }
}

static uint64_t median_run(const running *r, int ranks) {
    double seconds[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double begin, end;
        find_ends(r, ranks, (uint64_t)i + 1, &begin, &end);
        seconds[i] = end - begin;
    }
    return (uint64_t)ls_median_place(seconds, RUNS) + 1;
}

/* Copies the spans of the run of median length to *out, with times from the beginning of that run. */
static ls_status copy_median_run(const running *r, const ls_session *session, measurement *out) {
    const int ranks = ls_session_ranks(session);
    const uint64_t run = median_run(r, ranks);
    double begin, end;
    find_ends(r, ranks, run, &begin, &end);
    out->rank = LS_NEW_ARRAY(out->arena, ls_timeline_rank, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        const ls_span_time *spans = spans_of(r, rank);
        ls_span_time *kept = LS_NEW_ARRAY(out->arena, ls_span_time, r->n[rank] + 1);
        size_t n = 0;
        int instrs = 0;
        for (uint64_t i = 0; i < r->n[rank]; i++) {
            if (spans[i].run != run) continue;
            kept[n] = spans[i];
            kept[n].begin -= begin;
            kept[n++].end -= begin;
            instrs += spans[i].instr >= 0;
        }
        out->rank[rank] = (ls_timeline_rank){kept, n};
        if (instrs != r->predicted->image[rank]->programs[r->step->program].n_instrs)
            return ls_error(LS_INVALID, "rank %d slept too often: its record has no room for all instructions", rank);
    }
    return ls_ok();
}

static ls_status run_session(running *r, ls_session *session, measurement *out) {
    const int ranks = ls_session_ranks(session);
    int longest = 0;
    for (int rank = 0; rank < ranks; rank++)
        longest = (int)ls_max(longest, r->predicted->image[rank]->programs[r->step->program].n_instrs);
    r->capacity = (RUNS + 1) * (4 * (size_t)longest + 4096); /* room for more sleeps than there are waits */
    r->n = calloc((size_t)ranks, sizeof *r->n);
    r->spans = calloc((size_t)ranks * r->capacity, sizeof *r->spans); /* most of it is never touched */
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for the spans of %d ranks", ranks);
    if (r->n != NULL && r->spans != NULL) status = ls_session_run(session, on_rank, r, NULL, 0);
    if (status.code == LS_OK && ls_is_home()) status = copy_median_run(r, session, out);
    free(r->spans);
    free(r->n);
    return status;
}

/*
 * Runs the program on the model's weights and random tokens: once to warm up, then RUNS times. *out: the spans of the
 * run of median length.
 */
static ls_status run_step(const ls_timeline_step *step, const prediction *predicted, measurement *out) {
    running r = {.step = step, .predicted = predicted};
    ls_session *session;
    LS_TRY(ls_session_open_planned(step->job, step->plan, step->spread, &session));
    const ls_status status = run_session(&r, session, out);
    ls_session_close(session);
    return status;
}

/* --- the picture -------------------------------------------------------------------------------------------------- */

static void log_times(const ls_timeline *t) {
    char predicted[LS_SECONDS_TEXT], measured[LS_SECONDS_TEXT];
    (void)ls_seconds_text(ls_timeline_end(t->predicted, t->ranks), predicted);
    const char *program = t->images[0]->programs[t->program].name;
    if (t->measured == NULL)
        ls_log("program %s: %s predicted", program, predicted);
    else
        ls_log("program %s: %s predicted, %s measured", program, predicted,
               ls_seconds_text(ls_timeline_end(t->measured, t->ranks), measured));
}

static ls_status draw(const ls_timeline_step *step, const prediction *p, const measurement *runs, int rank,
                      const char *title, const char *path) {
    const int shown = (int)ls_min(p->ranks, LS_TIMELINE_RANKS);
    const ls_timeline timeline = {.model = title,
                                  .images = p->image,
                                  .ranks = p->ranks,
                                  .program = p->program,
                                  .predicted = p->rank,
                                  .measured = runs->rank,
                                  .host_measured = step->plan->measured,
                                  .first = (int)ls_min(rank / shown * shown, p->ranks - shown),
                                  .shown = shown};
    LS_TRY(ls_timeline_write(&timeline, path));
    log_times(&timeline);
    return ls_ok();
}

ls_status ls_timeline_draw(const ls_timeline_step *step, const ls_host *host, int rank, bool run, const char *title,
                           const char *path) {
    prediction p = {.ranks = ls_mesh_ranks(&step->plan->target.mesh), .program = step->program};
    measurement runs = {.arena = ls_arena_create()};
    p.arena = runs.arena;
    ls_status status = predict(step, host, &p);
    if (status.code == LS_OK && run) status = run_step(step, &p, &runs);
    if (status.code == LS_OK && ls_is_home()) status = draw(step, &p, &runs, rank, title, path);
    ls_images_destroy(&p.images);
    ls_arena_destroy(runs.arena);
    return status;
}
