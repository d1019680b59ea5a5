/*
 * Ring: queries rest, blocks of keys and values go round (Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers",
 * arXiv 2310.01889). Partial results merge by log-sum-exp in type G. In the backward pass the blocks go round again, and each
 * rank's part of a block's gradient goes straight to the block's rank, in type G, which adds them up.
 *
 * Of a block only those tokens come that somebody further on sees, and each rank attends to those that it sees itself
 * (visible.c). How they come is the arrival's business (put.c, in_place.c).
 */
#include "compile/attention/attention.h"

/* What a call has to do with one range of what my queries see of a block. */
typedef struct visit {
    int block, index;
    ls_token_range range;
    ls_operand kv[LS_KV], positions;
    double pairs;
} visit;

/* One call for each range; an empty one where a rank sees nothing, so that all ranks' heaps are used alike. */
static int visits(const ls_token_set *seen) { return seen->n > 0 ? seen->n : 1; }

static visit visit_of(ls_builder *b, const ls_site *site, int block, const ls_block *here, int index) {
    const int me = ls_ring_index(b);
    const ls_token_set *seen = ls_seen(b, site->mask, me, block);
    visit v = {.block = block, .index = index};
    if (seen->n > 0) v.range = seen->range[index];
    for (int w = 0; w < LS_KV; w++) v.kv[w] = ls_tokens_at(here->kv[w], here->tokens, v.range);
    v.positions =
        ls_operand_slice(b->image->positions, 0, ls_block_start(b, block) + v.range.start, v.range.count);
    v.pairs =
        ls_seen_area(b, site->mask, me, block, index) * (double)(site->D * site->q.view.size[2] * site->B);
    return v;
}

static void attend(ls_builder *b, ls_site *site, const visit *v, bool merge, ls_operand o) {
    ls_attention_params params = ls_site_params(b, site);
    params.merge = merge;
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention",
                                          .kernel = "attention",
                                          .dtype = b->image->dtype,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .flops = 4 * v->pairs,
                                          .n_in = 5,
                                          .in = {site->q, v->kv[LS_KEYS], v->kv[LS_VALUES],
                                                 b->image->masks[site->mask].spans, v->positions},
                                          .n_out = 2,
                                          .out = {o, site->lse}});
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
    const ls_arrival *arrival = ls_arrival_of(b);
    void *travel = arrival->begin(b, site, false);
    journey j = set_out(b, site);
    do {
        const int block = ls_block_at(b, j.hop);
        ls_block here;
        arrival->arrive(b, travel, j.hop, &here);
        for (int i = 0; j.used && i < visits(ls_seen(b, site->mask, ls_ring_index(b), block)); i++) {
            const visit v = visit_of(b, site, block, &here, i);
            attend(b, site, &v, j.hop > 0 || i > 0, o);
        }
        arrival->leave(b, travel, j.hop);
    } while (go_on(&j));
    arrival->end(b, travel);
}

/* What the gradient reads and writes beside keys and values. */
typedef struct gradient {
    ls_operand grad_o, delta, dq;
} gradient;

/* The gradient of one visit; part receives that of its tokens, among those of the block that my queries see. */
static void attend_back(ls_builder *b, ls_site *site, const visit *v, const gradient *g, bool accumulate,
                        const ls_operand part[LS_KV]) {
    const ls_token_set *seen = ls_seen(b, site->mask, ls_ring_index(b), v->block);
    ls_attention_params params = ls_site_params(b, site);
    params.accumulate_dq = accumulate;
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_grad",
                                          .kernel = "attention_grad",
                                          .dtype = b->image->dtype,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .flops = 10 * v->pairs,
                                          .n_in = 8,
                                          .in = {site->q, v->kv[LS_KEYS], v->kv[LS_VALUES],
                                                 b->image->masks[site->mask].spans, v->positions, g->grad_o,
                                                 site->lse, g->delta},
                                          .n_out = 3,
                                          .out = {g->dq, ls_tokens_at(part[LS_KEYS], seen, v->range),
                                                  ls_tokens_at(part[LS_VALUES], seen, v->range)}});
}

void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                      ls_operand *dk, ls_operand *dv) {
    const ls_arrival *arrival = ls_arrival_of(b);
    const gradient g = {grad_o, delta, dq};
    void *travel = arrival->begin(b, site, true);
    journey j = set_out(b, site);
    do {
        const int block = ls_block_at(b, j.hop);
        ls_block here;
        ls_operand part[LS_KV];
        arrival->arrive(b, travel, j.hop, &here);
        if (j.used) arrival->part(b, travel, j.hop, part);
        for (int i = 0; j.used && i < visits(ls_seen(b, site->mask, ls_ring_index(b), block)); i++) {
            const visit v = visit_of(b, site, block, &here, i);
            attend_back(b, site, &v, &g, j.hop > 0 || i > 0, part);
        }
        arrival->leave(b, travel, j.hop);
        if (j.used) arrival->pass_on(b, travel, j.hop, part);
    } while (go_on(&j));
    ls_operand sum[LS_KV];
    arrival->home(b, travel, sum);
    arrival->end(b, travel);
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
