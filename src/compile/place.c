/*
 * Placement: from lifetimes (lifetimes.c) to an offset for every buffer. Persistent buffers come first, one after the
 * other. Above them the buffers of each program are placed one by one, each into the tightest gap between the buffers
 * that are live at the same time (best fit over the interference intervals; Sekiyama et al., "Profile-guided memory
 * optimization for deep neural networks", arXiv 1804.10001). The order by size, largest first, nearly always comes near
 * the lower bound. If it does not, other orders are tried; then the last one again a few times, each time with the
 * block that ends highest moved to the front. The best placement is kept. Buffers that take over each other's bytes
 * (reuse.c) are placed as one block.
 */
#include "compile/compile_impl.h"

#include <stdlib.h>
#include <string.h>

/* Buffers that have the same place, one after the other in time. */
typedef struct block {
    ls_interval life; /* in instructions; also the block's interval in the set of blocks with offsets */
    int head;         /* the first of these buffers; `taker` leads to the others */
    size_t bytes, offset;
    size_t shrinks; /* from this instruction on a smaller buffer has taken over: only `rest` bytes are needed */
    size_t rest;
} block;

static const block *block_of(const ls_interval *life) {
    return (const block *)((const char *)life - offsetof(block, life));
}

/* The bytes that the block needs from that instruction on. */
static size_t height(const block *b, size_t instr) { return instr >= b->shrinks ? b->rest : b->bytes; }

static int by_birth(const block *a, const block *b) {
    return a->life.from != b->life.from ? (a->life.from < b->life.from ? -1 : 1) : a->head - b->head;
}

static int by_size(const void *x, const void *y) {
    const block *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : by_birth(a, b);
}

static int by_life(const void *x, const void *y) {
    const block *a = x, *b = y;
    const size_t of_a = a->life.past - a->life.from, of_b = b->life.past - b->life.from;
    return of_a != of_b ? (of_a < of_b ? 1 : -1) : by_size(x, y);
}

static int by_area(const void *x, const void *y) {
    const block *a = x, *b = y;
    const double of_a = (double)a->bytes * (double)(a->life.past - a->life.from);
    const double of_b = (double)b->bytes * (double)(b->life.past - b->life.from);
    return of_a != of_b ? (of_a < of_b ? 1 : -1) : by_birth(a, b);
}

/* Near enough to the lower bound, as a fraction of it: trying other orders is then not worth the time. */
static const double near_enough = 1.0 / 128;

/* Only the first order depends on nothing that differs between ranks: the heap uses it alone. */
static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life};

/* How often the block that ends highest is moved to the front. */
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

static int by_offset(const void *x, const void *y) {
    const block *a = block_of(*(ls_interval *const *)x), *b = block_of(*(ls_interval *const *)y);
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* The start of the tightest gap for block `it` between the blocks that are live at the same time. */
static size_t best_gap(const block *it, const ls_interval_list *met_in_time, size_t base) {
    size_t best = SIZE_MAX, best_waste = SIZE_MAX, at = base;
    for (int i = 0; i < met_in_time->n; i++) {
        const block *met = block_of(met_in_time->item[i]);
        if (met->offset >= at + it->bytes && met->offset - at - it->bytes < best_waste) {
            best = at;
            best_waste = met->offset - at - it->bytes;
        }
        const size_t both = it->life.from > met->life.from ? it->life.from : met->life.from;
        const size_t end = met->offset + height(met, both);
        at = (size_t)ls_max((int64_t)at, (int64_t)end);
    }
    return best != SIZE_MAX ? best : at;
}

/* Finds the blocks of one program and space; returns their number. */
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
        block made = {.life = {.from = (size_t)b->first, .past = (size_t)b->last + 1},
                      .head = i,
                      .bytes = ls_round_up(b->bytes, LS_PLACE_ALIGN)};
        made.rest = made.bytes;
        for (int next = taker[i]; next >= 0; next = taker[next]) {
            const ls_buffer *t = &image->buffers[next];
            made.life.past = (size_t)t->last + 1;
            if (ls_round_up(t->bytes, LS_PLACE_ALIGN) == made.rest) continue;
            made.rest = ls_round_up(t->bytes, LS_PLACE_ALIGN);
            made.shrinks = (size_t)t->first;
        }
        blocks[n++] = made;
    }
    return n;
}

/* Places the blocks above `base`, in their order; returns the end of the highest. */
static size_t lay_out(block *blocks, int n, size_t base, ls_interval_list *met) {
    ls_intervals placed = {0};
    size_t end = base;
    for (int i = 0; i < n; i++) {
        block *it = &blocks[i];
        ls_intervals_find(&placed, it->life.from, it->life.past, met);
        if (met->n > 1) qsort(met->item, (size_t)met->n, sizeof *met->item, by_offset);
        it->offset = best_gap(it, met, base);
        end = (size_t)ls_max((int64_t)end, (int64_t)(it->offset + it->bytes));
        ls_intervals_add(&placed, &it->life);
    }
    return end;
}

/*
 * Places the buffers of one program and space above `base`; returns the end. An end of at most `enough` is not
 * improved.
 */
static size_t place_program(ls_image *image, int program, ls_space space, size_t base, size_t enough,
                            const int *taker) {
    ls_arena *scratch = ls_arena_create();
    block *blocks = LS_NEW_ARRAY(scratch, block, image->n_buffers + 1);
    ls_interval_list met = {.arena = scratch};
    const int n = find_blocks(image, program, space, taker, scratch, blocks);
    size_t end = SIZE_MAX;
    const size_t tries = space == LS_PRIVATE ? LS_COUNT(orders) + PROMOTIONS : 1;
    for (size_t t = 0; t < tries && end > enough; t++) {
        if (t < LS_COUNT(orders))
            qsort(blocks, (size_t)n, sizeof *blocks, orders[t]);
        else
            promote_highest(blocks, n);
        const size_t this_end = lay_out(blocks, n, base, &met);
        if (this_end >= end) continue;
        end = this_end;
        for (int i = 0; i < n; i++) {
            for (int b = blocks[i].head; b >= 0; b = taker[b]) image->buffers[b].offset = blocks[i].offset;
        }
    }
    ls_arena_destroy(scratch);
    return end;
}

/* Places the persistent buffers, one after the other; and finds the lower bound of the space. */
static void begin_space(ls_image *image, ls_space space) {
    size_t base = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        ls_buffer *b = &image->buffers[i];
        if (b->program >= 0 || b->space != space) continue;
        b->offset = base;
        base += ls_round_up(b->bytes, LS_PLACE_ALIGN);
    }
    image->bytes[space] = base;
    size_t most = 0;
    for (int p = 0; p < image->n_programs; p++)
        most = (size_t)ls_max((int64_t)most, ls_find_live(image, p, space, NULL));
    image->least[space] = base + most;
}

/*
 * Places the programs' buffers above the persistent ones. At most `plenty` bytes of the space are not improved further.
 */
static void place_space(ls_image *image, ls_space space, size_t plenty, const int *taker) {
    const size_t base = image->bytes[space];
    for (int p = 0; p < image->n_programs; p++) {
        const size_t least = base + (size_t)ls_find_live(image, p, space, NULL);
        const int64_t near = (int64_t)((double)least * (1 + near_enough));
        const int64_t enough = ls_max(near, ls_max((int64_t)image->bytes[space], (int64_t)plenty));
        const size_t end = place_program(image, p, space, base, (size_t)enough, taker);
        if (end > image->bytes[space]) image->bytes[space] = end;
    }
}

void ls_place(ls_image *image, size_t allowed) {
    int *taker = LS_NEW_ARRAY(image->arena, int, image->n_buffers + 1); /* who takes over a buffer's bytes */
    size_t base[LS_SPACES];
    for (int i = 0; i < image->n_buffers; i++) taker[i] = -1;
    for (int p = 0; p < image->n_programs; p++) ls_find_lifetimes(image, p, taker);
    for (int s = 0; s < LS_SPACES; s++) {
        begin_space(image, (ls_space)s);
        base[s] = image->bytes[s];
        if (allowed > 0) image->bytes[s] = image->least[s];
    }
    if (allowed > 0 && ls_image_mapped(image) > allowed) return;
    for (int s = LS_SPACES - 1; s >= 0; s--) { /* private memory last, since there other orders are tried */
        image->bytes[s] = base[s];
        const size_t others = ls_image_mapped(image) - base[s];
        const size_t plenty = s == LS_PRIVATE && allowed > others ? allowed - others : 0;
        place_space(image, (ls_space)s, plenty, taker);
    }
}
