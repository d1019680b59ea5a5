/*
 * Sends the parts of the gradients of keys and values to the blocks' ranks, over any transport. In a ring each rank's
 * part goes to the block's rank in one put, and is added there in the order of the hops.
 *
 * With two rings, the parts of a block that came along the outer ring go to the rank of the inner ring at which the
 * block entered. This rank adds them and sends the sum to the block's rank in one put. So only one sum crosses the
 * network between two inner rings for all parts that one of them finds for a block of the other. The block's rank adds
 * these sums in the order of the outer hops.
 */
#include "compile/attention/put.h"

const char *const ls_put_name[LS_KV] = {"k", "v"};

ls_operand ls_put_slot(ls_builder *b, const ls_site *site, const char *name, int w, int i, ls_dtype dtype,
                       int64_t tokens) {
    const char *label = ls_arena_printf(b->image->arena, "%s slot %d", name, i);
    return ls_build_symmetric(b, LS_BUFFER_SLOT, label, site->B * tokens * site->kv_heads.most * site->D[w], dtype, 4,
                              (int64_t[]){site->B, tokens, site->k.view.size[2], site->D[w]});
}

/* --- parts within the inner ring ---------------------------------------------------------------------------------- */

/* The channel of a hop, over which parts come from the rank that is the inner hops of `hop` after this one. */
static int part_channel(ls_builder *b, int w, int hop) {
    return ls_build_channel(b, "%s.d%s.%d", ls_ring_name(b), ls_put_name[w], hop);
}

static int inner_hops(const ls_builder *b, int hop) { return hop % ls_inner_blocks(b); }
static int outer_hops(const ls_builder *b, int hop) { return hop / ls_inner_blocks(b); }

/* Part number `index`, in its slot. */
static ls_operand arriving(ls_builder *b, const ls_put_gradients *g, int w, int index) {
    return ls_with_tokens(g->slot[w][index % LS_PUT_SLOTS], ls_seen_in_ring(b, g->mask, g->hop[index])->count);
}

/* Grants the slot for part number `index`, if there is such a part. */
static void expect(ls_builder *b, const ls_put_gradients *g, int index) {
    if (index >= g->n) return;
    const int hop = g->hop[index];
    for (int w = g->pass.first; w < g->pass.end; w++)
        ls_build_grant(b, part_channel(b, w, hop), ls_rank_at(b, -inner_hops(b, hop)), arriving(b, g, w, index));
}

/* --- sums of inner rings ------------------------------------------------------------------------------------------ */

static int home_channel(ls_builder *b, int w, int out) {
    return ls_build_channel(b, "outer.d%s.%d", ls_put_name[w], out);
}

static ls_operand coming_home(ls_builder *b, const ls_put_gradients *g, int w, int ring) {
    return ls_with_tokens(g->home[w][ring % LS_PUT_SLOTS], ls_seen_of_mine(b, g->mask, g->out[ring])->count);
}

static void expect_home(ls_builder *b, const ls_put_gradients *g, int ring) {
    if (ring >= g->rings) return;
    const int hop = g->out[ring] * ls_inner_blocks(b);
    for (int w = g->pass.first; w < g->pass.end; w++)
        ls_build_grant(b, home_channel(b, w, g->out[ring]), ls_rank_at(b, -hop), coming_home(b, g, w, ring));
}

/* Adds the sum of the next inner ring to the sum for my own block. */
static void add_home(ls_builder *b, ls_put_gradients *g) {
    const int ring = g->homed++, out = g->out[ring], me = ls_ring_index(b);
    const ls_token_set *seen = ls_seen_of_mine(b, g->mask, out), *own = ls_seen(b, g->mask, me, me);
    for (int w = g->pass.first; w < g->pass.end; w++) {
        const ls_operand came = coming_home(b, g, w, ring);
        ls_build_receive(b, home_channel(b, w, out), ls_rank_at(b, -out * ls_inner_blocks(b)), came);
        for (int i = 0; i < seen->n; i++)
            ls_build_accumulate(b, ls_tokens_at(came, seen, seen->range[i]),
                                ls_tokens_at(g->sum[w], own, seen->range[i]));
    }
    expect_home(b, g, ring + LS_PUT_SLOTS);
}

/* The sum for the block that entered here over outer hop out[ring], for all tokens of it that my inner ring sees. */
static ls_operand sum_of_ring(ls_builder *b, const ls_put_gradients *g, int w, int ring) {
    return ls_with_tokens(g->of_ring[w][ring % LS_PUT_SLOTS], ls_seen_by_ring(b, g->mask, g->out[ring])->count);
}

/*
 * The index of the sum for the block that came over `out` outer hops. On the first call the sum begins: with zeros,
 * unless my own part has all tokens that my inner ring sees, and so is written as the first addend.
 */
static int ring_of(ls_builder *b, ls_put_gradients *g, int out) {
    int ring = 0;
    while (g->out[ring] != out) ring++;
    if (ring < g->opened) return ring;
    const int hop = out * ls_inner_blocks(b);
    const int64_t seen = ls_seen(b, g->mask, ls_ring_index(b), ls_block_at(b, hop))->count;
    const bool made = ls_hop_is_used(b, g->mask, hop) && seen == ls_seen_by_ring(b, g->mask, out)->count;
    for (int w = g->pass.first; w < g->pass.end && !made; w++) ls_build_fill(b, sum_of_ring(b, g, w, ring));
    return g->opened++;
}

/*
 * Sends the sum to the block's rank; adds the previous sum of my own block, which has had the time of some kernels to
 * arrive.
 */
static void close_ring(ls_builder *b, ls_put_gradients *g) {
    const int ring = g->closed++, out = g->out[ring];
    for (int w = g->pass.first; w < g->pass.end; w++) {
        const ls_operand sum = sum_of_ring(b, g, w, ring);
        ls_build_send(b, home_channel(b, w, out), ls_rank_at(b, out * ls_inner_blocks(b)), sum,
                      ls_with_tokens(g->home[w][ring % LS_PUT_SLOTS], sum.view.size[1]));
    }
    if (ring > 0) add_home(b, g);
}

/* Whether the part of this hop, once added, is the last one in the sum of its inner ring. */
static bool is_last_of_ring(ls_builder *b, const ls_put_gradients *g, int hop) {
    const int out = outer_hops(b, hop);
    if (inner_hops(b, hop) == 0) return ls_inner_hop(b, g->mask, hop) == 0;
    return g->added == g->n || outer_hops(b, g->hop[g->added]) != out;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Lists the used hops that have inner hops, and the outer hops that some used hop includes. */
static void list_hops(ls_builder *b, ls_put_gradients *g) {
    const int *hops, n = ls_hops(b, g->mask, &hops);
    g->hop = LS_NEW_ARRAY(b->image->arena, int, n + 1);
    g->out = LS_NEW_ARRAY(b->image->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        const int out = outer_hops(b, hops[i]);
        if (inner_hops(b, hops[i]) > 0) g->hop[g->n++] = hops[i];
        if (out > 0 && (g->rings == 0 || g->out[g->rings - 1] != out)) g->out[g->rings++] = out;
    }
}

void ls_put_gradients_begin(ls_builder *b, const ls_site *site, ls_kv_pass pass, ls_put_gradients *g) {
    static const char *const part_name[LS_KV] = {"dk part", "dv part"}, *const sum_name[LS_KV] = {"dk", "dv"};
    static const char *const slot_name[LS_KV] = {"dk", "dv"}, *const home_name[LS_KV] = {"home dk", "home dv"};
    const ls_dtype G = b->image->accumulator;
    const int64_t heads = site->k.view.size[2], most = ls_most_seen(b, site->mask),
                  rows = site->B * ls_block_most(b) * site->kv_heads.most;
    int64_t mine = 0, of_ring = 0;
    LS_ASSERT(pass.first >= 0 && pass.end <= LS_KV);
    *g = (ls_put_gradients){.mask = site->mask, .pass = pass};
    list_hops(b, g);
    for (int i = 0; i < g->n; i++)
        mine = ls_max(mine, ls_seen(b, g->mask, ls_ring_index(b), ls_block_at(b, g->hop[i]))->count);
    for (int i = 0; i < g->rings; i++) of_ring = ls_max(of_ring, ls_seen_by_ring(b, g->mask, g->out[i])->count);
    for (int w = pass.first; w < pass.end; w++) {
        g->sum[w] = ls_exchange_room(b, sum_name[w], G, 4, ls_site_held(site, w)->view.size, rows * site->D[w]);
        for (int i = 0; i < g->n && i < LS_PUT_SLOTS; i++) {
            g->part[w][i] = ls_build_private(b, LS_BUFFER_ACTIVATION, part_name[w], G, 4,
                                             (int64_t[]){site->B, mine, heads, site->D[w]});
            g->slot[w][i] = ls_put_slot(b, site, slot_name[w], w, i, G, most);
        }
        for (int i = 0; i < g->rings && i < LS_PUT_SLOTS; i++) {
            g->of_ring[w][i] = ls_build_private(b, LS_BUFFER_ACTIVATION, part_name[w], G, 4,
                                                (int64_t[]){site->B, of_ring, heads, site->D[w]});
            g->home[w][i] = ls_put_slot(b, site, home_name[w], w, i, G, ls_most_wanted(b, g->mask));
        }
    }
    for (int i = 0; i < LS_PUT_SLOTS; i++) expect(b, g, i);
    for (int i = 0; i < LS_PUT_SLOTS; i++) expect_home(b, g, i);
}

const ls_token_set *ls_put_gradient_room(ls_builder *b, ls_put_gradients *g, int hop, ls_operand room[LS_KV]) {
    const int me = ls_ring_index(b);
    const ls_token_set *seen = ls_seen(b, g->mask, me, ls_block_at(b, hop));
    const bool comes_outside = hop > 0 && inner_hops(b, hop) == 0;
    /* ring_of must be called for the outer hops in their order. */
    const int out = outer_hops(b, hop), ring = out > 0 ? ring_of(b, g, out) : 0;
    for (int w = g->pass.first; w < g->pass.end; w++) {
        room[w] = g->sum[w];
        if (comes_outside)
            room[w] = sum_of_ring(b, g, w, ring);
        else if (hop > 0)
            room[w] = ls_with_tokens(g->part[w][g->sent % LS_PUT_SLOTS], seen->count);
    }
    return comes_outside ? ls_seen_by_ring(b, g->mask, out) : seen;
}

/* Adds the next part to the sum for its block. */
static void add(ls_builder *b, ls_put_gradients *g) {
    const int index = g->added++, hop = g->hop[index], in = inner_hops(b, hop), out = outer_hops(b, hop);
    const int me = ls_ring_index(b);
    const int ring = out > 0 ? ring_of(b, g, out) : 0;
    const ls_token_set *seen = ls_seen_in_ring(b, g->mask, hop);
    const ls_token_set *all = out > 0 ? ls_seen_by_ring(b, g->mask, out) : ls_seen(b, g->mask, me, me);
    for (int w = g->pass.first; w < g->pass.end; w++) {
        const ls_operand came = arriving(b, g, w, index), sum = out > 0 ? sum_of_ring(b, g, w, ring) : g->sum[w];
        ls_build_receive(b, part_channel(b, w, hop), ls_rank_at(b, -in), came);
        for (int i = 0; i < seen->n; i++)
            ls_build_accumulate(b, ls_tokens_at(came, seen, seen->range[i]), ls_tokens_at(sum, all, seen->range[i]));
    }
    expect(b, g, index + LS_PUT_SLOTS);
    if (out > 0 && is_last_of_ring(b, g, hop)) close_ring(b, g);
}

/* Sends my part; adds the part of the previous hop, which has had the time of a kernel to arrive. */
void ls_put_gradient_send(ls_builder *b, ls_put_gradients *g, int hop, const ls_operand mine[LS_KV]) {
    const int in = inner_hops(b, hop);
    if (hop == 0) return;
    for (int w = g->pass.first; w < g->pass.end && in > 0; w++)
        ls_build_send(b, part_channel(b, w, hop), ls_rank_at(b, in), mine[w],
                      ls_with_tokens(g->slot[w][g->sent % LS_PUT_SLOTS], mine[w].view.size[1]));
    if (g->added < g->sent) add(b, g);
    g->sent += in > 0;
    if (in == 0 && is_last_of_ring(b, g, hop)) close_ring(b, g);
}

void ls_put_gradients_sum(ls_builder *b, ls_put_gradients *g, ls_operand sum[LS_KV]) {
    if (g->added < g->sent) add(b, g);
    while (g->homed < g->rings) add_home(b, g);
    for (int w = g->pass.first; w < g->pass.end; w++) sum[w] = g->sum[w];
}
