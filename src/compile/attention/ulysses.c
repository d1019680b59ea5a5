/*
 * Ulysses: all-to-all between tokens and heads (Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509), generalised to any
 * number of heads: a part of heads may be uneven, and a KV head used by several ranks goes to each of them.
 */
#include "compile/attention/attention.h"

/* One part of an exchange: what leaves for ulysses rank u, where it lands there, and where u's part lands here. */
typedef struct part {
    ls_operand from, to, land;
} part;

static ls_exchange begin(ls_builder *b, const char *label, ls_operand result, const part *parts) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    ls_exchange x = {label, result, LS_NEW_ARRAY(b->image->arena, ls_operand, U)};
    for (int u = 0; u < U; u++) x.land[u] = parts[u].land;
    for (int j = 1; j < U; j++) {
        const int from = (me - j + U) % U;
        ls_build_ready(b, ls_build_channel(b, "%s.%d", label, j), ls_rank_in_block(b, from),
                       parts[from].land);
    }
    for (int j = 1; j < U; j++) {
        const int to = (me + j) % U;
        ls_build_send(b, ls_build_channel(b, "%s.%d", label, j), ls_rank_in_block(b, to), parts[to].from,
                      parts[to].to);
    }
    ls_build_copy(b, parts[me].from, parts[me].land);
    return x;
}

ls_operand ls_exchange_finish(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const int from = (me - j + U) % U;
        ls_build_receive(b, ls_build_channel(b, "%s.%d", x->label, j), ls_rank_in_block(b, from),
                         x->land[from]);
    }
    ls_build_quiet(b);
    return x->result;
}

/* The operand's sizes with other numbers of tokens and heads, dense in the same buffer. */
static ls_operand resized(ls_operand o, int buffer, int token, int64_t tokens, int head, int64_t heads) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = o.view.size[i];
    size[token] = tokens;
    size[head] = heads;
    return ls_operand_dense(buffer, 0, o.view.dtype, o.view.ndim, size);
}

/* A result in the heap, large enough for the rank with the most tokens and heads. */
static ls_operand make_result(ls_builder *b, const char *label, ls_operand mine, int token, int64_t tokens,
                              int64_t most_tokens, int head, int64_t heads, int64_t most_heads) {
    const ls_operand shape = resized(mine, 0, token, tokens, head, heads);
    const ls_operand largest = resized(mine, 0, token, most_tokens, head, most_heads);
    return ls_build_symmetric(b, LS_BUFFER_SLOT, label, ls_view_elements(&largest.view), mine.view.dtype,
                              mine.view.ndim, shape.view.size);
}

ls_exchange ls_gather_begin(ls_builder *b, const char *label, ls_operand mine, const ls_heads *heads,
                            int token, int head) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    const int64_t n = ls_block_tokens(b, ls_ring_index(b));
    const ls_operand result =
        make_result(b, label, mine, token, n, ls_block_most(b), head, heads->count[me], heads->most);
    part *parts = LS_NEW_ARRAY(b->image->arena, part, U);
    for (int u = 0; u < U; u++) {
        const ls_operand there = resized(mine, result.buffer, token, n, head, heads->count[u]);
        parts[u].from = ls_operand_slice(mine, head, heads->start[u], heads->count[u]);
        parts[u].to = ls_operand_slice(there, token, ls_member_start(b, me), ls_member_tokens(b, me));
        parts[u].land = ls_operand_slice(result, token, ls_member_start(b, u), ls_member_tokens(b, u));
    }
    return begin(b, label, result, parts);
}

ls_exchange ls_scatter_begin(ls_builder *b, const char *label, ls_operand mine, const ls_heads *heads,
                             int token, int head) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    const ls_operand result =
        make_result(b, label, mine, token, ls_member_tokens(b, me), ls_layout_most(&b->image->layout), head,
                    heads->total, heads->total);
    part *parts = LS_NEW_ARRAY(b->image->arena, part, U);
    for (int u = 0; u < U; u++) {
        const ls_operand there =
            resized(mine, result.buffer, token, ls_member_tokens(b, u), head, heads->total);
        parts[u].from = ls_operand_slice(mine, token, ls_member_start(b, u), ls_member_tokens(b, u));
        parts[u].to = ls_operand_slice(there, head, heads->start[me], heads->count[me]);
        parts[u].land = ls_operand_slice(result, head, heads->start[u], heads->count[u]);
    }
    return begin(b, label, result, parts);
}

static ls_status applicable(const ls_attention_problem *p) {
    const int U = p->mesh.size[LS_AXIS_ULYSSES];
    if (p->mesh.size[LS_AXIS_RING] != 1)
        return ls_error(LS_USAGE,
                        "strategy ulysses: the mesh has ring=%d, expected ring=1 (usp combines both)",
                        p->mesh.size[LS_AXIS_RING]);
    if (U > p->Hq)
        return ls_error(
            LS_USAGE,
            "strategy ulysses: ulysses=%d ranks but only %lld query heads; expected at most one rank per head",
            U, (long long)p->Hq);
    return ls_ok();
}

const ls_strategy ls_strategy_ulysses = {
    .name = "ulysses",
    .about =
        "all-to-all from tokens to heads and back; each rank attends over the whole sequence for its heads",
    .applicable = applicable,
    .forward = ls_usp_forward,
    .backward = ls_usp_backward,
};
