/*
 * Blocks are read where they lie, where ranks can address each other's heaps: nothing is sent, and there are no slots.
 *
 * Ring: every rank lends its keys and values to all others of its ring and reclaims them at the end. The sum of a block's
 * gradient is pulled: each rank reads what the previous one has found so far and adds it to its own part, the same two
 * numbers in every addition as when sums are sent. Parts lie in the heap, two of them: while one is read by the next rank, the other is made.
 * Exchange: each rank copies its part of the heads out of the others' tensors.
 */
#include "compile/attention/attention.h"

static const char *const traveller_name[LS_KV] = {"k", "v"};

enum { PARTS = 2 };

typedef struct travel {
    int R;
    int64_t capacity; /* elements of a block on the rank that has most */
    ls_operand own[LS_KV];
    ls_operand part[LS_KV][PARTS]; /* with sizes of the largest block */
    ls_operand lent[LS_KV][PARTS]; /* what the next rank reads of them; buffer -1: nothing */
} travel;

/* The rank that is j further in the ring. */
static int further(const ls_builder *b, int j) {
    const int R = b->target->mesh.size[LS_AXIS_RING];
    return ls_rank_in_ring(b, ((ls_ring_index(b) + j) % R + R) % R);
}

/* Over which a rank lends its block to the one that is `distance` further. */
static int block_channel(ls_builder *b, int w, int distance) {
    return ls_build_channel(b, "ring.%s.%d", traveller_name[w], distance);
}

static int sum_channel(ls_builder *b, int w, int slot) {
    return ls_build_channel(b, "ring.d%s.%d", traveller_name[w], slot);
}

static void make_parts(ls_builder *b, const ls_site *site, travel *t) {
    static const char *const name[LS_KV] = {"dk part", "dv part"};
    const ls_dtype G = b->image->accumulator;
    const int64_t size[] = {site->B, ls_block_most(b), site->k.view.size[2], site->D};
    for (int w = 0; w < LS_KV; w++) {
        for (int i = 0; i < PARTS && t->R > 1; i++)
            t->part[w][i] = ls_build_symmetric(b, LS_BUFFER_ACTIVATION, name[w], t->capacity, G, 4, size);
        if (t->R == 1) t->part[w][0] = ls_exchange_room(b, name[w], G, 4, size, t->capacity);
    }
}

static void *begin(ls_builder *b, ls_site *site, bool backward) {
    travel *t = LS_NEW(b->image->arena, travel);
    *t = (travel){.R = b->target->mesh.size[LS_AXIS_RING],
                  .capacity = site->B * ls_block_most(b) * site->kv_heads.most * site->D};
    for (int w = 0; w < LS_KV; w++) {
        for (int i = 0; i < PARTS; i++) t->lent[w][i].buffer = -1;
    }
    if (t->R > 1) {
        site->k = ls_lendable(b, site->k, t->capacity);
        site->v = ls_lendable(b, site->v, t->capacity);
    }
    t->own[LS_KEYS] = site->k;
    t->own[LS_VALUES] = site->v;
    for (int j = 1; j < t->R; j++) {
        for (int w = 0; w < LS_KV; w++) ls_build_lend(b, block_channel(b, w, j), further(b, j), t->own[w]);
    }
    if (backward) make_parts(b, site, t);
    return t;
}

/* The block of this hop where it lies. */
static ls_operand block_of(const ls_builder *b, const travel *t, int w, int hop) {
    const ls_operand block = ls_with_tokens(t->own[w], ls_block_tokens(b, ls_block_at(b, hop)));
    return ls_operand_of_peer(block, further(b, -hop));
}

static void arrive(ls_builder *b, void *travelling, int hop, ls_operand kv[LS_KV]) {
    const travel *t = travelling;
    for (int w = 0; w < LS_KV; w++) {
        kv[w] = hop == 0 ? t->own[w] : block_of(b, t, w, hop);
        if (hop > 0) ls_build_borrow(b, block_channel(b, w, hop), kv[w]);
    }
}

static void leave(ls_builder *b, void *travelling, int hop) {
    for (int w = 0; w < LS_KV && hop > 0; w++)
        ls_build_give_back(b, block_channel(b, w, hop), block_of(b, travelling, w, hop));
}

/* The next rank has read what was lent to it of this part. */
static void reclaim_part(ls_builder *b, travel *t, int slot) {
    for (int w = 0; w < LS_KV; w++) {
        if (t->lent[w][slot].buffer < 0) continue;
        ls_build_reclaim(b, sum_channel(b, w, slot), further(b, 1), t->lent[w][slot]);
        t->lent[w][slot].buffer = -1;
    }
}

static void part(ls_builder *b, void *travelling, int hop, ls_operand out[LS_KV]) {
    travel *t = travelling;
    reclaim_part(b, t, hop % PARTS);
    for (int w = 0; w < LS_KV; w++)
        out[w] = ls_with_tokens(t->part[w][hop % PARTS], ls_block_tokens(b, ls_block_at(b, hop)));
}

/* What the previous rank has passed on at its hop, borrowed. */
static void borrow_sum(ls_builder *b, const travel *t, int hop, int64_t tokens, ls_operand sum[LS_KV]) {
    for (int w = 0; w < LS_KV; w++) {
        sum[w] = ls_operand_of_peer(ls_with_tokens(t->part[w][hop % PARTS], tokens), further(b, -1));
        ls_build_borrow(b, sum_channel(b, w, hop % PARTS), sum[w]);
    }
}

static void pass_on(ls_builder *b, void *travelling, int hop, const ls_operand mine[LS_KV]) {
    travel *t = travelling;
    ls_operand so_far[LS_KV];
    if (hop > 0) borrow_sum(b, t, hop - 1, mine[LS_KEYS].view.size[1], so_far);
    for (int w = 0; w < LS_KV && hop > 0; w++) {
        ls_build_accumulate(b, so_far[w], mine[w]);
        ls_build_give_back(b, sum_channel(b, w, (hop - 1) % PARTS), so_far[w]);
    }
    for (int w = 0; w < LS_KV && t->R > 1; w++) {
        ls_build_lend(b, sum_channel(b, w, hop % PARTS), further(b, 1), mine[w]);
        t->lent[w][hop % PARTS] = mine[w];
    }
}

static void home(ls_builder *b, void *travelling, ls_operand sum[LS_KV]) {
    static const char *const name[LS_KV] = {"dk", "dv"};
    travel *t = travelling;
    const int64_t tokens = ls_block_tokens(b, ls_ring_index(b));
    for (int w = 0; w < LS_KV; w++) sum[w] = ls_with_tokens(t->part[w][0], tokens);
    if (t->R == 1) return;
    ls_operand found[LS_KV];
    borrow_sum(b, t, t->R - 1, tokens, found);
    for (int w = 0; w < LS_KV; w++) {
        const ls_view *v = &sum[w].view;
        sum[w] = ls_exchange_room(b, name[w], v->dtype, v->ndim, v->size, t->capacity);
        ls_build_copy(b, found[w], sum[w]);
        ls_build_give_back(b, sum_channel(b, w, (t->R - 1) % PARTS), found[w]);
    }
}

static void end(ls_builder *b, void *travelling) {
    travel *t = travelling;
    for (int j = 1; j < t->R; j++) {
        for (int w = 0; w < LS_KV; w++) ls_build_reclaim(b, block_channel(b, w, j), further(b, j), t->own[w]);
    }
    for (int i = 0; i < PARTS; i++) reclaim_part(b, t, i);
}

static ls_operand result(ls_builder *b, const char *label, int64_t capacity, ls_operand shape, bool ring) {
    const ls_view *v = &shape.view;
    return ring ? ls_build_symmetric(b, LS_BUFFER_ACTIVATION, label, capacity, v->dtype, v->ndim, v->size)
                : ls_build_private(b, LS_BUFFER_ACTIVATION, label, v->dtype, v->ndim, v->size);
}

static int part_channel(ls_builder *b, const ls_exchange *x, int distance) {
    return ls_build_channel(b, "%s.%d", x->label, distance);
}

static void send(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const int to = (me + j) % U;
        ls_build_lend(b, part_channel(b, x, j), ls_rank_in_block(b, to), x->parts[to].from);
    }
}

static void receive(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const ls_part *from = &x->parts[(me - j + U) % U];
        ls_build_borrow(b, part_channel(b, x, j), from->there);
        ls_build_copy(b, from->there, from->land);
        ls_build_give_back(b, part_channel(b, x, j), from->there);
    }
}

static void settle(ls_builder *b, const ls_exchange *x) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES], me = ls_ulysses_index(b);
    for (int j = 1; j < U; j++) {
        const int to = (me + j) % U;
        ls_build_reclaim(b, part_channel(b, x, j), ls_rank_in_block(b, to), x->parts[to].from);
    }
}

const ls_arrival ls_arrival_in_place = {
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
