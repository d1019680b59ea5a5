/*
 * What is seen: which keys of a block the queries of another block see, as ranges of tokens. Whatever is sent or read in place of
 * keys and values, and of their gradients, is these ranges and nothing else; every rank finds the same for all pairs of blocks.
 *
 * The ranges are exact to the token: the spans of all queries of a block are united, and met with the runs of positions that
 * the other block holds. Only where there are more than MOST_RANGES, those with the smallest gaps between them are joined.
 */
#include "compile/attention/attention.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANGES = 32 };

/* Positions first, first + step, ... of consecutive tokens. */
typedef struct run {
    int64_t first, count, step;
} run;

typedef struct runs {
    run *at;
    int64_t n;
} runs;

typedef struct spans {
    ls_span *at; /* ascending and apart, once they are united */
    int n;
    size_t capacity;
} spans;

struct ls_visible {
    int R;
    ls_token_set *seen;   /* by queries * R + keys */
    ls_token_set *wanted; /* by hop * R + keys, hop 1..R */
    int *hops, n_hops;
    int64_t most_seen, most_wanted;
    ls_area **area; /* as `seen`, by range; NULL: not counted yet */
};

/* --- ranges ---------------------------------------------------------------------------------------------------------------- */

typedef struct list {
    ls_arena *arena;
    ls_token_range *at;
    int n;
    size_t capacity;
} list;

/* Behind those that are there, or touching the last of them. */
static void append(list *l, int64_t start, int64_t count) {
    ls_token_range *last = l->n > 0 ? &l->at[l->n - 1] : NULL;
    if (last != NULL && start <= last->start + last->count)
        last->count = ls_max(last->start + last->count, start + count) - last->start;
    else if (count > 0)
        *LS_PUSH(l->arena, l->at, l->n, l->capacity) = (ls_token_range){start, count};
}

typedef struct gap {
    int64_t size;
    int before; /* the range that it lies in front of */
} gap;

static int widest_first(const void *x, const void *y) {
    const gap *a = x, *b = y;
    return a->size != b->size ? (a->size < b->size ? 1 : -1) : a->before - b->before;
}

/* The ranges, in the arena given, with all gaps closed but the widest. */
static ls_token_set tokens_of(ls_arena *arena, const list *l) {
    list joined = {.arena = arena};
    gap *gaps = LS_NEW_ARRAY(l->arena, gap, l->n + 1);
    bool *kept = LS_NEW_ARRAY(l->arena, bool, l->n + 1);
    for (int i = 1; i < l->n; i++)
        gaps[i - 1] = (gap){l->at[i].start - l->at[i - 1].start - l->at[i - 1].count, i};
    if (l->n > MOST_RANGES) qsort(gaps, (size_t)l->n - 1, sizeof *gaps, widest_first);
    for (int i = 0; i < ls_min(l->n, MOST_RANGES) - 1; i++) kept[gaps[i].before] = true;
    for (int i = 0; i < l->n; i++) {
        const ls_token_range *last = joined.n > 0 ? &joined.at[joined.n - 1] : NULL;
        const int64_t from = last == NULL || kept[i] ? l->at[i].start : last->start + last->count;
        append(&joined, from, l->at[i].start + l->at[i].count - from);
    }
    ls_token_set out = {.n = joined.n, .range = joined.at};
    for (int i = 0; i < out.n; i++) out.count += out.range[i].count;
    return out;
}

static ls_token_set unite(ls_arena *arena, ls_arena *scratch, const ls_token_set *a, const ls_token_set *b) {
    list both = {.arena = scratch};
    for (int i = 0, j = 0; i < a->n || j < b->n;) {
        const bool first = j == b->n || (i < a->n && a->range[i].start <= b->range[j].start);
        const ls_token_range *next = first ? &a->range[i++] : &b->range[j++];
        append(&both, next->start, next->count);
    }
    return tokens_of(arena, &both);
}

ls_operand ls_tokens_at(ls_operand held, const ls_token_set *tokens, ls_token_range wanted) {
    if (wanted.count == 0) return ls_operand_slice(held, 1, 0, 0);
    int64_t before = 0;
    int i = 0;
    while (tokens->range[i].start + tokens->range[i].count <= wanted.start)
        before += tokens->range[i++].count;
    const ls_token_range *in = &tokens->range[i];
    LS_ASSERT(in->start <= wanted.start && wanted.start + wanted.count <= in->start + in->count);
    const int64_t token = held.view.size[0] * held.view.size[2] * held.view.size[3];
    ls_operand range = ls_with_tokens(held, in->count);
    range.peer = held.peer;
    range.offset += (size_t)(before * token) * ls_dtype_bytes(held.view.dtype);
    return ls_operand_slice(range, 1, wanted.start - in->start, wanted.count);
}

/* --- what a block sees ----------------------------------------------------------------------------------------------------- */

static int by_start(const void *x, const void *y) {
    const ls_span *a = x, *b = y;
    return a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

static void add_span(ls_arena *scratch, spans *s, ls_span span) {
    if (span.lo < span.hi) *LS_PUSH(scratch, s->at, s->n, s->capacity) = span;
}

/* What the queries at those positions see together. Neighbours' spans overlap, so few are ever kept. */
static spans unite_spans(const ls_builder *b, ls_arena *scratch, int mask, const int32_t *positions,
                         int64_t n) {
    spans s = {0};
    ls_span open[LS_MASK_SPANS] = {{0, 0}};
    for (int64_t i = 0; i < n; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int count = ls_mask_spans(&b->image->masks[mask].mask, b->image->layout.S, positions[i], seen);
        for (int j = 0; j < count; j++) {
            const bool meets = seen[j].lo <= open[j].hi && open[j].lo <= seen[j].hi;
            if (!meets) add_span(scratch, &s, open[j]);
            open[j].lo = meets && open[j].lo < seen[j].lo ? open[j].lo : seen[j].lo;
            open[j].hi = meets && open[j].hi > seen[j].hi ? open[j].hi : seen[j].hi;
        }
    }
    for (int j = 0; j < LS_MASK_SPANS; j++) add_span(scratch, &s, open[j]);
    if (s.n > 0) qsort(s.at, (size_t)s.n, sizeof *s.at, by_start);
    int kept = 0;
    for (int i = 0; i < s.n; i++) {
        if (kept > 0 && s.at[i].lo <= s.at[kept - 1].hi)
            s.at[kept - 1].hi = s.at[kept - 1].hi > s.at[i].hi ? s.at[kept - 1].hi : s.at[i].hi;
        else
            s.at[kept++] = s.at[i];
    }
    s.n = kept;
    return s;
}

static runs find_runs(ls_arena *scratch, const int32_t *positions, int64_t n) {
    runs out = {.at = LS_NEW_ARRAY(scratch, run, n + 1)};
    for (int64_t i = 0; i < n; i += out.at[out.n - 1].count) {
        const int64_t step = i + 1 < n ? positions[i + 1] - positions[i] : 1;
        run r = {positions[i], 1, ls_max(step, 1)};
        while (i + r.count < n && positions[i + r.count] == r.first + r.count * r.step) r.count++;
        out.at[out.n++] = r;
    }
    return out;
}

/* How many of the run's tokens lie before the position. */
static int64_t before(const run *r, int64_t position) {
    return ls_min(r->count, ls_ceil_div(ls_max(0, position - r->first), r->step));
}

static ls_token_set meet(ls_arena *arena, ls_arena *scratch, const runs *keys, const spans *s) {
    list found = {.arena = scratch};
    int64_t start = 0;
    for (int64_t i = 0; i < keys->n; i++) {
        const run *r = &keys->at[i];
        int lo = 0, hi = s->n; /* the first span that ends after the run's first position */
        while (lo < hi) {
            const int middle = lo + (hi - lo) / 2;
            if (s->at[middle].hi > r->first)
                hi = middle;
            else
                lo = middle + 1;
        }
        for (; lo < s->n && s->at[lo].lo <= r->first + (r->count - 1) * r->step; lo++) {
            const int64_t from = before(r, s->at[lo].lo), to = before(r, s->at[lo].hi);
            if (from < to) append(&found, start + from, to - from);
        }
        start += r->count;
    }
    return tokens_of(arena, &found);
}

/* --- all pairs of blocks --------------------------------------------------------------------------------------------------- */

static void find_seen(const ls_builder *b, ls_arena *scratch, int mask, struct ls_visible *v) {
    ls_arena *arena = b->image->arena;
    const int R = v->R;
    runs *held = LS_NEW_ARRAY(scratch, runs, R);
    spans *looks = LS_NEW_ARRAY(scratch, spans, R);
    for (int i = 0; i < R && R > 1; i++) {
        const int32_t *positions = ls_block_positions(b, scratch, i);
        held[i] = find_runs(scratch, positions, ls_block_tokens(b, i));
        looks[i] = unite_spans(b, scratch, mask, positions, ls_block_tokens(b, i));
    }
    for (int i = 0; i < R * R; i++) {
        const int queries = i / R, keys = i % R;
        const list own = {.arena = scratch, .n = 1, .at = &(ls_token_range){0, ls_block_tokens(b, queries)}};
        v->seen[i] =
            queries == keys ? tokens_of(arena, &own) : meet(arena, scratch, &held[keys], &looks[queries]);
        if (queries != keys) v->most_seen = ls_max(v->most_seen, v->seen[i].count);
    }
}

/* From the last hop back: what is wanted further on is wanted here, so that what arrives always holds what leaves. */
static void find_wanted(const ls_builder *b, ls_arena *scratch, struct ls_visible *v) {
    const int R = v->R;
    for (int hop = R - 1; hop > 0; hop--) {
        for (int keys = 0; keys < R; keys++) {
            const ls_token_set *here = &v->seen[(keys + hop) % R * R + keys];
            ls_token_set *wanted = &v->wanted[hop * R + keys];
            *wanted = unite(b->image->arena, scratch, here, &v->wanted[(hop + 1) * R + keys]);
            v->most_wanted = ls_max(v->most_wanted, wanted->count);
        }
    }
    for (int hop = 1; hop < R; hop++) {
        bool used = false;
        for (int keys = 0; keys < R; keys++) used |= v->seen[(keys + hop) % R * R + keys].count > 0;
        if (used) v->hops[v->n_hops++] = hop;
    }
}

static struct ls_visible *visible(ls_builder *b, int mask) {
    ls_arena *arena = b->image->arena;
    if (b->visible == NULL) b->visible = LS_NEW_ARRAY(arena, struct ls_visible *, b->image->n_masks);
    if (b->visible[mask] != NULL) return b->visible[mask];
    struct ls_visible *v = b->visible[mask] = LS_NEW(arena, struct ls_visible);
    const int R = v->R = b->target->mesh.size[LS_AXIS_RING];
    v->seen = LS_NEW_ARRAY(arena, ls_token_set, R * R);
    v->wanted = LS_NEW_ARRAY(arena, ls_token_set, (R + 1) * R);
    v->hops = LS_NEW_ARRAY(arena, int, R);
    v->area = LS_NEW_ARRAY(arena, ls_area *, R * R);
    ls_arena *scratch = ls_arena_create();
    find_seen(b, scratch, mask, v);
    find_wanted(b, scratch, v);
    ls_arena_destroy(scratch);
    return v;
}

const ls_token_set *ls_seen(ls_builder *b, int mask, int queries, int keys) {
    const struct ls_visible *v = visible(b, mask);
    return &v->seen[queries * v->R + keys];
}

const ls_token_set *ls_wanted(ls_builder *b, int mask, int keys, int hop) {
    const struct ls_visible *v = visible(b, mask);
    return hop == 0 ? &v->seen[keys * v->R + keys] : &v->wanted[hop * v->R + keys];
}

int64_t ls_most_seen(ls_builder *b, int mask) { return visible(b, mask)->most_seen; }
int64_t ls_most_wanted(ls_builder *b, int mask) { return visible(b, mask)->most_wanted; }

int ls_hops(ls_builder *b, int mask, const int **hops) {
    const struct ls_visible *v = visible(b, mask);
    *hops = v->hops;
    return v->n_hops;
}

ls_area ls_seen_area(ls_builder *b, int mask, int queries, int keys, int range) {
    struct ls_visible *v = visible(b, mask);
    const ls_token_set *seen = &v->seen[queries * v->R + keys];
    if (range >= seen->n) return (ls_area){0, 0};
    ls_area **known = &v->area[queries * v->R + keys];
    if (*known == NULL) {
        *known = LS_NEW_ARRAY(b->image->arena, ls_area, seen->n);
        for (int i = 0; i < seen->n; i++) (*known)[i] = ls_count_area(b, mask, queries, keys, seen->range[i]);
    }
    return (*known)[range];
}
