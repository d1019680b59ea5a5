/*
 * decode: queries are few and everywhere, keys and values rest where they are, as in generation (so do Shyam et al.,
 * "Tree attention", arXiv 2408.04093). Each rank gathers all queries at once, finds its partial result for each block
 * of them, and the owner merges the parts in the order of the ranks that found them. Backward likewise: Q, dO, lse and
 * delta are gathered, parts of dq added by the owner in rank order, dk and dv made where the keys are.
 *
 * Everything leaves at once: two rounds of messages whatever the number of ranks, for a slot per rank.
 */
#include "compile/attention/attention.h"

/* The round that leads to the rank of that ring index; -1: none does. */
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
