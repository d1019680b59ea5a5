/*
 * Chain: a state goes from each run of positions to the next one, each time to the rank that has this next run. It is
 * for ops where a run's effect on the state cannot be found as a map before the state arrives (otherwise: scan.c).
 * Since each rank waits for the one before, the batch goes in slices: while a rank computes the second slice, the next
 * rank computes the first.
 */
#include "compile/redistribute/redistribute.h"

/* The transfer of one slice's state from a run to the next run on another rank. */
typedef struct link {
    int from, to;                   /* places of the sender and the receiver */
    ls_operand leaves, slot, front; /* the state at the sender; its slot, and its final memory, at the receiver */
} link;

static ls_operand nothing(ls_operand like) { return ls_operand_slice(like, 0, 0, 0); }

/* All ranks call this function for all links, in the same order. */
static void pass_on(ls_builder *b, int team, int channel, const link *l) {
    const int P = ls_build_team_size(b, team), me = ls_build_team_place(b, team), j = (l->to - l->from + P) % P;
    const bool gives = me == l->from, takes = me == l->to;
    const ls_operand none = nothing(l->slot);
    ls_build_grant(b, channel, ls_build_peer(b, team, -j), takes ? l->slot : none);
    ls_build_send(b, channel, ls_build_peer(b, team, j), gives ? l->leaves : none, gives ? l->slot : none);
    ls_build_receive(b, channel, ls_build_peer(b, team, -j), takes ? l->slot : none);
    if (takes) ls_build_copy(b, l->slot, l->front);
}

/* From an operand [runs,sequences,..]: one run and some of the sequences, [sequences,..]. */
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
