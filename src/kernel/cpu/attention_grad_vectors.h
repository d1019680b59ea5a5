/*
 * The kernel attention_grad for one row block (queries) and one key block, in vectors: S, dP, P and dS of the two
 * blocks are computed in full, one after the other, by the products of attention_gemm.h.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_GRAD_VECTORS_H
#define LS_KERNEL_CPU_ATTENTION_GRAD_VECTORS_H

#include "kernel/cpu/attention_grad.h"

/* Not a power of two, because columns of S are read too, and their elements must not fall into the same cache sets. */
#define S_ROW (CACHE_KEYS + 16)

struct scratch {
    block_pair pair;
    float *k_transposed, *v_transposed, *k_columns; /* a key block, packed */
    /* a row block, packed: as rows, and as operand of sums over queries */
    float *q_rows, *do_rows, *q_summed, *do_summed;
    float *s, *dp;  /* [CACHE_ROWS][S_ROW]; P and dS overwrite them where a unit is one float (UNIT_ELEMENTS 1) */
    float *p_by_q;  /* P in units along queries: [CACHE_ROWS / UNIT_ELEMENTS][S_ROW] */
    float *ds_by_q; /* dS likewise */
    float *ds_by_k; /* dS in units along keys: [CACHE_ROWS][S_ROW / UNIT_ELEMENTS] */
    float *dk, *dv; /* [CACHE_KEYS][columns.width] of their form */
    float *dq;      /* [CACHE_ROWS][columns.width] */
    ahead next[3];  /* rows of q, do and dq of the next pair */
};

static void scratch_carve(scratch *s, const backward *f, carving *c) {
    const head_form *qk = &f->qk, *v = &f->v;
    scratch made = {
        .k_transposed = carve(c, CACHE_KEYS * qk->units, sizeof(float)),
        .v_transposed = carve(c, CACHE_KEYS * v->units, sizeof(float)),
        .k_columns = carve(c, CACHE_KEYS / UNIT_ELEMENTS * qk->columns.width, sizeof(float)),
        .q_rows = carve(c, CACHE_ROWS * qk->row, sizeof(float)),
        .do_rows = carve(c, CACHE_ROWS * v->row, sizeof(float)),
        .q_summed = carve(c, CACHE_ROWS / UNIT_ELEMENTS * qk->columns.width, sizeof(float)),
        .do_summed = carve(c, CACHE_ROWS / UNIT_ELEMENTS * v->columns.width, sizeof(float)),
        .s = carve(c, CACHE_ROWS * S_ROW, sizeof(float)),
        .dp = carve(c, CACHE_ROWS * S_ROW, sizeof(float)),
        .dk = carve(c, CACHE_KEYS * qk->columns.width, sizeof(float)),
        .dv = carve(c, CACHE_KEYS * v->columns.width, sizeof(float)),
        .dq = carve(c, CACHE_ROWS * qk->columns.width, sizeof(float)),
    };
    block_pair_carve(&made.pair, f, c);
    made.p_by_q = made.s;
    made.ds_by_q = made.ds_by_k = made.dp;
#if LS_ATTENTION_PAIRS
    made.p_by_q = carve(c, CACHE_ROWS / 2 * S_ROW, sizeof(float));
    made.ds_by_q = carve(c, CACHE_ROWS / 2 * S_ROW, sizeof(float));
    made.ds_by_k = carve(c, CACHE_ROWS * S_ROW / 2, sizeof(float));
#endif
    if (s) *s = made;
}

static void pack_keys(const backward *f, scratch *s, int64_t b, int64_t kv, int64_t start) {
    const problem *p = &f->problem;
    const ls_view *k = &f->call->in[IN_K], *v = &f->call->in[IN_V];
    const int64_t keys = ls_min(CACHE_KEYS, p->t - start);
    const element *k_rows = rows_of(k, b, kv, start), *v_rows = rows_of(v, b, kv, start);
    pack_transposed(s->k_transposed, k_rows, k->stride[1], keys, CACHE_KEYS, p->D);
    pack_transposed(s->v_transposed, v_rows, v->stride[1], keys, CACHE_KEYS, p->E);
    pack_columns(s->k_columns, k_rows, k->stride[1], keys, CACHE_KEYS, 0, CACHE_KEYS, p->D, &f->qk.columns);
    key_positions(s->pair.kpos, p, start, CACHE_KEYS);
    memset(s->dk, 0, sizeof(float) * (size_t)(CACHE_KEYS * f->qk.columns.width));
    memset(s->dv, 0, sizeof(float) * (size_t)(CACHE_KEYS * f->v.columns.width));
}

/*
 * Packs a row block twice, as rows and as operand of sums over queries, and returns the latter. If there is one panel
 * and a unit is one float, both have the same layout and the block is packed once.
 */
static float *pack_both(const head_form *form, const ls_view *view, int64_t b, int64_t head, int64_t start,
                        float *rows_out, float *summed_out) {
    const int64_t rows = ls_min(CACHE_ROWS, view->size[1] - start);
    const element *from = rows_of(view, b, head, start);
    pack_rows(rows_out, from, view->stride[1], rows, CACHE_ROWS, form->size, form->row, 1);
    if (UNIT_ELEMENTS == 1 && form->columns.panels == 1) return rows_out;
    pack_columns(summed_out, from, view->stride[1], rows, CACHE_ROWS, 0, CACHE_ROWS, form->size, &form->columns);
    return summed_out;
}

/*
 * P and dS of UNIT_ELEMENTS rows from row i on, for keys from..to-1. spans: of each row, NULL: it sees all these keys.
 */
V_INLINE void differentiate_rows(scratch *s, int64_t i, int64_t from, int64_t to, float scale,
                                 const int32_t *const *spans, int spans_each) {
    const float *lse = s->pair.lse + i, *delta = s->pair.delta + i;
    const int32_t *kpos = s->pair.kpos;
    float *scores = s->s + i * S_ROW, *dp = s->dp + i * S_ROW;
    for (int64_t j = from; j < to; j += V_LANES * UNIT_ELEMENTS) {
#if LS_ATTENTION_PAIRS
        v_f32 p[2][2], ds[2][2];
        for (int r = 0; r < 2; r++) {
            for (int h = 0; h < 2; h++) {
                const int64_t at = j + h * V_LANES;
                p[r][h] = probability(scores + r * S_ROW + at, scale, lse[r], kpos + at, spans[r], spans_each);
                ds[r][h] = p[r][h] * (unit_load(dp + r * S_ROW + at) - delta[r]);
            }
            unit_store(s->ds_by_k + ((i + r) * S_ROW + j) / 2, round_in_order(ds[r][0], ds[r][1]));
        }
        for (int h = 0; h < 2; h++) {
            unit_store(s->p_by_q + i / 2 * S_ROW + j + h * V_LANES, round_to_pairs(p[0][h], p[1][h]));
            unit_store(s->ds_by_q + i / 2 * S_ROW + j + h * V_LANES, round_to_pairs(ds[0][h], ds[1][h]));
        }
#else
        const v_f32 p = probability(scores + j, scale, lse[0], kpos + j, spans[0], spans_each);
        const v_f32 ds = p * (unit_load(dp + j) - delta[0]);
        unit_store(scores + j, p);
        unit_store(dp + j, ds);
#endif
    }
}

/* P and dS of the pair of blocks from S and dP; 0 where S was not computed, because the products read it. */
static void differentiate(const backward *f, scratch *s) {
    const problem *p = &f->problem;
    const float scale = (float)(p->params->scale * LOG2_E);
    const int32_t *const nothing[2] = {NULL, NULL};
    for (int64_t i = 0; i < CACHE_ROWS; i += UNIT_ELEMENTS) {
        const key_range range = s->pair.range[i / MICRO_ROWS];
        const int64_t from = range.start * KEY_GROUP, to = range.end * KEY_GROUP;
        const int64_t row = i / UNIT_ELEMENTS * S_ROW;
        for (int64_t r = i; p->params->softcap > 0 && r < i + UNIT_ELEMENTS; r++) {
            cap_row(p->params, s->s + r * S_ROW + from, s->dp + r * S_ROW + from, to - from, s->pair.delta[r]);
        }
        for (int64_t r = i; s->pair.any_far && r < i + UNIT_ELEMENTS; r++) {
            const float lse = s->pair.far_lse[r];
            if (lse != 0) far_row(s->s + r * S_ROW + from, to - from, scale, lse);
        }
        memset(s->p_by_q + row, 0, sizeof(float) * (size_t)from);
        memset(s->ds_by_q + row, 0, sizeof(float) * (size_t)from);
        memset(s->p_by_q + row + to, 0, sizeof(float) * (size_t)(CACHE_KEYS - to));
        memset(s->ds_by_q + row + to, 0, sizeof(float) * (size_t)(CACHE_KEYS - to));
        if (range.all) {
            differentiate_rows(s, i, from, to, scale, nothing, 0);
        } else {
            const int32_t *const spans[2] = {pair_spans(f, &s->pair, i), pair_spans(f, &s->pair, i + 1)};
            differentiate_rows(s, i, from, to, scale, spans, p->spans_each);
        }
    }
}

/* S = Q K^T or dP = dO V^T, of the blocks of queries that see the panel of keys. */
static void product_by_keys(const head_form *form, scratch *s, const float *rows, const float *transposed, float *out) {
    const int64_t units = form->units;
    for (int panel = 0; panel < CACHE_KEYS / PANEL; panel++) {
        const int group = panel * PANEL / KEY_GROUP;
        for (int i = s->pair.first[group]; i < s->pair.end[group]; i++) {
            micro_product(MICRO_VECTORS, units, rows + i * MICRO_ROWS * form->row, form->row, 1,
                          transposed + panel * PANEL * units, out + i * MICRO_ROWS * S_ROW + panel * PANEL, S_ROW,
                          NULL);
            for (int a = 0; a < 3; a++) fetch_lines(&s->next[a], 1);
        }
    }
}

/* Passed as `decay` to micro_product, which then adds the product to C. */
static const float ones[] = {1, 1, 1, 1, 1, 1};
_Static_assert(sizeof ones == MICRO_ROWS * sizeof *ones, "one for each row of a register block");

/* dV += P^T dO or dK += dS^T Q: sums over the queries. */
static void product_by_queries(const columns *c, const scratch *s, const float *by_q, const float *column_operand,
                               float *out) {
    const int64_t width = c->width;
    for (int panel = 0; panel < c->panels; panel++) {
        const int vectors = columns_in(c, panel);
        const int64_t column = (int64_t)panel * c->each * V_LANES;
        const float *operand = column_operand + column * (CACHE_ROWS / UNIT_ELEMENTS);
        for (int i = 0; i < K_BLOCKS; i++) {
            const int64_t key = i * MICRO_ROWS;
            const int64_t g = key / KEY_GROUP, h = (key + MICRO_ROWS - 1) / KEY_GROUP;
            const int64_t start = ls_min(s->pair.first[g], s->pair.first[h]) * MICRO_ROWS / UNIT_ELEMENTS;
            const int64_t depth = ls_max(s->pair.end[g], s->pair.end[h]) * MICRO_ROWS / UNIT_ELEMENTS - start;
            if (depth <= 0) continue;
            micro_product(vectors, depth, by_q + start * S_ROW + key, 1, S_ROW, operand + start * vectors * V_LANES,
                          out + key * width + column, width, ones);
        }
    }
}

static void add_summed(const head_form *form, const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows,
                       const float *from, float factor) {
    add_rows(view, b, head, start, rows, from, form->columns.width, factor);
}

/* dQ = dS K of the row block. */
static void product_for_queries(const backward *f, scratch *s, int64_t queries) {
    const columns *c = &f->qk.columns;
    const int64_t row = S_ROW / UNIT_ELEMENTS, width = c->width;
    for (int panel = 0; panel < c->panels; panel++) {
        const int vectors = columns_in(c, panel);
        const int64_t column = (int64_t)panel * c->each * V_LANES;
        const float *operand = s->k_columns + column * (CACHE_KEYS / UNIT_ELEMENTS);
        for (int i = 0; i * MICRO_ROWS < queries; i++) {
            const int64_t start = s->pair.range[i].start * KEY_GROUP / UNIT_ELEMENTS;
            const int64_t depth = s->pair.range[i].end * KEY_GROUP / UNIT_ELEMENTS - start;
            micro_product(vectors, depth, s->ds_by_k + i * MICRO_ROWS * row + start, row, 1,
                          operand + start * vectors * V_LANES, s->dq + i * MICRO_ROWS * width + column, width, NULL);
        }
    }
}

/* Sets the rows of q, do and dq of the next pair, which are prefetched during the work on this one. */
static void rows_ahead(const backward *f, scratch *s) {
    const block_pair *pair = &s->pair;
    const ls_view *views[] = {&f->call->in[IN_Q], &f->call->in[IN_DO], &f->call->out[OUT_DQ]};
    for (int i = 0; i < 3; i++) {
        s->next[i].rows = 0;
        if (pair->next_head < 0) continue;
        s->next[i] = ahead_of(views[i], pair->b, pair->next_head, pair->next_query,
                              ls_min(CACHE_ROWS, f->problem.n - pair->next_query));
    }
}

/* One row block of one head and the packed key block. */
static void work_pair(const backward *f, scratch *s, int64_t head) {
    const ls_view *q = &f->call->in[IN_Q], *dout = &f->call->in[IN_DO];
    const int64_t b = s->pair.b, query = s->pair.query;
    rows_ahead(f, s);
    const float *q_summed = pack_both(&f->qk, q, b, head, query, s->q_rows, s->q_summed);
    const float *do_summed = pack_both(&f->v, dout, b, head, query, s->do_rows, s->do_summed);
    product_by_keys(&f->qk, s, s->q_rows, s->k_transposed, s->s);
    product_by_keys(&f->v, s, s->do_rows, s->v_transposed, s->dp);
    differentiate(f, s);
    product_by_queries(&f->v.columns, s, s->p_by_q, do_summed, s->dv);
    product_by_queries(&f->qk.columns, s, s->ds_by_q, q_summed, s->dk);
    product_for_queries(f, s, s->pair.queries);
    add_rows(&f->call->out[OUT_DQ], b, head, query, s->pair.queries, s->dq, f->qk.columns.width,
             (float)f->problem.params->scale);
}

#endif
