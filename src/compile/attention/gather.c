/*
 * Gather: every rank gets all keys and values that its queries see, for one KV head at a time, and attends to them in one call; nothing
 * is merged (the way of context parallelism in "The Llama 3 herd of models", arXiv 2407.21783). While one group is attended to the
 * next arrives: two slots. In the backward pass they are gathered again; each rank's part of the gradient goes to the
 * keys' rank in type G, which adds the parts in rank order.
 *
 * A group is one KV head: the least memory, two heads of all tokens seen instead of all heads, and still work for a kernel, since each
 * token's Hq/Hkv query heads share it. Ranks that have fewer KV heads than others of their block make empty groups.
 *
 * Where blocks are read in place nothing is gathered: each is attended to where it lies, as by the ring in place.
 */
#include "compile/attention/gather.h"

static ls_operand q_heads(ls_operand o, const ls_head_group *g) {
    return ls_operand_slice(o, 2, g->q, g->q_count);
}
static ls_operand q_rows(ls_operand o, const ls_head_group *g) {
    return ls_operand_slice(o, 1, g->q, g->q_count);
}

/* --- attention ------------------------------------------------------------------------------------------------------------- */

static ls_attention_params params_of(const ls_builder *b, const ls_site *site, const ls_head_group *g) {
    ls_attention_params params = ls_site_params(b, site);
    params.first_q += (int)g->q;
    params.first_kv += (int)g->kv;
    return params;
}

/* Multiplications of one product of all visible pairs. */
static double products(ls_builder *b, const ls_site *site, const ls_head_group *g) {
    double pairs = 0;
    const int me = ls_ring_index(b);
    for (int j = 0; j < b->target->mesh.size[LS_AXIS_RING]; j++) {
        for (int i = 0; i < ls_seen(b, site->mask, me, j)->n; i++)
            pairs += ls_seen_area(b, site->mask, me, j, i);
    }
    return pairs * (double)(site->D * site->B * g->q_count);
}

static void attend(ls_builder *b, const ls_gathering *x, const ls_head_group *g, ls_operand o) {
    const ls_site *site = x->site;
    const ls_attention_params params = params_of(b, site, g);
    const int slot = g->index % LS_GATHER_SLOTS;
    ls_build_kernel(
        b, &(ls_kernel_build){.op = "attention",
                              .kernel = "attention",
                              .dtype = b->image->dtype,
                              .params = &params,
                              .params_bytes = sizeof params,
                              .flops = 4 * products(b, site, g),
                              .n_in = 5,
                              .in = {q_heads(site->q, g), ls_gather_seen(b, x, x->slot[LS_KEYS][slot], g),
                                     ls_gather_seen(b, x, x->slot[LS_VALUES][slot], g),
                                     b->image->masks[site->mask].spans, x->positions},
                              .n_out = 2,
                              .out = {q_heads(o, g), q_rows(site->lse, g)}});
}

static bool needs_no_gathering(ls_builder *b, const ls_site *site) {
    const int *hops;
    return b->image->in_place || ls_hops(b, site->mask, &hops) == 0;
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
        attend(b, &x, &g, o);
        ls_gather_expect(b, &x, i + LS_GATHER_SLOTS);
    }
}

/* --- gradients ------------------------------------------------------------------------------------------------------------- */

/* What the gradient reads and writes beside keys and values. */
typedef struct gradient {
    ls_operand grad_o, delta, dq;
} gradient;

static void attend_back(ls_builder *b, const ls_gathering *x, const ls_head_group *g, const gradient *d) {
    const ls_site *site = x->site;
    const ls_attention_params params = params_of(b, site, g);
    const int slot = g->index % LS_GATHER_SLOTS;
    ls_build_kernel(
        b, &(ls_kernel_build){.op = "attention_grad",
                              .kernel = "attention_grad",
                              .dtype = b->image->dtype,
                              .params = &params,
                              .params_bytes = sizeof params,
                              .flops = 10 * products(b, site, g),
                              .n_in = 8,
                              .in = {q_heads(site->q, g), ls_gather_seen(b, x, x->slot[LS_KEYS][slot], g),
                                     ls_gather_seen(b, x, x->slot[LS_VALUES][slot], g),
                                     b->image->masks[site->mask].spans, x->positions, q_heads(d->grad_o, g),
                                     q_rows(site->lse, g), q_rows(d->delta, g)},
                              .n_out = 3,
                              .out = {q_heads(d->dq, g), ls_gather_seen(b, x, x->part[LS_KEYS][slot], g),
                                      ls_gather_seen(b, x, x->part[LS_VALUES][slot], g)}});
}

static void gather_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                            ls_operand *dk, ls_operand *dv) {
    if (needs_no_gathering(b, site)) {
        ls_ring_backward(b, site, grad_o, delta, dq, dk, dv);
        return;
    }
    const gradient d = {grad_o, delta, dq};
    const int n = (int)site->kv_heads.most;
    ls_gathering x = ls_gather_set_out(b, site);
    ls_gather_set_out_parts(b, &x);
    for (int i = 0; i < n; i++) {
        const ls_head_group g = ls_head_group_of(b, site, i);
        if (i + 1 < n) ls_gather_give(b, &x, i + 1);
        ls_gather_take(b, &x, i);
        attend_back(b, &x, &g, &d);
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
    .reads_in_place = true,
    .applicable = ls_strategy_heads,
    .across_forward = gather_forward,
    .across_backward = gather_backward,
};
