/*
 * `attend` on AMX: a row block and a key block, in strips of 32 rows, each in register blocks of 32 keys. The products
 * of a block take as long as its exponentials, and the processor computes both at once if their instructions alternate:
 *
 *   step j:  S(j) = Q K(j)^T in tiles, and between its instructions
 *            S(j-1) is stored from tiles to memory, and P(j-2) = 2^(S(j-2) - m) is computed, summed and rounded
 *   then     S(j-1) is masked, and rows that have seen no key so far get its largest score as m
 *   finally  O += P V, for all blocks
 *
 * Scores somewhat above m are harmless, because f32 and bf16 reach to 2^127: only if the sum of a row is too large (or
 * NaN), m is computed anew and the strip repeated.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_STRIPS_H
#define LS_KERNEL_CPU_ATTENTION_STRIPS_H

#include "kernel/cpu/attention_forward.h"

enum { BLOCK = PANEL, BLOCK_UNITS = BLOCK * V_LANES }; /* a block of keys is a group */

/* The destination of 32 x 32 sums that are still in tiles; at NULL: the tiles hold none. */
typedef struct square {
    float *at;
    int64_t row;
} square;

/*
 * The rows of a block whose P is not computed yet, from scores to P. The pointers are those of the next pair of rows.
 */
typedef struct exponentials {
    int pairs; /* of rows that are left */
    float scale;
    const float *s;     /* [rows][BLOCK] */
    float *p;           /* [rows][V_LANES] */
    float *sum;         /* [rows][V_LANES], added to */
    const float *shift; /* [rows] */
} exponentials;

typedef struct strip {
    const forward *f;
    scratch *s;
    row_block *rows;
    int64_t b;
    int row;           /* first row of the strip in its row block */
    int64_t key_group; /* first group of the key block */
    int start;         /* first group in that block that the strip sees */
    int blocks;        /* number of blocks of keys from there on */
    float factor;      /* factor from products to scores in units of log2 */
    /* remaining factor of the scores of a settled block: `factor`, or 1 in a far strip */
    float scale;
    bool all_have; /* each row has an m */
    bool far;      /* the m of some row is beyond FAR_SCORE, so settle_block multiplies scores by factor */
    float shift[BLOCK];
} strip;

/* The next two rows: four vectors at once, because a single one would be a chain of dependent instructions. */
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

/* Computes rows, or executes instructions that do nothing, between two tile instructions (tiles_apart). */
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
 * A product of 32 rows of A by 32 columns of B; add: plus the numbers at `to`. The result stays in the tiles and *held
 * becomes `to`. The old contents of the tiles are stored to the old *held, each tile just before it is overwritten, so
 * that the multiplier waits for no other. There are `steps` steps of DEPTH units: those of A are a_step apart, B is
 * dense.
 */
V_INLINE void square_product(int64_t steps, const float *a, int64_t a_row, int64_t a_step, const float *b, square *held,
                             square to, bool add, exponentials *meanwhile) {
    const int64_t a_bytes = a_row * 4, b_bytes = PANEL * 4, c_bytes = to.row * 4, old_bytes = held->row * 4;
    const int pairs = (int)ls_ceil_div(BLOCK / 2, 4 * steps);
    float *old = held->at;
    exponentials rows = *meanwhile, *e = &rows; /* a copy, which stays in registers */
    __asm__ volatile("" ::: "memory");          /* the compiler does not know that the intrinsics read memory */
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

/* Scores of block j; even and odd blocks have one buffer each. */
static float *scores_of(const strip *t, int j) { return t->s->s + j % 2 * BLOCK * BLOCK; }

static exponentials exponentials_of(const strip *t, int j) {
    if (j < 0) return (exponentials){.pairs = 0};
    return (exponentials){BLOCK / 2, t->scale, scores_of(t, j), t->s->p + j * BLOCK_UNITS, t->s->sum, t->shift};
}

static void score_block(const strip *t, int j, square *held, exponentials *e) {
    const int64_t units = row_units(t->f->problem.D);
    const float *k = t->s->k + (t->start + j) * BLOCK * units;
    square_product(units / DEPTH, t->rows->q + t->row * t->f->q_units, t->f->q_units, DEPTH, k, held,
                   (square){scores_of(t, j), BLOCK}, false, e);
}

static float row_largest(const float *s) { return v_largest_lane(v_max(unit_load(s), unit_load(s + V_LANES))); }

/* Makes the strip far if an m is beyond FAR_SCORE. Returns whether it was not far before. */
static bool becomes_far(strip *t) {
    bool far = false;
    for (int i = 0; i < BLOCK; i++) far |= fabsf(t->shift[i]) >= FAR_SCORE;
    if (t->far || !far) return false;
    t->far = true;
    t->scale = 1;
    return true;
}

/* Caps and masks the scores of block j, and sets m of rows that have none. */
static void settle_block(strip *t, int j) {
    const problem *p = &t->f->problem;
    const int group = t->start + j;
    const bounds *seen = t->rows->block + t->row / MICRO_ROWS * p->spans_each;
    const int64_t first = t->key_group + group;
    const bool whole = bounds_see(seen, p->spans_each, t->f->group[first].first, t->f->group[first].last) == SEES_ALL &&
                       (first + 1) * KEY_GROUP <= p->t;
    if (t->far) scale_row(scores_of(t, j), BLOCK * BLOCK, t->factor);
    if (whole && t->all_have && p->params->softcap <= 0) return;
    float *m = t->rows->m + t->row;
    t->all_have = true;
    for (int i = 0; i < BLOCK; i++) {
        float *s = scores_of(t, j) + i * BLOCK;
        if (p->params->softcap > 0) cap_row(s, BLOCK, t->scale, p->params);
        if (!whole && t->row + i < t->rows->queries) {
            mask_row(s, t->s->kpos + group * KEY_GROUP, BLOCK, spans_of(p, t->b, t->rows->query + t->row + i),
                     p->spans_each);
        }
        if (m[i] == -INFINITY) m[i] = row_largest(s) * t->scale;
        t->shift[i] = m[i] == -INFINITY ? 0 : m[i];
        t->all_have &= m[i] != -INFINITY;
    }
    if (becomes_far(t)) scale_row(scores_of(t, j), BLOCK * BLOCK, t->factor);
}

/* P of all blocks, and its sums by row. */
static void find_probabilities(strip *t, square *held) {
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

/* Whether no sum of the strip is too large or NaN. */
static bool sums_are_small(const strip *t) {
    const float too_large = 0x1p40f;
    v_i32 small = (v_i32){0} - 1;
    for (int i = 0; i < BLOCK_UNITS; i += V_LANES) small &= unit_load(t->s->sum + i) < v_set(too_large);
    bool all = true;
    for (int lane = 0; lane < V_LANES; lane++) all &= small[lane] != 0;
    return all;
}

static void add_sums(const strip *t) {
    float *l = t->rows->l + t->row * V_LANES;
    for (int i = 0; i < BLOCK_UNITS; i += V_LANES) {
        unit_store(l + i, unit_load(l + i) + unit_load(t->s->sum + i));
    }
}

/* Sets m of each row to its largest score, and scales the row's O and l accordingly. */
static void raise_rows(strip *t, square *held) {
    float *m = t->rows->m + t->row, most[BLOCK];
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
        scale_row(t->rows->o + (t->row + i) * width, width, decay);
        scale_row(t->rows->l + (t->row + i) * V_LANES, V_LANES, decay);
        m[i] = t->shift[i] = most[i];
    }
    becomes_far(t);
}

/* O += P V. */
static void add_output(const strip *t, square *held) {
    const int64_t width = t->f->columns.width, units = CACHE_KEYS / UNIT_ELEMENTS;
    exponentials none = exponentials_of(t, -1);
    for (int64_t column = 0; column < width; column += PANEL) {
        const float *v = t->s->v + column * units + t->start * DEPTH * PANEL;
        square_product(t->blocks, t->s->p, V_LANES, BLOCK_UNITS, v, held,
                       (square){t->rows->o + t->row * width + column, width}, true, &none);
    }
}

/* Computes a row block with the packed key block that begins at first_group. */
static void attend(const forward *f, scratch *s, row_block *rows, int64_t b, int64_t first_group) {
    const problem *p = &f->problem;
    const int64_t last_group = ls_min(first_group + CACHE_GROUPS, f->groups);
    const float scale = score_scale(p->params);
    square held = {NULL, 0};
    for (int row = 0; row < rows->queries; row += BLOCK) {
        const bounds *seen = rows->block + row / MICRO_ROWS * p->spans_each;
        const key_range range = key_range_find(seen, p, f->group, first_group, last_group);
        if (range.end == 0) continue;
        strip t = {.f = f,
                   .s = s,
                   .rows = rows,
                   .b = b,
                   .row = row,
                   .key_group = first_group,
                   .start = range.start,
                   .blocks = range.end - range.start,
                   .factor = scale,
                   .scale = scale,
                   .all_have = true};
        for (int i = 0; i < BLOCK; i++) {
            t.shift[i] = rows->m[row + i] == -INFINITY ? 0 : rows->m[row + i];
            t.all_have &= rows->m[row + i] != -INFINITY;
        }
        becomes_far(&t);
        find_probabilities(&t, &held);
        if (!sums_are_small(&t)) {
            raise_rows(&t, &held);
            find_probabilities(&t, &held);
        }
        add_sums(&t);
        add_output(&t, &held);
    }
    square_store(&held);
}

#endif
