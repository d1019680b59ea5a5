/*
 * Gather: every rank gets all keys and values that its queries see, for one KV head at a time, and attends to them in
 * one call, so nothing is merged (the context parallelism of "The Llama 3 herd of models", arXiv 2407.21783). While one
 * head is attended to, the next one arrives: there are two slots. In the backward pass keys and values are gathered
 * again; each rank's part of their gradient goes, in type G, to the rank of the keys, which adds the parts in rank
 * order.
 *
 * A group is one KV head. That takes the least memory (two heads of all tokens seen, instead of all heads) and is still
 * enough work for a kernel, since Hq/Hkv query heads of each token share the KV head. Ranks that have fewer KV heads
 * than others of their block make empty groups.
 *
 * Attending to blocks in place instead of gathering them is the ring with transfers in place: strategies ring and usp.
 */
#include "compile/attention/gather.h"

static ls_operand q_heads(ls_operand o, const ls_head_group *g) { return ls_operand_slice(o, 2, g->q, g->q_count); }
static ls_operand q_rows(ls_operand o, const ls_head_group *g) { return ls_operand_slice(o, 1, g->q, g->q_count); }

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* The area between my queries and all keys that they see. */
static ls_area area_seen(ls_builder *b, const ls_site *site) {
    ls_area all = {0, 0};
    const int me = ls_ring_index(b);
    for (int j = 0; j < ls_blocks(b); j++)
        all = ls_area_sum(all, ls_seen_areas(b, site->mask, me, j), ls_block_tokens(b, me));
    return all;
}

/* A group's queries with all keys that they see. */
static ls_attention_call call_of(ls_builder *b, const ls_gathering *x, const ls_head_group *g) {
    const ls_site *site = x->site;
    const int slot = g->index % LS_GATHER_SLOTS;
    ls_attention_call call = {.params = site->params,
                              .q = q_heads(site->q, g),
                              .k = ls_gather_seen(b, x, x->slot[LS_KEYS][slot], g),
                              .v = ls_gather_seen(b, x, x->slot[LS_VALUES][slot], g),
                              .spans = b->image->masks[site->mask].spans,
                              .positions = x->positions,
                              .area = area_seen(b, site)};
    call.params.first_q += (int)g->q;
    call.params.first_kv += (int)g->kv;
    return call;
}

/* Whether no rank sees anything of another block. */
static bool needs_no_gathering(ls_builder *b, const ls_site *site) {
    const int *hops;
    return ls_hops(b, site->mask, &hops) == 0;
}

static void gather_forward(ls_builder *b, ls_site *site, ls_operand o) {
    if (needs_no_gathering(b, site)) {
        ls_ring_forward(b, site, o);
        return;
    }
    const ls_gathering x = ls_gather_set_out(b, site);
    for (int i = 0; i < site->kv_heads.most; i++) {
        const ls_head_group g = ls_head_group_of(b, site, i);
        if (i + 1 < site->kv_heads.most) ls_gather_give(b, &x, i + 1);
        ls_gather_take(b, &x, i);
        const ls_attention_call call = call_of(b, &x, &g);
        ls_build_attention(b, &call, q_heads(o, &g), q_rows(site->lse, &g));
        ls_gather_expect(b, &x, i + LS_GATHER_SLOTS);
    }
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static void gather_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                            ls_operand *dk, ls_operand *dv) {
    if (needs_no_gathering(b, site)) {
        ls_ring_backward(b, site, grad_o, delta, dq, dk, dv);
        return;
    }
    const int n = (int)site->kv_heads.most;
    ls_gathering x = ls_gather_set_out(b, site);
    ls_gather_set_out_parts(b, &x);
    for (int i = 0; i < n; i++) {
        const ls_head_group g = ls_head_group_of(b, site, i);
        if (i + 1 < n) ls_gather_give(b, &x, i + 1);
        ls_gather_take(b, &x, i);
        const ls_attention_call call = call_of(b, &x, &g);
        const ls_attention_given given = {q_heads(grad_o, &g), q_rows(site->lse, &g), q_rows(delta, &g)};
        const int slot = i % LS_GATHER_SLOTS;
        ls_build_attention_grad(b, &call, &given, q_heads(dq, &g), ls_gather_seen(b, &x, x.part[LS_KEYS][slot], &g),
                                ls_gather_seen(b, &x, x.part[LS_VALUES][slot], &g));
        ls_gather_expect(b, &x, i + LS_GATHER_SLOTS);
        ls_gather_give_parts(b, &x, &g);
        if (i > 0) ls_gather_add_parts(b, &x, i - 1);
    }
    ls_gather_add_parts(b, &x, n - 1);
    *dk = x.sum[LS_KEYS];
    *dv = x.sum[LS_VALUES];
}

const ls_strategy ls_strategy_gather = {
    .name = "gather",
    .about = "each rank gets all keys and values that it sees, one KV head after the other",
    .ordered = true,
    .applicable = ls_strategy_heads,
    .across_forward = gather_forward,
    .across_backward = gather_backward,
};
