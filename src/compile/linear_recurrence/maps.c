/*
 * The ways "maps" and "owners": each run of a rank's positions acts on the state as a map. The state in front of a run
 * is found by applying the maps of all earlier runs to a state of zeros; from that state, one call of the kernel
 * computes the run. The maps go to all ranks (redistribute/scan.c), or to the rank that owns the head
 * (redistribute/scan_owners.c). The backward pass does the same with the maps of the state's gradient, from the last
 * run to the first.
 */
#include "compile/attention/attention.h"
#include "compile/linear_recurrence/linear_recurrence.h"

typedef struct direction {
    const ls_linear_site *site;
    bool back;
} direction;

static void follow(ls_builder *b, const void *context, ls_operand maps, bool reverse, ls_operand state) {
    const direction *d = context;
    ls_linear_follow(b, d->site, maps, d->back, reverse, ls_linear_single(state));
}

/* Whether the sequence is a single run: its state begins as zeros. */
static bool is_alone(const ls_builder *b, const ls_linear_site *site) {
    return b->image->layout.P == 1 && ls_most_runs(b) == 1 && !site->params.unmasked;
}

/*
 * Fills states [room,B,H,D,E] with the state in front of each run of this rank; with `back`, with the gradient of the
 * state behind each run.
 */
static void find_states(ls_builder *b, const ls_linear_way *way, const ls_linear_site *site, bool back,
                        ls_operand states) {
    if (is_alone(b, site)) {
        ls_build_fill(b, states);
        return;
    }
    const int64_t room = ls_most_runs(b);
    const ls_operand maps = ls_linear_maps(b, site, room);
    const ls_layout_run *runs;
    const int n = ls_my_runs(b, &runs);
    int64_t from = 0;
    for (int64_t i = 0; i < room; i++) {
        const ls_operand map = ls_operand_slice(maps, 0, i, 1);
        if (i >= n) {
            ls_build_fill(b, map);
            continue;
        }
        ls_linear_map(b, site, &site->tensors, from, runs[i].count, back, ls_linear_single(map));
        from += runs[i].count;
    }
    way->exchange(b, site, back, maps, states);
}

static void forward(ls_builder *b, const ls_linear_way *way, ls_linear_site *site) {
    const ls_operand fronts = b->sites->fronts[site->forward] = ls_linear_states(b, site, "states", ls_most_runs(b));
    find_states(b, way, site, false, fronts);
    const ls_layout_run *runs;
    const int n = ls_my_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        const ls_operand state = ls_linear_single(ls_linear_states(b, site, "state", 1));
        ls_build_copy(b, ls_linear_single(ls_operand_slice(fronts, 0, i, 1)), state); /* the gradient reads `fronts` */
        ls_linear_forward(b, site, &site->tensors, from, runs[i].count, state);
        ls_linear_keep(b, site, 0, runs[i].first + runs[i].count, state);
        from += runs[i].count;
    }
}

static void backward(ls_builder *b, const ls_linear_way *way, ls_linear_site *site) {
    ls_operand fronts = b->sites->fronts[site->forward];
    if (site->forward < b->row->first_node) { /* the forward pass is in another program */
        fronts = ls_linear_states(b, site, "states", ls_most_runs(b));
        find_states(b, way, site, false, fronts);
    }
    const ls_operand behind = ls_linear_states(b, site, "gradients of states", ls_most_runs(b));
    find_states(b, way, site, true, behind);
    const ls_layout_run *runs;
    const int n = ls_my_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        ls_linear_backward(b, site, &site->tensors, from, runs[i].count,
                           ls_linear_single(ls_operand_slice(fronts, 0, i, 1)),
                           ls_linear_single(ls_operand_slice(behind, 0, i, 1)));
        from += runs[i].count;
    }
}

/* --- how maps become states --------------------------------------------------------------------------------------- */

static void to_all(ls_builder *b, const ls_linear_site *site, bool back, ls_operand maps, ls_operand states) {
    const direction d = {site, back};
    ls_scan s = ls_scan_begin(b, back, maps);
    s.whole = site->params.unmasked;
    ls_scan_finish(b, &s, follow, &d, states);
}

static void to_owners(ls_builder *b, const ls_linear_site *site, bool back, ls_operand maps, ls_operand states) {
    const direction d = {site, back};
    const ls_scan_owners s = {.backwards = back, .most_heads = site->values.most};
    ls_scan_by_owners(b, &s, follow, &d, maps, states);
}

static ls_status has_few_runs(const ls_builder *b, const void *site) {
    return ls_halo_fits(b, ((const ls_linear_site *)site)->node);
}

static ls_status has_owners(const ls_builder *b, const void *of) {
    const ls_linear_site *site = of;
    const int P = b->image->layout.P;
    if (site->params.unmasked)
        return ls_error(LS_UNSUPPORTED, "way owners: it is for states of the tokens before, expected a mask");
    if (site->values.least < P)
        return ls_error(LS_UNSUPPORTED, "way owners: %lld heads on %d ranks, expected at least one on each",
                        (long long)site->values.least, P);
    return ls_halo_fits(b, site->node);
}

/* Bytes of the states of all runs of a rank, per element of a head's state or map. */
static double state_bytes(const ls_builder *b, const ls_linear_site *site) {
    return (double)(ls_most_runs(b) * site->B * site->values.most) * (double)ls_dtype_bytes(b->image->accumulator);
}

static double work(const ls_builder *b, const ls_linear_site *site) {
    enum { FLOPS_PER_BYTE = 256 }; /* the same as in shard/price.c */
    const double columns = (double)(site->E + (site->params.delta ? site->D : 0));
    return 2 * (double)(site->B * site->values.most * ls_layout_most(&b->image->layout)) *
           ls_linear_recurrence_flops(&site->params, (double)site->D, columns) / FLOPS_PER_BYTE;
}

static double cost_to_all(const ls_builder *b, const void *of) {
    const ls_linear_site *site = of;
    const int P = b->image->layout.P;
    return P == 1 ? 0 : 2 * (P - 1.0) * state_bytes(b, site) * (double)site->map + work(b, site);
}

static double cost_to_owners(const ls_builder *b, const void *of) {
    const ls_linear_site *site = of;
    const int P = b->image->layout.P;
    return 2 * (P - 1.0) / P * state_bytes(b, site) * (double)(site->map + site->D * site->E) + work(b, site);
}

const ls_linear_way ls_linear_way_maps = {
    .way = {"maps", "the maps of all runs to all ranks", has_few_runs, cost_to_all},
    .forward = forward,
    .backward = backward,
    .exchange = to_all};

const ls_linear_way ls_linear_way_owners = {
    .way = {"owners", "maps to an owner of each head, who gives back states", has_owners, cost_to_owners},
    .forward = forward,
    .backward = backward,
    .exchange = to_owners};
