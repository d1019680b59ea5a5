/*
 * Chain: a state that goes from run to run of positions, each time to the rank that has the next one, where what a run
 * makes of a state is no map that could be found before the state is there (scan.c). Ranks wait for each other, so the
 * batch goes in slices: while a rank has the second one, the next rank has the first.
 */
#include "compile/redistribute/redistribute.h"

/* A state that leaves a run for the next one, of a slice of the sequences. */
typedef struct link {
    int from, to;                   /* places of the ranks */
    ls_operand leaves, slot, front; /* where it was made; where it lands at the other rank; where it belongs there */
} link;

static ls_operand nothing(ls_operand like) { return ls_operand_slice(like, 0, 0, 0); }

/* All ranks call it for all links, in one order. */
static void pass_on(ls_builder *b, int team, int channel, const link *l) {
    const int P = ls_build_team_size(b, team), me = ls_build_team_place(b, team), j = (l->to - l->from + P) % P;
    const bool gives = me == l->from, takes = me == l->to;
    const ls_operand none = nothing(l->slot);
    ls_build_grant(b, channel, ls_build_peer(b, team, -j), takes ? l->slot : none);
    ls_build_send(b, channel, ls_build_peer(b, team, j), gives ? l->leaves : none, gives ? l->slot : none);
    ls_build_receive(b, channel, ls_build_peer(b, team, -j), takes ? l->slot : none);
    if (takes) ls_build_copy(b, l->slot, l->front);
}

/* Of what has runs and sequences first: those of a slice of one run, [sequences,..]. */
static ls_operand of_run(ls_operand all, int64_t run, int64_t first, int64_t sequences) {
    const ls_operand o = ls_operand_slice(all, 0, run, 1);
    return ls_operand_slice(ls_operand_dense(o.buffer, o.offset, o.view.dtype, o.view.ndim - 1, &o.view.size[1]), 0,
                            first, sequences);
}

void ls_chain_states(ls_builder *b, const ls_chain *c, ls_operand states) {
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const int me = ls_build_team_place(b, team), P = ls_build_team_size(b, team), number = b->channels.n_halos++;
    const ls_view *v = &states.view;
    const int64_t room = v->size[0], B = v->size[1];
    const ls_scan_order order = ls_scan_order_of(b, c->backwards);
    const ls_operand slots =
        P == 1 ? states
               : ls_build_symmetric(b, LS_BUFFER_SLOT, "states from other ranks", c->most, v->dtype, v->ndim, v->size);
    const ls_operand work = ls_build_private(b, LS_BUFFER_ACTIVATION, "state", v->dtype, v->ndim, v->size);
    const ls_layout_run *runs;
    (void)ls_my_runs(b, &runs);
    for (int i = 0; i < order.n; i++) {
        const int64_t run = order.at[i] % room, next = i + 1 < order.n ? order.at[i + 1] : order.at[i];
        const int from = (int)(order.at[i] / room), to = (int)(next / room);
        for (int s = 0; s < c->slices; s++) {
            const int64_t first = ls_part_start(B, c->slices, s), n = ls_part_start(B, c->slices, s + 1) - first;
            const ls_operand made = of_run(work, run, first, n), front = of_run(states, next % room, first, n);
            if (me == from) {
                if (i == 0) ls_build_fill(b, of_run(states, run, first, n));
                ls_build_copy(b, of_run(states, run, first, n), made);
                ls_chain_step step = {.run = (int)run, .count = runs[run].count, .first = first, .sequences = n};
                for (int64_t r = 0; r < run; r++) step.from += runs[r].count;
                c->pass(b, c->context, &step, made);
            }
            const link l = {from, to, made, of_run(slots, next % room, first, n), front};
            if (i + 1 == order.n) continue;
            if (from != to)
                pass_on(b, team, ls_build_channel(b, "chain.%d.%d.%d", number, (to - from + P) % P, s), &l);
            else if (me == from)
                ls_build_copy(b, made, front);
        }
    }
}
