/* Decides how a job is spread, and opens a session for it; with --measure, first runs the best candidates of a plan. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CANDIDATES = 6, RUNS = 3, MOST_TOLD = 1 << 20 };

/* A candidate whose predicted time exceeds the best prediction by more than this factor is not run. */
static const double most_times_best = 1.5;

/* Times of the slowest rank. */
typedef struct times {
    double seconds[RUNS];
} times;

/*
 * Writes the document bounds of sequences first .. first + rows - 1, taken in turn from the job's, to ends[rows, room]
 * and n_ends[rows].
 */
static void write_documents(const ls_job *job, int64_t first, int64_t rows, int64_t room, int32_t *ends, int *n_ends) {
    for (int64_t b = 0; b < rows; b++) {
        const ls_mask_term *documents = &job->documents[(first + b) % job->n_documents];
        n_ends[b] = documents->n_ends;
        memcpy(ends + b * room, documents->ends, sizeof *ends * (size_t)documents->n_ends);
    }
}

/* Sets document bounds to the job's typical ones, and uses different ones in each run. */
static ls_status set_documents(const ls_job *job, const ls_rank *rank, int run) {
    const ls_image *image = rank->image;
    if (job->n_documents == 0 || image->n_masks == 0) return ls_ok();
    const int64_t rows = image->masks[0].spans.view.size[0], B = rows * ls_mesh_replicas(&image->mesh);
    const int64_t first = (run + 1) * B + rows * ls_mesh_replica(&image->mesh, rank->rank);
    int64_t room = 1;
    for (int i = 0; i < job->n_documents; i++) room = ls_max(room, job->documents[i].n_ends);
    int32_t *ends = malloc(sizeof *ends * (size_t)(rows * room));
    int *n_ends = malloc(sizeof *n_ends * (size_t)rows);
    ls_status status;
    if (ends != NULL && n_ends != NULL) {
        write_documents(job, first, rows, room, ends, n_ends);
        status = ls_ok();
        for (int j = 0; j < image->micro_batches && status.code == LS_OK; j++)
            status = ls_executor_set_documents(rank->executor, j, ends, n_ends, room);
    } else {
        status = ls_error(LS_NO_MEMORY, "no memory for documents of a trial");
    }
    free(ends);
    free(n_ends);
    return status;
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const ls_job *job = input;
    times *t = result;
    ls_comm_end_at_stop(rank->comm, true);
    for (int i = -1; i < RUNS; i++) { /* run -1 is a warm-up, which touches fresh pages and loads code */
        LS_TRY(set_documents(job, rank, i));
        LS_TRY(ls_comm_barrier(rank->comm));
        for (int p = 0; p < rank->image->n_programs; p++) {
            const int runs = rank->image->programs[p].runs;
            const double before = ls_executor_times(rank->executor).total;
            if (runs > 0) LS_TRY(ls_executor_run(rank->executor, p));
            if (i >= 0) t->seconds[i] += runs * (ls_executor_times(rank->executor).total - before);
        }
    }
    return ls_comm_max_f64(rank->comm, t->seconds, RUNS);
}

static ls_status run(const ls_job *job, ls_session *session, double *seconds) {
    times t = {{0}};
    LS_TRY(ls_session_run(session, on_rank, job, &t, sizeof t));
    *seconds = ls_median(t.seconds, RUNS);
    return ls_home_tell(seconds, sizeof *seconds); /* all processes then choose the same */
}

static void log_measured(const ls_plan_candidate *c) {
    char name[LS_CANDIDATE_NAME], measured[LS_SECONDS_TEXT], predicted[LS_SECONDS_TEXT];
    ls_candidate_name(c, name);
    ls_log("%s: %s measured, %s predicted", name, ls_seconds_text(c->measured, measured),
           ls_seconds_text(c->seconds, predicted));
}

ls_status ls_plan_try(const ls_job *job, const ls_plan_request *request, const ls_spread *spread, const ls_plan *plan,
                      int candidate, double *seconds) {
    const ls_plan_candidate *c = &plan->candidates[candidate];
    ls_plan_candidate alone = *c;
    ls_plan one = *plan;
    one.target = ls_plan_target(request, c);
    one.candidates = &alone;
    one.n_candidates = 1;
    ls_session *session;
    LS_TRY(ls_session_open_planned(job, &one, spread, &session));
    const ls_status status = run(job, session, seconds);
    ls_session_close(session);
    return status;
}

/* Pointers of a candidate differ between processes, so what they point to is told by its name or index. */
typedef struct names {
    int shard; /* -1: not chosen */
    char strategies[LS_STRATEGY_TEXT], mesh[LS_CANDIDATE_NAME], pipeline[LS_PIPELINE_TEXT];
} names;

static names names_of(const ls_plan_candidate *c) {
    names n = {.shard = -1};
    ls_strategies_print(&c->strategies, n.strategies);
    if (c->shard != NULL) n.shard = (int)(c->shard - ls_shard_modes);
    ls_mesh_text(&c->mesh, LS_ALL_AXES, n.mesh, sizeof n.mesh);
    ls_pipeline_print(&(ls_target){.mesh = c->mesh, .schedule = c->schedule, .stage_chunks = c->stage_chunks},
                      n.pipeline);
    return n;
}

static bool is_bool(const bool *at) {
    unsigned char byte;
    memcpy(&byte, at, sizeof byte);
    return byte <= 1;
}

/* Checks what was received before it is used, since another process wrote it. */
static ls_status check_told(const names *n, const ls_plan_candidate *c) {
    const char *wrong = NULL;
    if (!is_bool(&c->fits) || !is_bool(&c->simulated) || !is_bool(&c->saving.offload_state))
        wrong = "a truth value that is neither true nor false";
    else if (n->shard < -1 || n->shard >= LS_SHARD_MODES)
        wrong = "an unknown way to shard";
    else if ((int)c->layout < 0 || c->layout >= LS_LAYOUTS)
        wrong = "an unknown layout";
    else if ((int)c->saving.tile < LS_TILE_NONE || c->saving.tile > LS_TILE_ALL || c->saving.tile_rows < 0)
        wrong = "unknown tiles";
    else if (c->saving.drop < 0 || c->saving.offload < 0 || c->listed < 0)
        wrong = "a count below zero";
    else if (memchr(c->refused, 0, sizeof c->refused) == NULL || memchr(n->mesh, 0, sizeof n->mesh) == NULL ||
             memchr(n->strategies, 0, sizeof n->strategies) == NULL ||
             memchr(n->pipeline, 0, sizeof n->pipeline) == NULL)
        wrong = "a text that does not end";
    return wrong == NULL ? ls_ok() : ls_error(LS_INVALID, "rank 0 tells a candidate with %s", wrong);
}

static ls_status point_to(const names *n, ls_plan_candidate *c) {
    LS_TRY(check_told(n, c));
    LS_TRY(ls_strategies_parse(n->strategies, &c->strategies));
    if (c->strategies.full == NULL) return ls_error(LS_INVALID, "rank 0 tells a candidate without a strategy");
    if (c->strategies.window == c->strategies.full) c->strategies.window = NULL;
    c->shard = n->shard >= 0 ? &ls_shard_modes[n->shard] : NULL;
    LS_TRY(ls_mesh_parse(n->mesh, &c->mesh));
    return ls_pipeline_parse(ls_mesh_stages(&c->mesh) > 1 ? n->pipeline : NULL, &c->schedule, &c->stage_chunks);
}

/* Home's plan becomes that of every process. */
static ls_status tell_plan(const ls_plan_request *request, ls_plan *plan) {
    int64_t told[] = {plan->n_candidates, plan->measured, plan->instrs};
    LS_TRY(ls_home_tell(told, sizeof told));
    if (told[0] < 1 || told[0] > MOST_TOLD)
        return ls_error(LS_INVALID, "rank 0 tells %lld candidates; expected 1 to %d", (long long)told[0], MOST_TOLD);
    plan->n_candidates = (int)told[0];
    plan->measured = told[1] != 0;
    plan->instrs = told[2];
    const size_t n = (size_t)plan->n_candidates;
    names *named = LS_NEW_ARRAY(plan->arena, names, n);
    if (!ls_is_home()) plan->candidates = LS_NEW_ARRAY(plan->arena, ls_plan_candidate, n);
    LS_ASSERT(plan->candidates != NULL);
    if (ls_is_home())
        for (size_t i = 0; i < n; i++) named[i] = names_of(&plan->candidates[i]);
    LS_TRY(ls_home_tell(named, n * sizeof *named));
    LS_TRY(ls_home_tell(plan->candidates, n * sizeof *plan->candidates));
    for (size_t i = 0; i < n; i++) LS_TRY(point_to(&named[i], &plan->candidates[i]));
    ls_plan_choose(request, plan);
    return ls_ok();
}

/* Only home searches, because a search takes long, and because the rates of home's machine are the ones to use. */
static ls_status make_at_home(const ls_job *job, const ls_plan_request *request, ls_plan *plan) {
    *plan = (ls_plan){.n_candidates = 0};
    LS_TRY(ls_home_agree(ls_is_home() ? ls_plan_make(job, request, plan) : ls_ok()));
    if (!ls_is_home()) plan->arena = ls_arena_create();
    return ls_home_starts_ranks() ? ls_ok() : tell_plan(request, plan);
}

ls_status ls_plan_decide(const ls_job *job, const ls_plan_request *request, const ls_spread *spread, ls_plan *plan) {
    LS_TRY(make_at_home(job, request, plan));
    if (!spread->measure) return ls_ok();
    LS_ASSERT(plan->candidates != NULL);
    const double best = plan->candidates[0].seconds;
    for (int i = 0; i < plan->n_candidates && i < MOST_CANDIDATES; i++) {
        ls_plan_candidate *c = &plan->candidates[i];
        if (c->refused[0] != 0 || !c->fits || c->seconds > most_times_best * best) continue;
        LS_TRY(ls_plan_try(job, request, spread, plan, i, &c->measured));
        log_measured(c);
    }
    ls_plan_choose(request, plan);
    return ls_ok();
}

ls_status ls_session_open(const ls_job *job, const ls_spread *spread, ls_session **out) {
    ls_plan_request request = {0};
    LS_TRY(ls_session_request(spread, &request));
    ls_plan plan = {.n_candidates = 0};
    ls_status status = ls_plan_decide(job, &request, spread, &plan);
    if (status.code == LS_OK) status = ls_session_open_planned(job, &plan, spread, out);
    ls_plan_free(&plan);
    return status;
}
