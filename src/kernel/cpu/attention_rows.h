/* `attend` in vectors: for a row block and a key block, first all scores, then all probabilities, then the output. */
#ifndef LS_KERNEL_CPU_ATTENTION_ROWS_H
#define LS_KERNEL_CPU_ATTENTION_ROWS_H

#include "kernel/cpu/attention_forward.h"

/* Writes P = 2^(scale·s - shift) of a row in the form that the products read, and returns its sum, in lanes. */
V_INLINE v_f32 exponentials(const float *s, float *p, int64_t keys, float scale, float shift) {
    v_f32 sum = v_set(0.0f), sum2 = sum;
    for (int64_t j = 0; j < keys; j += 2 * V_LANES) {
        const v_f32 a = unit_exp2(unit_load(s + j) * scale - shift);
        const v_f32 b = unit_exp2(unit_load(s + j + V_LANES) * scale - shift);
        sum += a;
        sum2 += b;
#if LS_ATTENTION_PAIRS
        unit_store(p + j / 2, round_in_order(a, b));
#else
        unit_store(p + j, a);
        unit_store(p + j + V_LANES, b);
#endif
    }
    return sum + sum2;
}

/* The largest score of a row, in lanes. */
V_INLINE v_f32 largest(const float *s, int64_t keys) {
    v_f32 most = unit_load(s), most2 = most;
    for (int64_t j = 0; j < keys; j += 2 * V_LANES) {
        most = v_max(most, unit_load(s + j));
        most2 = v_max(most2, unit_load(s + j + V_LANES));
    }
    return v_max(most, most2);
}

/*
 * exponentials. Scores far from 0 are first multiplied by scale, so that they are rounded like shift, which is one of
 * them.
 */
V_INLINE v_f32 exponentials_from(float *s, float *p, int64_t keys, float *scale, float shift) {
    if (LS_ATTENTION_PAIRS && fabsf(shift) >= FAR_SCORE) {
        scale_row(s, keys, *scale);
        *scale = 1;
    }
    return exponentials(s, p, keys, *scale, shift);
}

/*
 * One row: updates m and l[V_LANES] with the scores s[keys], writes P into p, and the factor for O into decay. Scores
 * somewhat above m are harmless, because f32 and bf16 reach to 2^127. So a row usually keeps its m, which saves the
 * maximum over the lanes; m is computed anew only if scores are far above it. If p is not s, the sum shows that (too
 * large, or NaN); otherwise the scores are checked before P overwrites them.
 */
V_INLINE void softmax_row(float *s, float *p, int64_t keys, float scale, float *m, float *l, float *decay) {
    const float before = *m, too_large = 0x1p40f, too_far = 40;
    *decay = 1;
    if (LS_ATTENTION_PAIRS && before > -INFINITY) {
        const v_f32 sum = exponentials_from(s, p, keys, &scale, before);
        if (v_all_below(sum, too_large)) {
            unit_store(l, unit_load(l) + sum);
            return;
        }
    }
    const v_f32 most = largest(s, keys) * scale;
    if (LS_ATTENTION_PAIRS || before == -INFINITY || !v_all_below(most, before + too_far)) {
        const float here = v_largest_lane(most);
        *m = here < before ? before : here;
    }
    const float now = *m, shift = now == -INFINITY ? 0.0f : now;
    const v_f32 sum = exponentials_from(s, p, keys, &scale, shift);
    if (now != before) *decay = v_exp2(v_set(before - shift))[0];
    unit_store(l, unit_load(l) * *decay + sum);
}

static void softmax_rows(const forward *f, scratch *s, row_block *rows, int64_t b) {
    const problem *p = &f->problem;
    const float scale = score_scale(p->params);
    for (int64_t i = 0; i < rows->queries; i++) {
        const key_range range = s->range[i / MICRO_ROWS];
        const int64_t start = range.start * KEY_GROUP, keys = (range.end - range.start) * KEY_GROUP;
        float *scores = s->s + i * S_ROW + start;
        if (keys == 0) continue;
        if (p->params->softcap > 0) cap_row(scores, keys, scale, p->params);
        if (!range.all) {
            mask_row(scores, s->kpos + start, keys, spans_of(p, b, rows->query + i), p->spans_each);
        }
        softmax_row(scores, s->p + (i * CACHE_KEYS + start) / UNIT_ELEMENTS, keys, scale, &rows->m[i],
                    rows->l + i * V_LANES, &s->decay[i]);
    }
}

static void row_scores(const forward *f, scratch *s, const row_block *rows, int blocks) {
    const int64_t units = row_units(f->problem.D);
    for (int panel = 0; panel < CACHE_KEYS / PANEL; panel++) {
        for (int i = 0; i < blocks; i++) {
            const int group = panel * PANEL / KEY_GROUP;
            if (group < s->range[i].start || group >= s->range[i].end) continue;
            micro_product(MICRO_VECTORS, units, rows->q + i * MICRO_ROWS * f->q_units, f->q_units, 1,
                          s->k + panel * PANEL * units, s->s + i * MICRO_ROWS * S_ROW + panel * PANEL, S_ROW, NULL);
            fetch_lines(&s->next_k, 1);
            fetch_lines(&s->next_v, 1);
        }
    }
}

static void row_output(const forward *f, scratch *s, const row_block *rows, int blocks) {
    const int64_t row = CACHE_KEYS / UNIT_ELEMENTS, group = KEY_GROUP / UNIT_ELEMENTS;
    for (int panel = 0; panel < f->columns.panels; panel++) {
        const int vectors = columns_in(&f->columns, panel);
        const int64_t column = (int64_t)panel * f->columns.each * V_LANES;
        for (int i = 0; i < blocks; i++) {
            const int64_t start = s->range[i].start * group, depth = s->range[i].end * group - start;
            if (depth == 0) continue;
            micro_product(vectors, depth, s->p + i * MICRO_ROWS * row + start, row, 1,
                          s->v + column * (CACHE_KEYS / UNIT_ELEMENTS) + start * vectors * V_LANES,
                          rows->o + i * MICRO_ROWS * f->columns.width + column, f->columns.width,
                          s->decay + i * MICRO_ROWS);
        }
    }
}

/* Computes a row block with the packed key block that begins at first_group. */
static void attend(const forward *f, scratch *s, row_block *rows, int64_t b, int64_t first_group) {
    const problem *p = &f->problem;
    const int64_t last_group = ls_min(first_group + CACHE_GROUPS, f->groups);
    const int blocks = (int)ls_ceil_div(rows->queries, MICRO_ROWS);
    for (int i = 0; i < blocks; i++) {
        s->range[i] = key_range_find(rows->block + i * p->spans_each, p, f->group, first_group, last_group);
    }
    for (int64_t i = rows->queries; i < CACHE_ROWS; i++) s->decay[i] = 0;
    row_scores(f, s, rows, blocks);
    softmax_rows(f, s, rows, b);
    row_output(f, s, rows, blocks);
}

#endif
