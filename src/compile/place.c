/*
 * Placement: from lifetimes (lifetimes.c) an offset for every buffer. Persistent buffers lie first, one after the
 * other; above them each program places its own, one after the other, each into the tightest gap among those it meets
 * in time (best fit over the interference intervals; Sekiyama et al., "Profile-guided memory optimization for deep
 * neural networks", arXiv 1804.10001). Biggest first nearly always comes near the lower bound; where it does not, other
 * orders are tried, then the last one again with the block that ends highest in front, a few times; the best is kept.
 * Buffers that take over each other's bytes (reuse.c) are placed as one block.
 */
#include "compile/compile_impl.h"

#include <stdlib.h>
#include <string.h>

/* Buffers that lie in one place, one after the other. */
typedef struct block {
    int head; /* the first of them; the others follow as `taker` says */
    size_t bytes, offset;
    int first, last; /* instructions */
    int shrinks;     /* from this one on only `rest` bytes are needed: a smaller buffer has taken over */
    size_t rest;
} block;

/* The bytes that it needs from that instruction on. */
static size_t height(const block *b, int instr) { return instr >= b->shrinks ? b->rest : b->bytes; }

static int by_birth(const block *a, const block *b) {
    return a->first != b->first ? a->first - b->first : a->head - b->head;
}

static int by_size(const void *x, const void *y) {
    const block *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : by_birth(a, b);
}

static int by_life(const void *x, const void *y) {
    const block *a = x, *b = y;
    const int difference = (b->last - b->first) - (a->last - a->first);
    return difference != 0 ? difference : by_size(x, y);
}

static int by_area(const void *x, const void *y) {
    const block *a = x, *b = y;
    const double of_a = (double)a->bytes * (a->last - a->first + 1);
    const double of_b = (double)b->bytes * (b->last - b->first + 1);
    return of_a != of_b ? (of_a < of_b ? 1 : -1) : by_birth(a, b);
}

/* Near enough to the lower bound, as a part of it: the time for other orders is better spent elsewhere. */
static const double near_enough = 1.0 / 128;

/* The first alone depends on nothing that differs between ranks: it is the heap's. */
static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life};

/*
 * A block that has its offset. Its lifetime is kept next to it, because most blocks that are looked at do not meet in
 * time.
 */
typedef struct place {
    int first, last;
    const block *block;
} place;

/* How often the block that ends highest goes to the front. */
enum { PROMOTIONS = 8 };

/* Moves the block that ends highest to the front. */
static void promote_highest(block *blocks, int n) {
    int highest = 0;
    for (int i = 1; i < n; i++)
        if (blocks[i].offset + blocks[i].bytes > blocks[highest].offset + blocks[highest].bytes) highest = i;
    const block first = blocks[highest];
    memmove(&blocks[1], blocks, sizeof *blocks * (size_t)highest);
    blocks[0] = first;
}

/* The start of the tightest gap for `it` between the blocks, in order of offset, that it meets in time. */
static size_t best_gap(const block *it, const place *placed, int n, size_t base) {
    size_t best = SIZE_MAX, best_waste = SIZE_MAX, at = base;
    for (int i = 0; i < n; i++) {
        if (it->first > placed[i].last || placed[i].first > it->last) continue;
        const block *met = placed[i].block;
        if (met->offset >= at + it->bytes && met->offset - at - it->bytes < best_waste) {
            best = at;
            best_waste = met->offset - at - it->bytes;
        }
        const size_t end = met->offset + height(met, (int)ls_max(it->first, met->first));
        at = (size_t)ls_max((int64_t)at, (int64_t)end);
    }
    return best != SIZE_MAX ? best : at;
}

/* The blocks of one program and space; returns how many. */
static int find_blocks(const ls_image *image, int program, ls_space space, const int *taker, ls_arena *scratch,
                       block *blocks) {
    bool *follows = LS_NEW_ARRAY(scratch, bool, image->n_buffers + 1);
    for (int i = 0; i < image->n_buffers; i++) {
        if (taker[i] >= 0) follows[taker[i]] = true;
    }
    int n = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program != program || b->space != space || b->first < 0 || follows[i]) continue;
        block made = {.head = i, .bytes = ls_round_up(b->bytes, LS_PLACE_ALIGN), .first = b->first, .last = b->last};
        made.rest = made.bytes;
        for (int next = taker[i]; next >= 0; next = taker[next]) {
            const ls_buffer *t = &image->buffers[next];
            made.last = t->last;
            if (ls_round_up(t->bytes, LS_PLACE_ALIGN) == made.rest) continue;
            made.rest = ls_round_up(t->bytes, LS_PLACE_ALIGN);
            made.shrinks = t->first;
        }
        blocks[n++] = made;
    }
    return n;
}

/* How many of the places, in order of offset, lie no further back than that. */
static int places_before(const place *placed, int n, size_t offset) {
    int lo = 0, hi = n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (placed[mid].block->offset > offset)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Places the blocks in their order above base; returns the end. placed: room for them. */
static size_t lay_out(block *blocks, int n, size_t base, place *placed) {
    size_t end = base;
    for (int i = 0; i < n; i++) {
        blocks[i].offset = best_gap(&blocks[i], placed, i, base);
        end = (size_t)ls_max((int64_t)end, (int64_t)(blocks[i].offset + blocks[i].bytes));
        const int at = places_before(placed, i, blocks[i].offset);
        memmove(&placed[at + 1], &placed[at], sizeof *placed * (size_t)(i - at));
        placed[at] = (place){blocks[i].first, blocks[i].last, &blocks[i]};
    }
    return end;
}

/* Places the buffers of one program and space above base; returns the end. At `enough` it looks for no better one. */
static size_t place_program(ls_image *image, int program, ls_space space, size_t base, size_t enough,
                            const int *taker) {
    ls_arena *scratch = ls_arena_create();
    block *blocks = LS_NEW_ARRAY(scratch, block, image->n_buffers + 1);
    place *placed = LS_NEW_ARRAY(scratch, place, image->n_buffers + 1);
    const int n = find_blocks(image, program, space, taker, scratch, blocks);
    size_t end = SIZE_MAX;
    const size_t tries = space == LS_PRIVATE ? LS_COUNT(orders) + PROMOTIONS : 1;
    for (size_t t = 0; t < tries && end > enough; t++) {
        if (t < LS_COUNT(orders))
            qsort(blocks, (size_t)n, sizeof *blocks, orders[t]);
        else
            promote_highest(blocks, n);
        const size_t this_end = lay_out(blocks, n, base, placed);
        if (this_end >= end) continue;
        end = this_end;
        for (int i = 0; i < n; i++) {
            for (int b = blocks[i].head; b >= 0; b = taker[b]) image->buffers[b].offset = blocks[i].offset;
        }
    }
    ls_arena_destroy(scratch);
    return end;
}

void ls_place(ls_image *image) {
    int *taker = LS_NEW_ARRAY(image->arena, int, image->n_buffers + 1); /* who takes over a buffer's bytes */
    for (int i = 0; i < image->n_buffers; i++) taker[i] = -1;
    for (int p = 0; p < image->n_programs; p++) ls_find_lifetimes(image, p, taker);
    for (int s = 0; s < LS_SPACES; s++) {
        size_t base = 0;
        for (int i = 0; i < image->n_buffers; i++) {
            ls_buffer *b = &image->buffers[i];
            if (b->program >= 0 || (int)b->space != s) continue;
            b->offset = base;
            base += ls_round_up(b->bytes, LS_PLACE_ALIGN);
        }
        image->bytes[s] = image->least[s] = base;
        for (int p = 0; p < image->n_programs; p++) {
            const size_t least = base + (size_t)ls_find_live(image, p, (ls_space)s, NULL);
            if (least > image->least[s]) image->least[s] = least;
            const size_t enough =
                (size_t)ls_max((int64_t)((double)least * (1 + near_enough)), (int64_t)image->bytes[s]);
            const size_t end = place_program(image, p, (ls_space)s, base, enough, taker);
            if (end > image->bytes[s]) image->bytes[s] = end;
        }
    }
}
