/*
 * Scan: finds the state in front of each run of positions, where the state after a token follows from the state before
 * it. A rank need not wait for the state to begin: it finds the effect of its own runs on any state as a map (for a
 * linear recurrence an affine map, of the size of the state). All ranks gather all maps, and each rank applies the maps
 * of the runs in front of its own to a state of zeros. So there is one exchange, however many runs there are, instead
 * of a chain of ranks that wait for each other, and its bytes do not depend on the length of the sequence. (Sun et al.,
 * "LASP-2: rethinking sequence parallelism for linear attention and its hybrid", arXiv 2502.07563, gathers states in
 * this way.)
 *
 * A backwards scan finds the state behind each run, from the maps of the runs behind it.
 */
#include "compile/redistribute/redistribute.h"

#include <stdlib.h>

/* A run of the sequence. */
typedef struct run {
    int64_t first; /* first position */
    int64_t map;   /* index of its map among those of all ranks */
    int own;       /* index among this rank's runs; -1: another rank's run */
} run;

static int by_position(const void *a, const void *b) {
    const int64_t x = ((const run *)a)->first, y = ((const run *)b)->first;
    return (x > y) - (x < y);
}

static int sequence_team(ls_builder *b) {
    return ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
}

/*
 * All runs in the order in which the state passes through them; returns how many. pieces [P]: the index of the piece
 * that each rank of the sequence has.
 */
static int find_runs(ls_builder *b, bool backwards, const int64_t *pieces, run **out) {
    const ls_layout made = ls_runs_of(b), *layout = &made;
    const int me = ls_build_team_place(b, sequence_team(b));
    const int64_t room = ls_most_runs(b);
    run *runs = LS_NEW_ARRAY(b->image->arena, run, layout->P * room);
    int n = 0;
    for (int p = 0; p < layout->P; p++) {
        const ls_layout_run *held;
        const int count = ls_layout_runs(layout, p, &held);
        for (int i = 0; i < count; i++) runs[n++] = (run){held[i].first, pieces[p] * room + i, p == me ? i : -1};
    }
    qsort(runs, (size_t)n, sizeof *runs, by_position);
    for (int i = 0; backwards && i < n / 2; i++) {
        const run last = runs[n - 1 - i];
        runs[n - 1 - i] = runs[i];
        runs[i] = last;
    }
    *out = runs;
    return n;
}

/* The index of the piece that each rank of the sequence has in the gathered maps. */
static const int64_t *gathered_pieces(ls_builder *b, const ls_scan *s) {
    const int team = sequence_team(b), me = ls_build_team_place(b, team), P = b->image->layout.P;
    const ls_team owners = ls_stages_owners(b, &s->gather.stages);
    int64_t *pieces = LS_NEW_ARRAY(b->image->arena, int64_t, P);
    for (int p = 0; p < P; p++)
        pieces[p] = ls_team_place(&owners, ls_team_member(&b->image->teams[team], b->target->rank, p - me));
    return pieces;
}

ls_scan_order ls_scan_order_of(ls_builder *b, bool backwards) {
    const int P = b->image->layout.P;
    int64_t *pieces = LS_NEW_ARRAY(b->image->arena, int64_t, P);
    for (int p = 0; p < P; p++) pieces[p] = p;
    run *runs;
    ls_scan_order order = {.n = find_runs(b, backwards, pieces, &runs)};
    order.at = LS_NEW_ARRAY(b->image->arena, int64_t, order.n);
    for (int i = 0; i < order.n; i++) order.at[i] = runs[i].map;
    return order;
}

ls_scan ls_scan_begin(ls_builder *b, bool backwards, ls_operand maps) {
    const int team = sequence_team(b), P = ls_build_team_size(b, team);
    const ls_team members = b->image->teams[team];
    const ls_stages stages = ls_stages_of(b, &members);
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < maps.view.ndim; i++) size[i] = i == 0 ? P * maps.view.size[0] : maps.view.size[i];
    const ls_operand all = ls_build_symmetric(b, LS_BUFFER_SLOT, "maps of all runs", P * ls_view_elements(&maps.view),
                                              maps.view.dtype, maps.view.ndim, size);
    ls_scan s = {.backwards = backwards, .gather = ls_all_gather_expect(b, "scan", &stages, all, 0)};
    ls_all_gather_begin(b, &s.gather, maps);
    return s;
}

/* How maps are applied, and the state to which they are applied. */
typedef struct follower {
    ls_scan_follow follow;
    const void *context;
    ls_operand state;
} follower;

/* Applies the maps of the runs: one call for each stretch of runs whose maps lie at equal distances. */
static void apply(ls_builder *b, const ls_scan *s, const run *runs, int n, const follower *to) {
    for (int i = 0, next; i < n; i = next) {
        const int64_t step = i + 1 < n ? runs[i + 1].map - runs[i].map : 1;
        for (next = i + 1; next < n && runs[next].map - runs[next - 1].map == step;) next++;
        ls_operand maps = ls_operand_slice(s->gather.all, 0, ls_min(runs[i].map, runs[next - 1].map), 1);
        maps.view.size[0] = next - i;
        maps.view.stride[0] *= llabs(step);
        to->follow(b, to->context, maps, step < 0, to->state);
    }
}

void ls_scan_finish(ls_builder *b, ls_scan *s, ls_scan_follow follow, const void *context, ls_operand states) {
    run *runs;
    const int n = find_runs(b, s->backwards, gathered_pieces(b, s), &runs);
    ls_all_gather_finish(b, &s->gather);
    follower to = {.follow = follow, .context = context, .state = {.buffer = -1}};
    for (int i = 0, applied = 0; i < n; i++) {
        if (runs[i].own < 0) continue;
        const ls_operand before = to.state;
        to.state = ls_operand_slice(states, 0, runs[i].own, 1);
        if (before.buffer < 0)
            ls_build_fill(b, to.state);
        else
            ls_build_copy(b, before, to.state);
        const int past = s->whole ? n : i;
        apply(b, s, runs + applied, past - applied, &to);
        applied = past;
    }
}
