/*
 * decode: for few queries that are spread over the ranks, while keys and values rest, as in generation (so do Shyam et
 * al., "Tree attention", arXiv 2408.04093). Each rank gathers all queries at once and finds a partial result for each
 * block of queries; the owner of the queries merges the parts in the order of the ranks that found them. Backward: Q,
 * dO, lse and delta are gathered, the owner adds the parts of dq in rank order, and dk and dv are made where the keys
 * are.
 *
 * Everything is sent at once: two rounds of messages for any number of ranks, at the price of a slot per rank.
 */
#include "compile/attention/attention.h"

/* The round that leads to block `ring`; -1: none. */
static int round_to(const ls_builder *b, const ls_queries *q, int ring) {
    int round = q->rounds;
    while (round >= 0 && ls_queries_to(b, q, round) != ring) round--;
    return round;
}

static void schedule(ls_builder *b, const ls_queries *q) {
    const ls_query_transfer out = ls_query_transfer_out(b, q, q->rounds),
                            back = ls_query_transfer_back(b, q, q->rounds);
    for (int round = 1; round <= q->rounds; round++) ls_query_send(b, &out, round, q->own);
    ls_operand own[LS_QUERY_TENSORS];
    ls_round_results(b, q, 0, own);
    q->attend(b, q, 0, q->own, own);
    for (int round = 1; round <= q->rounds; round++) {
        ls_operand queries[LS_QUERY_TENSORS], part[LS_QUERY_TENSORS];
        ls_query_receive(b, &out, round, queries);
        ls_round_results(b, q, round, part);
        if (ls_queries_see_mine(b, q, round)) q->attend(b, q, round, queries, part);
        ls_query_send(b, &back, round, part);
    }
    bool first = true;
    for (int r = 0; r < ls_blocks(b); r++) {
        const int round = round_to(b, q, r);
        ls_operand part[LS_QUERY_TENSORS];
        if (round > 0) ls_query_receive(b, &back, round, part);
        if (round < 0 || (round > 0 && !ls_mine_see_there(b, q, round))) continue;
        const ls_operand *found = round > 0 ? part : own;
        if (first)
            ls_copy_results(b, q, found);
        else
            q->join(b, q, found);
        first = false;
    }
}

const ls_strategy ls_strategy_decode = {
    .name = "decode",
    .about = "all queries on every rank at once, keys and values rest; partial results merge at home",
    .unsliced = LS_QUERIES_UNSLICED,
    .applicable = ls_strategy_heads,
    .across_forward = ls_queries_forward,
    .across_backward = ls_queries_backward,
    .query_schedule = schedule,
};
