/*
 * States by maps: each run of a rank's positions is a map of the state, the maps of all runs come to all ranks, and one
 * call of the kernel for each run does the rest, from the state in front of it (redistribute/scan.c). Backwards it is
 * the same with the maps of the state's gradient.
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

/* Nobody else has tokens of the sequence, so that the one run begins with a state of zeros. */
static bool is_alone(const ls_builder *b, const ls_linear_site *site) {
    return b->image->layout.P == 1 && !site->params.unmasked;
}

/* states [room,B,H,D,E]: in front of each run of this rank, or of the gradient, behind it. */
static void find_states(ls_builder *b, const ls_linear_site *site, bool back, ls_operand states) {
    if (is_alone(b, site)) {
        ls_build_fill(b, states);
        return;
    }
    const int64_t room = ls_scan_room(b);
    const ls_operand maps = ls_linear_maps(b, site, room);
    const ls_layout_run *runs;
    const int n = ls_halo_runs(b, &runs);
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
    const direction d = {site, back};
    ls_scan s = ls_scan_begin(b, back, maps);
    s.whole = site->params.unmasked;
    ls_scan_finish(b, &s, follow, &d, states);
}

void ls_linear_forward_by_maps(ls_builder *b, ls_linear_site *site) {
    const ls_operand fronts = b->sites->fronts[site->forward] = ls_linear_states(b, site, "states", ls_scan_room(b));
    find_states(b, site, false, fronts);
    const ls_layout_run *runs;
    const int n = ls_halo_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        const ls_operand state =
            ls_linear_single(ls_linear_states(b, site, "state", 1)); /* the gradient reads `fronts` */
        ls_build_copy(b, ls_linear_single(ls_operand_slice(fronts, 0, i, 1)), state);
        ls_linear_forward(b, site, &site->tensors, from, runs[i].count, state);
        from += runs[i].count;
    }
}

void ls_linear_backward_by_maps(ls_builder *b, ls_linear_site *site) {
    ls_operand fronts = b->sites->fronts[site->forward];
    if (site->forward < b->row->first_node) { /* another program had them */
        fronts = ls_linear_states(b, site, "states", ls_scan_room(b));
        find_states(b, site, false, fronts);
    }
    const ls_operand behind = ls_linear_states(b, site, "gradients of states", ls_scan_room(b));
    find_states(b, site, true, behind);
    const ls_layout_run *runs;
    const int n = ls_halo_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        ls_linear_backward(b, site, &site->tensors, from, runs[i].count,
                           ls_linear_single(ls_operand_slice(fronts, 0, i, 1)),
                           ls_linear_single(ls_operand_slice(behind, 0, i, 1)));
        from += runs[i].count;
    }
}
