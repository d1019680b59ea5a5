/*
 * A row tile against a tile of keys on AMX: a strip of 32 rows after the other, in it a block of 32 keys after the other. The
 * products of a block take as long as its exponentials, and the processor does both at a time where their instructions stand side
 * by side:
 *
 *   turn j:  S(j) = Q K(j)^T in tiles, and between its instructions
 *            S(j-1) goes from tiles to memory, and P(j-2) = 2^(S(j-2) - m) is made, summed and rounded
 *   then     S(j-1) is masked; rows that have seen nothing yet take the largest score in it for m
 *   at last  O += P V, for all blocks
 *
 * Scores somewhat above m do no harm, for f32 and bf16 reach to 2^127: m is found anew, and the strip made again, only when the sum
 * of a row is too large (or no number).
 */
#ifndef LS_KERNEL_CPU_ATTENTION_STRIPS_H
#define LS_KERNEL_CPU_ATTENTION_STRIPS_H

#include "kernel/cpu/attention_forward.h"

enum { BLOCK = PANEL, BLOCK_UNITS = BLOCK * V_LANES }; /* a block of keys is a group */

/* Where 32 x 32 sums belong that are still in tiles; at NULL when there are none. */
typedef struct square {
    float *at;
    int64_t row;
} square;

/* The rest of a block on its way from scores to P: pairs of rows, and where the next one lies. */
typedef struct exponentials {
    int pairs;
    float scale;
    const float *s;     /* [rows][BLOCK] */
    float *p;           /* [rows][V_LANES] */
    float *sum;         /* [rows][V_LANES], added to */
    const float *shift; /* [rows] */
} exponentials;

typedef struct strip {
    const forward *f;
    scratch *s;
    row_tile *tile;
    int64_t b;
    int row;           /* the first one in its tile */
    int64_t key_group; /* the first of the tile of keys */
    int start;         /* the first in that tile that the strip sees */
    int blocks;        /* of keys, from there on */
    float factor;      /* of the products, to units of log2 */
    float scale;       /* what is left of it once a block is settled: 1 where rows are far */
    bool all_have;     /* each row has an m */
    bool far;          /* some row's m is beyond FAR_SCORE: blocks take up the factor when they are settled */
    float shift[BLOCK];
} strip;

/* The next two rows; four vectors in step, because one alone is a chain of slow instructions. */
V_INLINE void two_rows(exponentials *e) {
    v_f32 x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = unit_exp2(unit_load(e->s + i * V_LANES) * e->scale - e->shift[i / 2]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        float *sum = e->sum + i * V_LANES;
        unit_store(sum, unit_load(sum) + (x[2 * i] + x[2 * i + 1]));
        unit_store(e->p + i * V_LANES, round_in_order(x[2 * i], x[2 * i + 1]));
    }
    e->pairs--;
    e->s += 2 * BLOCK, e->p += 2 * V_LANES, e->sum += 2 * V_LANES, e->shift += 2;
}

V_INLINE void some_rows(exponentials *e, int pairs) {
    for (int i = 0; i < pairs && e->pairs > 0; i++) two_rows(e);
}

/* Either keeps two tile instructions apart. */
V_INLINE void rows_or_pause(exponentials *e, int pairs) {
    if (e->pairs > 0)
        some_rows(e, pairs);
    else
        tiles_apart();
}

static void square_store(square *of) {
    if (!of->at) return;
    sums_store(of->at, of->row);
    of->at = NULL;
}

/*
 * A product of 32 rows of A by 32 columns of B, added to what lies at `to` or not; it stays in tiles, and *held says so. What they held before is stored,
 * each tile just before it is needed: the multiplier does not wait for more than that. Steps of DEPTH units: A is a_step apart, B dense.
 */
V_INLINE void square_product(int64_t steps, const float *a, int64_t a_row, int64_t a_step, const float *b,
                             square *held, square to, bool add, exponentials *meanwhile) {
    const int64_t a_bytes = a_row * 4, b_bytes = PANEL * 4, c_bytes = to.row * 4, old_bytes = held->row * 4;
    const int pairs = (int)ls_ceil_div(BLOCK / 2, 4 * steps);
    float *old = held->at;
    exponentials rows = *meanwhile, *e = &rows; /* in registers */
    __asm__ volatile("" ::: "memory");          /* the intrinsics do not say that they read memory */
#define FIRST(sum, offset, old_offset)                             \
    if (i == 0) {                                                  \
        if (old) _tile_stored(sum, old + (old_offset), old_bytes); \
        if (add)                                                   \
            _tile_loadd(sum, to.at + (offset), c_bytes);           \
        else                                                       \
            _tile_zero(sum);                                       \
    }
    for (int64_t i = 0; i < steps; i++, a += a_step, b += DEPTH * PANEL) {
        _tile_loadd(A_0, a, a_bytes);
        tiles_apart();
        _tile_loadd(B_0, b, b_bytes);
        tiles_apart();
        FIRST(SUM_00, 0, 0)
        _tile_dpbf16ps(SUM_00, A_0, B_0);
        rows_or_pause(e, pairs);
        _tile_loadd(A_1, a + TILE_ROWS * a_row, a_bytes);
        tiles_apart();
        FIRST(SUM_10, TILE_ROWS * to.row, TILE_ROWS * held->row)
        _tile_dpbf16ps(SUM_10, A_1, B_0);
        rows_or_pause(e, pairs);
        _tile_loadd(B_1, b + V_LANES, b_bytes);
        tiles_apart();
        FIRST(SUM_01, V_LANES, V_LANES)
        _tile_dpbf16ps(SUM_01, A_0, B_1);
        rows_or_pause(e, pairs);
        FIRST(SUM_11, TILE_ROWS * to.row + V_LANES, TILE_ROWS * held->row + V_LANES)
        _tile_dpbf16ps(SUM_11, A_1, B_1);
        rows_or_pause(e, pairs);
    }
#undef FIRST
    *held = to;
    *meanwhile = rows;
}

/* Scores of block j: of two, the one that the block before does not use. */
static float *scores_of(const strip *t, int j) { return t->s->s + j % 2 * BLOCK * BLOCK; }

static exponentials exponentials_of(const strip *t, int j) {
    if (j < 0) return (exponentials){.pairs = 0};
    return (exponentials){BLOCK / 2, t->scale, scores_of(t, j), t->s->p + j * BLOCK_UNITS,
                          t->s->sum, t->shift};
}

static void score_block(const strip *t, int j, square *held, exponentials *e) {
    const int64_t units = row_units(t->f->problem.D);
    const float *k = t->s->k + (t->start + j) * BLOCK * units;
    square_product(units / DEPTH, t->tile->q + t->row * t->f->q_units, t->f->q_units, DEPTH, k, held,
                   (square){scores_of(t, j), BLOCK}, false, e);
}

static float row_largest(const float *s) {
    return v_largest_lane(v_max(unit_load(s), unit_load(s + V_LANES)));
}

/* Returns whether the strip has just become far. */
static bool becomes_far(strip *t) {
    bool far = false;
    for (int i = 0; i < BLOCK; i++) far |= fabsf(t->shift[i]) >= FAR_SCORE;
    if (t->far || !far) return false;
    t->far = true;
    t->scale = 1;
    return true;
}

/* The scores of block j as they shall be, and something to go by for rows that have seen nothing before. */
static void settle_block(strip *t, int j) {
    const problem *p = &t->f->problem;
    const int group = t->start + j;
    const bounds *seen = t->tile->block + t->row / MICRO_ROWS * p->spans_each;
    const int64_t first = t->key_group + group;
    const bool whole =
        bounds_see(seen, p->spans_each, t->f->group[first].first, t->f->group[first].last) == SEES_ALL &&
        (first + 1) * KEY_GROUP <= p->t;
    if (t->far) scale_row(scores_of(t, j), BLOCK * BLOCK, t->factor);
    if (whole && t->all_have && p->params->softcap <= 0) return;
    float *m = t->tile->m + t->row;
    t->all_have = true;
    for (int i = 0; i < BLOCK; i++) {
        float *s = scores_of(t, j) + i * BLOCK;
        if (p->params->softcap > 0) cap_row(s, BLOCK, t->scale, p->params);
        if (!whole && t->row + i < t->tile->queries) {
            mask_row(s, t->s->kpos + group * KEY_GROUP, BLOCK, spans_of(p, t->b, t->tile->query + t->row + i),
                     p->spans_each);
        }
        if (m[i] == -INFINITY) m[i] = row_largest(s) * t->scale;
        t->shift[i] = m[i] == -INFINITY ? 0 : m[i];
        t->all_have &= m[i] != -INFINITY;
    }
    if (becomes_far(t)) scale_row(scores_of(t, j), BLOCK * BLOCK, t->factor);
}

/* P of all blocks, and the strip's sums. */
static void make_probabilities(strip *t, square *held) {
    memset(t->s->sum, 0, sizeof(float) * BLOCK_UNITS);
    for (int j = 0; j < t->blocks + 2; j++) {
        exponentials e = exponentials_of(t, j - 2);
        if (j < t->blocks)
            score_block(t, j, held, &e);
        else
            square_store(held);
        some_rows(&e, BLOCK);
        if (j > 0 && j <= t->blocks) settle_block(t, j - 1);
    }
}

/* Is no sum of the strip too large, and none no number? */
static bool sums_are_small(const strip *t) {
    const float too_large = 0x1p40f;
    v_i32 small = (v_i32){0} - 1;
    for (int i = 0; i < BLOCK_UNITS; i += V_LANES) small &= unit_load(t->s->sum + i) < v_set(too_large);
    bool all = true;
    for (int lane = 0; lane < V_LANES; lane++) all &= small[lane] != 0;
    return all;
}

static void add_sums(const strip *t) {
    float *l = t->tile->l + t->row * V_LANES;
    for (int i = 0; i < BLOCK_UNITS; i += V_LANES) {
        unit_store(l + i, unit_load(l + i) + unit_load(t->s->sum + i));
    }
}

/* Finds the largest score of each row, and makes what came before smaller by as much as m grows. */
static void raise_rows(strip *t, square *held) {
    float *m = t->tile->m + t->row, most[BLOCK];
    const int64_t width = t->f->columns.width;
    memcpy(most, m, sizeof most);
    for (int j = 0; j < t->blocks; j++) {
        exponentials none = exponentials_of(t, -1);
        score_block(t, j, held, &none);
        square_store(held);
        settle_block(t, j);
        for (int i = 0; i < BLOCK; i++) {
            const float here = row_largest(scores_of(t, j) + i * BLOCK) * t->scale;
            most[i] = here < most[i] ? most[i] : here;
        }
    }
    for (int i = 0; i < BLOCK; i++) {
        if (most[i] == m[i] || most[i] == -INFINITY) continue;
        const float decay = v_exp2(v_set(m[i] - most[i]))[0];
        scale_row(t->tile->o + (t->row + i) * width, width, decay);
        scale_row(t->tile->l + (t->row + i) * V_LANES, V_LANES, decay);
        m[i] = t->shift[i] = most[i];
    }
    becomes_far(t);
}

/* O += P V. */
static void add_output(const strip *t, square *held) {
    const int64_t width = t->f->columns.width, units = K_TILE / UNIT_ELEMENTS;
    exponentials none = exponentials_of(t, -1);
    for (int64_t column = 0; column < width; column += PANEL) {
        const float *v = t->s->v + column * units + t->start * DEPTH * PANEL;
        square_product(t->blocks, t->s->p, V_LANES, BLOCK_UNITS, v, held,
                       (square){t->tile->o + t->row * width + column, width}, true, &none);
    }
}

/* A row tile against the packed tile of keys that starts with the given group. */
static void attend(const forward *f, scratch *s, row_tile *tile, int64_t b, int64_t first_group) {
    const problem *p = &f->problem;
    const int64_t last_group = ls_min(first_group + TILE_GROUPS, f->groups);
    const float scale = score_scale(p->params);
    square held = {NULL, 0};
    for (int row = 0; row < tile->queries; row += BLOCK) {
        const bounds *seen = tile->block + row / MICRO_ROWS * p->spans_each;
        const key_range range = key_range_find(seen, p, f->group, first_group, last_group);
        if (range.end == 0) continue;
        strip t = {.f = f,
                   .s = s,
                   .tile = tile,
                   .b = b,
                   .row = row,
                   .key_group = first_group,
                   .start = range.start,
                   .blocks = range.end - range.start,
                   .factor = scale,
                   .scale = scale,
                   .all_have = true};
        for (int i = 0; i < BLOCK; i++) {
            t.shift[i] = tile->m[row + i] == -INFINITY ? 0 : tile->m[row + i];
            t.all_have &= tile->m[row + i] != -INFINITY;
        }
        becomes_far(&t);
        make_probabilities(&t, &held);
        if (!sums_are_small(&t)) {
            raise_rows(&t, &held);
            make_probabilities(&t, &held);
        }
        add_sums(&t);
        add_output(&t, &held);
    }
    square_store(&held);
}

#endif
