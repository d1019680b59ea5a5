/*
 * decode: queries are few and everywhere, keys and values rest where they are, as in generation (so do Shyam et al., "Tree
 * attention", arXiv 2408.04093). Each rank gathers all queries at once, finds its partial result for each block of them, and the owner
 * merges the parts in the order of the ranks that found them. Backward likewise: Q, dO, lse and delta are gathered, parts of dq
 * added by the owner in rank order, dk and dv made where the keys are.
 *
 * Everything leaves at once: two rounds of messages whatever the number of ranks, for a slot per rank.
 */
#include "compile/attention/attention.h"

/* The leg that leads to the rank of that ring index; -1: none does. */
static int leg_to(const ls_builder *b, const ls_queries *q, int ring) {
    int leg = q->legs;
    while (leg >= 0 && ls_host_at(b, q, leg) != ring) leg--;
    return leg;
}

static void travel(ls_builder *b, const ls_queries *q) {
    const ls_voyage out = ls_voyage_out(b, q, q->legs), home = ls_voyage_home(b, q, q->legs);
    for (int leg = 1; leg <= q->legs; leg++) ls_voyage_send(b, &out, leg, q->own);
    ls_operand own[LS_TRAVELLERS];
    ls_guest_room(b, q, 0, own);
    q->attend(b, q, 0, q->own, own);
    for (int leg = 1; leg <= q->legs; leg++) {
        ls_operand guests[LS_TRAVELLERS], part[LS_TRAVELLERS];
        ls_voyage_take(b, &out, leg, guests);
        ls_guest_room(b, q, leg, part);
        if (ls_guests_see(b, q, leg)) q->attend(b, q, leg, guests, part);
        ls_voyage_send(b, &home, leg, part);
    }
    bool first = true;
    for (int r = 0; r < b->target->mesh.size[LS_AXIS_RING]; r++) {
        const int leg = leg_to(b, q, r);
        ls_operand part[LS_TRAVELLERS];
        if (leg > 0) ls_voyage_take(b, &home, leg, part);
        if (leg < 0 || (leg > 0 && !ls_hosts_seen(b, q, leg))) continue;
        const ls_operand *found = leg > 0 ? part : own;
        if (first)
            ls_guest_copy(b, q, found);
        else
            q->join(b, q, found);
        first = false;
    }
}

const ls_strategy ls_strategy_decode = {
    .name = "decode",
    .about = "all queries on every rank at once, keys and values rest; partial results merge at home",
    .applicable = ls_strategy_heads,
    .across_forward = ls_queries_forward,
    .across_backward = ls_queries_backward,
    .travel = travel,
};
