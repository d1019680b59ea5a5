/*
 * TokenRing (Wang et al., "TokenRing: an efficient parallelism framework for infinite-context LLMs via bidirectional
 * communication", arXiv 2412.20501): keys and values rest. Queries go round one way, one block further back at every hop, and each partial
 * result (o, lse) goes home the other way at once, so that both directions of a link are busy. The owner merges what comes in the order of
 * the hops: the same bits in every run. Backward: Q, dO, lse and delta travel, dq comes home and is added in that order, dk
 * and dv add up where the keys are.
 *
 * Queries are put straight from their owner, not handed on: whoever has no work with them neither receives nor forwards them. Two slots
 * for either direction, whatever the number of ranks: one in use, one into which the next arrives.
 */
#include "compile/attention/attention.h"

enum { SLOTS = 2 };

static void travel(ls_builder *b, const ls_queries *q) {
    const ls_voyage out = ls_voyage_out(b, q, SLOTS), home = ls_voyage_home(b, q, SLOTS);
    if (q->legs > 0) ls_voyage_send(b, &out, 1, q->own);
    q->attend(b, q, 0, q->own, q->found);
    for (int leg = 1; leg <= q->legs; leg++) {
        ls_operand guests[LS_TRAVELLERS], part[LS_TRAVELLERS];
        ls_voyage_take(b, &out, leg, guests);
        if (leg < q->legs) ls_voyage_send(b, &out, leg + 1, q->own);
        ls_guest_room(b, q, leg, part);
        if (ls_guests_see(b, q, leg)) q->attend(b, q, leg, guests, part);
        ls_voyage_send(b, &home, leg, part);
        ls_voyage_release(b, &out, leg);
        ls_voyage_take(b, &home, leg, part);
        if (ls_hosts_seen(b, q, leg)) q->join(b, q, part);
        ls_voyage_release(b, &home, leg);
    }
}

const ls_strategy ls_strategy_tokenring = {
    .name = "tokenring",
    .about = "queries go round one way, their partial results home the other; keys and values rest",
    .applicable = ls_strategy_heads,
    .across_forward = ls_queries_forward,
    .across_backward = ls_queries_backward,
    .travel = travel,
};
