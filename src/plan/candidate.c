/* One candidate: what it cuts over the ranks and saves to fit into the allowed memory, and what it then costs. */
#include "plan/plan_impl.h"

#include <math.h>
#include <stdio.h>

ls_target ls_plan_target(const ls_plan_request *request, const ls_plan_candidate *c) {
    return (ls_target){.mesh = c->mesh,
                       .strategy = c->strategies.full,
                       .window_strategy = c->strategies.window,
                       .recurrence_way = c->strategies.recurrence,
                       .rnn_way = c->strategies.rnn,
                       .layout = c->layout,
                       .isa = request->isa,
                       .device = request->device,
                       .kernels = request->kernels,
                       .threads = request->threads,
                       .transfers = request->transfers,
                       .host_ranks = request->host_ranks,
                       .shard = c->shard,
                       .canonical = request->canonical,
                       .stage_chunks = c->stage_chunks,
                       .schedule = c->schedule,
                       .slices = request->slices,
                       .saving = c->saving};
}

/* The data that costing a candidate uses. */
typedef struct costing {
    const ls_job *job;
    const ls_plan_request *request;
    ls_plan_found *found;
    const ls_layout *layout;
    bool together; /* all ranks are simulated */
    bool fewest;   /* the fewest bytes are sought, although these are more than allowed */
    double best;   /* seconds of the best candidate that fits */
} costing;

/*
 * Costs the candidate with the saving of its target, and finds whether it fits. A refusal is written into the
 * candidate.
 */
static ls_status cost_target(const costing *by, const ls_target *target, ls_plan_candidate *c) {
    const ls_plan_request *request = by->request;
    c->saving = target->saving;
    LS_TRY(ls_plan_cost(by->job, target, request, by->together, c));
    ls_plan_note_least(by->found, &c->mesh, (int)(c->shard - ls_shard_modes), c->least);
    const bool host_fits = request->host_memory == 0 || (int64_t)c->bytes[LS_HOST] <= request->host_memory;
    c->fits = (request->memory == 0 || (int64_t)c->mapped <= request->memory) && host_fits;
    return ls_ok();
}

/*
 * Finds what the candidate must save, and costs it. If another rank needs more than is allowed, rank 0 is tried again
 * with that much less. With only_fit, if rank 0 does not fit, the candidate gets the bytes of rank 0, and nothing else
 * is computed.
 */
static ls_status cost_with_saving(const costing *by, ls_target *target, ls_plan_candidate *c) {
    enum { TRIES = 3 };
    int64_t allowed = by->request->memory;
    for (int i = 0; i < TRIES; i++) {
        const ls_plan_candidate bare = *c;
        size_t lacking;
        const ls_status status = ls_plan_saving(by->job, by->request, allowed, by->found, target, &lacking);
        if (status.code != LS_OK) {
            snprintf(c->refused, sizeof c->refused, "%s", status.text);
            return status;
        }
        if (lacking > 0 && by->request->only_fit) {
            c->saving = target->saving;
            c->mapped = lacking;
            return ls_ok();
        }
        LS_TRY(cost_target(by, target, c));
        const int64_t over = (int64_t)c->mapped - by->request->memory;
        if (c->fits || over >= allowed || i + 1 == TRIES) break;
        allowed -= over;
        *c = bare;
    }
    return ls_ok();
}

/*
 * Unless all ranks are simulated, first costs the candidate without savings. If it does not fit in this way, savings
 * are not sought if they cannot make it fit, or if it takes much longer than the best candidate even without them.
 */
static ls_status cost_with_layout(const costing *by, ls_plan_candidate *c) {
    ls_target target = ls_plan_target(by->request, c);
    target.made = by->layout;
    const double much_longer = 1.1; /* both times are without waiting */
    if (!by->together && !by->request->only_fit) {
        ls_plan_candidate as_it_is = *c;
        size_t lacking;
        ls_status status = ls_plan_saving(by->job, by->request, 0, by->found, &target, &lacking);
        if (status.code == LS_OK) status = cost_target(by, &target, &as_it_is);
        const bool cannot = by->request->memory > 0 && (int64_t)as_it_is.least > by->request->memory;
        as_it_is.unsought = cannot && !by->fewest;
        if (status.code != LS_OK || as_it_is.fits || as_it_is.unsought || as_it_is.seconds >= much_longer * by->best) {
            *c = as_it_is;
            return status;
        }
    }
    return cost_with_saving(by, &target, c);
}

/*
 * The modes to try, the one that cuts least first. Keeping all of the optimiser's state on every rank sends as much as
 * cutting it, and every rank then updates all parameters, so that mode is only used on request.
 */
static void shards_for(const ls_plan_request *request, const ls_plan_candidate *c, int *first, int *last) {
    *first = request->canonical ? LS_SHARD_GRADIENTS : LS_SHARD_OPTIMIZER;
    if (c->shard != NULL) *first = (int)(c->shard - ls_shard_modes);
    *last = LS_SHARD_MODES - 1;
    if (request->shard >= 0) *first = *last = request->shard;
    if (ls_mesh_ranks(&c->mesh) == 1) *last = *first;
}

/* Whether it is known that the candidate, cut by that mode, needs more than `most` bytes, whatever it saves. */
static bool is_beyond(const costing *by, const ls_plan_candidate *c, int mode, size_t most) {
    return most > 0 && ls_plan_found_least(by->found, &c->mesh, mode) > most;
}

/* Chooses what is cut over the ranks: as little as is needed to fit. */
static ls_status cost_with_least_shard(const costing *by, int first, int last, ls_plan_candidate *c) {
    const ls_plan_candidate bare = *c;
    bool none = true;
    for (int m = first; m <= last && !c->fits; m++) {
        ls_plan_candidate tried = bare;
        const bool shown = by->together || (m == last && !by->request->only_fit); /* costed although it does not fit */
        if (is_beyond(by, c, m, (size_t)by->request->memory) && !shown) continue;
        tried.shard = &ls_shard_modes[m];
        const ls_status status = cost_with_layout(by, &tried);
        if (none || status.code != LS_OK || tried.fits || tried.mapped < c->mapped) *c = tried;
        none = false;
        LS_TRY(status);
    }
    return ls_ok();
}

/*
 * Chooses the cut over the ranks with which the candidate needs the fewest bytes; of equal ones, the one that cuts
 * least.
 */
static ls_status cost_with_fewest(const costing *by, int first, int last, ls_plan_candidate *c) {
    const ls_plan_candidate bare = *c;
    for (int m = last; m >= first; m--) {
        ls_plan_candidate tried = bare;
        if (m < last && is_beyond(by, &bare, m, c->mapped)) continue;
        tried.shard = &ls_shard_modes[m];
        const ls_status status = cost_with_layout(by, &tried);
        if (m == last || status.code != LS_OK || tried.mapped <= c->mapped) *c = tried;
        LS_TRY(status);
    }
    return ls_ok();
}

static ls_status cost_with_shard(const costing *by, ls_plan_candidate *c) {
    int first, last;
    shards_for(by->request, c, &first, &last);
    return by->fewest ? cost_with_fewest(by, first, last, c) : cost_with_least_shard(by, first, last, c);
}

/* Costs a candidate. Its layout is made once for all its programs. */
static ls_status cost_candidate(costing by, ls_plan_candidate *c) {
    const ls_target target = ls_plan_target(by.request, c);
    ls_arena *arena = ls_arena_create();
    ls_layout layout;
    by.layout = &layout;
    ls_status status = ls_compile_layout(by.job, &target, arena, &layout);
    if (status.code == LS_OK)
        status = cost_with_shard(&by, c);
    else
        snprintf(c->refused, sizeof c->refused, "%s", status.text);
    ls_arena_destroy(arena);
    return status;
}

/* The candidate as it was before it was costed, but with what it cuts over the ranks. */
static ls_plan_candidate uncosted(const ls_plan_candidate *c) {
    return (ls_plan_candidate){.mesh = c->mesh,
                               .schedule = c->schedule,
                               .stage_chunks = c->stage_chunks,
                               .strategies = c->strategies,
                               .layout = c->layout,
                               .shard = c->shard,
                               .listed = c->listed};
}

ls_status ls_plan_simulate_candidate(const ls_job *job, const ls_plan_request *request, ls_plan_found *found,
                                     ls_plan_candidate *c) {
    *c = uncosted(c);
    return cost_candidate((costing){.job = job, .request = request, .found = found, .together = true, .best = INFINITY},
                          c);
}

/*
 * With only_fit, a candidate that fits by a few of its ranks is costed again by all ranks, as is done for the best one
 * of a plan.
 */
ls_status ls_plan_cost_candidate(const ls_job *job, const ls_plan_request *request, double best, ls_plan_found *found,
                                 ls_plan_candidate *c) {
    LS_TRY(cost_candidate((costing){.job = job, .request = request, .found = found, .best = best}, c));
    if (!request->only_fit || !c->fits || c->instrs > LS_PLAN_SIMULATED_INSTRS) return ls_ok();
    return ls_plan_simulate_candidate(job, request, found, c);
}

ls_status ls_plan_seek_fewest(const ls_job *job, const ls_plan_request *request, ls_plan_found *found,
                              ls_plan_candidate *c) {
    *c = uncosted(c);
    c->shard = NULL;
    return cost_candidate((costing){.job = job, .request = request, .found = found, .fewest = true, .best = INFINITY},
                          c);
}
