/*
 * The transfers of gather. For each group of heads a rank puts what other ranks see of its block into their slots, and
 * puts its parts of gradients into slots of the ranks whose keys they belong to. A slot or a part of a rank has the
 * tokens that this rank sees, block after block.
 */
#include "compile/attention/gather.h"

static const char *const gathered_name[LS_KV] = {"k", "v"};

/* --- who sees how much -------------------------------------------------------------------------------------------- */

/* The largest number of tokens on any rank. */
static int64_t most(ls_builder *b, int mask, int64_t (*before)(ls_builder *, int, int, int), bool reading) {
    int64_t tokens = 0;
    for (int i = 0; i < ls_blocks(b); i++)
        tokens = ls_max(tokens, reading ? before(b, mask, i, ls_blocks(b)) : before(b, mask, ls_blocks(b), i));
    return tokens;
}

/* Each slot has its own channels: a channel may be granted again only after the last message on it was received. */
static int channel_of(ls_builder *b, const char *prefix, int w, int hop, int index) {
    return ls_build_channel(b, "gather.%s%s.%d.%d", prefix, gathered_name[w], hop, index % LS_GATHER_SLOTS);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

ls_head_group ls_head_group_of(const ls_builder *b, const ls_site *site, int index) {
    const int u = ls_member_index(b);
    ls_head_group g = {.index = index};
    if (index >= site->kv_heads.count[u]) return g;
    const int64_t each = site->params.group, first = site->params.first_q;
    g.kv = index;
    g.kv_count = 1;
    g.q = ls_max(index * each - first, 0);
    g.q_count = ls_min((index + 1) * each - first, site->q_heads.count[u]) - g.q;
    return g;
}

static ls_operand kv_head(ls_operand o, const ls_head_group *g) { return ls_operand_slice(o, 2, g->kv, g->kv_count); }

/* The memory of a buffer as one head of `tokens` tokens; for an empty group, as no head. */
static ls_operand one_head(const ls_site *site, ls_operand buffer, int64_t tokens, const ls_head_group *g) {
    const int64_t size[] = {site->B, tokens, 1, buffer.view.size[3]};
    return ls_operand_slice(ls_operand_dense(buffer.buffer, buffer.offset, buffer.view.dtype, 4, size), 2, 0,
                            g->kv_count);
}

/* The tokens of a block in the slot or the part of a reader. */
static ls_operand region(ls_builder *b, const ls_gathering *x, ls_operand buffer, int reader, int block,
                         const ls_head_group *g) {
    const int mask = x->site->mask;
    const ls_operand whole = one_head(x->site, buffer, ls_seen_in_front(b, mask, reader, ls_blocks(b)), g);
    return ls_operand_slice(whole, 1, ls_seen_in_front(b, mask, reader, block), ls_seen(b, mask, reader, block)->count);
}

/* Where a reader's part arrives at the owner of the block. */
static ls_operand landing(ls_builder *b, const ls_gathering *x, ls_operand buffer, int reader, int owner,
                          const ls_head_group *g) {
    const int64_t before = ls_seers_in_front(b, x->site->mask, reader, owner) * x->site->B * buffer.view.size[3];
    buffer.offset += (size_t)before * ls_dtype_bytes(buffer.view.dtype);
    return one_head(x->site, buffer, ls_seen(b, x->site->mask, reader, owner)->count, g);
}

ls_operand ls_gather_seen(ls_builder *b, const ls_gathering *x, ls_operand buffer, const ls_head_group *g) {
    return one_head(x->site, buffer, ls_seen_in_front(b, x->site->mask, ls_ring_index(b), ls_blocks(b)), g);
}

/* --- keys and values come ----------------------------------------------------------------------------------------- */

void ls_gather_expect(ls_builder *b, const ls_gathering *x, int index) {
    const ls_head_group g = ls_head_group_of(b, x->site, index);
    for (int i = 0; i < x->n_hops && index < x->site->kv_heads.most; i++) {
        for (int w = 0; w < LS_KV; w++)
            ls_build_grant(
                b, channel_of(b, "", w, x->hops[i], index), ls_rank_at(b, x->hops[i]),
                region(b, x, x->slot[w][index % LS_GATHER_SLOTS], ls_ring_index(b), ls_block_at(b, x->hops[i]), &g));
    }
}

/*
 * The wanted tokens of a head of my block, one range after the other: in place, or as a copy if they are not
 * contiguous.
 */
static ls_operand packed(ls_builder *b, const ls_gathering *x, ls_operand head, const ls_token_set *wanted,
                         const ls_head_group *g) {
    if (wanted->n == 0) return ls_operand_slice(head, 1, 0, 0);
    if (wanted->n == 1) return ls_operand_slice(head, 1, wanted->range[0].start, wanted->range[0].count);
    const int64_t size[] = {x->site->B, wanted->count, 1, head.view.size[3]};
    const ls_operand copy = ls_operand_slice(
        ls_build_private(b, LS_BUFFER_ACTIVATION, "to send", head.view.dtype, 4, size), 2, 0, g->kv_count);
    int64_t at = 0;
    for (int i = 0; i < wanted->n; i++) {
        const ls_token_range *r = &wanted->range[i];
        ls_build_copy(b, ls_operand_slice(head, 1, r->start, r->count), ls_operand_slice(copy, 1, at, r->count));
        at += r->count;
    }
    return copy;
}

void ls_gather_give(ls_builder *b, const ls_gathering *x, int index) {
    const ls_head_group g = ls_head_group_of(b, x->site, index);
    const ls_operand own[LS_KV] = {kv_head(x->site->k, &g), kv_head(x->site->v, &g)};
    const int me = ls_ring_index(b);
    for (int i = 0; i < x->n_hops; i++) {
        const int reader = ls_block_at(b, -x->hops[i]);
        const ls_token_set *wanted = ls_seen(b, x->site->mask, reader, me);
        for (int w = 0; w < LS_KV; w++)
            ls_build_send(b, channel_of(b, "", w, x->hops[i], index), ls_rank_at(b, -x->hops[i]),
                          packed(b, x, own[w], wanted, &g),
                          region(b, x, x->slot[w][index % LS_GATHER_SLOTS], reader, me, &g));
    }
    for (int w = 0; w < LS_KV; w++)
        ls_build_copy(b, own[w], region(b, x, x->slot[w][index % LS_GATHER_SLOTS], me, me, &g));
}

void ls_gather_take(ls_builder *b, const ls_gathering *x, int index) {
    const ls_head_group g = ls_head_group_of(b, x->site, index);
    for (int i = 0; i < x->n_hops; i++) {
        for (int w = 0; w < LS_KV; w++)
            ls_build_receive(
                b, channel_of(b, "", w, x->hops[i], index), ls_rank_at(b, x->hops[i]),
                region(b, x, x->slot[w][index % LS_GATHER_SLOTS], ls_ring_index(b), ls_block_at(b, x->hops[i]), &g));
    }
}

ls_gathering ls_gather_set_out(ls_builder *b, ls_site *site) {
    ls_gathering x = {.site = site, .positions = ls_positions_seen(b, site->mask)};
    x.n_hops = ls_hops(b, site->mask, &x.hops);
    const int64_t tokens = most(b, site->mask, ls_seen_in_front, true);
    for (int w = 0; w < LS_KV; w++) {
        const int64_t size[] = {site->B, tokens, 1, site->D[w]};
        for (int i = 0; i < LS_GATHER_SLOTS && i < site->kv_heads.most; i++)
            x.slot[w][i] = ls_build_symmetric(b, LS_BUFFER_SLOT,
                                              ls_arena_printf(b->image->arena, "%s slot %d", gathered_name[w], i),
                                              site->B * tokens * site->D[w], b->image->dtype, 4, size);
    }
    for (int i = 0; i < LS_GATHER_SLOTS; i++) ls_gather_expect(b, &x, i);
    ls_gather_give(b, &x, 0);
    return x;
}

/* --- parts of gradients ------------------------------------------------------------------------------------------- */

/* Grants the memory for others' parts of that group, if there is such a group. */
static void expect_parts(ls_builder *b, const ls_gathering *x, int index) {
    const ls_head_group g = ls_head_group_of(b, x->site, index);
    const int me = ls_ring_index(b);
    for (int i = 0; i < x->n_hops && index < x->site->kv_heads.most; i++) {
        for (int w = 0; w < LS_KV; w++)
            ls_build_grant(b, channel_of(b, "d", w, x->hops[i], index), ls_rank_at(b, -x->hops[i]),
                           landing(b, x, x->arrived[w][index % LS_GATHER_SLOTS], ls_block_at(b, -x->hops[i]), me, &g));
    }
}

void ls_gather_set_out_parts(ls_builder *b, ls_gathering *x) {
    static const char *const part_name[LS_KV] = {"dk part", "dv part"}, *const sum_name[LS_KV] = {"dk", "dv"};
    const ls_site *site = x->site;
    const ls_dtype G = b->image->accumulator;
    const int64_t mine = ls_seen_in_front(b, site->mask, ls_ring_index(b), ls_blocks(b));
    const int64_t theirs = most(b, site->mask, ls_seers_in_front, false);
    for (int w = 0; w < LS_KV; w++) {
        const int64_t part[] = {site->B, mine, 1, site->D[w]}, room[] = {site->B, theirs, 1, site->D[w]};
        x->sum[w] = ls_exchange_room(b, sum_name[w], G, 4, ls_site_held(site, w)->view.size,
                                     site->B * ls_block_most(b) * site->kv_heads.most * site->D[w]);
        ls_build_fill(b, x->sum[w]);
        for (int i = 0; i < LS_GATHER_SLOTS && i < site->kv_heads.most; i++) {
            const char *name = ls_arena_printf(b->image->arena, "d%s slot %d", gathered_name[w], i);
            x->part[w][i] = ls_build_private(b, LS_BUFFER_ACTIVATION, part_name[w], G, 4, part);
            x->arrived[w][i] = ls_build_symmetric(b, LS_BUFFER_SLOT, name, site->B * theirs * site->D[w], G, 4, room);
        }
    }
    for (int i = 0; i < LS_GATHER_SLOTS; i++) expect_parts(b, x, i);
}

void ls_gather_give_parts(ls_builder *b, const ls_gathering *x, const ls_head_group *g) {
    const int me = ls_ring_index(b), slot = g->index % LS_GATHER_SLOTS;
    for (int i = 0; i < x->n_hops; i++) {
        const int owner = ls_block_at(b, x->hops[i]);
        for (int w = 0; w < LS_KV; w++)
            ls_build_send(b, channel_of(b, "d", w, x->hops[i], g->index), ls_rank_at(b, x->hops[i]),
                          region(b, x, x->part[w][slot], me, owner, g),
                          landing(b, x, x->arrived[w][slot], me, owner, g));
    }
}

/*
 * Adds one rank's part to the sum for my block: my part from where it was made, another rank's from where it arrived.
 */
static void add_part(ls_builder *b, const ls_gathering *x, const ls_head_group *g, int w, int reader) {
    const int me = ls_ring_index(b), R = ls_blocks(b);
    const int slot = g->index % LS_GATHER_SLOTS, hop = (reader - me + R) % R;
    const ls_token_set *seen = ls_seen(b, x->site->mask, reader, me);
    const ls_operand sum = kv_head(x->sum[w], g);
    if (reader == me) {
        ls_build_accumulate(b, region(b, x, x->part[w][slot], me, me, g), sum);
        return;
    }
    const ls_operand part = landing(b, x, x->arrived[w][slot], reader, me, g);
    ls_build_receive(b, channel_of(b, "d", w, hop, g->index), ls_rank_at(b, -hop), part);
    int64_t at = 0;
    for (int i = 0; i < seen->n; at += seen->range[i++].count)
        ls_build_accumulate(b, ls_operand_slice(part, 1, at, seen->range[i].count),
                            ls_operand_slice(sum, 1, seen->range[i].start, seen->range[i].count));
}

void ls_gather_add_parts(ls_builder *b, const ls_gathering *x, int index) {
    const ls_head_group g = ls_head_group_of(b, x->site, index);
    for (int reader = 0; reader < ls_blocks(b); reader++) {
        bool comes = reader == ls_ring_index(b);
        for (int i = 0; i < x->n_hops; i++) comes |= ls_block_at(b, -x->hops[i]) == reader;
        for (int w = 0; w < LS_KV && comes; w++) add_part(b, x, &g, w, reader);
    }
    expect_parts(b, x, index + LS_GATHER_SLOTS);
}
