/*
 * Blocks are put into slots of their readers, over any transport.
 *
 * Ring: blocks go from each rank to the next, what is wanted of them further on; of a block that nobody wants any more,
 * nothing. Parts of gradients go home in one put. Both have two slots (one where there is a
 * single transfer): while one is read, the next arrives in the other.
 */
#include "compile/attention/attention.h"

static const char *const kv_name[LS_KV] = {"k", "v"};

enum { SLOTS = 2 };

/* Blocks going round: a pair of slots for keys and one for values. */
typedef struct block_slots {
    int slots;
    int hops; /* that blocks go, and so arrivals here */
    ls_peer next, previous;
    int channel[LS_KV][SLOTS];
    ls_operand slot[LS_KV][SLOTS]; /* for the most tokens that travel */
} block_slots;

/* Parts of gradients on their way home, one for each hop that is used. */
typedef struct gradient_slots {
    const int *hops;
    int n, sent, added;
    ls_operand part[LS_KV][SLOTS]; /* mine, of another's block; for the most tokens that are seen, as are the slots */
    ls_operand slot[LS_KV][SLOTS]; /* another's, of mine */
    ls_operand sum[LS_KV];
} gradient_slots;

typedef struct kv_state {
    int mask, last; /* hop */
    ls_kv_block here;
    block_slots blocks;
    gradient_slots gradients;
} kv_state;

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Room in the heap for so many tokens of keys or values on any rank. */
static ls_operand make_slot(ls_builder *b, const ls_site *site, const char *label, int w, int i, ls_dtype dtype,
                            int64_t tokens) {
    const char *name = ls_arena_printf(b->image->arena, "%s%s slot %d", label, kv_name[w], i);
    return ls_build_symmetric(b, LS_BUFFER_SLOT, name, site->B * tokens * site->kv_heads.most * site->D[w], dtype, 4,
                              (int64_t[]){site->B, tokens, site->k.view.size[2], site->D[w]});
}

/* Says that the slot is free for arrival `hop` (1, 2, ...), if there is one and it brings anything. */
static void expect_block(ls_builder *b, int mask, const block_slots *c, int hop) {
    const int i = (hop - 1) % c->slots;
    if (hop > c->hops) return;
    const int64_t tokens = ls_wanted(b, mask, ls_block_at(b, hop), hop)->count;
    for (int w = 0; w < LS_KV; w++)
        ls_build_grant(b, c->channel[w][i], c->previous, ls_with_tokens(c->slot[w][i], tokens));
}

static block_slots make_block_slots(ls_builder *b, const ls_site *site, int hops) {
    block_slots c = {
        .slots = hops < SLOTS ? hops : SLOTS, .hops = hops, .next = ls_rank_at(b, -1), .previous = ls_rank_at(b, 1)};
    for (int w = 0; w < LS_KV; w++) {
        for (int i = 0; i < c.slots; i++) {
            c.channel[w][i] = ls_build_channel(b, "ring.%s.%d", kv_name[w], i);
            c.slot[w][i] = make_slot(b, site, "", w, i, b->image->dtype, ls_most_wanted(b, site->mask));
        }
    }
    for (int hop = 1; hop <= c.slots; hop++) expect_block(b, site->mask, &c, hop);
    return c;
}

/* Arrival `hop` (1, 2, ...), in its slot. */
static void take(ls_builder *b, kv_state *t, int hop) {
    const block_slots *c = &t->blocks;
    const int i = (hop - 1) % c->slots;
    t->here.tokens = ls_wanted(b, t->mask, ls_block_at(b, hop), hop);
    for (int w = 0; w < LS_KV; w++) {
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

/* Sends of what is here what is wanted further on, to become transfer `hop` at the next rank. */
static void give(ls_builder *b, const kv_state *t, int hop) {
    const block_slots *c = &t->blocks;
    const int i = (hop - 1) % c->slots;
    const ls_token_set *wanted = ls_wanted(b, t->mask, ls_block_at(b, hop - 1), hop);
    for (int w = 0; w < LS_KV; w++) {
        const ls_operand from = packed(b, t->here.kv[w], t->here.tokens, wanted);
        ls_build_send(b, c->channel[w][i], c->next, from, ls_with_tokens(c->slot[w][i], wanted->count));
    }
}

static void receive_block(ls_builder *b, void *context, int hop, ls_kv_block *out) {
    kv_state *t = context;
    if (hop > 0) take(b, t, hop);
    if (hop < t->last) give(b, t, hop + 1);
    *out = t->here;
}

/* Arrival `hop` has been used: its slot may take transfer hop + slots. */
static void release_block(ls_builder *b, void *context, int hop) {
    const kv_state *t = context;
    if (hop > 0) expect_block(b, t->mask, &t->blocks, hop + t->blocks.slots);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* Over which parts come home from the rank that is `hop` further. */
static int gradient_channel(ls_builder *b, int w, int hop) {
    return ls_build_channel(b, "ring.d%s.%d", kv_name[w], hop);
}

/* The part of that used hop, in its slot. */
static ls_operand arriving(ls_builder *b, int mask, const gradient_slots *h, int w, int index) {
    const ls_token_set *seen = ls_seen(b, mask, ls_block_at(b, -h->hops[index]), ls_ring_index(b));
    return ls_with_tokens(h->slot[w][index % SLOTS], seen->count);
}

/* Says that the slot is free for the part of that used hop, if there is one. */
static void expect(ls_builder *b, int mask, const gradient_slots *h, int index) {
    for (int w = 0; w < LS_KV && index < h->n; w++)
        ls_build_grant(b, gradient_channel(b, w, h->hops[index]), ls_rank_at(b, -h->hops[index]),
                       arriving(b, mask, h, w, index));
}

static void make_gradient_slots(ls_builder *b, const ls_site *site, gradient_slots *h) {
    const ls_dtype G = b->image->accumulator;
    const int64_t heads = site->k.view.size[2], most = ls_most_seen(b, site->mask),
                  rows = site->B * ls_block_most(b) * site->kv_heads.most;
    int64_t mine = 0;
    static const char *const part_name[LS_KV] = {"dk part", "dv part"}, *const sum_name[LS_KV] = {"dk", "dv"};
    h->n = ls_hops(b, site->mask, &h->hops);
    for (int i = 0; i < h->n; i++)
        mine = ls_max(mine, ls_seen(b, site->mask, ls_ring_index(b), ls_block_at(b, h->hops[i]))->count);
    for (int w = 0; w < LS_KV; w++) {
        h->sum[w] = ls_exchange_room(b, sum_name[w], G, 4, ls_site_held(site, w)->view.size, rows * site->D[w]);
        for (int i = 0; i < h->n && i < SLOTS; i++) {
            h->part[w][i] = ls_build_private(b, LS_BUFFER_ACTIVATION, part_name[w], G, 4,
                                             (int64_t[]){site->B, mine, heads, site->D[w]});
            h->slot[w][i] = make_slot(b, site, "d", w, i, G, most);
        }
    }
    for (int i = 0; i < SLOTS; i++) expect(b, site->mask, h, i);
}

static void *begin(ls_builder *b, ls_site *site, bool backward) {
    kv_state *t = LS_NEW(b->image->arena, kv_state);
    const int *hops, n = ls_hops(b, site->mask, &hops), me = ls_ring_index(b);
    *t = (kv_state){.mask = site->mask,
                    .last = n > 0 ? hops[n - 1] : 0,
                    .here = {ls_seen(b, site->mask, me, me), {site->k, site->v}}};
    if (t->last > 0) t->blocks = make_block_slots(b, site, t->last);
    if (backward) make_gradient_slots(b, site, &t->gradients);
    return t;
}

static void gradient_room(ls_builder *b, void *context, int hop, ls_operand out[LS_KV]) {
    const kv_state *t = context;
    const gradient_slots *h = &t->gradients;
    const ls_token_set *seen = ls_seen(b, t->mask, ls_ring_index(b), ls_block_at(b, hop));
    for (int w = 0; w < LS_KV; w++)
        out[w] = hop == 0 ? h->sum[w] : ls_with_tokens(h->part[w][h->sent % SLOTS], seen->count);
}

/* Adds the next part to the sum for my own block. */
static void add(ls_builder *b, const kv_state *t, gradient_slots *h) {
    const int hop = h->hops[h->added], me = ls_ring_index(b);
    const ls_token_set *seen = ls_seen(b, t->mask, ls_block_at(b, -hop), me), *own = ls_seen(b, t->mask, me, me);
    for (int w = 0; w < LS_KV; w++) {
        const ls_operand came = arriving(b, t->mask, h, w, h->added);
        ls_build_receive(b, gradient_channel(b, w, hop), ls_rank_at(b, -hop), came);
        for (int i = 0; i < seen->n; i++)
            ls_build_accumulate(b, ls_tokens_at(came, seen, seen->range[i]),
                                ls_tokens_at(h->sum[w], own, seen->range[i]));
    }
    expect(b, t->mask, h, h->added + SLOTS);
    h->added++;
}

/* My part leaves; that of the hop before, which has had a kernel's time to come here, is added. */
static void send_gradient(ls_builder *b, void *context, int hop, const ls_operand mine[LS_KV]) {
    gradient_slots *h = &((kv_state *)context)->gradients;
    if (hop == 0) return;
    for (int w = 0; w < LS_KV; w++)
        ls_build_send(b, gradient_channel(b, w, hop), ls_rank_at(b, hop), mine[w],
                      ls_with_tokens(h->slot[w][h->sent % SLOTS], mine[w].view.size[1]));
    if (h->sent++ > 0) add(b, context, h);
}

static void sum_gradients(ls_builder *b, void *context, ls_operand sum[LS_KV]) {
    gradient_slots *h = &((kv_state *)context)->gradients;
    if (h->added < h->n) add(b, context, h);
    for (int w = 0; w < LS_KV; w++) sum[w] = h->sum[w];
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
