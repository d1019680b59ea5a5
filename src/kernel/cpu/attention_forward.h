/*
 * What attention.c and the two ways of bringing a row tile and a tile of keys together share: attention_rows.h in vectors,
 * attention_strips.h in AMX tiles. Each has `attend`.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_FORWARD_H
#define LS_KERNEL_CPU_ATTENTION_FORWARD_H

#include <math.h>

#include "kernel/cpu/attention_ahead.h"
#include "kernel/cpu/attention_merge.h"
#include "kernel/cpu/attention_pack.h"
#include "kernel/cpu/attention_problem.h"
#include "kernel/kernel_impl.h"

#define Q_TILE 96
#define Q_BLOCKS (Q_TILE / MICRO_ROWS)
#define K_TILE (LS_ATTENTION_TILES ? 384 : 128 * UNIT_ELEMENTS)
#define TILE_GROUPS (K_TILE / KEY_GROUP)
#define ITEM_TILES 8
#define S_ROW K_TILE

enum { OUT_O, OUT_LSE };

/*
 * Row tiles first..first+count-1 of a KV head: tile i is query tile i / heads of its i % heads-th query
 * head.
 */
typedef struct item {
    int32_t b, kv, first, count;
} item;

/* A row tile at work. */
typedef struct row_tile {
    int64_t query; /* first query, how many */
    int64_t queries;
    int64_t head;
    float *q;      /* [Q_TILE][q_units] */
    float *o;      /* [Q_TILE][width] */
    float *m;      /* [Q_TILE] what scores are measured from: about the largest so far */
    float *l;      /* [Q_TILE][V_LANES] sum of 2^(score - m), in lanes until the end */
    bounds *whole; /* [w] over all its queries */
    bounds *block; /* [Q_BLOCKS][w] */
} row_tile;

typedef struct scratch {
    row_tile tile[ITEM_TILES];
    float *k, *v; /* K_TILE keys, packed */
    float *s;     /* scores: [Q_TILE][S_ROW], with tiles two blocks of [PANEL][PANEL] */
    /* the same in units; s itself when they are floats; with tiles [K_TILE / PANEL][PANEL][V_LANES] */
    float *p;
    float *sum;           /* with tiles: [PANEL][V_LANES] of a strip alone */
    int32_t *kpos;        /* [K_TILE] */
    ahead next_k, next_v; /* rows of the next tile of keys; attention_rows.h fetches them */
    key_range range[Q_BLOCKS];
    float decay[Q_TILE];
} scratch;

typedef struct forward {
    problem problem;
    const ls_kernel_call *call;
    columns columns;
    int64_t q_units; /* of a packed row of Q */
    int64_t query_tiles, groups;
    int tiles_each; /* row tiles of an item, at most */
    int items;
    item *item;
    int64_t *weight;
    int32_t *order;
    key_group *group;
    bounds *bounds;   /* [w] for planning */
    scratch *scratch; /* one per thread */
} forward;

/*
 * Scores in units of log2 are Q K^T times scale times log2 e. Q packed as floats takes the factor up, so that no product is rounded apart from
 * the difference that is made of it; in bf16 it would lose bits, and takes the sign alone.
 */
static float packed_factor(const ls_attention_params *params) {
    if (LS_ATTENTION_PAIRS) return params->scale < 0 ? -1.0f : 1.0f;
    return (float)(params->scale * LOG2_E);
}

/* What is left of it for the scores. */
static float score_scale(const ls_attention_params *params) {
    return LS_ATTENTION_PAIRS ? (float)(fabs(params->scale) * LOG2_E) : 1.0f;
}

static void scale_row(float *row, int64_t width, float factor) {
    for (int64_t d = 0; d < width; d += V_LANES) unit_store(row + d, unit_load(row + d) * factor);
}

/* Scores of a row that are not visible become -inf. */
static void mask_row(float *s, const int32_t *kpos, int64_t keys, const int32_t *spans, int spans_each) {
    for (int64_t j = 0; j < keys; j += V_LANES) {
        const v_i32 visible = keys_visible(kpos + j, spans, spans_each);
        unit_store(s + j, v_select(visible, unit_load(s + j), v_set(-INFINITY)));
    }
}

/*
 * o and lse of a row from the sum of 2^(score - m) and of these times V; merged: out += (new - out) * share of the new keys in the sum of
 * both.
 */
static void row_end(const ls_kernel_call *call, int64_t b, int64_t head, int64_t query, const float *from,
                    float m, float sum) {
    const ls_attention_params *params = call->params;
    const ls_view *o = &call->out[OUT_O], *lse = &call->out[OUT_LSE];
    float *to = (float *)o->data + head_offset(o, b, head) + query * o->stride[1];
    float *log_sum = (float *)lse->data + b * lse->stride[0] + head * lse->stride[1] + query * lse->stride[2];
    const int64_t D = o->size[3];
    const float norm = sum == 0 ? 0 : 1 / sum;
    const float here = sum == 0 ? -INFINITY : (float)(m * LN_2 + (double)logf(sum));
    if (!params->merge || *log_sum == -INFINITY) {
        for (int64_t d = 0; d < D; d++) to[d] = from[d] * norm;
        *log_sum = here;
    } else if (here != -INFINITY) {
        const float share = merge_lse(log_sum, here);
        for (int64_t d = 0; d < D; d++) to[d] += share * (from[d] * norm - to[d]);
    }
}

/* A soft cap c, of scores that are in units of log2 once multiplied by scale: they become what scale turns into c·tanh(score/c). */
static void cap_row(float *s, int64_t keys, float scale, const ls_attention_params *params) {
    const float cap = (float)(params->softcap * LOG2_E);
    for (int64_t j = 0; j < keys; j += V_LANES)
        unit_store(s + j, v_tanh(unit_load(s + j) * (scale / cap)) * (cap / scale));
}

#endif
