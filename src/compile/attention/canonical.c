/*
 * Attention whose bits do not depend on the number of ranks (chunks.c). One call of a kernel takes one query head, the
 * queries of one chunk, and all keys from the first to the last chunk that these queries see, whichever ranks made
 * them. The gradient of a key is added over the chunks of queries, along the tree, then over the query heads that share
 * the key, in their order. Between blocks, all keys and values of a head are gathered, and the parts of their gradients
 * are reduce-scattered.
 */
#include "compile/attention/attention.h"

/* A chunk of my block's queries. */
typedef struct ls_chunk_view {
    int64_t start, count; /* tokens within the block */
    int64_t first, past;  /* the call's keys: positions first .. past - 1 */
    ls_area area;
} chunk;

/* My chunks, and the keys and values of the head that is attended to. */
typedef struct heads {
    ls_site *site;
    int team;     /* the ranks at my place in all blocks */
    int64_t most; /* tokens of the longest block */
    ls_chunks chunks;
    const chunk *chunk;
    ls_operand slot[LS_KV], kv[LS_KV]; /* as gathered, blocks at equal distances; T[B,S,1,D[LS_KV]] */
    ls_all_gather gather[LS_KV];
} heads;

static const char *const names[LS_KV] = {"k", "v"};

/* --- chunks ------------------------------------------------------------------------------------------------------- */

/* The chunk that contains the position. */
static int chunk_at(const ls_builder *b, int64_t position) {
    int c = 0;
    while (ls_chunk_start(b, c + 1) <= position) c++;
    return c;
}

static chunk look(const ls_builder *b, const ls_site *site, int number) {
    const int64_t S = b->image->layout.S, from = ls_chunk_start(b, number), to = ls_chunk_start(b, number + 1);
    const ls_mask *mask = &b->image->masks[site->mask].mask;
    int64_t first = from, past = to;
    double pairs = 0;
    for (int64_t q = from; q < to; q++) {
        ls_span seen[LS_MASK_SPANS];
        const int n = ls_mask_spans(mask, S, q, seen);
        for (int i = 0; i < n; i++) {
            first = ls_min(first, seen[i].lo);
            past = ls_max(past, seen[i].hi);
            pairs += (double)(seen[i].hi - seen[i].lo);
        }
    }
    return (chunk){.start = from - ls_block_start(b, ls_ring_index(b)),
                   .count = to - from,
                   .first = ls_chunk_start(b, chunk_at(b, first)),
                   .past = ls_chunk_start(b, chunk_at(b, past - 1) + 1),
                   .area = {pairs, (double)(to - from)}};
}

/* All chunks of my block; found once for all layers with the site's mask. */
static const chunk *find_chunks(ls_builder *b, const ls_site *site, const ls_chunks *chunks) {
    if (b->sites->chunk_views == NULL)
        b->sites->chunk_views = LS_NEW_ARRAY(b->image->arena, chunk *, b->image->n_masks);
    chunk **found = &b->sites->chunk_views[site->mask];
    if (*found != NULL) return *found;
    *found = LS_NEW_ARRAY(b->image->arena, chunk, chunks->n);
    for (int i = 0; i < chunks->n; i++) (*found)[i] = look(b, site, chunks->first + i);
    return *found;
}

static heads begin(ls_builder *b, ls_site *site) {
    heads h = {.site = site, .most = ls_block_most(b), .chunks = ls_chunks_of(b, ls_ring_index(b), ls_blocks(b))};
    h.team = ls_build_team_of(b, ls_mesh_block_axes(&b->target->mesh));
    h.chunk = find_chunks(b, site, &h.chunks);
    return h;
}

/* --- heads of all tokens ------------------------------------------------------------------------------------------ */

/* Block number `block` of an operand in which the blocks lie at equal distances. */
static ls_operand block_of(const ls_builder *b, const heads *h, ls_operand spaced, int block) {
    return ls_operand_slice(spaced, 1, block * h->most, ls_block_tokens(b, block));
}

/* Whether blocks at equal distances leave no gaps. */
static bool are_even(const ls_builder *b, const heads *h) { return h->most * ls_blocks(b) == b->image->layout.S; }

static bool has_head(const ls_builder *b, const ls_site *site, int kv) {
    return kv < site->kv_heads.count[ls_member_index(b)];
}

/*
 * Sends my KV head kv to the other blocks. All ranks send the same number of heads; a rank without this head sends
 * nothing.
 */
static void give(ls_builder *b, heads *h, int kv) {
    const ls_site *site = h->site;
    const int64_t tokens = ls_blocks(b) * h->most, n = site->k.view.size[1];
    const ls_stages stages = ls_stages_direct(b, h->team);
    const bool mine = has_head(b, site, kv);
    for (int w = 0; w < LS_KV && ls_blocks(b) > 1 && kv < site->kv_heads.most; w++) {
        const ls_operand slot = ls_build_symmetric(b, LS_BUFFER_SLOT, names[w], site->B * tokens * site->D[w],
                                                   b->image->dtype, 4, (int64_t[]){site->B, tokens, 1, site->D[w]});
        h->slot[w] = ls_operand_slice(slot, 2, 0, mine);
        h->gather[w] = ls_all_gather_expect(b, ls_arena_printf(b->image->arena, "%s.%d", names[w], kv % 2), &stages,
                                            h->slot[w], 1);
        const ls_operand piece = ls_all_gather_piece(b, &h->gather[w]);
        if (mine)
            ls_build_copy(b, ls_operand_slice(*ls_site_held(site, w), 2, kv, 1), ls_operand_slice(piece, 1, 0, n));
        if (mine && n < h->most) ls_build_fill(b, ls_operand_slice(piece, 1, n, h->most - n));
        ls_all_gather_begin(b, &h->gather[w], piece);
    }
}

/* Receives all tokens of my KV head kv, which must be the head of the last call of give. */
static void take(ls_builder *b, heads *h, int kv) {
    const ls_site *site = h->site;
    const bool mine = has_head(b, site, kv);
    for (int w = 0; w < LS_KV; w++) {
        if (ls_blocks(b) == 1) {
            h->kv[w] = ls_operand_slice(*ls_site_held(site, w), 2, kv, mine);
            continue;
        }
        ls_all_gather_finish(b, &h->gather[w]);
        h->kv[w] = h->slot[w];
        if (are_even(b, h) || !mine) continue;
        h->kv[w] = ls_build_private(b, LS_BUFFER_ACTIVATION, names[w], b->image->dtype, 4,
                                    (int64_t[]){site->B, b->image->layout.S, 1, site->D[w]});
        for (int r = 0; r < ls_blocks(b); r++)
            ls_build_copy(b, block_of(b, h, h->slot[w], r),
                          ls_operand_slice(h->kv[w], 1, ls_block_start(b, r), ls_block_tokens(b, r)));
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* The most query heads of a rank that read one KV head. */
static int most_readers(const ls_site *site) { return (int)ls_min(site->Hq / site->Hkv, site->q_heads.most); }

/* The index, among my query heads, of reader i of my KV head kv; -1: there is none. */
static int reader(const ls_builder *b, const ls_site *site, int kv, int i) {
    const int group = site->params.group, first = site->params.first_q;
    const int q = (int)ls_max(0, kv * group - first) + i;
    return q < site->q_heads.count[ls_member_index(b)] && (first + q) / group == kv ? q : -1;
}

static ls_operand tokens(ls_operand o, int q, const chunk *c) {
    return ls_operand_slice(ls_operand_slice(o, 2, q, 1), 1, c->start, c->count);
}

/* The rows of query head q for chunk c, in an operand that has heads before tokens. */
static ls_operand row(ls_operand o, int q, const chunk *c) {
    return ls_operand_slice(ls_operand_slice(o, 1, q, 1), 2, c->start, c->count);
}

static ls_operand seen(ls_operand kv, const chunk *c) { return ls_operand_slice(kv, 1, c->first, c->past - c->first); }

static ls_attention_call call_of(const ls_builder *b, const heads *h, int q, const chunk *c) {
    ls_attention_call call = {.params = h->site->params,
                              .q = tokens(h->site->q, q, c),
                              .k = seen(h->kv[LS_KEYS], c),
                              .v = seen(h->kv[LS_VALUES], c),
                              .spans = ls_operand_slice(b->image->masks[h->site->mask].spans, 1, c->start, c->count),
                              .positions = ls_operand_slice(b->image->positions, 0, c->first, c->past - c->first),
                              .area = c->area};
    call.params.group = 1;
    call.params.first_q = call.params.first_kv = 0;
    return call;
}

/*
 * Calls `attend` for each query head that reads each of my KV heads, when all tokens of this KV head are here. All
 * ranks make the same number of calls; where a rank has fewer heads, q is -1.
 */
static void each_head(ls_builder *b, heads *h, void (*attend)(ls_builder *b, const heads *h, int q, void *with),
                      void *with) {
    const ls_site *site = h->site;
    give(b, h, 0);
    for (int kv = 0; kv < site->kv_heads.most; kv++) {
        take(b, h, kv);
        give(b, h, kv + 1);
        for (int i = 0; i < most_readers(site); i++) attend(b, h, reader(b, site, kv, i), with);
    }
}

static void attend_forward(ls_builder *b, const heads *h, int q, void *with) {
    const ls_operand *o = with;
    for (int i = 0; i < h->chunks.n && q >= 0; i++) {
        const chunk *c = &h->chunk[i];
        const ls_attention_call call = call_of(b, h, q, c);
        ls_build_attention(b, &call, tokens(*o, q, c), row(h->site->lse, q, c));
    }
}

void ls_canonical_forward(ls_builder *b, ls_site *site, ls_operand o) {
    heads h = begin(b, site);
    each_head(b, &h, attend_forward, &o);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

typedef struct gradients {
    ls_attention_given given;
    ls_operand dq, dkv[LS_KV]; /* for all my query heads */
    ls_reduce_scatter *parts;  /* the reduce-scatters between blocks, one after the other */
    ls_operand sum[LS_KV];     /* G[heads, tokens of the longest block * D[LS_KV]]: the sums of the parts */
} gradients;

/* Where the gradients of a query head, for my block's tokens, are written. */
static ls_operand place_of(const gradients *g, int w, int q) { return ls_operand_slice(g->dkv[w], 2, q, 1); }

/* Elements of a block's part of the gradient of one head of keys or values. */
static int64_t part_elements(const heads *h, int w) { return h->site->B * h->most * h->site->D[w]; }

/* Sends my part of a query head's gradients, which is for all tokens, to the blocks of the tokens. */
static void give_part(ls_builder *b, const heads *h, const gradients *g, int w, int q, ls_operand part) {
    const int64_t size[] = {h->site->B, ls_blocks(b) * h->most, 1, h->site->D[w]}, count = part_elements(h, w);
    ls_operand spaced = part;
    if (!are_even(b, h)) {
        spaced = ls_build_private(b, LS_BUFFER_ACTIVATION, "part to send", part.view.dtype, 4, size);
        ls_build_fill(b, spaced);
        for (int r = 0; r < ls_blocks(b); r++)
            ls_build_copy(b, ls_operand_slice(part, 1, ls_block_start(b, r), ls_block_tokens(b, r)),
                          block_of(b, h, spaced, r));
    }
    const ls_operand from = ls_operand_elements(spaced, 0, ls_blocks(b) * count);
    ls_reduce_scatter_begin(b, g->parts, &from, ls_operand_elements(g->sum[w], q * count, count), false);
}

/* Takes part in the reduce-scatters of a head that this rank does not have. */
static void give_nothing(ls_builder *b, const gradients *g) {
    const ls_operand nothing = ls_operand_elements(g->sum[LS_KEYS], 0, 0);
    for (int w = 0; w < LS_KV; w++) ls_reduce_scatter_begin(b, g->parts, &nothing, nothing, false);
}

/* Begins the sum over the chunks of queries, for all keys. */
static ls_chunk_sum begin_sum(ls_builder *b, const heads *h, int w, ls_operand *made) {
    const int64_t all[] = {h->site->B, b->image->layout.S, 1, h->site->D[w]};
    *made = ls_build_private(b, LS_BUFFER_ACTIVATION, "part", b->image->accumulator, 4, all);
    return ls_chunk_sum_begin(b, "sum over some chunks", *made, 1, h->chunks.n);
}

static void attend_backward(ls_builder *b, const heads *h, int q, void *with) {
    const gradients *g = with;
    if (q < 0) {
        if (ls_blocks(b) > 1) give_nothing(b, g);
        return;
    }
    ls_operand made[LS_KV];
    const ls_chunk_sum dk = begin_sum(b, h, LS_KEYS, &made[LS_KEYS]), dv = begin_sum(b, h, LS_VALUES, &made[LS_VALUES]);
    for (int i = 0; i < h->chunks.n; i++) {
        const chunk *c = &h->chunk[i];
        const ls_attention_call call = call_of(b, h, q, c);
        const ls_attention_given given = {tokens(g->given.grad_o, q, c), row(g->given.lse, q, c),
                                          row(g->given.delta, q, c)};
        ls_build_attention_grad(b, &call, &given, tokens(g->dq, q, c), seen(ls_chunk_sum_addend(&dk, i), c),
                                seen(ls_chunk_sum_addend(&dv, i), c));
        ls_chunk_sum_add(b, &dk, i, c->first, c->past);
        ls_chunk_sum_add(b, &dv, i, c->first, c->past);
    }
    ls_chunk_sum_end(b, &dk);
    ls_chunk_sum_end(b, &dv);
    for (int w = 0; w < LS_KV; w++) {
        if (ls_blocks(b) > 1)
            give_part(b, h, g, w, q, made[w]);
        else
            ls_build_copy(b, made[w], place_of(g, w, q));
    }
}

/* Prepares the reduce-scatters that add the parts of all blocks. */
static void expect_parts(ls_builder *b, const heads *h, gradients *g) {
    const ls_site *site = h->site;
    const int readers = most_readers(site), n = LS_KV * (int)site->kv_heads.most * readers;
    const ls_stages stages = ls_stages_of(b, &b->image->teams[h->team]);
    ls_addends *addends = LS_NEW_ARRAY(b->image->arena, ls_addends, n);
    for (int i = 0; i < n; i++) {
        const bool mine = reader(b, site, i / LS_KV / readers, i / LS_KV % readers) >= 0;
        addends[i] = (ls_addends){mine ? ls_blocks(b) * part_elements(h, i % LS_KV) : 0, 1};
    }
    for (int w = 0; w < LS_KV; w++) {
        const int64_t all = site->q_heads.count[ls_member_index(b)] * part_elements(h, w);
        g->sum[w] = ls_build_private(b, LS_BUFFER_ACTIVATION, "sums of parts", b->image->accumulator, 1, &all);
    }
    g->parts = ls_reduce_scatter_make(b, "parts", "slots of parts", &stages, b->image->accumulator, n, addends);
    ls_reduce_scatter_expect(b, g->parts);
}

static void take_parts(ls_builder *b, const heads *h, const gradients *g) {
    const ls_site *site = h->site;
    ls_reduce_scatter_finish(b, g->parts);
    for (int w = 0; w < LS_KV; w++) {
        const int64_t size[] = {site->B, ls_block_tokens(b, ls_ring_index(b)), 1, site->D[w]};
        const int64_t count = part_elements(h, w), held = size[0] * size[1] * size[3];
        for (int q = 0; q < site->q_heads.count[ls_member_index(b)]; q++) {
            const ls_operand sum = ls_operand_elements(g->sum[w], q * count, held);
            ls_build_copy(b, ls_operand_dense(sum.buffer, sum.offset, sum.view.dtype, 4, size), place_of(g, w, q));
        }
    }
}

void ls_canonical_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                           ls_operand *dk, ls_operand *dv) {
    heads h = begin(b, site);
    gradients g = {.given = {grad_o, site->lse, delta}, .dq = dq};
    const int64_t *q = site->q.view.size;
    for (int w = 0; w < LS_KV; w++)
        g.dkv[w] =
            ls_exchange_room(b, w == LS_KEYS ? "dk" : "dv", b->image->accumulator, 4,
                             (int64_t[]){q[0], q[1], q[2], site->D[w]}, part_elements(&h, w) * site->q_heads.most);
    if (ls_blocks(b) > 1) expect_parts(b, &h, &g);
    each_head(b, &h, attend_backward, &g);
    if (ls_blocks(b) > 1) take_parts(b, &h, &g);
    *dk = g.dkv[LS_KEYS];
    *dv = g.dkv[LS_VALUES];
}

ls_operand ls_canonical_kv(ls_builder *b, const ls_site *site, ls_operand parts, const char *name) {
    if (site->Hkv == site->Hq) return parts;
    const int64_t size[] = {site->B, parts.view.size[1], site->Hkv, parts.view.size[3]}, group = site->Hq / site->Hkv;
    const ls_operand sum = ls_build_private(b, LS_BUFFER_ACTIVATION, name, parts.view.dtype, 4, size);
    for (int64_t kv = 0; kv < site->Hkv; kv++) {
        const ls_operand head = ls_operand_slice(sum, 2, kv, 1);
        ls_build_copy(b, ls_operand_slice(parts, 2, kv * group, 1), head);
        for (int64_t q = 1; q < group; q++) ls_build_accumulate(b, ls_operand_slice(parts, 2, kv * group + q, 1), head);
    }
    return sum;
}
