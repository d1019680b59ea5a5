/*
 * Shared by attention.c and its two implementations of `attend`, which computes a row block with a key block:
 * attention_rows.h in vectors, attention_strips.h on AMX.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_FORWARD_H
#define LS_KERNEL_CPU_ATTENTION_FORWARD_H

#include <math.h>

#include "kernel/cpu/attention_pack.h"
#include "kernel/cpu/attention_problem.h"
#include "kernel/cpu/vmath.h"
#include "kernel/kernel_impl.h"

#define CACHE_ROWS 96
#define Q_BLOCKS (CACHE_ROWS / MICRO_ROWS) /* register blocks of a row block */
#define CACHE_KEYS (LS_ATTENTION_TILES ? 384 : 128 * UNIT_ELEMENTS)
#define CACHE_GROUPS (CACHE_KEYS / KEY_GROUP)
#define ITEM_BLOCKS 8
#define S_ROW CACHE_KEYS

enum { OUT_O, OUT_LSE };

/*
 * Row blocks first..first+count-1 of a KV head: number i is row block i / heads of query head i % heads of that KV
 * head.
 */
typedef struct item {
    int32_t b, kv, first, count;
} item;

/* The state of a row block. */
typedef struct row_block {
    int64_t query, queries; /* first query, number of queries */
    int64_t head;
    float *q;      /* [CACHE_ROWS][q_units] */
    float *o;      /* [CACHE_ROWS][width] */
    float *m;      /* [CACHE_ROWS] subtracted from the scores: approximately the largest score so far */
    float *l;      /* [CACHE_ROWS][V_LANES] sum of 2^(score - m), in lanes until the end */
    bounds *whole; /* [w] of all its queries */
    bounds *block; /* [Q_BLOCKS][w] of each register block */
} row_block;

typedef struct scratch {
    row_block rows[ITEM_BLOCKS];
    float *k, *v; /* CACHE_KEYS keys, packed */
    float *s;     /* scores [CACHE_ROWS][S_ROW]; on AMX two blocks of [PANEL][PANEL] */
    /* P in units; s itself if a unit is one float; on AMX [CACHE_KEYS / PANEL][PANEL][V_LANES] */
    float *p;
    float *sum;           /* on AMX: [PANEL][V_LANES] sums of P of a strip */
    int32_t *kpos;        /* [CACHE_KEYS] */
    ahead next_k, next_v; /* rows of the next key block, which attention_rows.h prefetches */
    key_range range[Q_BLOCKS];
    float decay[CACHE_ROWS];
} scratch;

typedef struct forward {
    problem problem;
    const ls_kernel_call *call;
    columns columns;
    int64_t q_units; /* of a packed row of Q */
    int64_t row_blocks, groups;
    int blocks_each; /* most row blocks of an item */
    int items;
    item *item;
    int64_t *weight;
    int32_t *order;
    key_group *group;
    bounds *bounds;   /* [w] for planning */
    scratch *scratch; /* one per thread */
} forward;

/*
 * Scores in units of log2 are Q K^T · scale · log2 e. packed_factor is the part of that factor by which Q is multiplied
 * when it is packed: all of it for floats, so that scores are not rounded once more before m is subtracted; only the
 * sign for bf16, which would lose bits.
 */
static float packed_factor(const ls_attention_params *params) {
    if (LS_ATTENTION_PAIRS) return params->scale < 0 ? -1.0f : 1.0f;
    return (float)(params->scale * LOG2_E);
}

/* The rest of the factor, by which scores are multiplied. */
static float score_scale(const ls_attention_params *params) {
    return LS_ATTENTION_PAIRS ? (float)(fabs(params->scale) * LOG2_E) : 1.0f;
}

static void scale_row(float *row, int64_t width, float factor) {
    for (int64_t d = 0; d < width; d += V_LANES) unit_store(row + d, unit_load(row + d) * factor);
}

/* Sets the scores of hidden keys in a row to -inf. */
static void mask_row(float *s, const int32_t *kpos, int64_t keys, const int32_t *spans, int spans_each) {
    for (int64_t j = 0; j < keys; j += V_LANES) {
        const v_i32 visible = keys_visible(kpos + j, spans, spans_each);
        unit_store(s + j, v_select(visible, unit_load(s + j), v_set(-INFINITY)));
    }
}

/*
 * Writes o and lse of a row. sum: of P = 2^(score - m); from: the sum of P V. If params.merge, the result is merged
 * into the outputs: out += (new - out) * weight of the new keys.
 */
static void row_end(const ls_kernel_call *call, int64_t b, int64_t head, int64_t query, const float *from, float m,
                    float sum) {
    const ls_attention_params *params = call->params;
    const ls_view *o = &call->out[OUT_O], *lse = &call->out[OUT_LSE];
    float *to = (float *)o->data + head_offset(o, b, head) + query * o->stride[1];
    float *log_sum = (float *)lse->data + b * lse->stride[0] + head * lse->stride[1] + query * lse->stride[2];
    const int64_t E = o->size[3];
    const float norm = sum == 0 ? 0 : 1 / sum;
    const float here = sum == 0 ? -INFINITY : (float)(m * LN_2 + (double)logf(sum));
    if (!params->merge || *log_sum == -INFINITY) {
        for (int64_t d = 0; d < E; d++) to[d] = from[d] * norm;
        *log_sum = here;
    } else if (here != -INFINITY) {
        const float share = merge_lse(log_sum, here);
        for (int64_t d = 0; d < E; d++) to[d] += share * (from[d] * norm - to[d]);
    }
}

/* Applies a soft cap c: a score s becomes c·tanh(scale·s/c)/scale, where scale·s is in units of log2 and so is c. */
static void cap_row(float *s, int64_t keys, float scale, const ls_attention_params *params) {
    const float cap = (float)(params->softcap * LOG2_E);
    for (int64_t j = 0; j < keys; j += V_LANES)
        unit_store(s + j, v_tanh(unit_load(s + j) * (scale / cap)) * (cap / scale));
}

#endif
