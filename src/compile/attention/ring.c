/*
 * Ring: queries rest, blocks of keys and values go round (Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers",
 * arXiv 2310.01889). Partial results merge by log-sum-exp in type G. In the backward pass the blocks go round again and
 * the gradient of each block travels one hop behind it, in type G, collecting every rank's part, until it is home.
 *
 * How blocks come and sums travel is the arrival's business (put.c, in_place.c).
 */
#include "compile/attention/attention.h"

static ls_attention_params kernel_params(const ls_builder *b, const ls_site *site) {
    const int u = ls_ulysses_index(b);
    return (ls_attention_params){.scale = site->params->scale,
                                 .softcap = site->params->softcap,
                                 .group = (int)(site->Hq / site->Hkv),
                                 .first_q = (int)site->q_heads.start[u],
                                 .first_kv = (int)site->kv_heads.start[u]};
}

static ls_operand key_positions(const ls_builder *b, int block) {
    return ls_operand_slice(b->image->positions, 0, ls_block_start(b, block), ls_block_tokens(b, block));
}

static double flops(ls_builder *b, const ls_site *site, int block, double per_pair) {
    return per_pair * (double)(site->D * site->q.view.size[2] * site->B) *
           ls_block_area(b, site->mask, block);
}

static void attend(ls_builder *b, ls_site *site, int block, const ls_operand kv[LS_KV], bool merge,
                   ls_operand o) {
    ls_attention_params params = kernel_params(b, site);
    params.merge = merge;
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention",
                                          .kernel = "attention",
                                          .dtype = b->image->dtype,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .flops = flops(b, site, block, 4),
                                          .n_in = 5,
                                          .in = {site->q, kv[LS_KEYS], kv[LS_VALUES],
                                                 b->image->masks[site->mask].spans, key_positions(b, block)},
                                          .n_out = 2,
                                          .out = {o, site->lse}});
}

void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o) {
    const ls_arrival *arrival = ls_arrival_of(b);
    void *travel = arrival->begin(b, site, false);
    for (int h = 0; h < b->target->mesh.size[LS_AXIS_RING]; h++) {
        ls_operand kv[LS_KV];
        arrival->arrive(b, travel, h, kv);
        attend(b, site, ls_block_at(b, h), kv, h > 0, o);
        arrival->leave(b, travel, h);
    }
    arrival->end(b, travel);
}

/* The gradient of one block pair; dkv receives this rank's part for the block. */
static void attend_back(ls_builder *b, ls_site *site, int hop, const ls_operand kv[LS_KV], ls_operand grad_o,
                        ls_operand delta, ls_operand dq, const ls_operand dkv[LS_KV]) {
    const int block = ls_block_at(b, hop);
    ls_attention_params params = kernel_params(b, site);
    params.accumulate_dq = hop > 0;
    ls_build_kernel(
        b, &(ls_kernel_build){.op = "attention_grad",
                              .kernel = "attention_grad",
                              .dtype = b->image->dtype,
                              .params = &params,
                              .params_bytes = sizeof params,
                              .flops = flops(b, site, block, 10),
                              .n_in = 8,
                              .in = {site->q, kv[LS_KEYS], kv[LS_VALUES], b->image->masks[site->mask].spans,
                                     key_positions(b, block), grad_o, site->lse, delta},
                              .n_out = 3,
                              .out = {dq, dkv[LS_KEYS], dkv[LS_VALUES]}});
}

void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                      ls_operand *dk, ls_operand *dv) {
    const ls_arrival *arrival = ls_arrival_of(b);
    void *travel = arrival->begin(b, site, true);
    for (int h = 0; h < b->target->mesh.size[LS_AXIS_RING]; h++) {
        ls_operand kv[LS_KV], part[LS_KV];
        arrival->arrive(b, travel, h, kv);
        arrival->part(b, travel, h, part);
        attend_back(b, site, h, kv, grad_o, delta, dq, part);
        arrival->leave(b, travel, h);
        arrival->pass_on(b, travel, h, part);
    }
    ls_operand sum[LS_KV];
    arrival->home(b, travel, sum);
    arrival->end(b, travel);
    *dk = sum[LS_KEYS];
    *dv = sum[LS_VALUES];
}

static ls_status applicable(const ls_attention_problem *p) {
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
