/*
 * Ring: queries rest, blocks of keys and values go round (Liu, Zaharia, Abbeel, "Ring attention with blockwise
 * transformers", arXiv 2310.01889). Partial results merge by log-sum-exp in type G. In the backward pass the blocks go
 * round again, and each rank's part of a block's gradient goes directly to the block's rank, in type G, where the parts
 * are added.
 *
 * A rank gets only those tokens of a block that it, or a rank after it in the ring, sees, and attends to those that it
 * sees itself (visible.c). How blocks get from rank to rank: put.c, in_place.c.
 */
#include "compile/attention/attention.h"

/* One call for each range; one call without tokens if a rank sees nothing of the block. */
static int n_calls(const ls_token_set *seen) { return seen->n > 0 ? seen->n : 1; }

/* Range number `index` of what my queries see of a block; empty if they see nothing of it. */
static ls_token_range range_of(ls_builder *b, const ls_site *site, int block, int index) {
    const ls_token_set *seen = ls_seen(b, site->mask, ls_ring_index(b), block);
    return seen->n > 0 ? seen->range[index] : (ls_token_range){0, 0};
}

/* My queries with one range of a block. */
static ls_attention_call call_for(ls_builder *b, const ls_site *site, int block, const ls_kv_block *here, int index) {
    const ls_token_range range = range_of(b, site, block, index);
    return (ls_attention_call){.params = site->params,
                               .q = site->q,
                               .k = ls_tokens_at(here->kv[LS_KEYS], here->tokens, range),
                               .v = ls_tokens_at(here->kv[LS_VALUES], here->tokens, range),
                               .spans = b->image->masks[site->mask].spans,
                               .positions =
                                   ls_key_positions(b, site->mask, ls_block_start(b, block) + range.start, range.count),
                               .area = ls_seen_area(b, site->mask, ls_ring_index(b), block, index)};
}

void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o) {
    const ls_kv_transfer *transfer = ls_kv_transfer_of(b);
    void *state = transfer->begin(b, site, (ls_kv_pass){LS_KEYS, LS_KV, false});
    int hop = 0;
    do {
        const int block = ls_block_at(b, hop);
        const bool used = ls_hop_is_used(b, site->mask, hop);
        ls_kv_block here;
        transfer->receive_block(b, state, hop, &here);
        for (int i = 0; used && i < n_calls(ls_seen(b, site->mask, ls_ring_index(b), block)); i++) {
            ls_attention_call call = call_for(b, site, block, &here, i);
            call.params.merge |= hop > 0 || i > 0;
            ls_build_attention(b, &call, o, site->lse);
        }
        transfer->release_block(b, state, hop);
        hop = ls_next_hop(b, site->mask, hop);
    } while (hop > 0);
    transfer->end(b, state);
}

void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq, ls_operand *dk,
                      ls_operand *dv) {
    const ls_kv_transfer *transfer = ls_kv_transfer_of(b);
    const ls_attention_given given = {grad_o, site->lse, delta};
    void *state = transfer->begin(b, site, (ls_kv_pass){LS_KEYS, LS_KV, true});
    int hop = 0;
    do {
        const int block = ls_block_at(b, hop);
        const bool used = ls_hop_is_used(b, site->mask, hop);
        const ls_token_set *room = NULL;
        ls_kv_block here;
        ls_operand part[LS_KV];
        transfer->receive_block(b, state, hop, &here);
        if (used) room = transfer->gradient_room(b, state, hop, part);
        for (int i = 0; used && i < n_calls(ls_seen(b, site->mask, ls_ring_index(b), block)); i++) {
            const ls_token_range range = range_of(b, site, block, i);
            ls_attention_call call = call_for(b, site, block, &here, i);
            call.params.accumulate_dq |= hop > 0 || i > 0;
            ls_build_attention_grad(b, &call, &given, dq, ls_tokens_at(part[LS_KEYS], room, range),
                                    ls_tokens_at(part[LS_VALUES], room, range));
        }
        transfer->release_block(b, state, hop);
        if (used) transfer->send_gradient(b, state, hop, part);
        hop = ls_next_hop(b, site->mask, hop);
    } while (hop > 0);
    ls_operand sum[LS_KV];
    transfer->sum_gradients(b, state, sum);
    transfer->end(b, state);
    *dk = sum[LS_KEYS];
    *dv = sum[LS_VALUES];
}

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    return ls_strategy_without(strategy, &p->mesh, ls_mesh_head_axes(&p->mesh));
}

const ls_strategy ls_strategy_ring = {
    .name = "ring",
    .about = "blocks of keys and values go round; queries rest",
    .reads_in_place = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
