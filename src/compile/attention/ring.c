/*
 * Ring: queries rest, blocks of keys and values go round (Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers",
 * arXiv 2310.01889). Partial results merge by log-sum-exp in type G. In the backward pass the blocks go round again, and each
 * rank's part of a block's gradient goes straight to the block's rank, in type G, which adds them up.
 *
 * Of a block only those tokens come that somebody further on sees, and each rank attends to those that it sees itself
 * (visible.c). How they come is the transfer's business (put.c, in_place.c).
 */
#include "compile/attention/attention.h"

/* One call for each range; an empty one where a rank sees nothing, so that all ranks' heaps are used alike. */
static int visits(const ls_token_set *seen) { return seen->n > 0 ? seen->n : 1; }

/* That range of what my queries see of a block; nothing where they see none of it. */
static ls_token_range range_of(ls_builder *b, const ls_site *site, int block, int index) {
    const ls_token_set *seen = ls_seen(b, site->mask, ls_ring_index(b), block);
    return seen->n > 0 ? seen->range[index] : (ls_token_range){0, 0};
}

/* My queries against one range of a block. */
static ls_attention_call visit(ls_builder *b, const ls_site *site, int block, const ls_kv_block *here,
                               int index) {
    const ls_token_range range = range_of(b, site, block, index);
    return (ls_attention_call){
        .params = site->params,
        .q = site->q,
        .k = ls_tokens_at(here->kv[LS_KEYS], here->tokens, range),
        .v = ls_tokens_at(here->kv[LS_VALUES], here->tokens, range),
        .spans = b->image->masks[site->mask].spans,
        .positions =
            ls_operand_slice(b->image->positions, 0, ls_block_start(b, block) + range.start, range.count),
        .area = ls_seen_area(b, site->mask, ls_ring_index(b), block, index)};
}

/* Hops in order, the unused ones too: over them blocks pass on. */
typedef struct journey {
    const int *hops;
    int n, next; /* used hops; those before */
    int hop;
    bool used;
} journey;

static journey set_out(ls_builder *b, const ls_site *site) {
    journey j = {.used = true};
    j.n = ls_hops(b, site->mask, &j.hops);
    return j;
}

/* False: that was the last. */
static bool go_on(journey *j) {
    if (j->next == j->n) return false;
    j->used = ++j->hop == j->hops[j->next];
    j->next += j->used;
    return true;
}

void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o) {
    const ls_kv_transfer *transfer = ls_kv_transfer_of(b);
    void *state = transfer->begin(b, site, false);
    journey j = set_out(b, site);
    do {
        const int block = ls_block_at(b, j.hop);
        ls_kv_block here;
        transfer->receive_block(b, state, j.hop, &here);
        for (int i = 0; j.used && i < visits(ls_seen(b, site->mask, ls_ring_index(b), block)); i++) {
            ls_attention_call call = visit(b, site, block, &here, i);
            call.params.merge = j.hop > 0 || i > 0;
            ls_build_attention(b, &call, o, site->lse);
        }
        transfer->release_block(b, state, j.hop);
    } while (go_on(&j));
    transfer->end(b, state);
}

void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                      ls_operand *dk, ls_operand *dv) {
    const ls_kv_transfer *transfer = ls_kv_transfer_of(b);
    const ls_attention_given given = {grad_o, site->lse, delta};
    void *state = transfer->begin(b, site, true);
    journey j = set_out(b, site);
    do {
        const int block = ls_block_at(b, j.hop);
        const ls_token_set *seen = ls_seen(b, site->mask, ls_ring_index(b), block);
        ls_kv_block here;
        ls_operand part[LS_KV];
        transfer->receive_block(b, state, j.hop, &here);
        if (j.used) transfer->gradient_room(b, state, j.hop, part);
        for (int i = 0; j.used && i < visits(seen); i++) {
            const ls_token_range range = range_of(b, site, block, i);
            ls_attention_call call = visit(b, site, block, &here, i);
            call.params.accumulate_dq = j.hop > 0 || i > 0;
            ls_build_attention_grad(b, &call, &given, dq, ls_tokens_at(part[LS_KEYS], seen, range),
                                    ls_tokens_at(part[LS_VALUES], seen, range));
        }
        transfer->release_block(b, state, j.hop);
        if (j.used) transfer->send_gradient(b, state, j.hop, part);
    } while (go_on(&j));
    ls_operand sum[LS_KV];
    transfer->sum_gradients(b, state, sum);
    transfer->end(b, state);
    *dk = sum[LS_KEYS];
    *dv = sum[LS_VALUES];
}

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    (void)strategy;
    if (p->mesh.size[LS_AXIS_ULYSSES] != 1)
        return ls_error(LS_USAGE,
                        "strategy ring: the mesh has ulysses=%d, expected ulysses=1 (usp combines both)",
                        p->mesh.size[LS_AXIS_ULYSSES]);
    return ls_ok();
}

const ls_strategy ls_strategy_ring = {
    .name = "ring",
    .about = "blocks of keys and values go round; queries rest",
    .reads_in_place = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
