/*
 * attention_grad of a row block and a key block on AMX, in register blocks of 32 queries by 32 keys ("blocks" below),
 * which stay in the first-level cache between the products:
 *
 *   for each panel of 32 keys:
 *     for each 32 queries that see some of them:    S = Q K^T   dP = dO V^T,   and between the instructions of these
 *                                                   products, in vectors, P and dS of the previous block
 *     dV^T += dO^T P   dK^T += Q^T dS               over all queries
 *   for each 32 queries:  dQ = dS K                 over all keys
 *
 * dV and dK are summed as their transposes, because both operands of these products then have units along the queries.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_GRAD_TILES_H
#define LS_KERNEL_CPU_ATTENTION_GRAD_TILES_H

#include "kernel/cpu/attention_grad.h"

#define BLOCK MICRO_ROWS /* queries of a block, and keys: PANEL */
#define BLOCK_UNITS (BLOCK / UNIT_ELEMENTS)

struct scratch {
    block_pair pair;
    float *k_transposed, *v_transposed; /* a key block: panels of [units][PANEL] */
    float *k_columns;                   /* panels of [keys_each / 2][PANEL] along a head */
    float *q_rows, *do_rows;            /* a row block: [CACHE_ROWS][row] */
    float *q_summed, *do_summed;        /* its transpose: [width][CACHE_ROWS / 2] */
    float *s[2], *dp[2];                /* [BLOCK][PANEL]: the current block and the previous one */
    float *p, *ds;                      /* of a panel, in units along queries: [CACHE_ROWS / 2][PANEL] */
    float *ds_rows;                     /* in units along keys: [CACHE_ROWS][keys_each / 2] */
    float *dk, *dv;                     /* their transposes: panels of [width][PANEL] */
    float *dq;                          /* [BLOCK][width] */
};

/* A block whose S and dP are computed, and the places of its P and dS. */
typedef struct block {
    const float *s, *dp; /* [BLOCK][PANEL] */
    const float *lse, *delta;
    const int32_t *kpos;
    const int32_t *spans[BLOCK]; /* all NULL: every query sees every key */
    float *p, *ds;               /* [BLOCK_UNITS][PANEL] */
    float *ds_rows;              /* [BLOCK][ds_row] */
    int64_t ds_row;
    int done; /* pairs of rows that have P and dS */
} block;

/* Floats of a row of ds_rows. */
static int64_t ds_row_of(const backward *f) { return f->keys_each / UNIT_ELEMENTS; }

static void scratch_carve(scratch *s, const backward *f, carving *c) {
    const head_form *qk = &f->qk, *v = &f->v;
    scratch made = {
        .k_transposed = carve(c, f->keys_each * qk->units, sizeof(float)),
        .v_transposed = carve(c, f->keys_each * v->units, sizeof(float)),
        .k_columns = carve(c, f->keys_each / UNIT_ELEMENTS * qk->columns.width, sizeof(float)),
        .q_rows = carve(c, CACHE_ROWS * qk->row, sizeof(float)),
        .do_rows = carve(c, CACHE_ROWS * v->row, sizeof(float)),
        .q_summed = carve(c, CACHE_ROWS / UNIT_ELEMENTS * qk->columns.width, sizeof(float)),
        .do_summed = carve(c, CACHE_ROWS / UNIT_ELEMENTS * v->columns.width, sizeof(float)),
        .p = carve(c, CACHE_ROWS / UNIT_ELEMENTS * PANEL, sizeof(float)),
        .ds = carve(c, CACHE_ROWS / UNIT_ELEMENTS * PANEL, sizeof(float)),
        .ds_rows = carve(c, CACHE_ROWS * ds_row_of(f), sizeof(float)),
        .dk = carve(c, f->keys_each * qk->columns.width, sizeof(float)),
        .dv = carve(c, f->keys_each * v->columns.width, sizeof(float)),
        .dq = carve(c, BLOCK * qk->columns.width, sizeof(float)),
    };
    for (int i = 0; i < 2; i++) {
        made.s[i] = carve(c, BLOCK * PANEL, sizeof(float));
        made.dp[i] = carve(c, BLOCK * PANEL, sizeof(float));
    }
    block_pair_carve(&made.pair, f, c);
    if (s) *s = made;
}

static void pack_keys(const backward *f, scratch *s, int64_t b, int64_t kv, int64_t start) {
    const problem *p = &f->problem;
    const ls_view *k = &f->call->in[IN_K], *v = &f->call->in[IN_V];
    const int64_t keys = ls_min(f->keys_each, p->t - start);
    const element *k_rows = rows_of(k, b, kv, start), *v_rows = rows_of(v, b, kv, start);
    pack_transposed(s->k_transposed, k_rows, k->stride[1], keys, f->keys_each, p->D);
    pack_transposed(s->v_transposed, v_rows, v->stride[1], keys, f->keys_each, p->E);
    pack_columns(s->k_columns, k_rows, k->stride[1], keys, f->keys_each, 0, f->keys_each, p->D, &f->qk.columns);
    key_positions(s->pair.kpos, p, start, f->keys_each);
    memset(s->dk, 0, sizeof(float) * (size_t)(f->keys_each * f->qk.columns.width));
    memset(s->dv, 0, sizeof(float) * (size_t)(f->keys_each * f->v.columns.width));
}

/* Packs the blocks of queries from the first to the last that sees some key of the key block. */
static void pack_queries(const head_form *form, const block_pair *pair, const ls_view *view, int64_t head,
                         float *rows_out, float *summed_out) {
    int first = 0, end = Q_BLOCKS;
    while (first < end && pair->range[first].end == 0) first++;
    while (first < end && pair->range[end - 1].end == 0) end--;
    const int64_t row = (int64_t)first * BLOCK, rows_there = (int64_t)(end - first) * BLOCK;
    const int64_t rows = ls_min(pair->queries - row, rows_there);
    const element *from = rows_of(view, pair->b, head, pair->query + row);
    pack_rows(rows_out + row * form->row, from, view->stride[1], rows, rows_there, form->size, form->row, 1);
    pack_transposed_rows(summed_out + row / UNIT_ELEMENTS, CACHE_ROWS / UNIT_ELEMENTS, from, view->stride[1], rows,
                         rows_there, form->size, form->columns.width);
}

/*
 * P and dS of the next pair of rows. Columns of a panel are in the order of pair_rows; add_summed restores their order.
 */
V_INLINE void differentiate_rows(block *at, float scale, bool all, int spans_each) {
    v_f32 p[2], ds[2];
    const int row = 2 * at->done++;
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++) {
        const float *scores = at->s + (row + r) * PANEL, *dp = at->dp + (row + r) * PANEL;
        v_f32 half[2], slope[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            half[h] = probability(scores + h * V_LANES, scale, at->lse[row + r], at->kpos + h * V_LANES,
                                  all ? NULL : at->spans[row + r], spans_each);
            slope[h] = half[h] * (unit_load(dp + h * V_LANES) - at->delta[row + r]);
        }
        p[r] = round_in_order(half[0], half[1]);
        ds[r] = round_in_order(slope[0], slope[1]);
        unit_store(at->ds_rows + (row + r) * at->ds_row, ds[r]);
    }
    for (int h = 0; h < 2; h++) {
        unit_store(at->p + row / 2 * PANEL + h * V_LANES, pair_rows(h, p[0], p[1]));
        unit_store(at->ds + row / 2 * PANEL + h * V_LANES, pair_rows(h, ds[0], ds[1]));
    }
}

/* The same for up to `pairs` pairs of rows. */
V_INLINE void differentiate_some(const backward *f, block *at, int pairs, float scale) {
    for (; pairs > 0 && at->done < BLOCK_UNITS; pairs--) {
        if (at->spans[0])
            differentiate_rows(at, scale, false, f->problem.spans_each);
        else
            differentiate_rows(at, scale, true, 0);
    }
}

/* Whether all queries of a block see all keys of a group. */
static bool block_sees_all(const backward *f, const block_pair *pair, int block_index, int group) {
    const problem *p = &f->problem;
    const int64_t at = pair->first_group + group;
    const bounds *seen = pair->block + block_index * p->spans_each;
    return pair->range[block_index].all ||
           ((at + 1) * KEY_GROUP <= p->t &&
            bounds_see(seen, p->spans_each, f->group[at].first, f->group[at].last) == SEES_ALL);
}

/*
 * C = A B of a block, `depth` units deep. From unit `from` on, P and dS of the block `before` are computed between the
 * tile instructions, `pairs` pairs of rows a step, half of them at a time: the processor runs both at once only if they
 * are within the few hundred instructions of its reorder window.
 */
static void product_beside(const backward *f, int64_t depth, const float *a, int64_t a_row, const float *b, float *c,
                           block *before, int64_t from, int pairs, float scale) {
    products_fence();
    sums_clear();
    for (int64_t k = 0; k < depth; k += DEPTH) {
        const int now = k >= from ? pairs : 0;
        sums_add_left(a + k, a_row, b + k * PANEL, PANEL);
        differentiate_some(f, before, now / 2, scale);
        sums_add_right(b + k * PANEL, PANEL);
        differentiate_some(f, before, now - now / 2, scale);
    }
    sums_store(c, PANEL);
    products_fence();
}

/*
 * S, dP, P and dS of a panel. S and dP of the previous block are read only after half a product, because it takes that
 * long until the tiles' stores can be read.
 */
static void panel_blocks(const backward *f, scratch *s, int panel) {
    const problem *p = &f->problem;
    const block_pair *pair = &s->pair;
    const head_form *qk = &f->qk, *v = &f->v;
    const int64_t ds_row = ds_row_of(f), late = ls_ceil_div(qk->units / DEPTH, 2);
    const float scale = (float)(p->params->scale * LOG2_E);
    const int pairs = (int)ls_ceil_div(BLOCK_UNITS, (qk->units + v->units) / DEPTH - late);
    block before = {.done = BLOCK_UNITS};
    int buffer = 0;
    for (int i = pair->first[panel]; i < pair->end[panel]; i++, buffer = !buffer) {
        const int64_t row = (int64_t)i * BLOCK;
        float *p_out = s->p + row / UNIT_ELEMENTS * PANEL, *ds_out = s->ds + row / UNIT_ELEMENTS * PANEL;
        if (panel < pair->range[i].start || panel >= pair->range[i].end) {
            memset(p_out, 0, sizeof(float) * BLOCK_UNITS * PANEL);
            memset(ds_out, 0, sizeof(float) * BLOCK_UNITS * PANEL);
            continue;
        }
        product_beside(f, qk->units, s->q_rows + row * qk->row, qk->row, s->k_transposed + panel * PANEL * qk->units,
                       s->s[buffer], &before, late * DEPTH, pairs, scale);
        product_beside(f, v->units, s->do_rows + row * v->row, v->row, s->v_transposed + panel * PANEL * v->units,
                       s->dp[buffer], &before, 0, pairs, scale);
        before = (block){.s = s->s[buffer],
                         .dp = s->dp[buffer],
                         .lse = pair->lse + row,
                         .delta = pair->delta + row,
                         .kpos = pair->kpos + panel * PANEL,
                         .p = p_out,
                         .ds = ds_out,
                         .ds_rows = s->ds_rows + row * ds_row + panel * PANEL / UNIT_ELEMENTS,
                         .ds_row = ds_row};
        const bool all = block_sees_all(f, pair, i, panel);
        for (int r = 0; !all && r < BLOCK; r++) before.spans[r] = pair_spans(f, pair, row + r);
        for (int r = 0; p->params->softcap > 0 && r < BLOCK; r++) {
            cap_row(p->params, s->s[buffer] + r * PANEL, s->dp[buffer] + r * PANEL, PANEL, before.delta[r]);
        }
        for (int r = 0; pair->any_far && r < BLOCK; r++) {
            const float lse = pair->far_lse[row + r];
            if (lse != 0) far_row(s->s[buffer] + r * PANEL, PANEL, scale, lse);
        }
    }
    differentiate_some(f, &before, BLOCK_UNITS, scale);
}

/* dV^T += dO^T P or dK^T += Q^T dS of a panel: sums over the queries. */
static void product_by_queries(int64_t width, const scratch *s, int panel, const float *summed, const float *by_q,
                               float *out) {
    const int64_t units = CACHE_ROWS / UNIT_ELEMENTS;
    const int64_t start = s->pair.first[panel] * BLOCK_UNITS;
    const int64_t depth = s->pair.end[panel] * BLOCK_UNITS - start;
    for (int64_t d = 0; d < width; d += BLOCK) {
        product_of(MICRO_VECTORS, depth, summed + d * units + start, units, by_q + start * PANEL, PANEL,
                   out + (panel * width + d) * PANEL, PANEL, true);
    }
    products_fence();
}

/* dQ += dS K */
static void product_for_queries(const backward *f, scratch *s, int64_t head) {
    const int64_t width = f->qk.columns.width, ds_row = ds_row_of(f);
    const block_pair *pair = &s->pair;
    for (int i = 0; i * BLOCK < pair->queries; i++) {
        const int64_t start = pair->range[i].start * KEY_GROUP / UNIT_ELEMENTS, row = (int64_t)i * BLOCK;
        const int64_t depth = pair->range[i].end * KEY_GROUP / UNIT_ELEMENTS - start;
        if (depth == 0) continue;
        for (int64_t d = 0; d < width; d += PANEL) {
            product_of(MICRO_VECTORS, depth, s->ds_rows + row * ds_row + start, ds_row,
                       s->k_columns + d * ds_row + start * PANEL, PANEL, s->dq + d, width, false);
        }
        products_fence();
        add_rows(&f->call->out[OUT_DQ], pair->b, head, pair->query + row, ls_min(BLOCK, pair->queries - row), s->dq,
                 width, (float)f->problem.params->scale);
    }
}

/* One row block of one head and the packed key block. */
static void work_pair(const backward *f, scratch *s, int64_t head) {
    pack_queries(&f->qk, &s->pair, &f->call->in[IN_Q], head, s->q_rows, s->q_summed);
    pack_queries(&f->v, &s->pair, &f->call->in[IN_DO], head, s->do_rows, s->do_summed);
    for (int panel = 0; panel < f->keys_each / PANEL; panel++) {
        if (s->pair.end[panel] == 0) continue;
        panel_blocks(f, s, panel);
        product_by_queries(f->v.columns.width, s, panel, s->do_summed, s->p, s->dv);
        product_by_queries(f->qk.columns.width, s, panel, s->q_summed, s->ds, s->dk);
    }
    product_for_queries(f, s, head);
}

/* to[key][d] += factor * from[d][key], for `rows` keys of the key block. */
static void add_summed(const head_form *form, const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows,
                       const float *from, float factor) {
    const int64_t D = form->size, width = form->columns.width;
    float *to = (float *)view->data + head_offset(view, b, head) + start * view->stride[1];
    for (int64_t first = 0; first < rows; first += PANEL, from += width * PANEL) {
        for (int64_t d = 0; d < D; d += V_LANES) {
            for (int h = 0; h < 2; h++) {
                v_f32 m[V_LANES];
                for (int j = 0; j < V_LANES; j++) m[j] = unit_load(from + (d + j) * PANEL + h * V_LANES);
                transpose_square(m);
                for (int j = 0; j < V_LANES; j++) {
                    const int64_t key = first + paired_column(h, j);
                    if (key >= rows) continue;
                    float *at = to + key * view->stride[1] + d;
                    v_store_f32(at, v_load_f32(at, D - d) + factor * m[j], D - d);
                }
            }
        }
    }
}

#endif
