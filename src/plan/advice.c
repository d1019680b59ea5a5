/* Suggests what would fit if a job does not: fewer tokens, or more ranks. Each attempt plans the job again. */
#include "plan/plan_impl.h"

#include <limits.h>
#include <stdio.h>

/* Each attempt compiles the job: once for each doubling of the ranks, a few times for each halving of the sequence. */
enum { SEQ_STEPS = 64, MOST_TIMES = 64 };

typedef struct advice {
    const ls_plan_variants *variants;
    const ls_plan_request *request;
    ls_target nearest;               /* the candidate that needs the fewest bytes, */
    char strategy[LS_STRATEGY_TEXT]; /* and its strategies */
} advice;

static bool variant_fits(const advice *a, int64_t seq, const ls_plan_request *request) {
    ls_graph *graph = NULL;
    ls_job job;
    ls_plan plan = {.n_candidates = 0};
    ls_status status = a->variants->make(a->variants->context, seq, &graph, &job);
    if (status.code == LS_OK) status = ls_plan_make(&job, request, &plan);
    ls_plan_free(&plan);
    ls_graph_destroy(graph);
    return status.code == LS_OK;
}

/*
 * The request restricted to the nearest candidate, with `times` as many ranks along the sequence. A single candidate is
 * quick to try.
 */
static ls_plan_request narrowed(const advice *a, int times) {
    ls_plan_request one = *a->request;
    one.only_fit = true;
    one.mesh = a->nearest.mesh;
    ls_mesh_widen(&one.mesh, LS_AXIS_SEQUENCE, times);
    one.ranks *= times;
    if (one.machine) one.memory /= times; /* more ranks share the same machine */
    one.layout = ls_layout_name(a->nearest.layout);
    if (times == 1) one.strategy = a->strategy;
    return one;
}

/*
 * The longest sequence below the user's that fits and is a multiple of `step`; 0: none. Bytes grow with the sequence.
 */
static int64_t longest_that_fits(const advice *a, int64_t step) {
    const ls_plan_request one = narrowed(a, 1);
    int64_t low = 0, high = ls_ceil_div(a->variants->seq, step);
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (variant_fits(a, middle * step, &one))
            low = middle;
        else
            high = middle;
    }
    return low * step;
}

/* The number of ranks, found by doubling, with which the job fits; 0: it does not fit with MOST_TIMES as many. */
static int ranks_that_fit(const advice *a) {
    for (int times = 2; times <= MOST_TIMES && a->request->ranks <= INT_MAX / times; times *= 2) {
        const ls_plan_request one = narrowed(a, times);
        ls_plan_request whole = *a->request; /* the request's mesh may not allow more ranks */
        whole.only_fit = true;
        whole.ranks = one.ranks;
        whole.memory = one.memory;
        if (variant_fits(a, a->variants->seq, &one) && variant_fits(a, a->variants->seq, &whole)) return one.ranks;
    }
    return 0;
}

ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request, const ls_plan *refused,
                         ls_status refusal) {
    const ls_plan_candidate *nearest = &refused->candidates[0];
    if (refused->n_candidates == 0 || nearest->refused[0] != 0 || nearest->fits) return refusal;
    advice a = {.variants = variants, .request = request, .nearest = refused->target};
    ls_strategies_print(&nearest->strategies, a.strategy);
    /* The bytes that no saving reduces are the same for any sequence, and more ranks can at best divide them. */
    const bool any_seq = (int64_t)nearest->least <= request->memory;
    const bool any_ranks = (int64_t)nearest->least / MOST_TIMES <= request->memory;
    const int64_t seq = any_seq ? longest_that_fits(&a, ls_max(1, variants->seq / SEQ_STEPS)) : 0;
    const int ranks = any_ranks ? ranks_that_fit(&a) : 0;
    char text[160];
    snprintf(text, sizeof text, "nothing up to %lld ranks would fit", (long long)request->ranks * MOST_TIMES);
    if (ranks > 0 && seq > 0)
        snprintf(text, sizeof text, "--ranks %d would fit, or --seq %lld", ranks, (long long)seq);
    else if (ranks > 0 || seq > 0)
        snprintf(text, sizeof text, "--%s %lld would fit", ranks > 0 ? "ranks" : "seq",
                 ranks > 0 ? (long long)ranks : (long long)seq);
    return ls_error(refusal.code, "%s; %s", refusal.text, text);
}
