/*
 * Counts the (query, key) pairs that a mask allows between the queries of one block and keys of another. Attention's
 * predicted cost follows from them.
 */
#include "compile/attention/attention.h"

#include <math.h>

/* Sorts n different numbers below `limit`, in time n + limit / 64. */
static void sort(ls_arena *scratch, int32_t *positions, int64_t n, int64_t limit) {
    uint64_t *held = LS_NEW_ARRAY(scratch, uint64_t, limit / 64 + 1);
    for (int64_t i = 0; i < n; i++) held[positions[i] / 64] |= (uint64_t)1 << (positions[i] % 64);
    for (int64_t word = 0, at = 0; at < n; word++) {
        for (uint64_t left = held[word]; left != 0; left &= left - 1)
            positions[at++] = (int32_t)(64 * word + __builtin_ctzll(left));
    }
}

/*
 * The number of sorted positions below `limit`. The search begins at *answer, the result of the previous call, because
 * spans move forward with the queries.
 */
static int64_t below(const int32_t *sorted, int64_t n, int32_t limit, int64_t *answer) {
    while (*answer > 0 && sorted[*answer - 1] >= limit) --*answer;
    while (*answer < n && sorted[*answer] < limit) ++*answer;
    return *answer;
}

/* m: the mask of the binding, or this mask combined with a typical sequence of documents. */
static ls_area count(const ls_builder *b, const ls_mask_binding *of, const ls_mask *m, int queries, int keys,
                     ls_token_range range) {
    const int64_t S = ls_image_tokens(b->image), n = ls_block_tokens(b, queries);
    if (range.count == S) return (ls_area){(double)ls_mask_area(m, S), (double)n};
    ls_arena *scratch = ls_arena_create();
    int32_t *q_at = ls_block_positions(b, scratch, queries, of->slice);
    int32_t *k_at = ls_block_positions(b, scratch, keys, of->keys) + range.start;
    sort(scratch, q_at, n, S);
    sort(scratch, k_at, range.count, S);
    int64_t pairs = 0, seeing = 0, from[LS_MASK_SPANS] = {0}, to[LS_MASK_SPANS] = {0};
    for (int64_t i = 0; i < n; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int w = ls_mask_spans(m, S, q_at[i], seen);
        const int64_t before = pairs;
        for (int j = 0; j < w; j++)
            pairs += below(k_at, range.count, seen[j].hi, &to[j]) - below(k_at, range.count, seen[j].lo, &from[j]);
        seeing += pairs > before;
    }
    ls_arena_destroy(scratch);
    return (ls_area){(double)pairs, (double)seeing};
}

ls_area ls_count_area(const ls_builder *b, int mask, int queries, int keys, ls_token_range range) {
    const ls_mask_binding *of = &b->image->masks[mask];
    const ls_mask *m = &of->mask;
    /*
     * A typical sequence of documents is one more term of the mask; a mask without a free term is counted without
     * documents.
     */
    const int typical = m->n < LS_MASK_TERMS ? b->job->n_documents : 0;
    if (typical == 0) return count(b, of, m, queries, keys, range);
    ls_area mean = {0, 0};
    for (int i = 0; i < typical; i++) {
        ls_mask inside = *m;
        inside.term[inside.n++] = b->job->documents[i];
        const ls_area area = count(b, of, &inside, queries, keys, range);
        mean.pairs += area.pairs / typical;
        mean.queries += area.queries / typical;
    }
    return mean;
}

ls_area ls_area_sum(ls_area a, ls_area b, int64_t queries) {
    return (ls_area){a.pairs + b.pairs, fmin(a.queries + b.queries, (double)queries)};
}
