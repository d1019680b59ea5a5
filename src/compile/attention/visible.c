/*
 * Visibility: which keys of a block the queries of another block see, as ranges of tokens. Of keys and values, and of
 * their gradients, exactly these ranges are sent or read in place; every rank finds the same ranges for each pair of
 * blocks.
 *
 * A rank keeps the ranges that concern its own block: what it sees of the others, and what they see of it. The other
 * pairs decide the sizes of slots and which hops are used, which must be equal on all ranks; of them it keeps only sums
 * and maxima. So memory grows with the number of blocks, not with the number of pairs.
 *
 * The ranges are exact to the token: the spans of all queries of a block are united, and intersected with the runs of
 * positions that the other block holds. Only if there are more than MOST_RANGES, those with the smallest gaps between
 * them are joined.
 */
#include "compile/attention/attention.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANGES = 32 };

/* Consecutive tokens with positions first, first + step, ... */
typedef struct run {
    int64_t first, count, step;
} run;

typedef struct runs {
    run *at;
    int n;
    size_t capacity;
} runs;

typedef struct spans {
    ls_span *at; /* after uniting: ascending, with gaps between them */
    int n;
    size_t capacity;
} spans;

/* The visible tokens of my block with each other block, in one direction. Arrays are by block. */
typedef struct strip {
    ls_token_set *seen; /* as keys, if the strip is `mine`; as queries, if it is `theirs` */
    ls_area **area;     /* of each range of `seen`; NULL: not counted yet */
    int64_t *before;    /* [R + 1]: tokens of the sets of all blocks before this one; [R]: of all sets */
    int64_t *all;       /* the value before[R] in the strip of that block */
    int64_t *up_to_me;  /* in the strip of that block: the tokens of the sets before my block's */
} strip;

struct ls_visible {
    int mask, R, me;
    int W;             /* blocks of the inner ring; R if there is no outer ring */
    runs *held;        /* by block: the positions of its tokens */
    spans *looks;      /* by block: the union of what its queries see */
    ls_token_set *own; /* by block: all of its tokens */
    strip mine;        /* what my block sees, by block of keys; its own tokens count */
    strip theirs; /* what is seen of my block, by block of queries; what my block sees of itself does not count in the
                     sums */
    ls_token_set *comes, *goes; /* by hop 1..R - 1: the wanted tokens of the block that comes here over it, and of the
                                   block that goes on over it; NULL: not found yet */
    /*
     * With two rings. by_ring, by hop: what the rank of my inner ring at these inner hops sees of the block that
     * entered here over these outer hops. of_ring, by outer hop: what all ranks of my inner ring see of that block.
     * of_mine, by outer hop: what all ranks of the inner ring at that distance see of my own block.
     */
    ls_token_set *by_ring, *of_ring, *of_mine;
    int *hops, n_hops;
    bool *used;           /* by hop; used[0] is true */
    int *last;            /* by outer hop: the last used hop with so many outer hops; -1: none */
    ls_hop_span *looking; /* by block: the hops over which its queries see anything */
    int64_t most_seen, most_wanted;
};

/* --- ranges ------------------------------------------------------------------------------------------------------- */

/* A list of ranges whose memory is reused; gaps and kept are scratch memory of `join`. */
typedef struct gap {
    int64_t size;
    int before; /* index of the range after the gap */
} gap;

typedef struct list {
    ls_arena *arena;
    ls_token_range *at;
    gap *gaps;
    bool *kept;
    int n, n_gaps, n_kept;
    size_t capacity, gap_capacity, kept_capacity;
} list;

/* Appends a range; joins it with the last one if they touch or overlap. */
static void append(list *l, int64_t start, int64_t count) {
    ls_token_range *last = l->n > 0 ? &l->at[l->n - 1] : NULL;
    if (last != NULL && start <= last->start + last->count)
        last->count = ls_max(last->start + last->count, start + count) - last->start;
    else if (count > 0)
        *LS_PUSH(l->arena, l->at, l->n, l->capacity) = (ls_token_range){start, count};
}

static int widest_first(const void *x, const void *y) {
    const gap *a = x, *b = y;
    return a->size != b->size ? (a->size < b->size ? 1 : -1) : a->before - b->before;
}

/* Keeps the MOST_RANGES - 1 widest gaps between ranges and closes the others. */
static void join(list *l) {
    if (l->n <= MOST_RANGES) return;
    const int n = l->n;
    l->n_gaps = l->n_kept = 0;
    for (int i = 0; i < n; i++) {
        *LS_PUSH(l->arena, l->kept, l->n_kept, l->kept_capacity) = i == 0;
        if (i == 0) continue;
        const int64_t size = l->at[i].start - l->at[i - 1].start - l->at[i - 1].count;
        *LS_PUSH(l->arena, l->gaps, l->n_gaps, l->gap_capacity) = (gap){size, i};
    }
    qsort(l->gaps, (size_t)l->n_gaps, sizeof *l->gaps, widest_first);
    for (int i = 0; i < MOST_RANGES - 1; i++) l->kept[l->gaps[i].before] = true;
    l->n = 0;
    for (int i = 0; i < n; i++) {
        const ls_token_range range = l->at[i]; /* copied first: append writes at or before this element */
        const ls_token_range *last = l->n > 0 ? &l->at[l->n - 1] : NULL;
        const int64_t from = l->kept[i] ? range.start : last->start + last->count;
        append(l, from, range.start + range.count - from);
    }
}

static int64_t count_of(const list *l) {
    int64_t count = 0;
    for (int i = 0; i < l->n; i++) count += l->at[i].count;
    return count;
}

static ls_token_set copy_of(ls_arena *arena, const list *l) {
    ls_token_set set = {.n = l->n, .count = count_of(l)};
    if (l->n > 0) set.range = ls_arena_copy(arena, l->at, sizeof *l->at * (size_t)l->n);
    return set;
}

/* *l becomes the union of two ascending lists. */
static void unite(list *l, const list *a, const list *b) {
    l->n = 0;
    const int of_a = a->n, of_b = b->n;
    for (int i = 0, j = 0; i < of_a || j < of_b;) {
        const bool first = j >= of_b || (i < of_a && a->at[i].start <= b->at[j].start);
        const ls_token_range *next = first ? &a->at[i++] : &b->at[j++];
        append(l, next->start, next->count);
    }
    join(l);
}

ls_operand ls_tokens_at(ls_operand held, const ls_token_set *tokens, ls_token_range wanted) {
    if (wanted.count == 0) return ls_operand_slice(held, 1, 0, 0);
    int64_t before = 0;
    int i = 0;
    while (tokens->range[i].start + tokens->range[i].count <= wanted.start) before += tokens->range[i++].count;
    const ls_token_range *in = &tokens->range[i];
    LS_ASSERT(in->start <= wanted.start && wanted.start + wanted.count <= in->start + in->count);
    const int64_t token = held.view.size[0] * held.view.size[2] * held.view.size[3];
    ls_operand range = ls_with_tokens(held, in->count);
    range.peer = held.peer;
    range.offset += (size_t)(before * token) * ls_dtype_bytes(held.view.dtype);
    return ls_operand_slice(range, 1, wanted.start - in->start, wanted.count);
}

/* --- what a block sees -------------------------------------------------------------------------------------------- */

static int by_start(const void *x, const void *y) {
    const ls_span *a = x, *b = y;
    return a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

static void add_span(ls_arena *arena, spans *s, ls_span span) {
    if (span.lo < span.hi) *LS_PUSH(arena, s->at, s->n, s->capacity) = span;
}

/* The union of what the queries at these positions see. Spans of neighbours overlap, so the list stays short. */
static spans unite_spans(const ls_builder *b, ls_arena *arena, int mask, const int32_t *positions, int64_t n) {
    spans s = {0};
    ls_span open[LS_MASK_SPANS] = {{0, 0}};
    for (int64_t i = 0; i < n; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int count = ls_mask_spans(&b->image->masks[mask].mask, ls_image_tokens(b->image), positions[i], seen);
        for (int j = 0; j < count; j++) {
            const bool meets = seen[j].lo <= open[j].hi && open[j].lo <= seen[j].hi;
            if (!meets) add_span(arena, &s, open[j]);
            open[j].lo = meets && open[j].lo < seen[j].lo ? open[j].lo : seen[j].lo;
            open[j].hi = meets && open[j].hi > seen[j].hi ? open[j].hi : seen[j].hi;
        }
    }
    for (int j = 0; j < LS_MASK_SPANS; j++) add_span(arena, &s, open[j]);
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

static runs find_runs(ls_arena *arena, const int32_t *positions, int64_t n) {
    runs out = {.n = 0};
    for (int64_t i = 0; i < n; i += out.at[out.n - 1].count) {
        const int64_t step = i + 1 < n ? positions[i + 1] - positions[i] : 1;
        run r = {positions[i], 1, ls_max(step, 1)};
        while (i + r.count < n && positions[i + r.count] == r.first + r.count * r.step) r.count++;
        *LS_PUSH(arena, out.at, out.n, out.capacity) = r;
    }
    return out;
}

/* How many tokens of the run have positions below `position`. */
static int64_t before(const run *r, int64_t position) {
    return ls_min(r->count, ls_ceil_div(ls_max(0, position - r->first), r->step));
}

/* *found becomes the tokens of the runs that lie in the spans. */
static void meet(list *found, const runs *keys, const spans *s) {
    int64_t start = 0;
    found->n = 0;
    for (int64_t i = 0; i < keys->n; i++) {
        const run *r = &keys->at[i];
        int lo = 0, hi = s->n; /* binary search for the first span that ends after the run's first position */
        while (lo < hi) {
            const int middle = lo + (hi - lo) / 2;
            if (s->at[middle].hi > r->first)
                hi = middle;
            else
                lo = middle + 1;
        }
        for (; lo < s->n && s->at[lo].lo <= r->first + (r->count - 1) * r->step; lo++) {
            const int64_t from = before(r, s->at[lo].lo), to = before(r, s->at[lo].hi);
            if (from < to) append(found, start + from, to - from);
        }
        start += r->count;
    }
    join(found);
}

/* --- hops --------------------------------------------------------------------------------------------------------- */

/* The block at distance `hop`; inner and outer hops each count round their own ring. */
static int further(const struct ls_visible *v, int block, int hop) {
    const int W = v->W;
    return (block / W + hop / W) % (v->R / W) * W + (block % W + hop % W) % W;
}

/* The hop that joins these queries with these keys. */
static int hop_between(const struct ls_visible *v, int queries, int keys) {
    const int W = v->W, O = v->R / W;
    return (queries / W - keys / W + O) % O * W + (queries % W - keys % W + W) % W;
}

/*
 * The hop before this one on a block's way: along the inner ring, or, for the rank where the block enters it, along the
 * outer ring.
 */
static int hop_before(const struct ls_visible *v, int hop) { return hop % v->W > 0 ? hop - 1 : hop - v->W; }

/* --- pairs of blocks ---------------------------------------------------------------------------------------------- */

/* *found becomes what the queries of a block see of the keys of a block; all, if both are the same block. */
static void look(const ls_builder *b, const struct ls_visible *v, int queries, int keys, list *found) {
    found->n = 0;
    if (queries == keys)
        append(found, 0, ls_block_tokens(b, keys));
    else
        meet(found, &v->held[keys], &v->looks[queries]);
}

static strip make_strip(ls_arena *arena, int R) {
    return (strip){.seen = LS_NEW_ARRAY(arena, ls_token_set, R),
                   .area = LS_NEW_ARRAY(arena, ls_area *, R),
                   .before = LS_NEW_ARRAY(arena, int64_t, R + 1),
                   .all = LS_NEW_ARRAY(arena, int64_t, R),
                   .up_to_me = LS_NEW_ARRAY(arena, int64_t, R)};
}

/* Adds the set of block `at` to the strip of block `of`: to the sums, and to the sets if `of` is my block. */
static void add_to_strip(ls_arena *arena, strip *s, int me, int of, int at, const list *found, int64_t counted) {
    s->all[of] += counted;
    if (at < me) s->up_to_me[of] += counted;
    if (of != me) return;
    s->seen[at] = copy_of(arena, found);
    s->before[at + 1] = counted;
}

/* A run of some block, in a list of the runs of all blocks sorted by first position. */
typedef struct placed_run {
    int64_t first, end; /* positions first .. end - 1 */
    int64_t reach;      /* the largest end of this run and all before it */
    int block;
} placed_run;

static int by_first(const void *x, const void *y) {
    const placed_run *a = x, *b = y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->block - b->block;
}

static placed_run *sort_runs(const struct ls_visible *v, ls_arena *scratch, int *n) {
    placed_run *all = NULL;
    size_t capacity = 0;
    *n = 0;
    for (int block = 0; block < v->R; block++) {
        for (int i = 0; i < v->held[block].n; i++) {
            const run *r = &v->held[block].at[i];
            *LS_PUSH(scratch, all, *n, capacity) =
                (placed_run){.first = r->first, .end = r->first + (r->count - 1) * r->step + 1, .block = block};
        }
    }
    if (*n > 0) qsort(all, (size_t)*n, sizeof *all, by_first);
    for (int i = 0; i < *n; i++) all[i].reach = i > 0 ? ls_max(all[i].end, all[i - 1].reach) : all[i].end;
    return all;
}

/*
 * Writes the blocks that have a run overlapping one of the spans to out[R], each once; returns how many. mark[R] must
 * not contain `number` before.
 */
static int find_near(const placed_run *all, int n, const spans *s, int *mark, int number, int *out) {
    int found = 0;
    for (int k = 0; k < s->n; k++) {
        int lo = 0, hi = n; /* binary search for the first run whose reach is beyond the span's beginning */
        while (lo < hi) {
            const int middle = lo + (hi - lo) / 2;
            if (all[middle].reach > s->at[k].lo)
                hi = middle;
            else
                lo = middle + 1;
        }
        for (; lo < n && all[lo].first < s->at[k].hi; lo++) {
            if (all[lo].end <= s->at[k].lo || mark[all[lo].block] == number) continue;
            mark[all[lo].block] = number;
            out[found++] = all[lo].block;
        }
    }
    return found;
}

/* Notes that the queries of a block see something over this hop. */
static void use_hop(struct ls_visible *v, int queries, int hop) {
    ls_hop_span *s = &v->looking[queries];
    v->used[hop] = true;
    s->first = s->last == 0 ? hop : (int)ls_min(s->first, hop);
    s->last = (int)ls_max(s->last, hop);
}

/* Finds, for each block of queries, what they see of the blocks that they may see. */
static void find_seen(const ls_builder *b, ls_arena *scratch, struct ls_visible *v) {
    ls_arena *arena = b->image->arena;
    const int R = v->R;
    list found = {.arena = scratch};
    int *mark = LS_NEW_ARRAY(scratch, int, R), *near = LS_NEW_ARRAY(scratch, int, R), n_runs;
    const placed_run *all = sort_runs(v, scratch, &n_runs);
    for (int queries = 0; queries < R; queries++) {
        const int n = find_near(all, n_runs, &v->looks[queries], mark, queries + 1, near);
        look(b, v, queries, queries, &found);
        v->own[queries] = copy_of(arena, &found);
        add_to_strip(arena, &v->mine, v->me, queries, queries, &found, count_of(&found));
        for (int i = 0; i < n; i++) {
            const int keys = near[i];
            if (keys == queries) continue;
            look(b, v, queries, keys, &found);
            const int64_t count = count_of(&found);
            add_to_strip(arena, &v->mine, v->me, queries, keys, &found, count);
            add_to_strip(arena, &v->theirs, v->me, keys, queries, &found, count);
            v->most_seen = ls_max(v->most_seen, count);
            if (count > 0) use_hop(v, queries, hop_between(v, queries, keys));
        }
    }
    for (int i = 0; i < R; i++) {
        v->mine.before[i + 1] += v->mine.before[i];
        v->theirs.before[i + 1] += v->theirs.before[i];
    }
    for (int out = 0; out < R / v->W; out++) v->last[out] = -1;
    for (int hop = 0; hop < R; hop++) {
        v->used[hop] |= hop == 0;
        if (v->used[hop]) v->last[hop / v->W] = hop;
        if (v->used[hop] && hop > 0) v->hops[v->n_hops++] = hop;
    }
}

/* A block's way past this rank: the hop over which it comes, and those over which it goes on; 0: none. */
typedef struct passage {
    int comes, inner, outer;
} passage;

static passage passage_of(const struct ls_visible *v, int keys) {
    const int W = v->W, comes = hop_between(v, v->me, keys);
    return (passage){.comes = comes,
                     .inner = comes % W + 1 < W ? comes + 1 : 0,
                     .outer = comes % W == 0 && comes + W < v->R ? comes + W : 0};
}

/* Hops after + 1 .. last along one of the rings. */
typedef struct stretch {
    bool outer;
    int after, last;
} stretch;

/*
 * Keeps the wanted tokens of a block, which are the same over all hops of the stretch, if one of these hops leads to or
 * from this rank.
 */
static void keep_wanted(ls_arena *arena, struct ls_visible *v, const passage *p, stretch s, const list *wanted) {
    const int goes = s.outer ? p->outer : p->inner;
    if ((p->comes % v->W == 0) == s.outer && s.after < p->comes && p->comes <= s.last)
        v->comes[p->comes] = copy_of(arena, wanted);
    if (s.after < goes && goes <= s.last) v->goes[goes] = copy_of(arena, wanted);
}

/* Keeps what the ranks of one inner ring see of a block together, if the ring or the block is mine. */
static void keep_of_ring(ls_arena *arena, struct ls_visible *v, const passage *p, int out, const list *seen) {
    if (out == 0) return;
    if (p->comes == 0) v->of_mine[out] = copy_of(arena, seen);
    if (p->comes == out * v->W) v->of_ring[out] = copy_of(arena, seen);
}

/* Memory for lists of which each is made from the one before. */
typedef struct wanted_lists {
    list here, inner[2], outer[2];
} wanted_lists;

/*
 * The wanted tokens of one block, from the last hop back. What is wanted further on is wanted here too, so that the
 * tokens that arrive include all that are sent on. Along an inner ring these are the tokens that its later ranks see;
 * along the outer ring, those that this inner ring and the ones after it see. They change only at used hops.
 */
static void find_wanted_of(const ls_builder *b, struct ls_visible *v, int keys, wanted_lists *l) {
    ls_arena *arena = b->image->arena;
    const int W = v->W;
    const passage p = passage_of(v, keys);
    int rings = 0;
    l->outer[0].n = 0;
    for (int i = v->n_hops - 1; i >= 0; i--) {
        const int hop = v->hops[i], out = hop / W, before = i > 0 ? v->hops[i - 1] : 0;
        const bool first = i == 0 || before / W < out; /* the first used hop of its inner ring */
        list *inner = &l->inner[i % 2], *behind = &l->inner[(i + 1) % 2];
        if (hop == v->last[out]) behind->n = 0;
        look(b, v, further(v, keys, hop), keys, &l->here);
        if (out > 0 && p.comes == out * W) v->by_ring[hop] = copy_of(arena, &l->here);
        unite(inner, &l->here, behind);
        keep_wanted(arena, v, &p, (stretch){false, first ? out * W : before, hop}, inner);
        if (!first) continue;
        keep_of_ring(arena, v, &p, out, inner);
        v->most_wanted = ls_max(v->most_wanted, count_of(inner));
        if (out == 0) continue;
        list *outer = &l->outer[++rings % 2];
        unite(outer, inner, &l->outer[(rings + 1) % 2]);
        keep_wanted(arena, v, &p, (stretch){true, before / W * W, out * W}, outer);
        v->most_wanted = ls_max(v->most_wanted, count_of(outer));
    }
}

static void find_wanted(const ls_builder *b, struct ls_visible *v) {
    ls_arena *arena = b->image->arena, *scratch = ls_arena_create();
    const int R = v->R, O = R / v->W;
    v->comes = LS_NEW_ARRAY(arena, ls_token_set, R + 1);
    v->goes = LS_NEW_ARRAY(arena, ls_token_set, R + 1);
    v->by_ring = LS_NEW_ARRAY(arena, ls_token_set, O > 1 ? R : 1);
    v->of_ring = LS_NEW_ARRAY(arena, ls_token_set, O);
    v->of_mine = LS_NEW_ARRAY(arena, ls_token_set, O);
    const list empty = {.arena = scratch};
    wanted_lists lists = {empty, {empty, empty}, {empty, empty}};
    for (int keys = 0; keys < R; keys++) find_wanted_of(b, v, keys, &lists);
    ls_arena_destroy(scratch);
}

static struct ls_visible *visible(ls_builder *b, int mask) {
    ls_arena *arena = b->image->arena;
    if (b->sites->visible == NULL) b->sites->visible = LS_NEW_ARRAY(arena, struct ls_visible *, b->image->n_masks);
    if (b->sites->visible[mask] != NULL) return b->sites->visible[mask];
    struct ls_visible *v = b->sites->visible[mask] = LS_NEW(arena, struct ls_visible);
    const int R = v->R = ls_blocks(b);
    v->mask = mask;
    v->W = ls_inner_blocks(b);
    v->me = ls_ring_index(b);
    v->held = LS_NEW_ARRAY(arena, runs, R);
    v->looks = LS_NEW_ARRAY(arena, spans, R);
    v->own = LS_NEW_ARRAY(arena, ls_token_set, R);
    v->mine = make_strip(arena, R);
    v->theirs = make_strip(arena, R);
    v->hops = LS_NEW_ARRAY(arena, int, R);
    v->used = LS_NEW_ARRAY(arena, bool, R);
    v->last = LS_NEW_ARRAY(arena, int, R / v->W);
    v->looking = LS_NEW_ARRAY(arena, ls_hop_span, R);
    ls_arena *scratch = ls_arena_create();
    for (int i = 0; i < R && R > 1; i++) {
        const ls_mask_binding *of = &b->image->masks[mask];
        const int64_t n = ls_block_tokens(b, i);
        v->held[i] = find_runs(arena, ls_block_positions(b, scratch, i, of->keys), n);
        v->looks[i] = unite_spans(b, arena, mask, ls_block_positions(b, scratch, i, of->slice), n);
    }
    find_seen(b, scratch, v);
    ls_arena_destroy(scratch);
    return v;
}

/* The strip that has the pair, one of whose blocks must be mine; *at: the other block. */
static strip *strip_of(struct ls_visible *v, int queries, int keys, int *at) {
    LS_ASSERT(queries == v->me || keys == v->me);
    *at = queries == v->me ? keys : queries;
    return queries == v->me ? &v->mine : &v->theirs;
}

const ls_token_set *ls_seen(ls_builder *b, int mask, int queries, int keys) {
    int at;
    struct ls_visible *v = visible(b, mask);
    if (queries == keys) return &v->own[keys];
    const strip *s = strip_of(v, queries, keys, &at);
    return &s->seen[at];
}

int64_t ls_seen_in_front(ls_builder *b, int mask, int queries, int keys) {
    const struct ls_visible *v = visible(b, mask);
    if (queries == v->me) return v->mine.before[keys];
    LS_ASSERT(keys == v->me || keys == v->R);
    return keys == v->R ? v->mine.all[queries] : v->mine.up_to_me[queries];
}

int64_t ls_seers_in_front(ls_builder *b, int mask, int queries, int keys) {
    const struct ls_visible *v = visible(b, mask);
    if (keys == v->me) return v->theirs.before[queries];
    LS_ASSERT(queries == v->me || queries == v->R);
    return queries == v->R ? v->theirs.all[keys] : v->theirs.up_to_me[keys];
}

static const struct ls_visible *wanted(ls_builder *b, int mask) {
    struct ls_visible *v = visible(b, mask);
    if (v->comes == NULL) find_wanted(b, v);
    return v;
}

const ls_token_set *ls_wanted(ls_builder *b, int mask, int keys, int hop) {
    const struct ls_visible *v = wanted(b, mask);
    if (hop == 0) return ls_seen(b, mask, keys, keys);
    const int at = further(v, keys, hop);
    LS_ASSERT(at == v->me || further(v, keys, hop_before(v, hop)) == v->me);
    return at == v->me ? &v->comes[hop] : &v->goes[hop];
}

const ls_token_set *ls_seen_in_ring(ls_builder *b, int mask, int hop) {
    const struct ls_visible *v = wanted(b, mask);
    return hop < v->W ? ls_seen(b, mask, further(v, v->me, hop), v->me) : &v->by_ring[hop];
}

const ls_token_set *ls_seen_by_ring(ls_builder *b, int mask, int out) { return &wanted(b, mask)->of_ring[out]; }
const ls_token_set *ls_seen_of_mine(ls_builder *b, int mask, int out) { return &wanted(b, mask)->of_mine[out]; }

int64_t ls_most_seen(ls_builder *b, int mask) { return visible(b, mask)->most_seen; }
int64_t ls_most_wanted(ls_builder *b, int mask) { return wanted(b, mask)->most_wanted; }

int ls_hops(ls_builder *b, int mask, const int **hops) {
    const struct ls_visible *v = visible(b, mask);
    *hops = v->hops;
    return v->n_hops;
}

bool ls_hop_is_used(ls_builder *b, int mask, int hop) { return visible(b, mask)->used[hop]; }

ls_hop_span ls_hops_of_queries(ls_builder *b, int mask, int queries) { return visible(b, mask)->looking[queries]; }

int ls_inner_hop(ls_builder *b, int mask, int hop) {
    const struct ls_visible *v = visible(b, mask);
    return hop < v->last[hop / v->W] ? hop + 1 : 0;
}

int ls_outer_hop(ls_builder *b, int mask, int hop) {
    const struct ls_visible *v = visible(b, mask);
    const int last = v->n_hops > 0 ? v->hops[v->n_hops - 1] : 0;
    return hop / v->W < last / v->W ? (hop / v->W + 1) * v->W : 0;
}

int ls_next_hop(ls_builder *b, int mask, int hop) {
    const int inner = ls_inner_hop(b, mask, hop);
    return inner > 0 ? inner : ls_outer_hop(b, mask, hop);
}

ls_area ls_seen_area(ls_builder *b, int mask, int queries, int keys, int range) {
    int at;
    const strip *s = strip_of(visible(b, mask), queries, keys, &at);
    const ls_token_set *seen = &s->seen[at];
    if (range >= seen->n) return (ls_area){0, 0};
    if (s->area[at] == NULL) {
        s->area[at] = LS_NEW_ARRAY(b->image->arena, ls_area, seen->n);
        for (int i = 0; i < seen->n; i++) s->area[at][i] = ls_count_area(b, mask, queries, keys, seen->range[i]);
    }
    return s->area[at][range];
}

ls_area ls_seen_areas(ls_builder *b, int mask, int queries, int keys) {
    ls_area all = {0, 0};
    for (int i = 0; i < ls_seen(b, mask, queries, keys)->n; i++)
        all = ls_area_sum(all, ls_seen_area(b, mask, queries, keys, i), ls_block_tokens(b, queries));
    return all;
}
