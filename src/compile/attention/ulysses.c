/*
 * Ulysses: all-to-all between tokens and heads (Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509), generalised to
 * any number of heads: a part of heads may be uneven, and a KV head used by several ranks goes to each of them.
 */
#include "compile/attention/attention.h"

static const ls_kv_transfer *transfer(const ls_builder *b) { return ls_kv_transfer_along(b, LS_AXIS_ULYSSES); }

static ls_exchange begin(ls_builder *b, const char *label, ls_operand result, const ls_exchange_part *parts) {
    const ls_exchange x = {label, result, parts};
    transfer(b)->send(b, &x);
    ls_build_copy(b, parts[0].from, parts[0].land);
    return x;
}

ls_operand ls_exchange_finish(ls_builder *b, const ls_exchange *x) {
    transfer(b)->receive(b, x);
    return x->result;
}

void ls_exchange_settle(ls_builder *b, const ls_exchange *x) { transfer(b)->settle(b, x); }

/* The operand's sizes with other numbers of tokens and heads, dense from the start of a buffer. */
static ls_operand resized(ls_operand o, int buffer, int token, int64_t tokens, int head, int64_t heads) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = o.view.size[i];
    size[token] = tokens;
    size[head] = heads;
    return ls_operand_dense(buffer, 0, o.view.dtype, o.view.ndim, size);
}

/* Elements of the operand on the rank with the most tokens and heads. */
static int64_t capacity(ls_operand o, int token, int64_t most_tokens, int head, int64_t most_heads) {
    const ls_operand largest = resized(o, 0, token, most_tokens, head, most_heads);
    return ls_view_elements(&largest.view);
}

/* The same buffer in the memory of the member `shift` places further, where it has other sizes. */
static ls_operand at_member(ls_builder *b, ls_operand mine, int shift, int token, int64_t tokens, int head,
                            int64_t heads) {
    ls_operand there = resized(mine, mine.buffer, token, tokens, head, heads);
    there.offset = mine.offset;
    return ls_operand_of_peer(there, ls_rank_in_block(b, shift));
}

ls_operand ls_heads_of(ls_builder *b, ls_operand all, int dim, const ls_heads *heads, int shift) {
    if (heads->even) return ls_build_share(b, all, dim, heads->most, ls_build_axis(b, LS_AXIS_ULYSSES), shift);
    const int u = ls_member(b, shift);
    return ls_operand_slice(all, dim, heads->start[u], heads->count[u]);
}

/* The tokens of the member `shift` places further in my block. */
static ls_operand tokens_of(ls_builder *b, ls_operand all, int dim, int shift) {
    const int u = ls_member(b, shift);
    if (ls_layout_is_even(&b->image->layout))
        return ls_build_share(b, all, dim, ls_member_tokens(b, u), ls_build_axis(b, LS_AXIS_ULYSSES), shift);
    return ls_operand_slice(all, dim, ls_member_start(b, u), ls_member_tokens(b, u));
}

ls_exchange ls_gather_begin(ls_builder *b, const char *label, ls_operand mine, const ls_heads *heads, int token,
                            int head) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    const int64_t n = ls_block_tokens(b, ls_ring_index(b));
    mine = ls_leasable(b, mine, LS_AXIS_ULYSSES,
                       capacity(mine, token, ls_layout_most(&b->image->layout), head, heads->total));
    const ls_operand result =
        transfer(b)->result(b, label, capacity(mine, token, ls_block_most(b), head, heads->most),
                            resized(mine, 0, token, n, head, heads->count[me]), b->image->in_place[LS_AXIS_RING]);
    ls_exchange_part *parts = LS_NEW_ARRAY(b->image->arena, ls_exchange_part, U);
    for (int j = 0; j < U; j++) {
        const int u = ls_member(b, j);
        const ls_operand to = resized(mine, result.buffer, token, n, head, heads->count[u]);
        const ls_operand there = at_member(b, mine, j, token, ls_member_tokens(b, u), head, heads->total);
        parts[j].from = ls_heads_of(b, mine, head, heads, j);
        parts[j].to = tokens_of(b, to, token, 0);
        parts[j].there = ls_heads_of(b, there, head, heads, 0);
        parts[j].land = tokens_of(b, result, token, j);
    }
    return begin(b, label, result, parts);
}

ls_exchange ls_scatter_begin(ls_builder *b, const char *label, ls_operand mine, const ls_heads *heads, int token,
                             int head) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    const int64_t n = ls_block_tokens(b, ls_ring_index(b));
    mine = ls_leasable(b, mine, LS_AXIS_ULYSSES, capacity(mine, token, ls_block_most(b), head, heads->most));
    const ls_operand result =
        transfer(b)->result(b, label, capacity(mine, token, ls_layout_most(&b->image->layout), head, heads->total),
                            resized(mine, 0, token, ls_member_tokens(b, me), head, heads->total), false);
    ls_exchange_part *parts = LS_NEW_ARRAY(b->image->arena, ls_exchange_part, U);
    for (int j = 0; j < U; j++) {
        const int u = ls_member(b, j);
        const ls_operand to = resized(mine, result.buffer, token, ls_member_tokens(b, u), head, heads->total);
        const ls_operand there = at_member(b, mine, j, token, n, head, heads->count[u]);
        parts[j].from = tokens_of(b, mine, token, j);
        parts[j].to = ls_heads_of(b, to, head, heads, 0);
        parts[j].there = tokens_of(b, there, token, 0);
        parts[j].land = ls_heads_of(b, result, head, heads, j);
    }
    return begin(b, label, result, parts);
}

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    if (p->mesh.size[LS_AXIS_RING] != 1)
        return ls_error(LS_USAGE, "strategy ulysses: the mesh has ring=%d, expected ring=1 (usp combines both)",
                        p->mesh.size[LS_AXIS_RING]);
    return ls_strategy_heads(strategy, p);
}

const ls_strategy ls_strategy_ulysses = {
    .name = "ulysses",
    .about = "all-to-all from tokens to heads and back; each rank attends over the whole sequence for its heads",
    .reads_in_place = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
