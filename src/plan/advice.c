#include "plan/plan.h"

#include <stdio.h>

enum { SEQ_STEPS = 64, MOST_RANKS = 64 };

typedef struct advising {
    const ls_plan_variants *variants;
    const ls_plan_request *request;
    ls_target nearest; /* what came nearest to fitting, as asked */
} advising;

static bool fits(const advising *a, int64_t seq, const ls_plan_request *request) {
    ls_graph *graph = NULL;
    ls_job job;
    ls_plan plan;
    ls_status status = a->variants->make(a->variants->context, seq, &graph, &job);
    if (status.code == LS_OK) status = ls_plan_make(&job, request, &plan);
    ls_graph_destroy(graph);
    return status.code == LS_OK;
}

/* The request with everything as it came nearest, its ring `times` as long: one candidate, which is quick to try. */
static ls_plan_request narrowed(const advising *a, int times) {
    ls_plan_request one = *a->request;
    one.mesh = a->nearest.mesh;
    one.mesh.size[LS_AXIS_RING] *= times;
    one.ranks *= times;
    if (one.machine) one.memory /= times; /* more ranks share the same machine */
    one.layout = ls_layout_name(a->nearest.layout);
    if (times == 1) one.strategy = a->nearest.strategy;
    return one;
}

/* A multiple of `step` below the length asked for, as long as can be, that fits; 0: none. Bytes grow with the sequence. */
static int64_t longest_that_fits(const advising *a, int64_t step) {
    const ls_plan_request one = narrowed(a, 1);
    int64_t low = 0, high = ls_ceil_div(a->variants->seq, step);
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (fits(a, middle * step, &one))
            low = middle;
        else
            high = middle;
    }
    return low * step;
}

/* Ranks, doubled until it fits; 0: none up to 64. */
static int ranks_that_fit(const advising *a) {
    for (int times = 2; times * a->request->ranks <= MOST_RANKS; times *= 2) {
        const ls_plan_request one = narrowed(a, times);
        ls_plan_request asked = *a->request; /* with a mesh that was asked for, more ranks may be no answer */
        asked.ranks = one.ranks;
        asked.memory = one.memory;
        if (fits(a, a->variants->seq, &one) && fits(a, a->variants->seq, &asked)) return one.ranks;
    }
    return 0;
}

ls_status ls_plan_advise(const ls_plan_variants *variants, const ls_plan_request *request,
                         const ls_plan *refused, ls_status refusal) {
    const ls_plan_candidate *nearest = &refused->candidates[0];
    if (refused->n_candidates == 0 || nearest->refused[0] != 0 || nearest->fits) return refusal;
    const advising a = {variants, request, refused->target};
    const int64_t seq = longest_that_fits(&a, ls_max(1, variants->seq / SEQ_STEPS));
    const int ranks = ranks_that_fit(&a);
    char advice[160] = "nothing would fit";
    if (ranks > 0 && seq > 0)
        snprintf(advice, sizeof advice, "--ranks %d would fit, or --seq %lld", ranks, (long long)seq);
    else if (ranks > 0 || seq > 0)
        snprintf(advice, sizeof advice, "--%s %lld would fit", ranks > 0 ? "ranks" : "seq",
                 ranks > 0 ? (long long)ranks : (long long)seq);
    return ls_error(refusal.code, "%s; %s", refusal.text, advice);
}
