/*
 * Blocks are put into slots of their readers, over any transport.
 *
 * Ring: each rank sends blocks on to the next rank, but only the tokens that ranks further on want; a block that no
 * later rank wants is not sent. There are two slots (one if there is a single transfer): while one is read, the next
 * block arrives in the other.
 *
 * With two rings, a block that came along the outer ring, or began here, is sent to the next inner ring at once; this
 * transfer may take as long as the block's way round the present inner ring.
 */
#include "compile/attention/put.h"

/* The transfers round the inner or the outer ring: two slots for keys and two for values. */
typedef struct circle {
    bool outer;
    int n, given, taken, released; /* arrivals here; how many were sent on, received, released */
    int *hop;                      /* of each arrival */
    ls_peer next, previous;
    int channel[LS_KV][LS_PUT_SLOTS];
    ls_operand slot[LS_KV][LS_PUT_SLOTS]; /* each for the most tokens that travel over any hop */
} circle;

typedef struct kv_state {
    int mask;
    ls_kv_pass pass;
    ls_kv_block here;
    circle inner, outer;
    ls_put_gradients gradients;
} kv_state;

/* Grants a slot for this arrival, if there is such an arrival. */
static void expect_block(ls_builder *b, const kv_state *t, const circle *c, int arrival) {
    const int i = arrival % LS_PUT_SLOTS;
    if (arrival >= c->n) return;
    const int64_t tokens = ls_wanted(b, t->mask, ls_block_at(b, c->hop[arrival]), c->hop[arrival])->count;
    for (int w = t->pass.first; w < t->pass.end; w++)
        ls_build_grant(b, c->channel[w][i], c->previous, ls_with_tokens(c->slot[w][i], tokens));
}

/* The hop over which the block that is here at `hop` goes on along the circle; 0: it does not go on. */
static int hop_on(ls_builder *b, const kv_state *t, const circle *c, int hop) {
    if (!c->outer) return ls_inner_hop(b, t->mask, hop);
    return hop % ls_inner_blocks(b) == 0 ? ls_outer_hop(b, t->mask, hop) : 0;
}

static circle make_circle(ls_builder *b, const ls_site *site, const kv_state *t, bool outer) {
    const int step = outer ? ls_inner_blocks(b) : 1;
    circle c = {.outer = outer, .hop = LS_NEW_ARRAY(b->image->arena, int, ls_blocks(b))};
    int hop = 0;
    do {
        const int on = hop_on(b, t, &c, hop);
        if (on > 0) c.hop[c.n++] = on;
        hop = ls_next_hop(b, t->mask, hop);
    } while (hop > 0);
    if (c.n == 0) return c;
    c.next = ls_rank_at(b, -step);
    c.previous = ls_rank_at(b, step);
    for (int w = t->pass.first; w < t->pass.end; w++) {
        for (int i = 0; i < c.n && i < LS_PUT_SLOTS; i++) {
            c.channel[w][i] = ls_build_channel(b, "%s.%s.%d", outer ? "outer" : ls_ring_name(b), ls_put_name[w], i);
            const char *name = ls_arena_printf(b->image->arena, "%s%s", outer ? "outer " : "", ls_put_name[w]);
            c.slot[w][i] = ls_put_slot(b, site, name, w, i, b->image->dtype, ls_most_wanted(b, site->mask));
        }
    }
    for (int i = 0; i < LS_PUT_SLOTS; i++) expect_block(b, t, &c, i);
    return c;
}

/* The circle along which a block comes over this hop. */
static circle *circle_of(const ls_builder *b, kv_state *t, int hop) {
    return hop % ls_inner_blocks(b) == 0 ? &t->outer : &t->inner;
}

/* Receives the next arrival in its slot. */
static void take(ls_builder *b, kv_state *t, int hop) {
    circle *c = circle_of(b, t, hop);
    const int i = c->taken++ % LS_PUT_SLOTS;
    t->here.tokens = ls_wanted(b, t->mask, ls_block_at(b, hop), hop);
    for (int w = t->pass.first; w < t->pass.end; w++) {
        t->here.kv[w] = ls_with_tokens(c->slot[w][i], t->here.tokens->count);
        ls_build_receive(b, c->channel[w][i], c->previous, t->here.kv[w]);
    }
}

/*
 * The wanted tokens of those that are here, one range after the other: in place, or as a copy if they are not
 * contiguous.
 */
static ls_operand packed(ls_builder *b, ls_operand held, const ls_token_set *here, const ls_token_set *wanted) {
    if (wanted->count == here->count) return held;
    if (wanted->n == 0) return ls_operand_slice(held, 1, 0, 0);
    if (wanted->n == 1) return ls_tokens_at(held, here, wanted->range[0]);
    const ls_operand shape = ls_with_tokens(held, wanted->count);
    const ls_operand copy = ls_build_private(b, LS_BUFFER_ACTIVATION, "to send", held.view.dtype, 4, shape.view.size);
    for (int i = 0; i < wanted->n; i++)
        ls_build_copy(b, ls_tokens_at(held, here, wanted->range[i]), ls_tokens_at(copy, wanted, wanted->range[i]));
    return copy;
}

/*
 * Sends on, of the block that is here at `hop`, the tokens that are wanted further along the circle, if any rank
 * follows.
 */
static void give(ls_builder *b, const kv_state *t, circle *c, int hop) {
    const int on = hop_on(b, t, c, hop);
    if (on == 0) return;
    const int i = c->given++ % LS_PUT_SLOTS;
    const ls_token_set *wanted = ls_wanted(b, t->mask, ls_block_at(b, hop), on);
    for (int w = t->pass.first; w < t->pass.end; w++) {
        const ls_operand from = packed(b, t->here.kv[w], t->here.tokens, wanted);
        ls_build_send(b, c->channel[w][i], c->next, from, ls_with_tokens(c->slot[w][i], wanted->count));
    }
}

static void receive_block(ls_builder *b, void *context, int hop, ls_kv_block *out) {
    kv_state *t = context;
    if (hop > 0) take(b, t, hop);
    give(b, t, &t->outer, hop);
    give(b, t, &t->inner, hop);
    *out = t->here;
}

/* The block that came over the hop has been used: grants its slot for another arrival. */
static void release_block(ls_builder *b, void *context, int hop) {
    kv_state *t = context;
    if (hop == 0) return;
    circle *c = circle_of(b, t, hop);
    expect_block(b, t, c, c->released++ + LS_PUT_SLOTS);
}

static void *begin(ls_builder *b, ls_site *site, ls_kv_pass pass) {
    kv_state *t = LS_NEW(b->image->arena, kv_state);
    const int me = ls_ring_index(b);
    *t = (kv_state){.mask = site->mask, .pass = pass, .here = {ls_seen(b, site->mask, me, me), {site->k, site->v}}};
    t->inner = make_circle(b, site, t, false);
    t->outer = make_circle(b, site, t, true);
    if (pass.backward) ls_put_gradients_begin(b, site, pass, &t->gradients);
    return t;
}

static const ls_token_set *gradient_room(ls_builder *b, void *context, int hop, ls_operand part[LS_KV]) {
    return ls_put_gradient_room(b, &((kv_state *)context)->gradients, hop, part);
}

static void send_gradient(ls_builder *b, void *context, int hop, const ls_operand part[LS_KV]) {
    ls_put_gradient_send(b, &((kv_state *)context)->gradients, hop, part);
}

static void sum_gradients(ls_builder *b, void *context, ls_operand sum[LS_KV]) {
    ls_put_gradients_sum(b, &((kv_state *)context)->gradients, sum);
}

static void end(ls_builder *b, void *context) { (void)b, (void)context; }

const ls_kv_transfer ls_kv_transfer_put = {
    .begin = begin,
    .receive_block = receive_block,
    .release_block = release_block,
    .gradient_room = gradient_room,
    .send_gradient = send_gradient,
    .sum_gradients = sum_gradients,
    .end = end,
};
