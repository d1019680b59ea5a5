/*
 * Burst (Sun et al., "BurstAttention: an efficient distributed attention framework for extremely long sequences", arXiv
 * 2403.09347). The forward pass is the ring. In the backward pass keys, values and their gradients rest, and the
 * queries go round with all that their gradient needs: Q, dO, lse and delta. The gradient dQ follows one hop behind:
 * each rank adds its part to the sum that the previous rank has sent, and the last rank that has work with the queries
 * sends the sum to their owner. So with d elements per token of queries and e of keys, 3 d elements per token and hop
 * are sent instead of 4 e: a quarter less if every query head has its own keys, and more if 4/3 or more query heads
 * share one KV head.
 *
 * Data go from neighbour to neighbour, in the opposite direction to the ring's keys, and no further than the last rank
 * that has work with them. Over links between neighbours, and between hosts, this sends less than tokenring, where the
 * owner puts its queries into each of the ranks.
 */
#include "compile/attention/attention.h"

enum { SLOTS = 2 };

/* The tensors that go round, or the sum that follows them. */
typedef struct trail {
    const char *word;
    int first; /* first hop over which they arrive */
    int n;
    const char *const *name;
    ls_operand slot[LS_QUERY_TENSORS][SLOTS]; /* each for the largest block; used in turn */
} trail;

typedef struct burst {
    const ls_queries *q;
    int last; /* the last hop of any queries */
    trail out, sum;
    ls_operand home; /* the slot for the sum of my own queries */
} burst;

static ls_operand for_block(const ls_builder *b, ls_operand o, int block) {
    return ls_query_tokens(o, ls_block_tokens(b, block));
}

static ls_operand nothing_of(ls_operand o) { return ls_query_tokens(o, 0); }

/* The queries that are here at a hop belong to the rank `hop` places after this one. */
static int owner_at(const ls_builder *b, int hop) { return ls_block_at(b, -hop); }

static ls_hop_span work_of(ls_builder *b, const burst *s, int block) {
    return ls_hops_of_queries(b, s->q->site->mask, block);
}

/* Whether the queries of a block reach a hop; and whether their sum goes on from that hop to the next. */
static bool gets_to(ls_builder *b, const burst *s, int block, int hop) { return hop <= work_of(b, s, block).last; }
static bool sum_leaves(ls_builder *b, const burst *s, int block, int hop) {
    const ls_hop_span work = work_of(b, s, block);
    return work.first <= hop && hop < work.last;
}

static int slot_at(const trail *t, int hop) { return (hop - t->first) % SLOTS; }

static int channel(ls_builder *b, const trail *t, int i, int hop) {
    LS_ASSERT(t->name != NULL);
    return ls_build_channel(b, "burst.%s.%s.%d", t->word, t->name[i], slot_at(t, hop));
}

static ls_operand in_slot(const ls_builder *b, const trail *t, int i, int hop, int block, bool any) {
    const ls_operand all = for_block(b, t->slot[i][slot_at(t, hop)], block);
    return any ? all : nothing_of(all);
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

static void expect_queries(ls_builder *b, const burst *s, int hop) {
    const int owner = owner_at(b, hop);
    for (int i = 0; i < s->out.n && hop <= s->last; i++)
        ls_build_grant(b, channel(b, &s->out, i, hop), ls_rank_at(b, -1),
                       in_slot(b, &s->out, i, hop, owner, gets_to(b, s, owner, hop)));
}

static void take_queries(ls_builder *b, const burst *s, int hop, ls_operand out[]) {
    const int owner = owner_at(b, hop);
    for (int i = 0; i < s->out.n; i++) {
        out[i] = in_slot(b, &s->out, i, hop, owner, gets_to(b, s, owner, hop));
        ls_build_receive(b, channel(b, &s->out, i, hop), ls_rank_at(b, -1), out[i]);
    }
}

/* Sends the queries that are here at a hop on to the next rank. */
static void pass_queries(ls_builder *b, const burst *s, int hop, const ls_operand here[]) {
    const int owner = owner_at(b, hop);
    const bool goes = gets_to(b, s, owner, hop + 1);
    for (int i = 0; i < s->out.n && hop < s->last; i++)
        ls_build_send(b, channel(b, &s->out, i, hop + 1), ls_rank_at(b, 1), goes ? here[i] : nothing_of(here[i]),
                      in_slot(b, &s->out, i, hop + 1, owner, goes));
}

/* --- the sum that follows ----------------------------------------------------------------------------------------- */

/* The sum for the queries that are here at a hop, as it arrives from the hop before. */
static ls_operand sum_at(ls_builder *b, const burst *s, int hop) {
    const int owner = owner_at(b, hop);
    return in_slot(b, &s->sum, 0, hop, owner, sum_leaves(b, s, owner, hop - 1));
}

static void expect_sum(ls_builder *b, const burst *s, int hop) {
    if (hop > 1 && hop <= s->last) ls_build_grant(b, channel(b, &s->sum, 0, hop), ls_rank_at(b, -1), sum_at(b, s, hop));
}

/* The channel over which a sum returns to its owner, `hop` hops back. */
static int home_channel(ls_builder *b, int hop) { return ls_build_channel(b, "burst.home.%d", hop); }

/* The part of my own queries' sum that returns over a hop: all of it over the last hop, nothing over the others. */
static ls_operand home_at(ls_builder *b, const burst *s, int hop) {
    return work_of(b, s, ls_ring_index(b)).last == hop ? s->home : nothing_of(s->home);
}

/*
 * Adds my part of a hop, which is ready, to the sum that has arrived, and sends the sum on, or to its owner. any:
 * whether I had work with these queries; if not, `part` is empty.
 */
static void add_part(ls_builder *b, const burst *s, int hop, ls_operand part, bool any) {
    const int owner = owner_at(b, hop);
    const ls_operand came = hop > 1 ? sum_at(b, s, hop) : nothing_of(part);
    if (hop > 1) ls_build_receive(b, channel(b, &s->sum, 0, hop), ls_rank_at(b, -1), came);
    if (any && !ls_operand_is_empty(&came)) ls_build_accumulate(b, came, part);
    const ls_operand sum = any ? part : came;
    if (hop < s->last) {
        const bool leaves = sum_leaves(b, s, owner, hop);
        ls_build_send(b, channel(b, &s->sum, 0, hop + 1), ls_rank_at(b, 1), leaves ? sum : nothing_of(part),
                      in_slot(b, &s->sum, 0, hop + 1, owner, leaves));
    }
    const bool ends = work_of(b, s, owner).last == hop;
    const ls_operand home = for_block(b, s->home, owner);
    ls_build_send(b, home_channel(b, hop), ls_rank_at(b, -hop), ends ? sum : nothing_of(part),
                  ends ? home : nothing_of(home));
    expect_sum(b, s, hop + SLOTS);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static ls_operand make_slot(ls_builder *b, const burst *s, ls_operand like, const char *name) {
    const int64_t heads = like.view.size[like.view.ndim == 4 ? 2 : 1];
    const ls_operand all = ls_query_tokens(like, ls_block_most(b));
    return ls_build_symmetric(b, LS_BUFFER_SLOT, name, ls_view_elements(&all.view) / heads * s->q->site->q_heads.most,
                              all.view.dtype, all.view.ndim, all.view.size);
}

static void make_trail(ls_builder *b, const burst *s, const ls_operand like[], trail *t) {
    for (int i = 0; i < t->n; i++) {
        for (int k = 0; k < SLOTS && t->first + k <= s->last; k++)
            t->slot[i][k] =
                make_slot(b, s, like[i], ls_arena_printf(b->image->arena, "%s %s slot %d", t->name[i], t->word, k));
    }
}

static void make_slots(ls_builder *b, burst *s) {
    const ls_queries *q = s->q;
    s->out = (trail){.word = "out", .first = 1, .n = q->n_own, .name = q->own_name};
    s->sum = (trail){.word = "sum", .first = 2, .n = q->n_found, .name = q->found_name};
    make_trail(b, s, q->own, &s->out);
    make_trail(b, s, q->found, &s->sum);
    s->home = for_block(b, make_slot(b, s, q->found[0], "dq home slot"), ls_ring_index(b));
    for (int hop = 1; hop <= SLOTS; hop++) expect_queries(b, s, hop);
    expect_sum(b, s, s->sum.first);
    for (int hop = 1; hop <= s->last; hop++)
        ls_build_grant(b, home_channel(b, hop), ls_rank_at(b, hop), home_at(b, s, hop));
}

static void schedule(ls_builder *b, const ls_queries *q) {
    burst s = {.q = q, .last = q->rounds > 0 ? q->hops[q->rounds - 1] : 0};
    if (s.last > 0) {
        make_slots(b, &s);
        pass_queries(b, &s, 0, q->own);
    }
    q->attend(b, q, 0, q->own, q->found);
    ls_operand part[SLOTS];
    bool any[SLOTS];
    for (int hop = 1, round = 1; hop <= s.last; hop++) {
        ls_operand queries[LS_QUERY_TENSORS], *made = &part[hop % SLOTS];
        take_queries(b, &s, hop, queries);
        pass_queries(b, &s, hop, queries);
        any[hop % SLOTS] = q->hops[round - 1] == hop && ls_queries_see_mine(b, q, round);
        *made = nothing_of(q->found[0]);
        if (any[hop % SLOTS]) {
            ls_round_results(b, q, round, made);
            q->attend(b, q, round, queries, made);
        }
        round += q->hops[round - 1] == hop;
        expect_queries(b, &s, hop + SLOTS);
        if (hop > 1) add_part(b, &s, hop - 1, part[(hop - 1) % SLOTS], any[(hop - 1) % SLOTS]);
    }
    if (s.last == 0) return;
    add_part(b, &s, s.last, part[s.last % SLOTS], any[s.last % SLOTS]);
    for (int hop = 1; hop <= s.last; hop++)
        ls_build_receive(b, home_channel(b, hop), ls_rank_at(b, hop), home_at(b, &s, hop));
    if (work_of(b, &s, ls_ring_index(b)).last > 0) q->join(b, q, &s.home);
}

const ls_strategy ls_strategy_burst = {
    .name = "burst",
    .about = "forward as the ring; backward queries go round with their gradient, keys and values rest",
    .unsliced = LS_QUERIES_UNSLICED,
    .applicable = ls_strategy_heads,
    .across_forward = ls_ring_forward,
    .across_backward = ls_queries_backward,
    .query_schedule = schedule,
};
