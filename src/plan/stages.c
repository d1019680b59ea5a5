/*
 * Candidates with stages of a pipeline, made from the best candidate without. Their programs contain all micro-batches
 * of a step, so compiling many candidates would take long. They are tried if nothing else fits, or if they could be
 * faster than the best candidate so far, assuming that their ranks have equal work and wait only for each other's
 * turns.
 */
#include "plan/plan_impl.h"

#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct staging {
    const ls_job *job;
    const ls_plan_request *request;
    const ls_plan_candidate *from; /* the best without stages, or with those of the request */
    const ls_target *target;       /* of `from` */
    ls_arena *arena;
    ls_staged *out;
} staging;

static const ls_axis *stage_axis(void) {
    int i = 0;
    while (ls_axis_at(i)->kind != LS_AXIS_STAGE) i++;
    return ls_axis_at(i);
}

/* --- schedules ---------------------------------------------------------------------------------------------------- */

enum { CHUNKS = 2 }; /* per stage, in a schedule that has several */

/* Adds the candidate with each schedule; the first one in the table is left out if it exists already. */
static void add_schedules(const staging *s, const ls_plan_candidate *bare, bool first) {
    for (int i = first ? 0 : 1; ls_pipeline_schedule_at(i) != NULL; i++) {
        ls_plan_candidate c = *bare;
        c.schedule = ls_pipeline_schedule_at(i);
        c.stage_chunks = ls_pipeline_schedule_interleaves(c.schedule) ? CHUNKS : 1;
        *LS_PUSH(s->arena, s->out->list, s->out->n, s->out->capacity) = c;
    }
}

/* --- meshes ------------------------------------------------------------------------------------------------------- */

/*
 * Takes as many ranks as possible of `left` from the axes of that kind, the outermost first; returns how many are left.
 */
static int take_ranks(ls_mesh *mesh, ls_axis_kind kind, int left) {
    for (int i = 0; i < mesh->n; i++) {
        if (mesh->along[i].axis->kind != kind) continue;
        int share = left;
        while (mesh->along[i].size % share != 0 || left % share != 0) share--;
        mesh->along[i].size /= share;
        left /= share;
    }
    return left;
}

/* The mesh with stages in place of ranks along the sequence, then of those along feature axes. False: not possible. */
static bool with_stages(const ls_mesh *from, int stages, ls_mesh *out) {
    ls_mesh rest = *from;
    const int left = take_ranks(&rest, LS_AXIS_FEATURE, take_ranks(&rest, LS_AXIS_SEQUENCE, stages));
    char axes[96], text[128];
    ls_mesh_text(&rest, LS_ALL_AXES, axes, sizeof axes);
    snprintf(text, sizeof text, "%s=%d,%s", stage_axis()->name, stages, axes);
    return left == 1 && ls_mesh_parse(text, out).code == LS_OK;
}

static bool is_among(const char *name, const char *const *names, int n) {
    bool is = false;
    for (int i = 0; i < n; i++) is |= names[i] == name;
    return is;
}

/*
 * The candidate on another mesh: with its strategies if they are among those for the mesh, or else the simplest ones.
 * False: the request does not allow it.
 */
static bool move(const staging *s, const ls_mesh *mesh, ls_plan_candidate *out) {
    const char *names[LS_STRATEGIES_MOST];
    const int n = ls_strategies_for(mesh, names);
    const bool free_strategy = s->request->strategy == NULL || strcmp(s->request->strategy, "auto") == 0;
    ls_strategies strategies = s->from->strategies;
    const bool suits =
        is_among(strategies.full, names, n) && (strategies.window == NULL || is_among(strategies.window, names, n));
    if (!suits) {
        strategies.full = names[0];
        strategies.window = NULL;
    }
    *out = (ls_plan_candidate){.mesh = *mesh, .strategies = strategies, .layout = s->from->layout};
    if (ls_mesh_sequence_ranks(mesh) == 1) out->layout = LS_LAYOUT_CONTIGUOUS;
    return (suits || free_strategy) && ls_mesh_allows(&s->request->mesh, mesh);
}

/* --- what is worth it --------------------------------------------------------------------------------------------- */

/* Seconds of a step if all ranks had equal parts of the work that one rank does alone, and none waited. */
static ls_status least_seconds(const staging *s, double *out) {
    ls_image *alone;
    LS_TRY(ls_compile_alone(s->job, s->target, &alone));
    alone->mesh = s->from->mesh; /* this many ranks share the machine */
    const ls_rates rates = ls_plan_rates(alone, &s->request->host);
    *out = 0;
    for (int p = 0; p < alone->n_programs; p++)
        if (alone->programs[p].runs > 0) *out += alone->programs[p].runs * ls_simulate_alone(alone, p, &rates);
    *out /= s->request->ranks;
    ls_image_destroy(alone);
    return ls_ok();
}

/*
 * A lower bound of the seconds with that many stages. A stage has at most three turns for each micro-batch (or slice),
 * and the last stage waits for at least stages - 1 turns before its first one.
 */
static double bound(const staging *s, double least, int stages) {
    const double turns = 3.0 * s->job->micro_batches * fmax(1, s->request->slices);
    return least * (1 + (stages - 1) / turns);
}

static ls_status add_meshes(const staging *s) {
    const bool fits = s->from->fits;
    double least = 0;
    if (fits) LS_TRY(least_seconds(s, &least));
    for (int stages = 2; stages <= s->request->ranks; stages++) {
        ls_mesh mesh;
        ls_plan_candidate bare;
        if (!with_stages(&s->from->mesh, stages, &mesh) || !move(s, &mesh, &bare)) continue;
        if (!fits || bound(s, least, stages) < s->from->seconds) add_schedules(s, &bare, true);
    }
    return ls_ok();
}

ls_status ls_plan_stages(const ls_job *job, const ls_plan_request *request, const ls_plan_candidate *best,
                         const ls_target *target, ls_arena *arena, ls_staged *out) {
    const staging s = {job, request, best, target, arena, out};
    *out = (ls_staged){.n = 0};
    if (job->micro_batches == 0 || request->schedule != NULL || best->refused[0] != 0) return ls_ok();
    if (ls_mesh_lists(&request->mesh, stage_axis())) {
        const ls_plan_candidate bare = {.mesh = best->mesh, .strategies = best->strategies, .layout = best->layout};
        if (ls_mesh_stages(&request->mesh) > 1) add_schedules(&s, &bare, false);
        return ls_ok();
    }
    const bool may = job->micro_batches > 1 && !request->canonical;
    return may ? add_meshes(&s) : ls_ok();
}
