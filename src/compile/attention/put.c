/*
 * Blocks are put into slots of their readers, over any transport.
 *
 * Ring: blocks go from each rank to the next, what is wanted of them further on; of a block that nobody wants any more,
 * nothing. There are two slots (one where there is a single transfer): while one is read, the next arrives in the
 * other.
 *
 * With two rings a block that has come along the outer one, or is at home, leaves at once for the next inner ring, and
 * has all the time of its way round this one to get there.
 */
#include "compile/attention/put.h"

/* Blocks going round the inner or the outer ring: a pair of slots for keys and one for values. */
typedef struct circle {
    bool outer;
    int n, given, taken, released; /* arrivals here, and of them and of what leaves here, those that are done */
    int *hop;                      /* of each arrival */
    ls_peer next, previous;
    int channel[LS_KV][LS_PUT_SLOTS];
    ls_operand slot[LS_KV][LS_PUT_SLOTS]; /* for the most tokens that travel */
} circle;

typedef struct kv_state {
    int mask;
    ls_kv_pass pass;
    ls_kv_block here;
    circle inner, outer;
    ls_put_gradients gradients;
} kv_state;

/* Says that a slot is free for that arrival, if there is one and it brings anything. */
static void expect_block(ls_builder *b, const kv_state *t, const circle *c, int arrival) {
    const int i = arrival % LS_PUT_SLOTS;
    if (arrival >= c->n) return;
    const int64_t tokens = ls_wanted(b, t->mask, ls_block_at(b, c->hop[arrival]), c->hop[arrival])->count;
    for (int w = t->pass.first; w < t->pass.end; w++)
        ls_build_grant(b, c->channel[w][i], c->previous, ls_with_tokens(c->slot[w][i], tokens));
}

/* The hop over which what is here at a hop goes on along the circle; 0: it does not. */
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

/* The circle along which a block comes over that hop. */
static circle *circle_of(const ls_builder *b, kv_state *t, int hop) {
    return hop % ls_inner_blocks(b) == 0 ? &t->outer : &t->inner;
}

/* The next arrival, in its slot. */
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
 * Some of the tokens that are here, one range after the other: where they lie, or a copy where that is not in one
 * piece.
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

/* Sends of what is here at a hop what is wanted further along the circle, if it goes on there. */
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

/* What came over the hop has been used: its slot may take another arrival. */
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
