/*
 * What forward and backward of attention share besides products: the problem read from a call, which keys a
 * group of queries sees, and the carving of a workspace.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_PROBLEM_H
#define LS_KERNEL_CPU_ATTENTION_PROBLEM_H

#include "kernel/cpu/attention_exp.h"
#include "kernel/cpu/attention_gemm.h"
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/verf.h"

#define LOG2_E 1.44269504088896341
#define LN_2 0.69314718055994531

/*
 * Scores in units of log2 that are as far from 0 as this have neighbours in f32 that are 16 away: a difference of two of them that were not
 * rounded in the same way says nothing, and overflows as an exponent.
 */
#define FAR_SCORE 0x1p27f

/* Keys are looked at in groups of this many, whole panels: a group that none of the queries at hand sees is skipped. */
#define KEY_GROUP (PANEL > 32 ? PANEL : 32)

typedef struct problem {
    int64_t B, n, t, D;
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

/* Position 0 of a head in a [B, positions, H, D] view; rows are stride[1] elements apart. */
V_INLINE int64_t head_offset(const ls_view *view, int64_t b, int64_t head) {
    return b * view->stride[0] + head * view->stride[2];
}

/* Row 0 of an element view for a head, from position `start` on. */
V_INLINE const element *rows_of(const ls_view *view, int64_t b, int64_t head, int64_t start) {
    return (const element *)view->data + head_offset(view, b, head) + start * view->stride[1];
}

/* The extremes of the j-th spans of some queries. */
typedef struct bounds {
    int32_t lo_min, lo_max, hi_min, hi_max;
} bounds;

static void bounds_find(bounds *out, int spans_each, const int32_t *spans, int64_t queries) {
    for (int j = 0; j < spans_each; j++) {
        bounds b = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
        for (int64_t i = 0; i < queries; i++) {
            const int32_t lo = spans[(i * spans_each + j) * 2], hi = spans[(i * spans_each + j) * 2 + 1];
            if (lo >= hi) {
                b.lo_max = INT32_MAX; /* this query does not see all, whatever the keys */
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

/* Do the queries see keys at positions first..last? All or none is certain, some may be either. */
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

/*
 * The groups [start, end) of a tile of keys that some queries may see, and whether they see all keys of
 * these.
 */
typedef struct key_range {
    int start, end;
    bool all;
} key_range;

static key_range key_range_find(const bounds *b, const problem *p, const key_group *groups,
                                int64_t first_group, int64_t last_group) {
    key_range range = {0, 0, true};
    for (int64_t g = first_group; g < last_group; g++) {
        sight seen = bounds_see(b, p->spans_each, groups[g].first, groups[g].last);
        if (seen == SEES_ALL && (g + 1) * KEY_GROUP > p->t)
            seen = SEES_SOME; /* padding is masked like the rest */
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

/* Positions of a tile's keys, those past the end of the sequence at a position that nothing sees. */
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

/* Hands out parts of a workspace; with base NULL it only counts. */
typedef struct carving {
    char *base;
    size_t used;
} carving;

static void *carve(carving *c, int64_t count, size_t size) {
    void *part = c->base ? c->base + c->used : NULL;
    c->used += ls_round_up((size_t)count * size, 64);
    return part;
}

#endif
