/*
 * Layout `documents`: each packed document is dealt as zigzag deals a sequence, a run from its front and a run from its back to
 * each block, so that a causal mask inside it is balanced. Lengths are free: tokens that do not divide go to the blocks with the most room
 * left, so rooms never differ by more than a token and all come out exactly full; and the earliest positions, which see least,
 * go to the block with most to do so far.
 */
#include "tensor/layout_impl.h"

#include <stdlib.h>

#include "base/base.h"

typedef struct share {
    int block;
    int64_t room;  /* tokens that it still takes */
    double load;   /* pairs of a causal mask inside the documents so far */
    int64_t quota; /* of this document */
} share;

/* Without packed documents the whole sequence is one. */
static const ls_mask_term *find_documents(const ls_layout_need *need) {
    for (int m = 0; m < need->n_masks; m++) {
        const ls_mask *mask = need->masks[m].mask;
        for (int t = 0; t < mask->n; t++)
            if (mask->term[t].kind == LS_MASK_DOCUMENTS) return &mask->term[t];
    }
    return NULL;
}

/* Whose turn it is to take a token more: most room, then least load. */
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

static void give(share *to, int64_t start, int64_t *at, int64_t count, ls_arena *arena,
                 ls_layout_pieces *out) {
    if (count == 0) return;
    const double first = (double)(*at - start + 1), last = first + (double)count - 1;
    to->load += (first + last) / 2 * (double)count;
    to->room -= count;
    *at += count;
    *LS_PUSH(arena, out->at, out->n, out->capacity) = (ls_layout_piece){*at, to->block};
}

/* Positions [start, end). */
static void deal_document(share *shares, int n, int64_t start, int64_t end, ls_arena *arena,
                          ls_layout_pieces *out) {
    const int64_t each = (end - start) / n, more = (end - start) % n;
    qsort(shares, (size_t)n, sizeof *shares, by_room);
    for (int i = 0; i < n; i++) shares[i].quota = each + (i < more);
    qsort(shares, (size_t)n, sizeof *shares, by_load);
    int64_t at = start;
    for (int i = 0; i < n; i++) give(&shares[i], start, &at, ls_ceil_div(shares[i].quota, 2), arena, out);
    for (int i = n - 1; i >= 0; i--) give(&shares[i], start, &at, shares[i].quota / 2, arena, out);
}

void ls_layout_deal_documents(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int blocks = ls_layout_blocks(need);
    share *shares = LS_NEW_ARRAY(scratch, share, blocks);
    for (int b = 0; b < blocks; b++) shares[b] = (share){b, ls_layout_block_tokens(need, b), 0, 0};
    const ls_mask_term *documents = find_documents(need);
    if (documents == NULL) {
        deal_document(shares, blocks, 0, need->S, scratch, out);
        return;
    }
    for (int d = 0; d + 1 < documents->n_ends; d++)
        deal_document(shares, blocks, documents->ends[d], documents->ends[d + 1], scratch, out);
}
