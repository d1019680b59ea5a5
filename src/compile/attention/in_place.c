/*
 * Blocks are read in place, if ranks can address each other's heaps: nothing is sent, and there are no slots.
 *
 * Ring: every rank leases its keys and values to all ranks that see some of them, and reclaims them at the end. Parts
 * of gradients are read by the block's rank, which adds them in the order of the hops, so that every addition has the
 * same operands as when the parts are put. The parts lie in the heap, in two buffers: while one is read, the other is
 * made.
 */
#include "compile/attention/attention.h"

static const char *const kv_name[LS_KV] = {"k", "v"};

enum { PARTS = 2 };

typedef struct kv_state {
    int mask;
    ls_kv_pass pass;
    const int *hops; /* the used hops (ls_hops) */
    int n, leased, added;
    ls_operand own[LS_KV];
    ls_operand part[LS_KV][PARTS]; /* each for the most tokens that any block sees of another */
    ls_operand sum[LS_KV];
} kv_state;

/* The channel over which a rank leases its block to the rank `hop` places after it. */
static int block_channel(ls_builder *b, int w, int hop) { return ls_build_channel(b, "ring.%s.%d", kv_name[w], hop); }

/* The channel over which a rank leases its part of a block's gradient to the block's rank, `hop` places before it. */
static int part_channel_of(ls_builder *b, int w, int hop) {
    return ls_build_channel(b, "ring.d%s.%d", kv_name[w], hop);
}

/* What a block's owner leases to a reader: the whole block, or nothing if the reader sees none of it. */
static ls_operand leased_to(ls_builder *b, const kv_state *t, ls_operand block, int reader, int owner) {
    return ls_seen(b, t->mask, reader, owner)->n > 0 ? block : ls_operand_slice(block, 1, 0, 0);
}

/* Elements of the keys or values of a block on the rank that has most. */
static int64_t capacity_of(const ls_builder *b, const ls_site *site, int w) {
    return site->B * ls_block_most(b) * site->kv_heads.most * site->D[w];
}

static void make_parts(ls_builder *b, const ls_site *site, kv_state *t) {
    static const char *const part_name[LS_KV] = {"dk part", "dv part"}, *const sum_name[LS_KV] = {"dk", "dv"};
    const ls_dtype G = b->image->accumulator;
    const int64_t most = ls_most_seen(b, site->mask);
    for (int w = t->pass.first; w < t->pass.end; w++) {
        t->sum[w] = ls_exchange_room(b, sum_name[w], G, 4, ls_site_held(site, w)->view.size, capacity_of(b, site, w));
        for (int i = 0; i < t->n && i < PARTS; i++)
            t->part[w][i] = ls_build_symmetric(b, LS_BUFFER_ACTIVATION, part_name[w],
                                               site->B * most * site->kv_heads.most * site->D[w], G, 4,
                                               (int64_t[]){site->B, most, site->k.view.size[2], site->D[w]});
    }
}

static void *begin(ls_builder *b, ls_site *site, ls_kv_pass pass) {
    const int me = ls_ring_index(b);
    kv_state *t = LS_NEW(b->image->arena, kv_state);
    *t = (kv_state){.mask = site->mask, .pass = pass};
    t->n = ls_hops(b, site->mask, &t->hops);
    if (t->n > 0) {
        site->k = ls_in_heap(b, site->k, capacity_of(b, site, LS_KEYS));
        site->v = ls_in_heap(b, site->v, capacity_of(b, site, LS_VALUES));
    }
    t->own[LS_KEYS] = site->k;
    t->own[LS_VALUES] = site->v;
    for (int i = 0; i < t->n; i++) {
        for (int w = pass.first; w < pass.end; w++)
            ls_build_lease(b, block_channel(b, w, t->hops[i]), ls_rank_at(b, -t->hops[i]),
                           leased_to(b, t, t->own[w], ls_block_at(b, -t->hops[i]), me));
    }
    if (pass.backward) make_parts(b, site, t);
    return t;
}

/* The block of this hop in its owner's memory, as it was leased. */
static ls_operand block_of(ls_builder *b, const kv_state *t, int w, int hop) {
    const int owner = ls_block_at(b, hop);
    const ls_operand block =
        leased_to(b, t, ls_with_tokens(t->own[w], ls_block_tokens(b, owner)), ls_ring_index(b), owner);
    return ls_operand_of_peer(block, ls_rank_at(b, hop));
}

static void receive_block(ls_builder *b, void *context, int hop, ls_kv_block *out) {
    const kv_state *t = context;
    const int owner = ls_block_at(b, hop);
    out->tokens = ls_seen(b, t->mask, owner, owner); /* all tokens of the block */
    for (int w = t->pass.first; w < t->pass.end; w++) {
        out->kv[w] = hop == 0 ? t->own[w] : block_of(b, t, w, hop);
        if (hop > 0 && ls_hop_is_used(b, t->mask, hop)) ls_build_borrow(b, block_channel(b, w, hop), out->kv[w]);
    }
}

static void release_block(ls_builder *b, void *context, int hop) {
    const kv_state *t = context;
    for (int w = t->pass.first; w < t->pass.end && hop > 0 && ls_hop_is_used(b, t->mask, hop); w++)
        ls_build_return(b, block_channel(b, w, hop), block_of(b, t, w, hop));
}

/* The part that the rank of block `queries` made for block `keys`. It has the same address on all ranks. */
static ls_operand part_of(ls_builder *b, const kv_state *t, int w, int index, int queries, int keys) {
    return ls_with_tokens(t->part[w][index % PARTS], ls_seen(b, t->mask, queries, keys)->count);
}

/* Waits until the block's rank has read my part of that used hop. */
static void reclaim_part(ls_builder *b, const kv_state *t, int index) {
    const int hop = t->hops[index];
    for (int w = t->pass.first; w < t->pass.end; w++)
        ls_build_reclaim(b, part_channel_of(b, w, hop), ls_rank_at(b, hop),
                         part_of(b, t, w, index, ls_ring_index(b), ls_block_at(b, hop)));
}

static const ls_token_set *gradient_room(ls_builder *b, void *context, int hop, ls_operand out[LS_KV]) {
    const kv_state *t = context;
    if (hop > 0 && t->leased >= PARTS) reclaim_part(b, t, t->leased - PARTS);
    const int me = ls_ring_index(b), block = ls_block_at(b, hop);
    for (int w = t->pass.first; w < t->pass.end; w++)
        out[w] = hop == 0 ? t->sum[w] : part_of(b, t, w, t->leased, me, block);
    return ls_seen(b, t->mask, me, block);
}

/* Adds the next part to the sum for my own block. */
static void add(ls_builder *b, kv_state *t) {
    const int hop = t->hops[t->added], me = ls_ring_index(b), other = ls_block_at(b, -hop);
    const ls_token_set *seen = ls_seen(b, t->mask, other, me), *own = ls_seen(b, t->mask, me, me);
    for (int w = t->pass.first; w < t->pass.end; w++) {
        const ls_operand theirs = ls_operand_of_peer(part_of(b, t, w, t->added, other, me), ls_rank_at(b, -hop));
        ls_build_borrow(b, part_channel_of(b, w, hop), theirs);
        for (int i = 0; i < seen->n; i++)
            ls_build_accumulate(b, ls_tokens_at(theirs, seen, seen->range[i]),
                                ls_tokens_at(t->sum[w], own, seen->range[i]));
        ls_build_return(b, part_channel_of(b, w, hop), theirs);
    }
    t->added++;
}

/* Leases my part, and adds the part of the previous hop, which its rank has made in the meantime. */
static void send_gradient(ls_builder *b, void *context, int hop, const ls_operand mine[LS_KV]) {
    kv_state *t = context;
    if (hop == 0) return;
    for (int w = t->pass.first; w < t->pass.end; w++)
        ls_build_lease(b, part_channel_of(b, w, hop), ls_rank_at(b, hop), mine[w]);
    if (t->leased++ > 0) add(b, t);
}

static void sum_gradients(ls_builder *b, void *context, ls_operand sum[LS_KV]) {
    kv_state *t = context;
    if (t->added < t->n) add(b, t);
    for (int w = t->pass.first; w < t->pass.end; w++) sum[w] = t->sum[w];
}

static void end(ls_builder *b, void *context) {
    const kv_state *t = context;
    for (int i = 0; i < t->n; i++) {
        for (int w = t->pass.first; w < t->pass.end; w++)
            ls_build_reclaim(b, block_channel(b, w, t->hops[i]), ls_rank_at(b, -t->hops[i]),
                             leased_to(b, t, t->own[w], ls_block_at(b, -t->hops[i]), ls_ring_index(b)));
    }
    for (int i = (int)ls_max(0, t->leased - PARTS); i < t->leased; i++) reclaim_part(b, t, i);
}

const ls_kv_transfer ls_kv_transfer_in_place = {
    .begin = begin,
    .receive_block = receive_block,
    .release_block = release_block,
    .gradient_room = gradient_room,
    .send_gradient = send_gradient,
    .sum_gradients = sum_gradients,
    .end = end,
};
