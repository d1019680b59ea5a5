/* Candidates for mesh, strategy and layout; their order; and the one line that says why the first was taken. */
#include "plan/plan_impl.h"

#include "longspan/units.h"
#include "plan/memory.h"

#include <stdio.h>
#include <string.h>

static bool is_free(const char *name) { return name == NULL || strcmp(name, "auto") == 0; }

/* --- what the request leaves open ---------------------------------------------------------------------------------------- */

static bool is_causal_like(const ls_mask *mask) {
    for (int t = 0; t < mask->n; t++) {
        if (mask->term[t].kind != LS_MASK_DOCUMENTS) return true;
    }
    return false;
}

/* Whether some attention sees less to the right than to the left, so that equal parts are unequal work. */
static bool has_causal_attention(const ls_graph *g) {
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_mask *mask = ls_node_mask(&g->nodes[n]);
        if (mask != NULL && is_causal_like(mask)) return true;
    }
    return false;
}

/* Layouts to try, the one to prefer among equals first. */
static int layouts_for(const ls_plan_request *request, bool causal, const ls_mesh *mesh,
                       ls_layout_kind out[2], ls_status *status) {
    *status = ls_ok();
    if (!is_free(request->layout)) {
        *status = ls_layout_parse(request->layout, &out[0]);
        return 1;
    }
    const bool balance = causal && mesh->size[LS_AXIS_RING] > 1;
    out[0] = balance ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS;
    out[1] = balance ? LS_LAYOUT_CONTIGUOUS : LS_LAYOUT_ZIGZAG;
    return ls_mesh_sequence_ranks(mesh) > 1 ? 2 : 1;
}

/* The plainest strategy that does a mesh. */
static const char *strategy_for(const ls_mesh *mesh) {
    if (ls_mesh_sequence_ranks(mesh) == 1) return "local";
    if (mesh->size[LS_AXIS_ULYSSES] == 1) return "ring";
    return mesh->size[LS_AXIS_RING] == 1 ? "ulysses" : "usp";
}

/* Whether a strategy by name goes with this split; a mesh that was asked for is left to the strategy's own judgement. */
static bool goes_with(const ls_plan_request *request, const ls_mesh *mesh) {
    if (request->mesh.size[LS_AXIS_RING] != 0 || request->mesh.size[LS_AXIS_ULYSSES] != 0) return true;
    if (is_free(request->strategy)) return true;
    if (strcmp(request->strategy, "ulysses") == 0) return mesh->size[LS_AXIS_RING] == 1;
    if (strcmp(request->strategy, "usp") == 0) return true;
    return mesh->size[LS_AXIS_ULYSSES] == 1;
}

static bool allows(const ls_plan_request *request, const ls_mesh *mesh) {
    for (int a = 0; a < LS_AXES; a++) {
        if (request->mesh.size[a] != 0 && request->mesh.size[a] != mesh->size[a]) return false;
    }
    return goes_with(request, mesh);
}

static ls_status mesh_error(const ls_plan_request *request) {
    char asked[96] = "";
    for (int a = 0; a < LS_AXES; a++) {
        const size_t used = strlen(asked);
        if (request->mesh.size[a] != 0)
            snprintf(asked + used, sizeof asked - used, "%s%s=%d", used > 0 ? "," : "",
                     ls_axis_name((ls_axis)a), request->mesh.size[a]);
    }
    return ls_error(LS_USAGE, "mesh '%s' does not multiply to %d ranks%s", asked, request->ranks,
                    request->mesh.size[LS_AXIS_DP] == 0 ? " (dp is 1 unless given)" : "");
}

/* --- candidates ------------------------------------------------------------------------------------------------------------ */

static ls_target target_of(const ls_plan_request *request, const ls_plan_candidate *c) {
    return (ls_target){.mesh = c->mesh,
                       .strategy = c->strategy,
                       .layout = c->layout,
                       .isa = request->isa,
                       .threads = request->threads,
                       .transfers = request->transfers,
                       .addressable = request->addressable,
                       .saving = c->saving};
}

/* The name as the table of strategies has it, so that a plan outlives the request. */
static ls_status known_name(const ls_plan_request *request, const ls_mesh *mesh, const char **out) {
    const char *wanted = is_free(request->strategy) ? strategy_for(mesh) : request->strategy;
    for (int i = 0; ls_strategy_name(i) != NULL; i++) {
        if (strcmp(ls_strategy_name(i), wanted) != 0) continue;
        *out = ls_strategy_name(i);
        return ls_ok();
    }
    return ls_strategy_applicable(wanted, &(ls_attention_problem){.mesh = *mesh}); /* says which are known */
}

/* Costs the candidate with what it must save; where another rank needs more than rank 0, with that much less allowed. */
static ls_status cost_within(const ls_job *job, const ls_plan_request *request, ls_target *target,
                             ls_plan_candidate *c) {
    enum { TRIES = 3 };
    int64_t allowed = request->memory;
    for (int i = 0; i < TRIES; i++) {
        const ls_plan_candidate bare = *c;
        ls_status status = ls_plan_saving(job, request, allowed, target);
        c->saving = target->saving;
        if (status.code == LS_OK)
            ls_plan_cost(job, target, &request->host, c, &status);
        else
            snprintf(c->refused, sizeof c->refused, "%s", status.text);
        LS_TRY(status);
        const int64_t over = (int64_t)(c->bytes[LS_PRIVATE] + c->bytes[LS_SYMMETRIC]) - request->memory;
        c->fits = request->memory == 0 || over <= 0;
        if (c->fits || over >= allowed || i + 1 == TRIES) break;
        allowed -= over;
        *c = bare;
    }
    return ls_ok();
}

static ls_status add_candidates(const ls_job *job, const ls_plan_request *request, const ls_mesh *mesh,
                                bool causal, ls_plan *plan, ls_status *refusal) {
    ls_layout_kind layouts[2];
    ls_status status;
    const int n = layouts_for(request, causal, mesh, layouts, &status);
    LS_TRY(status);
    for (int i = 0; i < n && plan->n_candidates < (int)LS_COUNT(plan->candidates); i++) {
        ls_plan_candidate *c = &plan->candidates[plan->n_candidates];
        *c = (ls_plan_candidate){.mesh = *mesh, .layout = layouts[i]};
        LS_TRY(known_name(request, mesh, &c->strategy));
        plan->n_candidates++;
        ls_target target = target_of(request, c);
        status = cost_within(job, request, &target, c);
        if (status.code != LS_OK && refusal->code == LS_OK) *refusal = status;
    }
    return ls_ok();
}

static double bytes_of(const ls_plan_candidate *c) {
    return (double)c->bytes[LS_PRIVATE] + (double)c->bytes[LS_SYMMETRIC];
}

/* Those that fit first, the others by their bytes. Cheaper first; equal ones (to a millionth) stay as they were; refused ones last. */
static bool comes_before(const ls_plan_candidate *a, const ls_plan_candidate *b) {
    if ((a->refused[0] != 0) != (b->refused[0] != 0)) return a->refused[0] == 0;
    if (a->fits != b->fits) return a->fits;
    if (!a->fits) return bytes_of(a) < bytes_of(b);
    return a->seconds < b->seconds * (1 - 1e-6);
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

/* --- the reason ------------------------------------------------------------------------------------------------------------ */

static void print_name(const ls_plan_candidate *c, char *out, size_t bytes) {
    char mesh[64];
    ls_mesh_print(&c->mesh, mesh, sizeof mesh);
    if (ls_mesh_sequence_ranks(&c->mesh) == 1)
        snprintf(out, bytes, "%s", mesh);
    else
        snprintf(out, bytes, "%s · %s", mesh, ls_layout_name(c->layout));
}

/* The best of another mesh, else of another layout; NULL when there was no choice. */
static const ls_plan_candidate *runner_up(const ls_plan *plan) {
    const ls_plan_candidate *first = &plan->candidates[0], *found = NULL;
    for (int i = plan->n_candidates - 1; i > 0; i--) {
        if (plan->candidates[i].refused[0] == 0) found = &plan->candidates[i];
    }
    for (int i = plan->n_candidates - 1; i > 0; i--) {
        const ls_plan_candidate *c = &plan->candidates[i];
        if (c->refused[0] == 0 && memcmp(&c->mesh, &first->mesh, sizeof c->mesh) != 0) found = c;
    }
    return found;
}

static void explain_choice(ls_plan *plan) {
    const ls_plan_candidate *first = &plan->candidates[0], *other = runner_up(plan);
    char name[128], other_name[128], time[LS_SECONDS_TEXT], other_time[LS_SECONDS_TEXT];
    char sent[LS_BYTES_TEXT], other_sent[LS_BYTES_TEXT];
    print_name(first, name, sizeof name);
    (void)ls_seconds_text(first->seconds, time);
    (void)ls_bytes_text(first->bytes_sent + first->bytes_read, sent);
    if (other == NULL) {
        snprintf(plan->reason, sizeof plan->reason,
                 "%s: nothing else to choose from; %s predicted, moves %s, imbalance %.1f %%", name, time,
                 sent, first->imbalance * 100);
        return;
    }
    print_name(other, other_name, sizeof other_name);
    snprintf(plan->reason, sizeof plan->reason,
             "%s: %s predicted against %s for %s (moves %s against %s, imbalance %.1f %% against %.1f %%)",
             name, time, ls_seconds_text(other->seconds, other_time), other_name, sent,
             ls_bytes_text(other->bytes_sent + other->bytes_read, other_sent), first->imbalance * 100,
             other->imbalance * 100);
}

/* What the smallest candidate needs, and for what. */
static ls_status no_memory(const ls_job *job, const ls_plan_request *request, const ls_plan *plan) {
    ls_target target = plan->target;
    target.rank = plan->candidates[0].most_rank;
    ls_image *image;
    LS_TRY(ls_compile(job, &target, &image));
    const ls_status status =
        ls_memory_check(image, request->memory, request->machine ? "this machine" : "--memory");
    ls_image_destroy(image);
    return status;
}

ls_status ls_plan_make(const ls_job *job, const ls_plan_request *request, ls_plan *out) {
    LS_TRY(ls_graph_status(job->graph));
    const int dp = request->mesh.size[LS_AXIS_DP] != 0 ? request->mesh.size[LS_AXIS_DP] : 1;
    const bool causal = has_causal_attention(job->graph);
    ls_status refusal = ls_ok();
    out->n_candidates = 0;
    for (int U = 1; request->ranks % dp == 0 && U <= request->ranks / dp; U++) {
        const ls_mesh mesh = ls_mesh_make(dp, request->ranks / dp / U, U);
        if (request->ranks / dp % U != 0 || !allows(request, &mesh)) continue;
        LS_TRY(add_candidates(job, request, &mesh, causal, out, &refusal));
    }
    if (out->n_candidates == 0) return mesh_error(request);
    sort_candidates(out);
    if (out->candidates[0].refused[0] != 0) return refusal;
    out->target = target_of(request, &out->candidates[0]);
    if (!out->candidates[0].fits) return no_memory(job, request, out);
    explain_choice(out);
    return ls_ok();
}
