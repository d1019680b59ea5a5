/* Merging of one word: by looking for the best pair when it is short, with a heap of pairs when it is long. */
#include "base/base.h"
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
enum { SHORT = 48 }; /* symbols up to which looking through all of them is faster than a heap */

void ls_bpe_scratch_free(ls_bpe_scratch *scratch) {
    free(scratch->symbols.id);
    free(scratch->rank);
    free(scratch->previous);
    free(scratch->next);
    free(scratch->heap);
    *scratch = (ls_bpe_scratch){0};
}

static uint32_t rank_of(const ls_bpe *bpe, int32_t left, int32_t right) {
    const ls_merge *merge = ls_bpe_merge(bpe, left, right);
    return merge ? merge->rank : NONE;
}

static size_t merge_short(const ls_bpe *bpe, int32_t *id, size_t n) {
    uint32_t rank[SHORT];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(bpe, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NONE) break;
        id[best] = ls_bpe_merge(bpe, id[best], id[best + 1])->id;
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        memmove(rank + best, rank + best + 1, (n - best - 2) * sizeof *rank);
        n--;
        if (best > 0) rank[best - 1] = rank_of(bpe, id[best - 1], id[best]);
        if (best + 1 < n) rank[best] = rank_of(bpe, id[best], id[best + 1]);
    }
    return n;
}

/* The heap holds rank << 32 | position, the least on top; those that no longer hold are found when they come up. */
static bool push(ls_bpe_scratch *s, uint32_t rank, uint32_t position) {
    if (rank == NONE) return true;
    void *items = s->heap;
    bool room = ls_reserve(&items, s->heap_count, &s->heap_capacity, 1, sizeof *s->heap);
    s->heap = items;
    if (!room) return false;
    const uint64_t value = (uint64_t)rank << 32 | position;
    size_t at = s->heap_count++;
    for (size_t above; at > 0 && s->heap[above = (at - 1) / 2] > value; at = above)
        s->heap[at] = s->heap[above];
    s->heap[at] = value;
    return true;
}

static uint64_t pop(ls_bpe_scratch *s) {
    const uint64_t top = s->heap[0], value = s->heap[--s->heap_count];
    size_t at = 0;
    for (size_t below; (below = 2 * at + 1) < s->heap_count; at = below) {
        if (below + 1 < s->heap_count && s->heap[below + 1] < s->heap[below]) below++;
        if (s->heap[below] >= value) break;
        s->heap[at] = s->heap[below];
    }
    if (s->heap_count > 0) s->heap[at] = value;
    return top;
}

static bool grow(ls_bpe_scratch *s, size_t n) {
    if (n <= s->capacity) return true;
    uint32_t **arrays[] = {&s->rank, &s->previous, &s->next};
    for (size_t i = 0; i < LS_COUNT(arrays); i++) {
        uint32_t *grown = realloc(*arrays[i], n * sizeof *grown);
        if (!grown) return false;
        *arrays[i] = grown;
    }
    s->capacity = n;
    return true;
}

/* Sets the rank of the pair that begins at `at`, and pushes it. */
static bool enter(const ls_bpe *bpe, ls_bpe_scratch *s, uint32_t at) {
    const int32_t *id = s->symbols.id;
    s->rank[at] = s->next[at] == NONE ? NONE : rank_of(bpe, id[at], id[s->next[at]]);
    return push(s, s->rank[at], at);
}

static bool merge_long(const ls_bpe *bpe, ls_bpe_scratch *s) {
    const uint32_t n = (uint32_t)s->symbols.count;
    int32_t *id = s->symbols.id;
    if (!grow(s, n)) return false;
    s->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->previous[i] = i - 1; /* NONE for the first */
        s->next[i] = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!enter(bpe, s, i)) return false;
    while (s->heap_count > 0) {
        const uint64_t top = pop(s);
        const uint32_t at = (uint32_t)top, right = s->next[at];
        if (s->rank[at] != top >> 32) continue; /* a neighbour has changed since */
        id[at] = ls_bpe_merge(bpe, id[at], id[right])->id;
        s->rank[right] = NONE;
        s->next[at] = s->next[right];
        if (s->next[at] != NONE) s->previous[s->next[at]] = at;
        if (!enter(bpe, s, at)) return false;
        if (s->previous[at] != NONE && !enter(bpe, s, s->previous[at])) return false;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = s->next[i]) id[kept++] = id[i];
    s->symbols.count = kept;
    return true;
}

bool ls_bpe_merge_all(const ls_bpe *bpe, ls_bpe_scratch *scratch) {
    if (scratch->symbols.count > SHORT) return merge_long(bpe, scratch);
    scratch->symbols.count = merge_short(bpe, scratch->symbols.id, scratch->symbols.count);
    return true;
}
