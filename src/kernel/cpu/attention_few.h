/*
 * attention of a few queries over many keys, as for a generated token: almost all time is spent reading keys and
 * values, so they are not packed. An item is a stretch of keys with all heads, so that memory is read in order:
 *
 *   item: a stretch of keys of a sequence
 *     for each block of FEW_KEYS keys that any query sees, for each KV head:
 *       S = q K^T, V_LANES products at a time;  m, l, P = softmax so far;  o = decay o + P V
 *   then o, lse of each row from those of all stretches, in order
 *
 * The stretches depend only on the number of keys, so the number of threads changes no bit. A row is a query of a query
 * head; the rows of a KV head share the loads of its keys. Arithmetic is in f32 for every element type.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_FEW_H
#define LS_KERNEL_CPU_ATTENTION_FEW_H

#include "kernel/cpu/attention_forward.h"

#define FEW_ROWS 16 /* of a KV head */
#define FEW_KEYS 64
#define FEW_STRETCHES 64
#define PAIR (2 * V_LANES)

/* State of a row in a stretch: what is subtracted from scores, and the sum of P. */
typedef struct few_sums {
    float m, l;
} few_sums;

typedef struct few_scratch {
    float *s; /* [FEW_ROWS][FEW_KEYS] scores, then P */
    float decay[FEW_ROWS];
    int32_t *kpos;  /* [FEW_KEYS] */
    bounds *bounds; /* [w] of the queries of a sequence */
} few_scratch;

typedef struct few {
    problem problem;
    const ls_kernel_call *call;
    int64_t rows;           /* of a sequence */
    int64_t q_width, width; /* floats of a row of q, and of o */
    int64_t stretch;        /* keys of a stretch */
    int stretches;
    float *q;                /* [B][rows][q_width]; rows of a KV head are adjacent */
    float *o;                /* [stretches][B][rows][width] */
    few_sums *sums;          /* [stretches][B][rows] */
    float *joined, *ordered; /* [width]: a row of o merged from all stretches, in the order of load_pair; the same in
                                the order of E */
    few_scratch *scratch;
} few;

V_INLINE bool is_few(const ls_kernel_call *call) {
    const problem p = problem_of(call);
    return p.n * ls_min(p.params->group, p.Hq) <= FEW_ROWS;
}

static size_t few_carve(few *f, const ls_kernel_call *call, void *base) {
    const problem p = problem_of(call);
    *f = (few){.problem = p, .call = call, .rows = p.n * p.Hq};
    f->q_width = (int64_t)ls_round_up((size_t)p.D, V_LANES);
    f->width = (int64_t)ls_round_up((size_t)p.E, V_LANES);
    f->stretch = ls_max(4 * FEW_KEYS, (int64_t)ls_round_up((size_t)ls_ceil_div(p.t, FEW_STRETCHES), FEW_KEYS));
    f->stretches = (int)ls_ceil_div(p.t, f->stretch);
    carving c = {base, 0};
    f->q = carve(&c, p.B * f->rows * f->q_width, sizeof(float));
    f->o = carve(&c, f->stretches * p.B * f->rows * f->width, sizeof(float));
    f->sums = carve(&c, f->stretches * p.B * f->rows, sizeof *f->sums);
    f->joined = carve(&c, f->width, sizeof(float));
    f->ordered = carve(&c, f->width, sizeof(float));
    f->scratch = carve(&c, p.threads, sizeof *f->scratch);
    for (int i = 0; i < p.threads; i++) {
        float *s = carve(&c, FEW_ROWS * FEW_KEYS, sizeof(float));
        int32_t *kpos = carve(&c, FEW_KEYS, sizeof(int32_t));
        bounds *seen = carve(&c, p.spans_each, sizeof *seen);
        if (base) f->scratch[i] = (few_scratch){.s = s, .kpos = kpos, .bounds = seen};
    }
    return c.used;
}

/* --- rows of elements as vectors ---------------------------------------------------------------------------------- */

/*
 * 2 V_LANES elements from p on. For bf16 one vector has the even and one the odd elements, which takes two
 * instructions.
 */
V_INLINE void load_pair(const element *p, v_f32 out[2]) {
#if LS_CPU_ELEMENT_BF16
    v_u32 both;
    memcpy(&both, p, sizeof both);
    out[0] = (v_f32)(both << 16);
    out[1] = (v_f32)(both & 0xffff0000u);
#else
    out[0] = v_load(p, V_LANES);
    out[1] = v_load(p + V_LANES, V_LANES);
#endif
}

/* Index of element d of D in a row of vectors that load_pair loaded. */
V_INLINE int64_t place_in_row(int64_t d, int64_t D) {
    if (!LS_CPU_ELEMENT_BF16 || d >= D / PAIR * PAIR) return d;
    return d / PAIR * PAIR + d % 2 * V_LANES + d % PAIR / 2;
}

/* The rows of K or V of a KV head for a block of keys. */
typedef struct few_keys {
    const element *row;
    int64_t stride, count;
    int64_t ahead; /* distance in elements to the row that is prefetched meanwhile; 0: none */
} few_keys;

/*
 * Prefetches elements from..to-1 of the row `ahead` of row j: the processor's prefetcher does not predict short rows
 * that are far apart.
 */
V_INLINE void prefetch_row(const few_keys *keys, int64_t j, int64_t from, int64_t to) {
    const int64_t line = 64 / (int64_t)sizeof(element);
    if (keys->ahead == 0) return;
    const element *row = keys->row + j * keys->stride + keys->ahead;
    for (int64_t d = from; d < to; d += line) __builtin_prefetch(row + d, 0, 2);
}

/* --- S = q K^T ---------------------------------------------------------------------------------------------------- */

/*
 * Lane i of the result is the sum of the lanes of m[i]. Rounds of a perfect shuffle, as in transpose_square, that add.
 */
V_INLINE v_f32 sums_of(v_f32 m[V_LANES]) {
    const v_i32 low = TRANSPOSE_LOW, high = low + V_LANES / 2;
#pragma GCC unroll 4
    for (int half = V_LANES / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) m[i] = v_pick(m[i], m[i + half], low) + v_pick(m[i], m[i + half], high);
    }
    return m[0];
}

/*
 * Scores of `rows` rows, a constant 1, 2 or 4, with V_LANES / rows keys from `first` on (a key past the last repeats
 * the last): out[row][key], rows FEW_KEYS apart.
 */
V_INLINE void few_scores(int rows, const float *q, int64_t width, const few_keys *k, int64_t first, int64_t D,
                         float *out) {
    const int64_t left = k->count - first;
    const element *at = k->row + first * k->stride;
    const int keys = V_LANES / rows;
    v_f32 sum[V_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < V_LANES; i++) sum[i] = v_set(0.0f);
    int64_t d = 0;
    for (; d + PAIR <= D; d += PAIR) {
#pragma GCC unroll 16
        for (int j = 0; j < keys; j++) {
            v_f32 x[2];
            load_pair(at + ls_min(j, left - 1) * k->stride + d, x);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const float *row = q + r * width + d;
                sum[r * keys + j] += unit_load(row) * x[0];
                sum[r * keys + j] += unit_load(row + V_LANES) * x[1];
            }
        }
    }
    for (; d < D; d += V_LANES) {
        for (int j = 0; j < keys; j++) {
            const v_f32 x = v_load(at + ls_min(j, left - 1) * k->stride + d, D - d);
            for (int r = 0; r < rows; r++) sum[r * keys + j] += unit_load(q + r * width + d) * x;
        }
    }
    const v_f32 all = sums_of(sum);
    float lanes[V_LANES];
    memcpy(lanes, &all, sizeof lanes);
    for (int r = 0; r < rows; r++) memcpy(out + r * FEW_KEYS, lanes + r * keys, sizeof(float) * (size_t)keys);
}

/* --- softmax ------------------------------------------------------------------------------------------------------ */

/* Replaces the scores of a row by P, and returns the factor for the o so far. */
V_INLINE float few_softmax(float *s, few_sums *sums) {
    v_f32 most = unit_load(s), sum = v_set(0.0f);
    for (int j = V_LANES; j < FEW_KEYS; j += V_LANES) most = v_max(most, unit_load(s + j));
    const float before = sums->m, here = v_largest_lane(most);
    const float now = here < before ? before : here, shift = now == -INFINITY ? 0.0f : now;
    for (int j = 0; j < FEW_KEYS; j += V_LANES) {
        const v_f32 p = v_exp2(unit_load(s + j) - shift);
        unit_store(s + j, p);
        sum += p;
    }
    const float decay = before == now ? 1 : v_exp2(v_set(before - shift))[0];
    *sums = (few_sums){now, sums->l * decay + v_sum_lanes(sum)};
    return decay;
}

/* --- o = decay o + P V -------------------------------------------------------------------------------------------- */

/*
 * For `rows` rows, a constant 1, 2 or 4: `pairs` pairs of vectors from element d on; pairs 0: one vector, of which D -
 * d elements exist.
 */
V_INLINE void few_columns(int rows, int pairs, const float *p, const float *decay, const few_keys *v, int64_t D,
                          int64_t d, float *o, int64_t width) {
    const int vectors = pairs > 0 ? 2 * pairs : 1;
    v_f32 sum[4][4], x[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++) sum[r][i] = unit_load(o + r * width + d + i * V_LANES) * decay[r];
    }
    for (int64_t j = 0; j < v->count; j++) {
        const element *row = v->row + j * v->stride + d;
        prefetch_row(v, j, d, ls_min(d + vectors * V_LANES, D));
        if (pairs == 0) x[0] = v_load(row, D - d);
#pragma GCC unroll 2
        for (int i = 0; i < pairs; i++) load_pair(row + i * PAIR, x + 2 * i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const v_f32 share = v_set(p[r * FEW_KEYS + j]);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; i++) sum[r][i] += share * x[i];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++) unit_store(o + r * width + d + i * V_LANES, sum[r][i]);
    }
}

V_INLINE void few_output(int rows, const float *p, const float *decay, const few_keys *v, int64_t D, float *o,
                         int64_t width) {
    int64_t d = 0;
    for (; d + 2 * PAIR <= D; d += 2 * PAIR) few_columns(rows, 2, p, decay, v, D, d, o, width);
    for (; d + PAIR <= D; d += PAIR) few_columns(rows, 1, p, decay, v, D, d, o, width);
    for (; d < D; d += V_LANES) few_columns(rows, 0, p, decay, v, D, d, o, width);
}

/* --- items -------------------------------------------------------------------------------------------------------- */

/* Scores of rows first .. first+rows-1 of a KV head, which share the loads, with a block of keys. */
V_INLINE void few_products(int rows, const few *f, few_scratch *s, int first, const float *q, const few_keys *k) {
    for (int64_t j = 0; j < k->count; j += V_LANES / rows) {
        for (int64_t i = j; i < ls_min(j + V_LANES / rows, k->count); i++) prefetch_row(k, i, 0, f->problem.D);
        few_scores(rows, q + first * f->q_width, f->q_width, k, j, f->problem.D, s->s + first * FEW_KEYS + j);
    }
}

V_INLINE void few_outputs(int rows, const few *f, few_scratch *s, int first, const few_keys *v, float *o) {
    few_output(rows, s->s + first * FEW_KEYS, s->decay + first, v, f->problem.E, o + first * f->width, f->width);
}

/* How many of the rows that are left are computed together. */
V_INLINE int rows_together(int left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

static few_keys keys_of(const few *f, int input, int64_t b, int64_t kv, int64_t key, bool more) {
    const ls_view *view = &f->call->in[input];
    const int64_t stride = view->stride[1];
    return (few_keys){.row = (const element *)view->data + head_offset(view, b, kv) + key * stride,
                      .stride = stride,
                      .count = ls_min(FEW_KEYS, f->problem.t - key),
                      .ahead = more ? FEW_KEYS * stride : 0};
}

/*
 * Computes a block of keys for the rows of a KV head. whole: every query of sequence b sees every key of it. more: a
 * whole block follows, which is prefetched.
 */
static void few_block(const few *f, few_scratch *s, int64_t b, int64_t kv, int64_t key, bool whole, bool more, float *o,
                      few_sums *sums) {
    const problem *p = &f->problem;
    const head_range heads = heads_of(p, kv);
    const int rows = (int)(heads.count * p->n);
    const int64_t first = heads.first * p->n;
    const float *q = f->q + (b * f->rows + first) * f->q_width;
    few_keys k = keys_of(f, IN_K, b, kv, key, more), v = keys_of(f, IN_V, b, kv, key, more);
    for (int r = 0, n; r < rows; r += n, k.ahead = 0) {
        n = rows_together(rows - r);
        if (n == 4) few_products(4, f, s, r, q, &k);
        if (n == 2) few_products(2, f, s, r, q, &k);
        if (n == 1) few_products(1, f, s, r, q, &k);
    }
    for (int r = 0; r < rows; r++) {
        float *row = s->s + r * FEW_KEYS;
        if (p->params->softcap > 0) cap_row(row, FEW_KEYS, 1, p->params);
        if (!whole) mask_row(row, s->kpos, FEW_KEYS, spans_of(p, b, r / heads.count), p->spans_each);
        s->decay[r] = few_softmax(row, &sums[first + r]);
    }
    o += first * f->width;
    for (int r = 0, n; r < rows; r += n, v.ahead = 0) {
        n = rows_together(rows - r);
        if (n == 4) few_outputs(4, f, s, r, &v, o);
        if (n == 2) few_outputs(2, f, s, r, &v, o);
        if (n == 1) few_outputs(1, f, s, r, &v, o);
    }
}

/* Copies the positions of a block of keys, and returns the smallest and the largest. */
static key_group block_positions(const problem *p, int64_t key, int32_t *kpos) {
    key_group group = {INT32_MAX, INT32_MIN};
    key_positions(kpos, p, key, FEW_KEYS);
    for (int64_t j = 0; j < ls_min(FEW_KEYS, p->t - key); j++) {
        group.first = kpos[j] < group.first ? kpos[j] : group.first;
        group.last = kpos[j] > group.last ? kpos[j] : group.last;
    }
    return group;
}

/* An item is stretch index / B of sequence index % B, the order of sums and o. */
static void run_stretch(void *context, int index, int thread) {
    const few *f = context;
    const problem *p = &f->problem;
    few_scratch *s = &f->scratch[thread];
    const int64_t b = index % p->B, start = index / p->B * f->stretch, end = ls_min(start + f->stretch, p->t);
    few_sums *sums = f->sums + index * f->rows;
    float *o = f->o + index * f->rows * f->width;
    for (int64_t r = 0; r < f->rows; r++) sums[r] = (few_sums){-INFINITY, 0};
    memset(o, 0, sizeof *o * (size_t)(f->rows * f->width));
    bounds_find(s->bounds, p->spans_each, spans_of(p, b, 0), p->n);
    for (int64_t key = start; key < end; key += FEW_KEYS) {
        const key_group group = block_positions(p, key, s->kpos);
        const sight seen = bounds_see(s->bounds, p->spans_each, group.first, group.last);
        if (seen == SEES_NONE) continue;
        const bool whole = seen == SEES_ALL && key + FEW_KEYS <= p->t, more = key + 2 * FEW_KEYS <= end;
        for (int64_t kv = 0; kv < p->Hkv; kv++)
            if (heads_of(p, kv).count > 0) few_block(f, s, b, kv, key, whole, more, o, sums);
    }
}

/* --- packing queries and merging stretches ------------------------------------------------------------------------ */

/* The query and query head of a row. */
typedef struct few_row {
    int64_t query, head;
} few_row;

static few_row row_of(const few *f, int64_t kv, int64_t r) {
    const head_range heads = heads_of(&f->problem, kv);
    return (few_row){r / heads.count, heads.first + r % heads.count};
}

static void few_pack_row(const few *f, const element *from, float *to) {
    const int64_t D = f->problem.D, paired = D / PAIR * PAIR;
    const float factor = (float)(f->problem.params->scale * LOG2_E); /* makes scores in units of log2 */
    for (int64_t d = 0; d < paired; d += PAIR) {
        v_f32 x[2];
        load_pair(from + d, x);
        for (int i = 0; i < 2; i++) unit_store(to + d + i * V_LANES, x[i] * factor);
    }
    for (int64_t d = paired; d < f->q_width; d += V_LANES) unit_store(to + d, v_load(from + d, D - d) * factor);
}

/* Merges the stretches of a row: adds their o, relative to the largest m, into `to`, and returns the merged m and l. */
static few_sums few_join(const few *f, int64_t row, float *to) {
    const int64_t all = f->problem.B * f->rows;
    few_sums total = {-INFINITY, 0};
    for (int i = 0; i < f->stretches; i++) {
        const float m = f->sums[i * all + row].m;
        if (m > total.m) total.m = m;
    }
    memset(to, 0, sizeof *to * (size_t)f->width);
    for (int i = 0; i < f->stretches; i++) {
        const few_sums *part = &f->sums[i * all + row];
        if (part->l == 0) continue;
        const float share = exp2f(part->m - total.m), *o = f->o + (i * all + row) * f->width;
        total.l += part->l * share;
        for (int64_t d = 0; d < f->width; d += V_LANES)
            unit_store(to + d, unit_load(to + d) + share * unit_load(o + d));
    }
    return total;
}

static void few_begin(const few *f) {
    const problem *p = &f->problem;
    const ls_view *q = &f->call->in[IN_Q];
    float *to = f->q;
    for (int64_t b = 0; b < p->B; b++) {
        for (int64_t kv = 0; kv < p->Hkv; kv++) {
            for (int64_t r = 0; r < heads_of(p, kv).count * p->n; r++, to += f->q_width) {
                const few_row row = row_of(f, kv, r);
                few_pack_row(f, (const element *)q->data + head_offset(q, b, row.head) + row.query * q->stride[1], to);
            }
        }
    }
}

static void few_end(const few *f) {
    const problem *p = &f->problem;
    int64_t at = 0;
    for (int64_t b = 0; b < p->B; b++) {
        for (int64_t kv = 0; kv < p->Hkv; kv++) {
            for (int64_t r = 0; r < heads_of(p, kv).count * p->n; r++, at++) {
                const few_row row = row_of(f, kv, r);
                const few_sums total = few_join(f, at, f->joined);
                for (int64_t d = 0; d < p->E; d++) f->ordered[d] = f->joined[place_in_row(d, p->E)];
                row_end(f->call, b, row.head, row.query, f->ordered, total.m, total.l);
            }
        }
    }
}

static size_t few_workspace(const ls_kernel_call *call) {
    few f;
    return few_carve(&f, call, NULL);
}

static void few_run(const ls_kernel_call *call, ls_pool *pool) {
    few f;
    few_carve(&f, call, call->workspace);
    few_begin(&f);
    ls_pool_run(pool, f.stretches * (int)f.problem.B, run_stretch, &f);
    few_end(&f);
}

#endif
