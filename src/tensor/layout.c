/* The layouts contiguous, striped, zigzag and documents; the table of all layouts; making and reading a layout. */
#include "tensor/layout_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* The number of tokens of rank p. */
static int64_t tokens_of(const ls_layout_need *need, int p) {
    return ls_part_start(need->S, need->P, p + 1) - ls_part_start(need->S, need->P, p);
}

/* ---- contiguous and striped: one run per rank, by a formula ---- */

static ls_layout_run contiguous(const ls_layout_need *need, int p) {
    return (ls_layout_run){ls_part_start(need->S, need->P, p), tokens_of(need, p), 1};
}

/*
 * Stripe i (the positions i, i+P, ...) has ceil((S-i)/P) tokens, so the first stripes are the longer ones. The ranks
 * that hold one token more, however, are not the first ones in general (floor(p*S/P)). Stripes are therefore assigned
 * by length: the ranks with one token more hold stripes 0, 1, ... in rank order, and the other ranks hold the following
 * stripes.
 */
static ls_layout_run striped(const ls_layout_need *need, int p) {
    const int64_t shortest = need->S / need->P, longer = need->S % need->P, n = tokens_of(need, p);
    const int64_t longer_before = ls_part_start(need->S, need->P, p) - p * shortest;
    return (ls_layout_run){n > shortest ? longer_before : longer + p - longer_before, n, need->P};
}

/* ---- zigzag ---- */

static void add_piece(ls_layout_pieces *pieces, ls_arena *arena, int64_t count, int block) {
    const int64_t at = pieces->n > 0 ? pieces->at[pieces->n - 1].end : 0;
    *LS_PUSH(arena, pieces->at, pieces->n, pieces->capacity) = (ls_layout_piece){at + count, block};
}

/*
 * First one half of each block, in the order of the blocks, then the other halves in reverse order. The halves are
 * those of blocks, not of ranks, because the tokens of one block that another block sees are then often a single run
 * across the ranks.
 */
static void assign_zigzag(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int blocks = ls_layout_blocks(need);
    for (int b = 0; b < blocks; b++) add_piece(out, scratch, ls_ceil_div(ls_layout_block_tokens(need, b), 2), b);
    for (int b = blocks - 1; b >= 0; b--) add_piece(out, scratch, ls_layout_block_tokens(need, b) / 2, b);
}

/* ---- documents ---- */

/*
 * Each packed document is split as zigzag splits a sequence: each block gets a run from its front and a run from its
 * back, which balances a causal mask inside the document. When the blocks do not divide the length of a document, the
 * blocks with the most room get one token more; so the rooms of two blocks never differ by more than one token, and all
 * blocks are full at the end. The earliest positions of a document, which see the fewest keys, go to the block with the
 * most work so far.
 */
typedef struct share {
    int block;
    int64_t room;  /* tokens that the block can still hold */
    double load;   /* its (query, key) pairs so far, under a causal mask inside each document */
    int64_t quota; /* its tokens of the current document */
} share;

/* The first term of kind documents in the masks; NULL: there is none. */
static const ls_mask_term *find_documents(const ls_layout_need *need) {
    for (int m = 0; m < need->n_masks; m++) {
        const ls_mask *mask = need->masks[m].mask;
        for (int t = 0; t < mask->n; t++)
            if (mask->term[t].kind == LS_MASK_DOCUMENTS) return &mask->term[t];
    }
    return NULL;
}

/* Sorts the blocks that get one token more to the front: most room first, then least load. */
static int by_room(const void *left, const void *right) {
    const share *a = left, *b = right;
    if (a->room != b->room) return a->room > b->room ? -1 : 1;
    if (a->load != b->load) return a->load < b->load ? -1 : 1;
    return a->block - b->block;
}

static int by_load(const void *left, const void *right) {
    const share *a = left, *b = right;
    if (a->load != b->load) return a->load > b->load ? -1 : 1;
    return a->block - b->block;
}

/* Assigns `count` positions from *at on, in the document that begins at start. */
static void assign_run(share *to, int64_t start, int64_t *at, int64_t count, ls_arena *arena, ls_layout_pieces *out) {
    if (count == 0) return;
    const double first = (double)(*at - start + 1), last = first + (double)count - 1;
    to->load += (first + last) / 2 * (double)count;
    to->room -= count;
    *at += count;
    *LS_PUSH(arena, out->at, out->n, out->capacity) = (ls_layout_piece){*at, to->block};
}

/* Assigns the positions [start, end) of a document. */
static void assign_document(share *shares, int n, int64_t start, int64_t end, ls_arena *arena, ls_layout_pieces *out) {
    const int64_t each = (end - start) / n, more = (end - start) % n;
    qsort(shares, (size_t)n, sizeof *shares, by_room);
    for (int i = 0; i < n; i++) shares[i].quota = each + (i < more);
    qsort(shares, (size_t)n, sizeof *shares, by_load);
    int64_t at = start;
    for (int i = 0; i < n; i++) assign_run(&shares[i], start, &at, ls_ceil_div(shares[i].quota, 2), arena, out);
    for (int i = n - 1; i >= 0; i--) assign_run(&shares[i], start, &at, shares[i].quota / 2, arena, out);
}

static void assign_documents(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int blocks = ls_layout_blocks(need);
    share *shares = LS_NEW_ARRAY(scratch, share, blocks);
    for (int b = 0; b < blocks; b++) shares[b] = (share){b, ls_layout_block_tokens(need, b), 0, 0};
    const ls_mask_term *documents = find_documents(need);
    if (documents == NULL) { /* the whole sequence is one document */
        assign_document(shares, blocks, 0, need->S, scratch, out);
        return;
    }
    for (int d = 0; d + 1 < documents->n_ends; d++)
        assign_document(shares, blocks, documents->ends[d], documents->ends[d + 1], scratch, out);
}

/* ---- the table of kinds: each has a formula for the run of a rank, or assigns pieces to blocks ---- */

static const struct {
    const char *name;
    ls_layout_run (*formula)(const ls_layout_need *need, int p);
    void (*assign)(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out);
} kinds[LS_LAYOUTS] = {
    [LS_LAYOUT_CONTIGUOUS] = {"contiguous", contiguous, NULL},
    [LS_LAYOUT_ZIGZAG] = {"zigzag", NULL, assign_zigzag},
    [LS_LAYOUT_STRIPED] = {"striped", striped, NULL},
    [LS_LAYOUT_DOCUMENTS] = {"documents", NULL, assign_documents},
    [LS_LAYOUT_BALANCED] = {"balanced", NULL, ls_layout_assign_balanced},
};

/* ---- making a layout ---- */

typedef struct owned_run {
    ls_layout_run run;
    int rank;
    int previous; /* the index of the previous run of the same rank; -1: none */
} owned_run;

typedef struct builder {
    ls_arena *scratch;
    owned_run *runs;
    int n;
    size_t capacity;
    int *last; /* for each rank, the index of its last run; -1: none yet */
} builder;

/* Adds positions after those that the rank has. If the run continues the rank's last run, it is joined to it. */
static void add_run(builder *m, int rank, ls_layout_run run) {
    if (run.count == 0) return;
    ls_layout_run *last = m->last[rank] >= 0 ? &m->runs[m->last[rank]].run : NULL;
    if (last != NULL && last->step == 1 && run.step == 1 && last->first + last->count == run.first) {
        last->count += run.count;
        return;
    }
    owned_run *added = LS_PUSH(m->scratch, m->runs, m->n, m->capacity);
    *added = (owned_run){run, rank, m->last[rank]};
    m->last[rank] = m->n - 1;
}

static void make_by_formula(const ls_layout_need *need, ls_layout_kind kind, builder *m) {
    for (int p = 0; p < need->P; p++) add_run(m, p, kinds[kind].formula(need, p));
}

/* The positions of a block are split between its ranks in ascending order. */
static void make_by_pieces(const ls_layout_need *need, ls_layout_kind kind, builder *m) {
    const int blocks = ls_layout_blocks(need), members = need->P / blocks;
    ls_layout_pieces pieces = {0};
    kinds[kind].assign(need, m->scratch, &pieces);
    int *member = LS_NEW_ARRAY(m->scratch, int, blocks);
    int64_t *room = LS_NEW_ARRAY(m->scratch, int64_t, blocks);
    for (int b = 0; b < blocks; b++) room[b] = tokens_of(need, b * members);
    int64_t at = 0;
    for (int64_t i = 0; i < pieces.n; i++) {
        const int b = pieces.at[i].block;
        while (at < pieces.at[i].end) {
            if (room[b] == 0) room[b] = tokens_of(need, b * members + ++member[b]);
            const int64_t count = ls_min(room[b], pieces.at[i].end - at);
            LS_ASSERT(member[b] < members && count > 0);
            add_run(m, b * members + member[b], (ls_layout_run){at, count, 1});
            room[b] -= count;
            at += count;
        }
    }
    LS_ASSERT(at == need->S);
}

ls_layout ls_layout_make(const ls_layout_need *need, ls_arena *arena) {
    LS_ASSERT(need->P >= 1 && need->P <= need->S && need->P % (int)ls_max(1, need->members) == 0);
    builder m = {.scratch = ls_arena_create()};
    m.last = LS_NEW_ARRAY(m.scratch, int, need->P);
    for (int p = 0; p < need->P; p++) m.last[p] = -1;
    if (kinds[need->kind].formula != NULL)
        make_by_formula(need, need->kind, &m);
    else
        make_by_pieces(need, need->kind, &m);
    LS_ASSERT(m.runs != NULL); /* every rank holds tokens */
    int *first_run = LS_NEW_ARRAY(arena, int, need->P + 1);
    ls_layout_run *runs = LS_NEW_ARRAY(arena, ls_layout_run, m.n);
    for (int i = 0; i < m.n; i++) first_run[m.runs[i].rank + 1]++;
    for (int p = 0; p < need->P; p++) first_run[p + 1] += first_run[p];
    for (int p = 0; p < need->P; p++) {
        int at = first_run[p + 1];
        for (int i = m.last[p]; i >= 0; i = m.runs[i].previous) runs[--at] = m.runs[i].run;
    }
    ls_arena_destroy(m.scratch);
    return (ls_layout){need->kind, need->S, need->P, (int)ls_max(1, need->members), first_run, runs};
}

ls_layout ls_layout_copy(const ls_layout *layout, ls_arena *arena) {
    ls_layout copy = *layout;
    const size_t starts = sizeof *layout->first_run * (size_t)(layout->P + 1);
    copy.first_run = ls_arena_copy(arena, layout->first_run, starts);
    const size_t bytes = sizeof *layout->runs * (size_t)layout->first_run[layout->P];
    copy.runs = ls_arena_copy(arena, layout->runs, bytes);
    return copy;
}

/* ---- reading a layout ---- */

int64_t ls_layout_start(const ls_layout *layout, int p) { return ls_part_start(layout->S, layout->P, p); }

int64_t ls_layout_count(const ls_layout *layout, int p) {
    LS_ASSERT(p >= 0 && p < layout->P);
    return ls_layout_start(layout, p + 1) - ls_layout_start(layout, p);
}

int64_t ls_layout_most(const ls_layout *layout) { return ls_ceil_div(layout->S, layout->P); }

int ls_layout_runs(const ls_layout *layout, int p, const ls_layout_run **out) {
    *out = layout->runs + layout->first_run[p];
    return layout->first_run[p + 1] - layout->first_run[p];
}

bool ls_layout_is_even(const ls_layout *layout) { return layout->S % layout->P == 0; }

int ls_layout_most_runs(const ls_layout *layout) {
    int most = 0;
    for (int p = 0; p < layout->P; p++) most = (int)ls_max(most, layout->first_run[p + 1] - layout->first_run[p]);
    return most;
}

void ls_layout_positions(const ls_layout *layout, int p, int32_t *out) {
    const ls_layout_run *runs;
    const int n = ls_layout_runs(layout, p, &runs);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < runs[r].count; i++) *out++ = (int32_t)(runs[r].first + i * runs[r].step);
}

const char *ls_layout_name(ls_layout_kind kind) {
    LS_ASSERT((unsigned)kind < LS_LAYOUTS);
    return kinds[kind].name;
}

ls_status ls_layout_parse(const char *text, ls_layout_kind *out) {
    char known[128] = "";
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        if (strcmp(text, kinds[kind].name) == 0) {
            *out = (ls_layout_kind)kind;
            return ls_ok();
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", kind > 0 ? ", " : "", kinds[kind].name);
    }
    return ls_error(LS_USAGE, "unknown layout '%s', expected one of %s", text, known);
}
