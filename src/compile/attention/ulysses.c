/*
 * Ulysses: all-to-all between tokens and heads (Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509), generalised to
 * any number of heads: parts may be uneven, and a KV head that several ranks use goes to each of them.
 */
#include "compile/attention/attention.h"

/* How the tokens of my block are divided over its members. */
static ls_parts tokens_of_block(const ls_builder *b) {
    const int U = ls_block_members(b);
    ls_parts cut = {.total = ls_block_tokens(b, ls_ring_index(b)),
                    .start = LS_NEW_ARRAY(b->image->arena, int64_t, U),
                    .count = LS_NEW_ARRAY(b->image->arena, int64_t, U),
                    .most = ls_layout_most(&b->image->layout),
                    .most_total = ls_block_most(b),
                    .sharers = ls_layout_is_even(&b->image->layout)};
    for (int u = 0; u < U; u++) {
        cut.start[u] = ls_member_start(b, u);
        cut.count[u] = ls_member_tokens(b, u);
    }
    return cut;
}

ls_operand ls_my_heads(ls_builder *b, ls_operand all, int dim, const ls_parts *heads) {
    return ls_part_at(b, ls_block_team(b), all, dim, heads, 0);
}

ls_all_to_all ls_to_heads_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                int head) {
    const ls_parts tokens = tokens_of_block(b);
    const ls_recut recut = {.label = label,
                            .team = ls_block_team(b),
                            .from_dim = token,
                            .to_dim = head,
                            .from = &tokens,
                            .to = heads,
                            .in_place = ls_block_reads(b->image),
                            .leasable = ls_ring_reads(b->image)};
    return ls_all_to_all_begin(b, &recut, mine);
}

ls_all_to_all ls_to_tokens_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                 int head) {
    const ls_parts tokens = tokens_of_block(b);
    const ls_recut recut = {.label = label,
                            .team = ls_block_team(b),
                            .from_dim = head,
                            .to_dim = token,
                            .from = heads,
                            .to = &tokens,
                            .in_place = ls_block_reads(b->image)};
    return ls_all_to_all_begin(b, &recut, mine);
}

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    LS_TRY(ls_strategy_without(strategy, &p->mesh, ls_mesh_block_axes(&p->mesh)));
    return ls_strategy_heads(strategy, p);
}

const ls_strategy ls_strategy_ulysses = {
    .name = "ulysses",
    .about = "all-to-all from tokens to heads and back; each rank attends over the whole sequence for its heads",
    .reads_in_place = true,
    .ordered = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
