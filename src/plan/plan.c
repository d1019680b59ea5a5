/* Candidates for mesh, strategy and layout; their order; and the line that says why the first is chosen. */
#include "plan/plan_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_free(const char *name) { return name == NULL || strcmp(name, "auto") == 0; }

/* --- what the request leaves free --------------------------------------------------------------------------------- */

static bool is_causal_like(const ls_mask *mask) {
    for (int t = 0; t < mask->n; t++) {
        if (mask->term[t].kind != LS_MASK_DOCUMENTS) return true;
    }
    return false;
}

/*
 * Whether the visible keys of some attention depend on the position, so that equal parts of the sequence are unequal
 * work.
 */
static bool has_causal_attention(const ls_graph *g) {
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_mask *mask = ls_node_mask(&g->nodes[n]);
        if (mask != NULL && is_causal_like(mask)) return true;
    }
    return false;
}

static bool has_documents(const ls_graph *g) {
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_mask *mask = ls_node_mask(&g->nodes[n]);
        if (mask != NULL && ls_mask_has(mask, LS_MASK_DOCUMENTS)) return true;
    }
    return false;
}

/*
 * Lists the layouts to try; of equally good ones, the preferred one comes first. Striped parts are equal work whichever
 * documents are packed.
 */
static int layouts_for(const ls_plan_request *request, bool causal, const ls_mesh *mesh, bool packed,
                       ls_layout_kind out[3], ls_status *status) {
    *status = ls_ok();
    if (!is_free(request->layout)) {
        *status = ls_layout_parse(request->layout, &out[0]);
        return 1;
    }
    const bool blocks = ls_mesh_block_axes(mesh) != 0, balance = causal && blocks;
    out[0] = balance ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS;
    out[1] = balance ? LS_LAYOUT_CONTIGUOUS : LS_LAYOUT_ZIGZAG;
    out[2] = LS_LAYOUT_STRIPED;
    if (request->canonical) out[0] = LS_LAYOUT_CONTIGUOUS;
    if (ls_mesh_sequence_ranks(mesh) == 1 || request->canonical) return 1;
    return packed && blocks ? 3 : 2;
}

static bool lists(const ls_mesh *mesh, ls_axis_kind kind) {
    for (int i = 0; i < mesh->n; i++) {
        if (mesh->along[i].axis->kind == kind) return true;
    }
    return false;
}

/*
 * Whether the strategy of the request is tried on this mesh. On a mesh that the request gives it always is, because the
 * compiler may then refuse it.
 */
static bool suits_strategy(const ls_plan_request *request, const ls_mesh *mesh) {
    return lists(&request->mesh, LS_AXIS_SEQUENCE) || ls_mesh_sequence_ranks(mesh) == 1 ||
           ls_plan_strategy_suits(request, mesh);
}

/*
 * Whether rings of rings are tried on this mesh: if each inner ring is one host, or if the request asks for them. On a
 * single host they gain nothing.
 */
static bool suits_hosts(const ls_plan_request *request, const ls_mesh *mesh) {
    bool rings = false;
    int inner = 1;
    for (int i = 0; i < mesh->n; i++) {
        const bool outer = mesh->along[i].axis->of_rings && mesh->along[i].size > 1;
        inner = outer ? 1 : inner * mesh->along[i].size;
        rings |= outer;
    }
    return !rings || !is_free(request->strategy) || lists(&request->mesh, LS_AXIS_SEQUENCE) ||
           inner == request->host_ranks;
}

/* LS_OK if something in the graph can use each axis of the mesh that has several ranks. */
static ls_status check_use(const ls_graph *g, const ls_mesh *mesh) {
    for (int i = 0; i < mesh->n; i++) {
        const ls_axis *axis = mesh->along[i].axis;
        if (mesh->along[i].size <= 1 || ls_axis_is_usable(g, axis)) continue;
        if (axis->kind == LS_AXIS_BATCH)
            return ls_error(LS_USAGE,
                            "the mesh axis %s=%d divides %s, of which there is only one; expected a multiple of %d",
                            axis->name, mesh->along[i].size, axis->divides, mesh->along[i].size);
        return ls_error(LS_USAGE,
                        "nothing in the graph can use the mesh axis %s=%d, which divides %s: it has no such thing, or "
                        "only one",
                        axis->name, mesh->along[i].size, axis->divides);
    }
    return ls_ok();
}

/*
 * Stages of a pipeline run several micro-batches at once. A job that is not a model's gives no number of micro-batches.
 */
static ls_status check_stages(const ls_job *job, const ls_plan_request *request) {
    const int stages = ls_mesh_stages(&request->mesh);
    if (stages > 1 && job->micro_batches == 0)
        return ls_error(LS_USAGE,
                        "the mesh axis pp=%d divides the layers of a model, and here is none; expected a mesh without "
                        "it",
                        stages);
    if (stages == 1 && request->schedule != NULL)
        return ls_error(LS_USAGE, "--pipeline %s needs stages; expected --mesh with pp=2 or more",
                        ls_pipeline_schedule_name(request->schedule));
    if (stages == 1 && request->slices > 1)
        return ls_error(LS_USAGE, "--slices %d needs stages, which it keeps busy; expected --mesh with pp=2 or more",
                        request->slices);
    return ls_ok();
}

static ls_status mesh_error(const ls_plan_request *request) {
    char given[96], alone[96] = "";
    ls_mesh_text(&request->mesh, LS_ALL_AXES, given, sizeof given);
    for (int i = 0; ls_axis_at(i) != NULL; i++) {
        const ls_axis *axis = ls_axis_at(i);
        if (axis->kind == LS_AXIS_BATCH && !ls_mesh_lists(&request->mesh, axis))
            snprintf(alone, sizeof alone, " (%s is 1 unless given)", axis->name);
    }
    return ls_error(LS_USAGE, "mesh '%s' does not multiply to %d ranks%s", given, request->ranks, alone);
}

/* --- candidates --------------------------------------------------------------------------------------------------- */

/* Logs the progress of a plan that takes long. */
static void log_progress(ls_plan *plan, const ls_plan_candidate *c) {
    const double now = ls_seconds(), interval = 5;
    char name[LS_CANDIDATE_NAME];
    if (now - plan->logged < interval) return;
    plan->logged = now;
    ls_candidate_name(c, name);
    ls_log("planning: candidate %d, %s", c->listed, name);
}

ls_plan ls_plan_copy(const ls_plan *plan) {
    ls_plan copy = *plan;
    copy.arena = ls_arena_create();
    copy.capacity = (size_t)plan->n_candidates;
    copy.found = NULL;
    copy.candidates = ls_arena_copy(copy.arena, plan->candidates, sizeof *plan->candidates * copy.capacity);
    return copy;
}

void ls_plan_free(ls_plan *plan) {
    ls_arena_destroy(plan->arena);
    *plan = (ls_plan){.n_candidates = 0};
}

static void add_candidate(const ls_job *job, const ls_plan_request *request, const ls_plan_candidate *bare,
                          ls_plan *plan, ls_status *refusal) {
    if (request->only_fit && isfinite(plan->fastest)) return;
    ls_plan_candidate *c = LS_PUSH(plan->arena, plan->candidates, plan->n_candidates, plan->capacity);
    *c = *bare;
    c->listed = plan->n_candidates;
    log_progress(plan, c);
    const ls_status status = ls_plan_cost_candidate(job, request, plan->fastest, plan->found, c);
    if (status.code != LS_OK && refusal->code == LS_OK) *refusal = status;
    if (status.code == LS_OK && c->fits) plan->fastest = fmin(plan->fastest, c->seconds);
}

/* Whether no candidate from `first` on is balanced. Their layouts do not depend on the masks. */
static bool is_uneven(const ls_plan *plan, int first) {
    enum { TOLERATED_PERCENT = 2 };
    bool any = false;
    for (int i = first; i < plan->n_candidates; i++) {
        const ls_plan_candidate *c = &plan->candidates[i];
        if (c->refused[0] != 0) continue;
        if (c->imbalance * 100 <= TOLERATED_PERCENT) return false;
        any = true;
    }
    return any;
}

/* A candidate that is not costed yet. If the mesh has stages and the schedule is free, it has the simplest schedule. */
static ls_plan_candidate bare_candidate(const ls_plan_request *request, const ls_mesh *mesh, ls_strategies strategies,
                                        ls_layout_kind layout) {
    return (ls_plan_candidate){.mesh = *mesh,
                               .schedule = request->schedule,
                               .stage_chunks = request->stage_chunks,
                               .strategies = strategies,
                               .layout = layout};
}

static ls_status add_candidates(const ls_job *job, const ls_plan_request *request, const ls_mesh *mesh, bool causal,
                                ls_plan *plan, ls_status *refusal) {
    ls_layout_kind layouts[3];
    ls_strategies strategies[LS_STRATEGIES_MOST];
    ls_status status;
    int n_strategies = 0;
    const int first = plan->n_candidates;
    const int n = layouts_for(request, causal, mesh, job->n_documents > 0, layouts, &status);
    LS_TRY(status);
    LS_TRY(ls_plan_strategies(request, job->graph, mesh, strategies, &n_strategies));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n_strategies; k++) {
            const ls_plan_candidate bare = bare_candidate(request, mesh, strategies[k], layouts[i]);
            add_candidate(job, request, &bare, plan, refusal);
        }
    }
    const bool one_layout = !is_free(request->layout) || request->canonical;
    if (one_layout || ls_mesh_block_axes(mesh) == 0 || !is_uneven(plan, first)) return ls_ok();
    for (int kind = LS_LAYOUT_DOCUMENTS; kind <= LS_LAYOUT_BALANCED; kind++) {
        if (kind == LS_LAYOUT_DOCUMENTS && !has_documents(job->graph)) continue;
        for (int k = 0; k < n_strategies; k++) {
            const ls_plan_candidate bare = bare_candidate(request, mesh, strategies[k], (ls_layout_kind)kind);
            add_candidate(job, request, &bare, plan, refusal);
        }
    }
    return ls_ok();
}

/*
 * The order of candidates: those that fit, those that do not fit by their bytes, refused ones. Among those that fit:
 * measured ones by their measured time, then the others by their predicted time; equal ones (to a millionth) in the
 * order in which they were listed.
 */
static bool comes_before(const ls_plan_candidate *a, const ls_plan_candidate *b) {
    if ((a->refused[0] != 0) != (b->refused[0] != 0)) return a->refused[0] == 0;
    if (a->fits != b->fits) return a->fits;
    if (!a->fits) return a->mapped < b->mapped;
    if ((a->measured > 0) != (b->measured > 0)) return a->measured > 0;
    if (a->measured > 0) return a->measured < b->measured;
    const bool alike = fabs(a->seconds - b->seconds) <= 1e-6 * b->seconds;
    return alike ? a->listed < b->listed : a->seconds < b->seconds;
}

static void sort_candidates(ls_plan *plan) {
    for (int i = 1; i < plan->n_candidates; i++) {
        const ls_plan_candidate c = plan->candidates[i];
        int at = i;
        for (; at > 0 && comes_before(&c, &plan->candidates[at - 1]); at--)
            plan->candidates[at] = plan->candidates[at - 1];
        plan->candidates[at] = c;
    }
}

bool ls_plan_is_simulated(const ls_plan *plan) { return plan->instrs <= LS_PLAN_SIMULATED_INSTRS; }

/*
 * Simulates the best candidate until it remains the best, since the seconds of the others are lower bounds. Each is
 * costed again, because one of all ranks may map more than those that were costed before.
 */
static ls_status simulate_best(const ls_job *job, const ls_plan_request *request, ls_plan *plan) {
    plan->instrs = 0;
    for (int i = 0; i < plan->n_candidates; i++) plan->instrs = ls_max(plan->instrs, plan->candidates[i].instrs);
    for (int i = 0; i < plan->n_candidates && ls_plan_is_simulated(plan); i++) {
        ls_plan_candidate *c = &plan->candidates[0];
        if (c->refused[0] != 0 || c->simulated) break;
        log_progress(plan, c);
        LS_TRY(ls_plan_simulate_candidate(job, request, plan->found, c));
        sort_candidates(plan);
    }
    return ls_ok();
}

/* --- the reason --------------------------------------------------------------------------------------------------- */

void ls_candidate_name(const ls_plan_candidate *c, char out[LS_CANDIDATE_NAME]) {
    const bool usual = c->shard == NULL || c->shard == &ls_shard_modes[LS_SHARD_OPTIMIZER];
    const ls_target target = {.mesh = c->mesh, .schedule = c->schedule, .stage_chunks = c->stage_chunks};
    char mesh[64], layout[24] = "", shard[32] = "", pipeline[LS_PIPELINE_TEXT] = "", stages[LS_PIPELINE_TEXT + 8] = "";
    ls_mesh_print(&c->mesh, mesh, sizeof mesh);
    ls_pipeline_print(&target, pipeline);
    if (ls_mesh_stages(&c->mesh) > 1) snprintf(stages, sizeof stages, " · %s", pipeline);
    if (ls_mesh_sequence_ranks(&c->mesh) > 1) snprintf(layout, sizeof layout, " · %s", ls_layout_name(c->layout));
    if (ls_mesh_ranks(&c->mesh) > 1 && !usual) snprintf(shard, sizeof shard, " · shard %s", c->shard->name);
    snprintf(out, LS_CANDIDATE_NAME, "%s%s%s%s", mesh, stages, layout, shard);
}

/* The best candidate of another mesh, or else the second best; NULL: there is none. */
static const ls_plan_candidate *runner_up(const ls_plan *plan) {
    const ls_plan_candidate *first = &plan->candidates[0], *found = NULL;
    for (int i = plan->n_candidates - 1; i > 0; i--) {
        if (plan->candidates[i].refused[0] == 0) found = &plan->candidates[i];
    }
    for (int i = plan->n_candidates - 1; i > 0; i--) {
        const ls_plan_candidate *c = &plan->candidates[i];
        if (c->refused[0] == 0 && !ls_mesh_equal(&c->mesh, &first->mesh)) found = c;
    }
    return found;
}

static void explain_choice(ls_plan *plan) {
    const ls_plan_candidate *first = &plan->candidates[0], *other = runner_up(plan);
    char name[LS_CANDIDATE_NAME], other_name[LS_CANDIDATE_NAME], time[LS_SECONDS_TEXT], other_time[LS_SECONDS_TEXT];
    char sent[LS_BYTES_TEXT], other_sent[LS_BYTES_TEXT];
    ls_candidate_name(first, name);
    const bool both = other != NULL && other->measured > 0; /* the first one is then measured too */
    const char *how = both ? "measured" : "predicted", *rates = both || plan->measured ? "" : ", nominal rates";
    (void)ls_seconds_text(both ? first->measured : first->seconds, time);
    (void)ls_bytes_text(first->bytes_sent + first->bytes_read, sent);
    if (other == NULL) {
        ls_print(plan->reason, sizeof plan->reason,
                 "%s: nothing else to choose from; %s predicted, moves %s, imbalance %.1f %%%s", name, time, sent,
                 first->imbalance * 100, rates);
        return;
    }
    ls_candidate_name(other, other_name);
    ls_print(plan->reason, sizeof plan->reason,
             "%s: %s %s against %s for %s (moves %s against %s, imbalance %.1f %% against %.1f %%%s)", name, time, how,
             ls_seconds_text(both ? other->measured : other->seconds, other_time), other_name, sent,
             ls_bytes_text(other->bytes_sent + other->bytes_read, other_sent), first->imbalance * 100,
             other->imbalance * 100, rates);
}

void ls_plan_choose(const ls_plan_request *request, ls_plan *plan) {
    sort_candidates(plan);
    plan->target = ls_plan_target(request, &plan->candidates[0]);
    explain_choice(plan);
}

/* The limit of a rank's bytes, in words. */
static const char *limit_of(const ls_plan_request *request) {
    if (!request->machine) return "--memory";
    return request->device_memory > 0 ? "this GPU" : "this machine";
}

/* The error if no candidate fits: what the smallest one needs, and for which buffers. */
static ls_status no_memory(const ls_job *job, const ls_plan_request *request, const ls_plan *plan) {
    ls_target target = plan->target;
    target.rank = plan->candidates[0].most_rank;
    ls_image *image;
    LS_TRY(ls_compile(job, &target, &image));
    const ls_status status = ls_memory_check(image, request->memory, limit_of(request));
    ls_image_destroy(image);
    return status;
}

typedef struct search {
    const ls_job *job;
    const ls_plan_request *request;
    bool causal;
    bool features; /* only meshes with ranks along an axis of features are tried */
    ls_mesh first; /* the first mesh that was visited; without axes: none was */
    ls_plan *plan;
    ls_status *refusal;
} search;

/* An ls_mesh_visit. */
static ls_status visit_mesh(void *context, const ls_mesh *mesh) {
    search *s = context;
    if (s->features && ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_FEATURE)) == 1) return ls_ok();
    if (s->first.n == 0) s->first = *mesh;
    if (!suits_strategy(s->request, mesh) || !suits_hosts(s->request, mesh)) return ls_ok();
    if (check_use(s->job->graph, mesh).code != LS_OK) return ls_ok();
    return add_candidates(s->job, s->request, mesh, s->causal, s->plan, s->refusal);
}

/* Whether there are candidates that apply, but all of them need more memory than is allowed. */
static bool lacks_memory(const ls_plan *plan) {
    bool applies = false;
    for (int i = 0; i < plan->n_candidates; i++) applies |= plan->candidates[i].refused[0] == 0;
    return applies && isinf(plan->fastest);
}

/*
 * Whether two candidates of one mesh and layout are the same program, for example if the user names a way that is the
 * default.
 */
static bool are_alike(const ls_plan_candidate *a, const ls_plan_candidate *b) {
    return a->refused[0] == 0 && b->refused[0] == 0 && a->seconds == b->seconds && a->bytes_sent == b->bytes_sent &&
           a->instrs == b->instrs && a->mapped == b->mapped;
}

/* Whether a candidate of the same mesh and layout has these strategies. */
static bool is_listed(const ls_plan *plan, const ls_plan_candidate *as, const ls_strategies *s) {
    bool is = false;
    for (int i = 0; i < plan->n_candidates; i++) {
        const ls_plan_candidate *c = &plan->candidates[i];
        const ls_strategies *has = &c->strategies;
        is |= has->full == s->full && has->window == s->window && has->recurrence == s->recurrence &&
              has->rnn == s->rnn && c->layout == as->layout && ls_mesh_equal(&c->mesh, &as->mesh);
    }
    return is;
}

/*
 * Sorts the candidates so far, so that others can be made from the best one. If nothing fits, the one that needs the
 * fewest bytes without savings comes first. Then its savings are sought, until the first candidate has had its savings
 * sought.
 */
static void find_best(const ls_job *job, const ls_plan_request *request, ls_plan *plan) {
    sort_candidates(plan);
    while (plan->n_candidates > 0 && plan->candidates[0].refused[0] == 0 && plan->candidates[0].unsought) {
        ls_plan_candidate *c = &plan->candidates[0];
        log_progress(plan, c);
        const ls_status status = ls_plan_seek_fewest(job, request, plan->found, c);
        if (status.code == LS_OK && c->fits) plan->fastest = fmin(plan->fastest, c->seconds);
        sort_candidates(plan);
    }
}

/*
 * Adds candidates with the mesh and layout of the best one so far, but with another strategy for one kind of layers,
 * one kind after the other. The cost of a step is nearly a sum over its layers, so this finds the best combination
 * without trying all of them.
 */
static ls_status add_strategies(const ls_job *job, const ls_plan_request *request, ls_plan *plan, ls_status *refusal) {
    for (int at = 0; at < LS_PLAN_STEPS; at++) {
        ls_strategies tried[LS_STRATEGIES_MOST];
        int n;
        find_best(job, request, plan);
        if (plan->n_candidates == 0 || plan->candidates[0].refused[0] != 0) return ls_ok();
        const ls_plan_candidate best = plan->candidates[0];
        LS_TRY(ls_plan_other_strategies(request, job->graph, &best, at, tried, &n));
        for (int i = 0; i < n; i++) {
            const ls_plan_candidate bare = bare_candidate(request, &best.mesh, tried[i], best.layout);
            const int before = plan->n_candidates;
            if (is_listed(plan, &best, &tried[i])) continue;
            add_candidate(job, request, &bare, plan, refusal);
            if (plan->n_candidates > before && are_alike(&plan->candidates[plan->n_candidates - 1], &best))
                plan->n_candidates--;
        }
    }
    return ls_ok();
}

/* Adds the candidates with stages that are made from the best one so far. */
static ls_status add_stages(const ls_job *job, const ls_plan_request *request, ls_plan *plan, ls_status *refusal) {
    ls_staged staged;
    if (plan->n_candidates == 0) return ls_ok();
    find_best(job, request, plan);
    const ls_plan_candidate best = plan->candidates[0];
    const ls_target target = ls_plan_target(request, &best);
    LS_TRY(ls_plan_stages(job, request, &best, &target, plan->arena, &staged));
    for (int i = 0; i < staged.n; i++) add_candidate(job, request, &staged.list[i], plan, refusal);
    return ls_ok();
}

static ls_status find_candidates(const ls_job *job, const ls_plan_request *request, ls_plan *plan, ls_status *refusal) {
    search s = {
        .job = job, .request = request, .causal = has_causal_attention(job->graph), .plan = plan, .refusal = refusal};
    if (request->ranks % ls_mesh_ranks(&request->mesh) != 0) return mesh_error(request);
    LS_TRY(check_use(job->graph, &request->mesh));
    LS_TRY(check_stages(job, request));
    LS_TRY(ls_meshes_visit(&request->mesh, false, request->ranks, visit_mesh, &s));
    /*
     * Each size of an axis of features multiplies the number of candidates, so these are tried only if nothing else
     * fits.
     */
    s.features = !lists(&request->mesh, LS_AXIS_FEATURE) && !request->canonical && lacks_memory(plan);
    if (s.features) LS_TRY(ls_meshes_visit(&request->mesh, true, request->ranks, visit_mesh, &s));
    LS_TRY(add_strategies(job, request, plan, refusal));
    LS_TRY(add_stages(job, request, plan, refusal));
    if (plan->n_candidates == 0 && s.first.n > 0) /* the compiler's refusal of that mesh says why */
        LS_TRY(add_candidates(job, request, &s.first, s.causal, plan, refusal));
    return plan->n_candidates > 0 ? ls_ok() : mesh_error(request);
}

static ls_status make(const ls_job *job, const ls_plan_request *request, ls_plan *out) {
    ls_status refusal = ls_ok();
    LS_TRY(find_candidates(job, request, out, &refusal));
    find_best(job, request, out);
    if (out->candidates[0].refused[0] != 0) return refusal;
    if (request->only_fit)
        return isfinite(out->fastest) ? ls_ok() : ls_error(LS_NO_MEMORY, "no candidate fits into the memory allowed");
    LS_TRY(simulate_best(job, request, out));
    ls_plan_choose(request, out);
    return out->candidates[0].fits ? ls_ok() : no_memory(job, request, out);
}

ls_status ls_plan_make(const ls_job *job, const ls_plan_request *request, ls_plan *out) {
    *out = (ls_plan){.n_candidates = 0};
    LS_TRY(ls_graph_status(job->graph));
    *out = (ls_plan){
        .arena = ls_arena_create(), .fastest = INFINITY, .measured = request->measured, .logged = ls_seconds()};
    out->found = LS_NEW(out->arena, ls_plan_found);
    const ls_status status = make(job, request, out);
    out->found = NULL;
    return status;
}
