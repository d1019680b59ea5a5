/* A step as the clock predicts it, and the picture of it. */
#include "report/report.h"

#include "base/base.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PLAYED = 64 };

/* Images of all ranks, and what the clock says of them. */
typedef struct prediction {
    int ranks, program;
    ls_image *image[MOST_PLAYED];
    ls_timeline_rank rank[MOST_PLAYED];
    ls_span_time *spans[MOST_PLAYED]; /* those of rank[], to be written */
    ls_arena *arena;
} prediction;

/* Idle time that goes on is one span, so there are no more of these than instructions and one. */
static void see(void *context, int rank, int instr, double begin, double end) {
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
    for (int r = 0; r < p->ranks; r++) {
        ls_target target = step->plan->target;
        target.rank = r;
        LS_TRY(ls_compile(step->job, &target, &p->image[r]));
        p->spans[r] =
            LS_NEW_ARRAY(p->arena, ls_span_time, 2 * p->image[r]->programs[p->program].n_instrs + 2);
        p->rank[r] = (ls_timeline_rank){p->spans[r], 0};
    }
    ls_simulated_rank times[MOST_PLAYED];
    const ls_rates rates = ls_plan_rates(p->image[0], host);
    return ls_simulate((const ls_image *const *)p->image, p->ranks, p->program, &rates,
                       &(ls_simulation_watch){see, p}, times);
}

static void tell(const ls_timeline *t) {
    char predicted[LS_SECONDS_TEXT], measured[LS_SECONDS_TEXT];
    (void)ls_seconds_text(ls_timeline_end(t->predicted, t->ranks), predicted);
    if (t->measured == NULL)
        ls_log("program %s: %s predicted", ls_program_name(t->program), predicted);
    else
        ls_log("program %s: %s predicted, %s measured", ls_program_name(t->program), predicted,
               ls_seconds_text(ls_timeline_end(t->measured, t->ranks), measured));
}

static ls_status draw(const ls_timeline_step *step, const prediction *p, const ls_timeline_runs *runs,
                      int rank, const char *title, const char *path) {
    const int shown = (int)ls_min(p->ranks, LS_TIMELINE_RANKS);
    const ls_timeline timeline = {.model = title,
                                  .images = (const ls_image *const *)p->image,
                                  .ranks = p->ranks,
                                  .program = p->program,
                                  .predicted = p->rank,
                                  .measured = runs->rank,
                                  .host_measured = step->plan->measured,
                                  .first = (int)ls_min(rank / shown * shown, p->ranks - shown),
                                  .shown = shown};
    LS_TRY(ls_timeline_write(&timeline, path));
    tell(&timeline);
    return ls_ok();
}

ls_status ls_timeline_draw(const ls_timeline_step *step, const ls_host *host, int rank, bool run,
                           const char *title, const char *path) {
    prediction p = {.ranks = ls_mesh_ranks(&step->plan->target.mesh), .program = step->program};
    if (p.ranks > MOST_PLAYED)
        return ls_error(LS_UNSUPPORTED, "--schedule: %d ranks; up to %d are played together", p.ranks,
                        MOST_PLAYED);
    ls_timeline_runs runs = {.arena = ls_arena_create()};
    p.arena = runs.arena;
    ls_status status = predict(step, host, &p);
    if (status.code == LS_OK && run) status = ls_timeline_run(step, &runs);
    if (status.code == LS_OK) status = draw(step, &p, &runs, rank, title, path);
    for (int r = 0; r < p.ranks; r++) ls_image_destroy(p.image[r]);
    ls_arena_destroy(runs.arena);
    return status;
}
