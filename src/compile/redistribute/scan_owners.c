/*
 * Scan by owners: each rank gets the maps of all runs for some of the heads, finds the states of these heads in front
 * of every run, and sends each rank the states of that rank's runs. This takes two exchanges instead of one, but what a
 * rank sends and holds does not grow with the number of ranks.
 */
#include "compile/redistribute/redistribute.h"

/* Parts of about equal size: of the runs of all ranks, or of the heads, of which each rank gets at least one. */
static ls_parts parts_of(ls_builder *b, int team, int64_t total, int64_t most_total) {
    const int P = ls_build_team_size(b, team);
    ls_parts parts = {.total = total,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, P),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, P),
                      .most = ls_ceil_div(most_total, P),
                      .most_total = most_total};
    for (int p = 0; p < P; p++) {
        parts.start[p] = ls_part_start(total, P, p);
        parts.count[p] = ls_part_start(total, P, p + 1) - parts.start[p];
    }
    ls_parts_find_sharers(&parts, &b->image->teams[team]);
    return parts;
}

static ls_operand recut(ls_builder *b, const ls_recut *r, ls_operand mine) {
    const ls_all_to_all x = ls_all_to_all_begin(b, r, mine);
    const ls_operand result = ls_all_to_all_finish(b, &x);
    ls_all_to_all_settle(b, &x);
    return result;
}

void ls_scan_by_owners(ls_builder *b, const ls_scan_owners *s, ls_scan_follow follow, const void *context,
                       ls_operand maps, ls_operand states) {
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const int64_t room = states.view.size[0], all = room * ls_build_team_size(b, team);
    const ls_parts runs = parts_of(b, team, all, all), heads = parts_of(b, team, states.view.size[2], s->most_heads);
    const ls_recut there = {
        .label = "maps to owners", .team = team, .from_dim = 0, .to_dim = 2, .from = &runs, .to = &heads};
    const ls_recut back = {
        .label = "states to runs", .team = team, .from_dim = 2, .to_dim = 0, .from = &heads, .to = &runs};
    const ls_operand owned = recut(b, &there, maps);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < states.view.ndim; d++) size[d] = states.view.size[d];
    size[0] = all;
    size[2] = owned.view.size[2];
    const ls_operand found =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "states of all runs", states.view.dtype, states.view.ndim, size);
    ls_build_fill(b, found); /* also for runs that no rank has */
    const ls_scan_order order = ls_scan_order_of(b, s->backwards);
    for (int i = 0; i + 1 < order.n; i++) {
        const ls_operand next = ls_operand_slice(found, 0, order.at[i + 1], 1);
        ls_build_copy(b, ls_operand_slice(found, 0, order.at[i], 1), next);
        follow(b, context, ls_operand_slice(owned, 0, order.at[i], 1), false, next);
    }
    ls_build_copy(b, recut(b, &back, found), states);
}
