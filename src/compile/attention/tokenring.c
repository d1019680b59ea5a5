/*
 * TokenRing (Wang et al., "TokenRing: an efficient parallelism framework for infinite-context LLMs via bidirectional
 * communication", arXiv 2412.20501): keys and values rest. Queries go round in one direction, one block further back at
 * every hop, and each partial result (o, lse) goes back to its owner in the other direction at once, so that both
 * directions of a link are in use. The owner merges the parts in the order of the hops: the same bits in every run.
 * Backward: Q, dO, lse and delta travel; dq comes back and is added in that order; dk and dv are added where the keys
 * are.
 *
 * The owner puts its queries directly into each rank; a rank that has no work with them neither receives nor forwards
 * them. Each direction has two slots, for any number of ranks: one in use, one into which the next block arrives.
 */
#include "compile/attention/attention.h"

enum { SLOTS = 2 };

static void schedule(ls_builder *b, const ls_queries *q) {
    const ls_query_transfer out = ls_query_transfer_out(b, q, SLOTS), back = ls_query_transfer_back(b, q, SLOTS);
    if (q->rounds > 0) ls_query_send(b, &out, 1, q->own);
    q->attend(b, q, 0, q->own, q->found);
    for (int round = 1; round <= q->rounds; round++) {
        ls_operand queries[LS_QUERY_TENSORS], part[LS_QUERY_TENSORS];
        ls_query_receive(b, &out, round, queries);
        if (round < q->rounds) ls_query_send(b, &out, round + 1, q->own);
        ls_round_results(b, q, round, part);
        if (ls_queries_see_mine(b, q, round)) q->attend(b, q, round, queries, part);
        ls_query_send(b, &back, round, part);
        ls_query_release(b, &out, round);
        ls_query_receive(b, &back, round, part);
        if (ls_mine_see_there(b, q, round)) q->join(b, q, part);
        ls_query_release(b, &back, round);
    }
}

const ls_strategy ls_strategy_tokenring = {
    .name = "tokenring",
    .about = "queries go round one way, their partial results home the other; keys and values rest",
    .unsliced = LS_QUERIES_UNSLICED,
    .applicable = ls_strategy_heads,
    .across_forward = ls_queries_forward,
    .across_backward = ls_queries_backward,
    .query_schedule = schedule,
};
