/*
 * Blocks are put into slots of their readers, over any transport.
 *
 * Ring: each direction of travel has two slots (one when a single hop is made): while one is read, the next arrives in the other.
 * Exchange: the result is the slot.
 */
#include "compile/attention/attention.h"

static const char *const traveller_name[LS_KV] = {"k", "v"};

/* What goes round: a pair of slots for keys and one for values (or for their gradients). */
typedef struct carousel {
    int slots;
    int hops; /* blocks that arrive here */
    int next, previous;
    int channel[LS_KV][2];
    ls_operand slot[LS_KV][2]; /* with sizes of the largest block; viewed per block */
} carousel;

typedef struct travel {
    int R;
    ls_operand kv[LS_KV];   /* the block that is here */
    carousel blocks, home;  /* home: sums of gradients */
    ls_operand part[LS_KV]; /* with sizes of the largest block */
    ls_operand sum[LS_KV];  /* what was passed on last */
} travel;

static carousel make_carousel(ls_builder *b, const ls_site *site, const char *label, ls_dtype dtype,
                              int hops) {
    const int R = b->target->mesh.size[LS_AXIS_RING], me = ls_ring_index(b);
    carousel c = {.slots = hops < 2 ? hops : 2,
                  .hops = hops,
                  .next = ls_rank_in_ring(b, (me + 1) % R),
                  .previous = ls_rank_in_ring(b, (me - 1 + R) % R)};
    const int64_t heads = site->k.view.size[2], most = ls_block_most(b);
    for (int w = 0; w < LS_KV; w++) {
        for (int i = 0; i < c.slots; i++) {
            const char *name = ls_arena_printf(b->image->arena, "%s%s slot %d", label, traveller_name[w], i);
            c.channel[w][i] = ls_build_channel(b, "ring.%s%s.%d", label, traveller_name[w], i);
            c.slot[w][i] =
                ls_build_symmetric(b, LS_BUFFER_SLOT, name, site->B * most * site->kv_heads.most * site->D,
                                   dtype, 4, (int64_t[]){site->B, most, heads, site->D});
        }
    }
    for (int i = 0; i < c.slots; i++) {
        for (int w = 0; w < LS_KV; w++) ls_build_ready(b, c.channel[w][i], c.previous, c.slot[w][i]);
    }
    return c;
}

/* Arrival `hop` (1, 2, ...): that block, in its slot. */
static void take(ls_builder *b, const carousel *c, int hop, int block, ls_operand out[LS_KV]) {
    const int i = (hop - 1) % c->slots;
    for (int w = 0; w < LS_KV; w++) {
        out[w] = ls_with_tokens(c->slot[w][i], ls_block_tokens(b, block));
        ls_build_receive(b, c->channel[w][i], c->previous, out[w]);
    }
}

/* Sends what is here (a block) on, to become arrival `hop` at the next rank. */
static void give(ls_builder *b, const carousel *c, int hop, const ls_operand from[LS_KV]) {
    const int i = (hop - 1) % c->slots;
    for (int w = 0; w < LS_KV; w++)
        ls_build_send(b, c->channel[w][i], c->next, from[w],
                      ls_with_tokens(c->slot[w][i], from[w].view.size[1]));
    ls_build_quiet(b);
}

/* Arrival `hop` has been used: its slot may take arrival hop + slots, if there will be one. */
static void release(ls_builder *b, const carousel *c, int hop) {
    if (hop < 1 || hop + c->slots > c->hops) return;
    const int i = (hop - 1) % c->slots;
    for (int w = 0; w < LS_KV; w++) ls_build_ready(b, c->channel[w][i], c->previous, c->slot[w][i]);
}

static void *begin(ls_builder *b, ls_site *site, bool backward) {
    travel *t = LS_NEW(b->image->arena, travel);
    *t = (travel){.R = b->target->mesh.size[LS_AXIS_RING], .kv = {site->k, site->v}};
    const ls_dtype G = b->image->accumulator;
    if (t->R > 1) t->blocks = make_carousel(b, site, "", b->image->dtype, t->R - 1);
    if (!backward) return t;
    if (t->R > 1) t->home = make_carousel(b, site, "d", G, t->R);
    const int64_t size[] = {site->B, ls_block_most(b), site->k.view.size[2], site->D};
    t->part[LS_KEYS] = ls_build_private(b, LS_BUFFER_ACTIVATION, "dk part", G, 4, size);
    t->part[LS_VALUES] = ls_build_private(b, LS_BUFFER_ACTIVATION, "dv part", G, 4, size);
    return t;
}

static void arrive(ls_builder *b, void *travelling, int hop, ls_operand kv[LS_KV]) {
    travel *t = travelling;
    if (hop > 0) take(b, &t->blocks, hop, ls_block_at(b, hop), t->kv);
    if (hop + 1 < t->R) give(b, &t->blocks, hop + 1, t->kv);
    for (int w = 0; w < LS_KV; w++) kv[w] = t->kv[w];
}

static void leave(ls_builder *b, void *travelling, int hop) {
    release(b, &((travel *)travelling)->blocks, hop);
}

static void part(ls_builder *b, void *travelling, int hop, ls_operand out[LS_KV]) {
    const travel *t = travelling;
    for (int w = 0; w < LS_KV; w++)
        out[w] = ls_with_tokens(t->part[w], ls_block_tokens(b, ls_block_at(b, hop)));
}

/* What the ranks before me found for this block has come behind it: mine is added there. */
static void pass_on(ls_builder *b, void *travelling, int hop, const ls_operand mine[LS_KV]) {
    travel *t = travelling;
    for (int w = 0; w < LS_KV; w++) t->sum[w] = mine[w];
    if (hop > 0) {
        take(b, &t->home, hop, ls_block_at(b, hop), t->sum);
        for (int w = 0; w < LS_KV; w++) ls_build_accumulate(b, mine[w], t->sum[w]);
    }
    if (t->R > 1) give(b, &t->home, hop + 1, t->sum);
    release(b, &t->home, hop);
}

static void home(ls_builder *b, void *travelling, ls_operand sum[LS_KV]) {
    travel *t = travelling;
    if (t->R > 1) take(b, &t->home, t->R, ls_ring_index(b), t->sum);
    for (int w = 0; w < LS_KV; w++) sum[w] = t->sum[w];
}

static void end(ls_builder *b, void *travelling) { (void)b, (void)travelling; }

static ls_operand result(ls_builder *b, const char *label, int64_t capacity, ls_operand shape, bool ring) {
    (void)ring;
    return ls_build_symmetric(b, LS_BUFFER_SLOT, label, capacity, shape.view.dtype, shape.view.ndim,
                              shape.view.size);
}

static void send(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const int from = (me - j + U) % U;
        ls_build_ready(b, ls_build_channel(b, "%s.%d", x->label, j), ls_rank_in_block(b, from),
                       x->parts[from].land);
    }
    for (int j = 1; j < U; j++) {
        const int to = (me + j) % U;
        ls_build_send(b, ls_build_channel(b, "%s.%d", x->label, j), ls_rank_in_block(b, to),
                      x->parts[to].from, x->parts[to].to);
    }
}

static void receive(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const int from = (me - j + U) % U;
        ls_build_receive(b, ls_build_channel(b, "%s.%d", x->label, j), ls_rank_in_block(b, from),
                         x->parts[from].land);
    }
    ls_build_quiet(b);
}

static void settle(ls_builder *b, const ls_exchange *x) { (void)b, (void)x; } /* receive has been quiet */

const ls_arrival ls_arrival_put = {
    .begin = begin,
    .arrive = arrive,
    .leave = leave,
    .part = part,
    .pass_on = pass_on,
    .home = home,
    .end = end,
    .result = result,
    .send = send,
    .receive = receive,
    .settle = settle,
};
