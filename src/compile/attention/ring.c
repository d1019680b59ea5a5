/*
 * Ring: queries rest, blocks of keys and values go round (Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers",
 * arXiv 2310.01889). Partial results merge by log-sum-exp in type G. In the backward pass the blocks go round again and
 * the gradient of each block travels one hop behind it, in type G, collecting every rank's part, until it is home.
 *
 * Each direction of travel has two slots (one when a single hop is made): while one is read, the next arrives in the other.
 */
#include "compile/attention/attention.h"

enum { KEYS, VALUES, TRAVELLERS };
static const char *const traveller_name[TRAVELLERS] = {"k", "v"};

/* What goes round: a pair of slots for keys and one for values (or for their gradients). */
typedef struct carousel {
    int slots;
    int hops; /* blocks that arrive here */
    int next, previous;
    int channel[TRAVELLERS][2];
    ls_operand slot[TRAVELLERS][2]; /* with sizes of the largest block; viewed per block */
} carousel;

static int R_of(const ls_builder *b) { return b->target->mesh.size[LS_AXIS_RING]; }

/* The block that is here at hop h: it started h ranks back. */
static int block_at(const ls_builder *b, int hop) {
    return ((ls_ring_index(b) - hop) % R_of(b) + R_of(b)) % R_of(b);
}

static ls_operand with_tokens(ls_operand o, int64_t tokens) {
    int64_t size[4];
    for (int i = 0; i < 4; i++) size[i] = o.view.size[i];
    size[1] = tokens;
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 4, size);
}

static carousel make_carousel(ls_builder *b, const ls_site *site, const char *label, ls_dtype dtype,
                              int hops) {
    const int R = R_of(b), me = ls_ring_index(b);
    carousel c = {.slots = hops < 2 ? hops : 2,
                  .hops = hops,
                  .next = ls_rank_in_ring(b, (me + 1) % R),
                  .previous = ls_rank_in_ring(b, (me - 1 + R) % R)};
    const int64_t heads = site->k.view.size[2], most = ls_block_most(b);
    for (int w = 0; w < TRAVELLERS; w++) {
        for (int i = 0; i < c.slots; i++) {
            const char *name = ls_arena_printf(b->image->arena, "%s%s slot %d", label, traveller_name[w], i);
            c.channel[w][i] = ls_build_channel(b, "ring.%s%s.%d", label, traveller_name[w], i);
            c.slot[w][i] =
                ls_build_symmetric(b, LS_BUFFER_SLOT, name, site->B * most * site->kv_heads.most * site->D,
                                   dtype, 4, (int64_t[]){site->B, most, heads, site->D});
        }
    }
    for (int i = 0; i < c.slots; i++) {
        for (int w = 0; w < TRAVELLERS; w++) ls_build_ready(b, c.channel[w][i], c.previous, c.slot[w][i]);
    }
    return c;
}

/* The slot in which arrival `hop` (1, 2, ...) lies, viewed as the given block. */
static ls_operand arrived(const ls_builder *b, const carousel *c, int which, int hop, int block) {
    return with_tokens(c->slot[which][(hop - 1) % c->slots], ls_block_tokens(b, block));
}

static void receive(ls_builder *b, const carousel *c, int hop, int block, ls_operand out[TRAVELLERS]) {
    for (int w = 0; w < TRAVELLERS; w++) {
        out[w] = arrived(b, c, w, hop, block);
        ls_build_receive(b, c->channel[w][(hop - 1) % c->slots], c->previous, out[w]);
    }
}

/* Sends what is here (a block) on, to become arrival `hop` at the next rank. */
static void send(ls_builder *b, const carousel *c, int hop, const ls_operand from[TRAVELLERS]) {
    for (int w = 0; w < TRAVELLERS; w++) {
        const int i = (hop - 1) % c->slots;
        ls_build_send(b, c->channel[w][i], c->next, from[w],
                      with_tokens(c->slot[w][i], from[w].view.size[1]));
    }
    ls_build_quiet(b);
}

/* Arrival `hop` has been used: its slot may take arrival hop + slots, if there will be one. */
static void release(ls_builder *b, const carousel *c, int hop) {
    if (hop < 1 || hop + c->slots > c->hops) return;
    const int i = (hop - 1) % c->slots;
    for (int w = 0; w < TRAVELLERS; w++) ls_build_ready(b, c->channel[w][i], c->previous, c->slot[w][i]);
}

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

static void attend(ls_builder *b, ls_site *site, int block, const ls_operand kv[TRAVELLERS], bool merge,
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
                                          .in = {site->q, kv[KEYS], kv[VALUES],
                                                 b->image->masks[site->mask].spans, key_positions(b, block)},
                                          .n_out = 2,
                                          .out = {o, site->lse}});
}

void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o) {
    const int R = R_of(b);
    const carousel c = R > 1 ? make_carousel(b, site, "", b->image->dtype, R - 1) : (carousel){0};
    ls_operand kv[TRAVELLERS] = {site->k, site->v};
    for (int h = 0; h < R; h++) {
        if (h > 0) receive(b, &c, h, block_at(b, h), kv);
        if (h + 1 < R) send(b, &c, h + 1, kv);
        attend(b, site, block_at(b, h), kv, h > 0, o);
        release(b, &c, h);
    }
}

/* The gradient of one block pair; dkv receives this rank's part for the block. */
static void attend_back(ls_builder *b, ls_site *site, int hop, const ls_operand kv[TRAVELLERS],
                        ls_operand grad_o, ls_operand delta, ls_operand dq,
                        const ls_operand dkv[TRAVELLERS]) {
    const int block = block_at(b, hop);
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
                              .in = {site->q, kv[KEYS], kv[VALUES], b->image->masks[site->mask].spans,
                                     key_positions(b, block), grad_o, site->lse, delta},
                              .n_out = 3,
                              .out = {dq, dkv[KEYS], dkv[VALUES]}});
}

void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                      ls_operand *dk, ls_operand *dv) {
    const int R = R_of(b);
    const ls_dtype G = b->image->accumulator;
    const carousel c = R > 1 ? make_carousel(b, site, "", b->image->dtype, R - 1) : (carousel){0};
    const carousel home = R > 1 ? make_carousel(b, site, "d", G, R) : (carousel){0};
    const int64_t part_size[] = {site->B, ls_block_most(b), site->k.view.size[2], site->D};
    const ls_operand part[TRAVELLERS] = {
        ls_build_private(b, LS_BUFFER_ACTIVATION, "dk part", G, 4, part_size),
        ls_build_private(b, LS_BUFFER_ACTIVATION, "dv part", G, 4, part_size)};
    ls_operand kv[TRAVELLERS] = {site->k, site->v}, sum[TRAVELLERS];
    for (int h = 0; h < R; h++) {
        const int block = block_at(b, h);
        if (h > 0) receive(b, &c, h, block, kv);
        if (h + 1 < R) send(b, &c, h + 1, kv);
        for (int w = 0; w < TRAVELLERS; w++) sum[w] = with_tokens(part[w], ls_block_tokens(b, block));
        attend_back(b, site, h, kv, grad_o, delta, dq, sum);
        release(b, &c, h);
        if (h > 0) { /* what the ranks before me found for this block has come behind it: add mine */
            ls_operand so_far[TRAVELLERS];
            receive(b, &home, h, block, so_far);
            for (int w = 0; w < TRAVELLERS; w++) {
                ls_build_accumulate(b, sum[w], so_far[w]);
                sum[w] = so_far[w];
            }
        }
        if (R > 1) send(b, &home, h + 1, sum);
        release(b, &home, h);
    }
    if (R > 1) receive(b, &home, R, ls_ring_index(b), sum);
    *dk = sum[KEYS];
    *dv = sum[VALUES];
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
    .applicable = applicable,
    .forward = ls_usp_forward,
    .backward = ls_usp_backward,
};
