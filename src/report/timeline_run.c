/* A program run for real, with the spans of every rank brought home through memory that the ranks share. */
#include "report/report.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

enum { RUNS = 3, SEED = 1 };

/* What a rank hands over, in front of its spans. */
typedef struct handed {
    uint64_t spans;
} handed;

typedef struct running {
    const ls_timeline_step *step;
    size_t capacity; /* spans of a rank */
    void *shared;
} running;

static size_t bytes_of_rank(const running *r) { return sizeof(handed) + r->capacity * sizeof(ls_span_time); }

static handed *hand_of(const running *r, int rank) {
    return (handed *)((char *)r->shared + bytes_of_rank(r) * (size_t)rank);
}

/* --- on a rank --------------------------------------------------------------------------------------------------------------- */

static ls_status fill_weights(const ls_timeline_step *step, const ls_rank *rank) {
    ls_weight_source source;
    LS_TRY(ls_model_weights(step->model, rank->image, SEED, &source));
    const ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    return status;
}

/* Any tokens, and the next ones as labels; positions. */
static int32_t input_at(int input, uint64_t i, int64_t S, int64_t V) {
    if (input == 2) return (int32_t)(i % (uint64_t)S);
    return (int32_t)ls_rng_below(SEED, 0, i + (uint64_t)input, (uint64_t)V);
}

static ls_status give_inputs(const ls_timeline_step *step, const ls_rank *rank) {
    static const char *const names[] = {"tokens", "labels", "positions"};
    const int64_t n = step->B * step->S, V = ls_model_describe(step->model).V;
    int32_t *values = malloc((size_t)n * sizeof *values);
    if (values == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)n);
    for (int input = 0; input < (int)LS_COUNT(names); input++) {
        const ls_binding *binding = ls_image_find(rank->image, names[input]);
        if (binding == NULL) continue; /* a model without positions */
        for (int64_t i = 0; i < n; i++) values[i] = input_at(input, (uint64_t)i, step->S, V);
        ls_executor_scatter(rank->executor, binding, values);
    }
    free(values);
    return ls_ok();
}

/* A small step, so that weights stay what they are. */
static void give_numbers(const ls_timeline_step *step, const ls_rank *rank) {
    ls_rank_begin_step(
        rank,
        &(ls_step_numbers){
            .tokens = step->B * step->S, .update = 1, .lr = 1e-6, .clip = 1, .beta1 = 0.9, .beta2 = 0.95});
}

static ls_status on_rank(ls_rank *rank, void *context) {
    const running *r = context;
    LS_TRY(fill_weights(r->step, rank));
    LS_TRY(give_inputs(r->step, rank));
    give_numbers(r->step, rank);
    LS_TRY(ls_executor_record(rank->executor, r->capacity));
    for (int i = -1; i < RUNS; i++) {
        LS_TRY(ls_comm_barrier(rank->comm));
        LS_TRY(ls_executor_run(rank->executor, r->step->program));
    }
    handed *hand = hand_of(r, rank->rank);
    ls_span_time *spans = (ls_span_time *)(hand + 1);
    hand->spans = ls_executor_spans(rank->executor);
    for (uint64_t i = 0; i < hand->spans; i++) spans[i] = *ls_executor_span(rank->executor, i);
    return ls_ok();
}

/* --- at home ----------------------------------------------------------------------------------------------------------------- */

/* Of all ranks together. */
static void find_ends(const running *r, int ranks, uint64_t run, double *begin, double *end) {
    *begin = INFINITY;
    *end = -INFINITY;
    for (int rank = 0; rank < ranks; rank++) {
        const handed *hand = hand_of(r, rank);
        const ls_span_time *spans = (const ls_span_time *)(hand + 1);
        for (uint64_t i = 0; i < hand->spans; i++) {
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

static ls_status take_run(const running *r, const ls_session *session, ls_timeline_runs *out) {
    const int ranks = ls_session_ranks(session);
    const uint64_t run = median_run(r, ranks);
    double begin, end;
    find_ends(r, ranks, run, &begin, &end);
    out->rank = LS_NEW_ARRAY(out->arena, ls_timeline_rank, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        const handed *hand = hand_of(r, rank);
        const ls_span_time *spans = (const ls_span_time *)(hand + 1);
        ls_span_time *kept = LS_NEW_ARRAY(out->arena, ls_span_time, hand->spans + 1);
        size_t n = 0;
        int instrs = 0;
        for (uint64_t i = 0; i < hand->spans; i++) {
            if (spans[i].run != run) continue;
            kept[n] = spans[i];
            kept[n].begin -= begin;
            kept[n++].end -= begin;
            instrs += spans[i].instr >= 0;
        }
        out->rank[rank] = (ls_timeline_rank){kept, n};
        if (instrs != ls_session_image(session, rank)->programs[r->step->program].n_instrs)
            return ls_error(LS_INVALID, "rank %d slept so often that its record lost instructions", rank);
    }
    return ls_ok();
}

static ls_status run_session(running *r, ls_session *session, ls_timeline_runs *out) {
    const int ranks = ls_session_ranks(session);
    int longest = 0;
    for (int rank = 0; rank < ranks; rank++)
        longest = (int)ls_max(longest, ls_session_image(session, rank)->programs[r->step->program].n_instrs);
    r->capacity =
        (RUNS + 1) * (4 * (size_t)longest + 4096); /* as often asleep as there are waits, and more */
    const size_t bytes = bytes_of_rank(r) * (size_t)ranks;
    LS_TRY(ls_shared_map(bytes, &r->shared));
    ls_status status = ls_session_run(session, on_rank, r);
    if (status.code == LS_OK) status = take_run(r, session, out);
    ls_shared_unmap(r->shared, bytes);
    return status;
}

ls_status ls_timeline_run(const ls_timeline_step *step, ls_timeline_runs *out) {
    running r = {.step = step};
    ls_session *session;
    LS_TRY(ls_session_open_planned(step->job, step->plan, step->spread, &session));
    const ls_status status = run_session(&r, session, out);
    ls_session_close(session);
    return status;
}
