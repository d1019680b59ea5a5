/*
 * Shared by attention and attention_grad, besides products: the problem read from a call, which keys a group of queries
 * sees, the layout of a workspace, and rows to prefetch.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_PROBLEM_H
#define LS_KERNEL_CPU_ATTENTION_PROBLEM_H

#include "kernel/cpu/attention_gemm.h"
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

#define LOG2_E 1.44269504088896341
#define LN_2 0.69314718055994531

/*
 * From this score on (in units of log2) neighbouring f32 numbers are 16 apart: the difference of two scores that were
 * not rounded in the same way is meaningless, and 2 to the power of it overflows.
 */
#define FAR_SCORE 0x1p27f

/* Keys are skipped in groups of this size, whole panels, if none of the queries sees them. */
#define KEY_GROUP (PANEL > 32 ? PANEL : 32)

typedef struct problem {
    int64_t B, n, t;
    int64_t D, E; /* elements of a head of q and k, of v and o */
    int64_t Hq, Hkv;
    int spans_each; /* w */
    int threads;
    const int32_t *spans; /* [B,n,2w] */
    const int32_t *kpos;  /* [t] */
    const ls_attention_params *params;
} problem;

enum { IN_Q, IN_K, IN_V, IN_SPANS, IN_KPOS };

static problem problem_of(const ls_kernel_call *call) {
    const ls_view *q = &call->in[IN_Q], *k = &call->in[IN_K], *spans = &call->in[IN_SPANS];
    return (problem){
        .B = q->size[0],
        .n = q->size[1],
        .t = k->size[1],
        .D = q->size[3],
        .E = call->in[IN_V].size[3],
        .Hq = q->size[2],
        .Hkv = k->size[2],
        .spans_each = (int)(spans->size[2] / 2),
        .threads = call->threads > 1 ? call->threads : 1,
        .spans = spans->data,
        .kpos = call->in[IN_KPOS].data,
        .params = call->params,
    };
}

V_INLINE const int32_t *spans_of(const problem *p, int64_t b, int64_t query) {
    return p->spans + (b * p->n + query) * 2 * p->spans_each;
}

/* The local query heads that read a local KV head: [first, first + count). */
typedef struct head_range {
    int64_t first, count;
} head_range;

static head_range heads_of(const problem *p, int64_t kv) {
    const int64_t group = p->params->group, head = p->params->first_kv + kv, offset = p->params->first_q;
    const int64_t first = ls_min(ls_max(head * group - offset, 0), p->Hq);
    const int64_t end = ls_min(ls_max((head + 1) * group - offset, 0), p->Hq);
    return (head_range){first, end - first};
}

/* Offset of position 0 of a head in a [B, positions, H, D] view; positions are stride[1] elements apart. */
V_INLINE int64_t head_offset(const ls_view *view, int64_t b, int64_t head) {
    return b * view->stride[0] + head * view->stride[2];
}

/* Position `start` of a head in a view of elements. */
V_INLINE const element *rows_of(const ls_view *view, int64_t b, int64_t head, int64_t start) {
    return (const element *)view->data + head_offset(view, b, head) + start * view->stride[1];
}

/* The smallest and largest ends of span j of some queries; an array has one for each j. */
typedef struct bounds {
    int32_t lo_min, lo_max, hi_min, hi_max;
} bounds;

static void bounds_find(bounds *out, int spans_each, const int32_t *spans, int64_t queries) {
    for (int j = 0; j < spans_each; j++) {
        bounds b = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
        for (int64_t i = 0; i < queries; i++) {
            const int32_t lo = spans[(i * spans_each + j) * 2], hi = spans[(i * spans_each + j) * 2 + 1];
            if (lo >= hi) {
                b.lo_max = INT32_MAX; /* an empty span sees no key, so no group is seen by all queries */
                continue;
            }
            b.lo_min = lo < b.lo_min ? lo : b.lo_min;
            b.hi_max = hi > b.hi_max ? hi : b.hi_max;
            b.lo_max = lo > b.lo_max ? lo : b.lo_max;
            b.hi_min = hi < b.hi_min ? hi : b.hi_min;
        }
        out[j] = b;
    }
}

/*
 * Whether the queries see keys at positions first..last. SEES_ALL and SEES_NONE are certain; SEES_SOME may also be all
 * or none.
 */
typedef enum sight { SEES_NONE, SEES_SOME, SEES_ALL } sight;

static sight bounds_see(const bounds *b, int spans_each, int32_t first, int32_t last) {
    sight seen = SEES_NONE;
    for (int j = 0; j < spans_each; j++) {
        if (first >= b[j].lo_max && last < b[j].hi_min) return SEES_ALL;
        if (last >= b[j].lo_min && first < b[j].hi_max) seen = SEES_SOME;
    }
    return seen;
}

/* Smallest and largest position of a group of keys. */
typedef struct key_group {
    int32_t first, last;
} key_group;

static void key_groups_find(key_group *out, const int32_t *kpos, int64_t t) {
    for (int64_t g = 0; g * KEY_GROUP < t; g++) {
        key_group group = {INT32_MAX, INT32_MIN};
        for (int64_t j = g * KEY_GROUP; j < ls_min(t, (g + 1) * KEY_GROUP); j++) {
            group.first = kpos[j] < group.first ? kpos[j] : group.first;
            group.last = kpos[j] > group.last ? kpos[j] : group.last;
        }
        out[g] = group;
    }
}

/* The groups [start, end) of a key block that some queries may see, and whether these queries see all keys of them. */
typedef struct key_range {
    int start, end;
    bool all;
} key_range;

static key_range key_range_find(const bounds *b, const problem *p, const key_group *groups, int64_t first_group,
                                int64_t last_group) {
    key_range range = {0, 0, true};
    for (int64_t g = first_group; g < last_group; g++) {
        sight seen = bounds_see(b, p->spans_each, groups[g].first, groups[g].last);
        if (seen == SEES_ALL && (g + 1) * KEY_GROUP > p->t) seen = SEES_SOME; /* padded keys must be masked */
        if (seen != SEES_NONE) {
            const int at = (int)(g - first_group);
            if (range.end == 0) range.start = at;
            if (range.end != 0 && range.end != at) range.all = false;
            range.end = at + 1;
        }
        if (seen == SEES_SOME) range.all = false;
    }
    return range;
}

/* Positions of the keys of a key block; keys past the end get a position that no query sees. */
static void key_positions(int32_t *out, const problem *p, int64_t start, int64_t keys) {
    for (int64_t j = 0; j < keys; j++) out[j] = start + j < p->t ? p->kpos[start + j] : INT32_MIN;
}

/* Which of V_LANES keys a query sees. */
V_INLINE v_i32 keys_visible(const int32_t *positions, const int32_t *spans, int spans_each) {
    v_i32 at, visible = {0};
    memcpy(&at, positions, sizeof at);
    for (int j = 0; j < spans_each; j++) visible |= (at >= spans[2 * j]) & (at < spans[2 * j + 1]);
    return visible;
}

/* Places arrays one after the other in a workspace; base NULL: only counts bytes. */
typedef struct carving {
    char *base;
    size_t used;
} carving;

static void *carve(carving *c, int64_t count, size_t size) {
    void *part = c->base ? c->base + c->used : NULL;
    c->used += ls_round_up((size_t)count * size, 64);
    return part;
}

/*
 * Rows that will be packed soon. They are fetched into the second-level cache, a few lines at a time between products,
 * because the processor's prefetcher does not predict rows that are so far apart (by a row of all heads).
 */
typedef struct ahead {
    const char *row;
    int64_t step, bytes; /* distance of rows, and size of a row, in bytes */
    int64_t rows;        /* rows left, including the current one */
    int64_t done;        /* bytes of the current row that were fetched */
} ahead;

/* `rows` rows of a head of a [B, positions, H, D] view, from position `start` on. */
V_INLINE ahead ahead_of(const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows) {
    const int64_t size = (int64_t)ls_dtype_bytes(view->dtype),
                  row = head_offset(view, b, head) + start * view->stride[1];
    return (ahead){.row = (const char *)view->data + row * size,
                   .step = view->stride[1] * size,
                   .bytes = view->size[3] * size,
                   .rows = rows};
}

V_INLINE void fetch_lines(ahead *a, int lines) {
    const int line = 64;
    for (; lines > 0 && a->rows > 0; lines--) {
        __builtin_prefetch(a->row + a->done, 0, 2);
        a->done += line;
        if (a->done < a->bytes) continue;
        a->row += a->step;
        a->rows--;
        a->done = 0;
    }
}

#endif
