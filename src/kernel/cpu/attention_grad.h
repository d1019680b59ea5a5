/*
 * Shared by attention_grad.c and its two inner parts, in vectors (attention_grad_vectors.h) and on AMX
 * (attention_grad_tiles.h): the whole problem, and which register blocks of a pair of cache blocks have work.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_GRAD_H
#define LS_KERNEL_CPU_ATTENTION_GRAD_H

#include <math.h>

#include "kernel/cpu/attention_pack.h"
#include "kernel/cpu/attention_problem.h"
#include "kernel/kernel_impl.h"

#define CACHE_ROWS (LS_ATTENTION_TILES ? 256 : 48)
#define Q_BLOCKS (CACHE_ROWS / MICRO_ROWS) /* register blocks of a row block */
#define CACHE_KEYS 384
/*
 * On AMX a key block has twice as many keys if D is small. Its packed keys and sums fill half of the second-level cache
 * either way.
 */
#define CACHE_KEYS_MOST (LS_ATTENTION_TILES ? 2 * CACHE_KEYS : CACHE_KEYS)
#define K_BLOCKS (CACHE_KEYS / MICRO_ROWS)

enum { IN_DO = 5, IN_LSE, IN_DELTA };
enum { OUT_DQ, OUT_DK, OUT_DV };

/* A row block and a key block, each a cache block. */
typedef struct block_pair {
    int64_t b, query, queries; /* sequence of the batch; first query, number of queries */
    int64_t first_group;       /* first group of keys */
    /* [CACHE_ROWS] lse times log2 e; +inf for a missing row or one that sees nothing, 0 for a far row */
    float *lse;
    float *far_lse; /* [CACHE_ROWS] lse times log2 e of far rows, those beyond FAR_SCORE; 0 for other rows */
    bool any_far;
    float *delta;                  /* [CACHE_ROWS] */
    int32_t *kpos;                 /* [keys_each] */
    bounds *block;                 /* [Q_BLOCKS][w] */
    key_range range[Q_BLOCKS];     /* key groups that a register block of queries sees */
    int64_t next_query, next_head; /* of the next pair with the same keys; next_head -1: there is none */
    /* by key group: the register blocks of queries that see it */
    int first[CACHE_KEYS_MOST / KEY_GROUP], end[CACHE_KEYS_MOST / KEY_GROUP];
} block_pair;

typedef struct scratch scratch;

/* How heads of one size are packed: those of q and k, or those of v and do. */
typedef struct head_form {
    int64_t size;    /* elements of a head */
    int64_t units;   /* of them as the inner dimension of a product */
    int64_t row;     /* the same in whole vectors: units of a packed row of queries */
    columns columns; /* of them as the outer dimension of a product; on AMX whole panels */
} head_form;

static head_form form_of(int64_t size) {
    return (head_form){.size = size,
                       .units = row_units(size),
                       .row = (int64_t)ls_round_up((size_t)row_units(size), V_LANES),
                       .columns = columns_of(LS_ATTENTION_TILES ? (int64_t)ls_round_up((size_t)size, PANEL) : size)};
}

typedef struct backward {
    problem problem;
    const ls_kernel_call *call;
    head_form qk, v;
    int64_t keys_each; /* keys of a key block */
    int64_t row_blocks, key_blocks, groups;
    int parts, phase;
    key_group *group;
    bounds *bounds; /* [B][row_blocks][w] */
    scratch *scratch;
} backward;

static void block_pair_carve(block_pair *pair, const backward *f, carving *c) {
    *pair = (block_pair){
        .lse = carve(c, CACHE_ROWS, sizeof(float)),
        .far_lse = carve(c, CACHE_ROWS, sizeof(float)),
        .delta = carve(c, CACHE_ROWS, sizeof(float)),
        .kpos = carve(c, f->keys_each, sizeof(int32_t)),
        .block = carve(c, Q_BLOCKS * f->problem.spans_each, sizeof(bounds)),
    };
}

static void read_row_sums(const backward *f, block_pair *pair, int64_t head) {
    const ls_view *lse = &f->call->in[IN_LSE], *delta = &f->call->in[IN_DELTA];
    const float *from = (const float *)lse->data + pair->b * lse->stride[0] + head * lse->stride[1];
    const float *delta_from = (const float *)delta->data + pair->b * delta->stride[0] + head * delta->stride[1];
    pair->any_far = false;
    for (int64_t i = 0; i < CACHE_ROWS; i++) {
        const int64_t at = pair->query + i;
        const float log_sum = i < pair->queries ? from[at * lse->stride[2]] : -INFINITY;
        const float sum = log_sum == -INFINITY ? INFINITY : (float)(log_sum * LOG2_E);
        const bool far = fabsf(sum) >= FAR_SCORE && sum != INFINITY;
        pair->lse[i] = far ? 0 : sum;
        pair->far_lse[i] = far ? sum : 0;
        pair->any_far |= far;
        pair->delta[i] = log_sum == -INFINITY ? 0 : delta_from[at * delta->stride[2]];
    }
}

/* Sets a pair except its lse, delta and kpos. all: every query sees every key. */
static void find_ranges(const backward *f, block_pair *pair, int64_t b, int64_t query, int64_t first_group, bool all) {
    const problem *p = &f->problem;
    const int64_t groups_each = f->keys_each / KEY_GROUP;
    const int64_t last_group = ls_min(first_group + groups_each, f->groups);
    pair->b = b, pair->query = query, pair->first_group = first_group;
    pair->queries = ls_min(CACHE_ROWS, p->n - query);
    for (int g = 0; g < groups_each; g++) pair->first[g] = Q_BLOCKS, pair->end[g] = 0;
    for (int i = 0; i < Q_BLOCKS; i++) {
        const int64_t row = i * MICRO_ROWS;
        bounds *block = pair->block + i * p->spans_each;
        key_range range = {0, (int)(last_group - first_group), all};
        if (row >= pair->queries) {
            range = (key_range){0, 0, true};
        } else if (!all) {
            bounds_find(block, p->spans_each, spans_of(p, b, query + row), ls_min(MICRO_ROWS, pair->queries - row));
            range = key_range_find(block, p, f->group, first_group, last_group);
        }
        pair->range[i] = range;
        for (int g = range.start; g < range.end; g++) {
            if (pair->end[g] == 0) pair->first[g] = i;
            pair->end[g] = i + 1;
        }
    }
}

/* The spans of a row of the pair. Rows past the end get those of the last row; their lse of +inf makes P 0. */
V_INLINE const int32_t *pair_spans(const backward *f, const block_pair *pair, int64_t row) {
    return spans_of(&f->problem, pair->b, pair->query + ls_min(row, pair->queries - 1));
}

/* P of one vector of keys; spans NULL: the query sees all of them. */
V_INLINE v_f32 probability(const float *scores, float scale, float lse, const int32_t *kpos, const int32_t *spans,
                           int spans_each) {
    const v_f32 p = unit_exp2(unit_load(scores) * scale - lse);
    return spans ? v_select(keys_visible(kpos, spans, spans_each), p, v_set(0.0f)) : p;
}

/* Applies a soft cap c: S becomes c·tanh(scale·S/c)/scale, and dP - delta is multiplied by the slope 1 - tanh². */
static void cap_row(const ls_attention_params *params, float *scores, float *dp, int64_t keys, float delta) {
    const float in = (float)(params->scale / params->softcap), out = (float)(params->softcap / params->scale);
    for (int64_t j = 0; j < keys; j += V_LANES) {
        const v_f32 t = v_tanh(unit_load(scores + j) * in);
        unit_store(scores + j, t * out);
        unit_store(dp + j, delta + (unit_load(dp + j) - delta) * (1.0f - t * t));
    }
}

/*
 * Scores of a far row, replaced so that P = 2^score. P is 1 for keys whose score equals lse within rounding, and 0 for
 * lower scores. A higher score contradicts lse and becomes NaN.
 */
static void far_row(float *scores, int64_t keys, float scale, float lse) {
    const float slack = fabsf(lse) * 0x1p-20f;
    for (int64_t j = 0; j < keys; j += V_LANES) {
        const v_f32 above = unit_load(scores + j) * scale - lse;
        const v_f32 below_all = v_set(scale > 0 ? -INFINITY : INFINITY);
        v_f32 score = v_select(above < -slack, below_all, v_set(NAN));
        score = v_select((above >= -slack) & (above <= slack), v_set(0.0f), score);
        unit_store(scores + j, score);
    }
}

/* to[i][d] += factor * from[i][d] */
static void add_rows(const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows, const float *from,
                     int64_t width, float factor) {
    const int64_t D = view->size[3];
    for (int64_t i = 0; i < rows; i++) {
        float *to = (float *)view->data + head_offset(view, b, head) + (start + i) * view->stride[1];
        for (int64_t d = 0; d < D; d += V_LANES) {
            const v_f32 sum = v_load_f32(to + d, D - d) + factor * unit_load(from + i * width + d);
            v_store_f32(to + d, sum, D - d);
        }
    }
}

#endif
