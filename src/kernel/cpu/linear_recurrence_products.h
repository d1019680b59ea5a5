/*
 * Products of small f32 matrices for the chunks of the linear recurrence, and the solution of the triangular systems.
 * Rows are an odd number of cache lines apart: if the rows of a matrix of 128 columns were 512 bytes apart, a block of
 * the matrix would use only half of the sets of the first-level cache.
 */
#ifndef LS_KERNEL_CPU_LINEAR_RECURRENCE_PRODUCTS_H
#define LS_KERNEL_CPU_LINEAR_RECURRENCE_PRODUCTS_H

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/register_block.h"

static inline int64_t whole_vectors(int64_t n) { return ls_ceil_div(n, V_LANES) * V_LANES; }

V_INLINE v_f32 load_whole(const float *p) { return v_load_f32(p, V_LANES); }

/* A matrix. `columns` is a multiple of V_LANES; columns that only pad the matrix are 0. */
typedef struct rows {
    float *at;
    int64_t width; /* elements from row to row */
    int64_t columns;
} rows;

static inline rows row_from(rows m, int64_t i) { return (rows){m.at + i * m.width, m.width, m.columns}; }
static inline rows columns_from(rows m, int64_t j, int64_t n) { return (rows){m.at + j, m.width, n}; }
static inline void clear(rows m, int64_t n) { memset(m.at, 0, (size_t)(n * m.width) * sizeof(float)); }

/* --- room --------------------------------------------------------------------------------------------------------- */

/* Memory for matrices, one after the other; at NULL: their elements are only counted. */
typedef struct room {
    float *at;
    int64_t used;
} room;

/* Takes room for n rows, and for VECTOR_ROWS more, because products read rows behind the last one. */
static inline rows take(room *r, int64_t n, int64_t columns) {
    enum { LINE = 64 / sizeof(float) };
    const int64_t width = (ls_ceil_div(columns, LINE) | 1) * LINE;
    const rows m = {r->at != NULL ? r->at + r->used : NULL, width, columns};
    r->used += (n + VECTOR_ROWS) * width;
    return m;
}

/* Not inlined: products and solutions would be compiled anew at each of their many calls. */
#define ONE_COPY static __attribute__((noinline))

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct left {
    const float *at;
    int64_t row, step;
} left;

static inline left as_it_is(rows m) { return (left){m.at, m.width, 1}; }
static inline left turned(rows m) { return (left){m.at, 1, m.width}; }

/*
 * Rows in memory that a kernel reads or writes next. They are too far apart for the processor's prefetcher to predict,
 * and many prefetches at once would delay loads. So products prefetch one row after each of their register blocks.
 */
typedef struct next_rows {
    const char *at;
    int64_t step, size; /* in bytes: distance of rows, size of a row */
    int64_t count;
} next_rows;

enum { NEXT = 5 };
typedef struct fetches {
    next_rows of[NEXT]; /* rows are taken from the first one that has rows left */
} fetches;

static inline void fetch_row(fetches *f) {
    enum { LINE = 64 };
    for (int i = 0; f != NULL && i < NEXT; i++) {
        next_rows *n = &f->of[i];
        if (n->count == 0) continue;
        for (int64_t d = 0; d < n->size; d += LINE) __builtin_prefetch(n->at + d, 0, 2);
        n->at += n->step;
        n->count--;
        return;
    }
}

/* The end of a product a b: y_i = sign by_i (a b)_i + factor_i to_i. by, factor NULL: 1. to.at NULL: adds nothing. */
typedef struct finish {
    float sign;
    const float *by;
    rows to;
    const float *factor;
    fetches *next;
} finish;

static inline finish alone(void) { return (finish){.sign = 1}; }
static inline finish plus(rows to) { return (finish){.sign = 1, .to = to}; }
static inline finish minus(rows to) { return (finish){.sign = -1, .to = to}; }
static inline finish plus_of(const float *factor, rows to) { return (finish){.sign = 1, .to = to, .factor = factor}; }

/* The part of `a` that may differ from 0: all of it; its diagonal and below; its diagonal and above. */
typedef enum shape { WHOLE, LOWER, UPPER } shape;

V_INLINE void product_block(int vectors, rows y, int64_t n, left a, rows b, int64_t depth, finish s, int64_t i,
                            int64_t j) {
    v_f32 block[VECTOR_ROWS][VECTOR_COLUMNS];
    vector_sums(block, vectors, depth, a.at, a.row, a.step, b.at + j, b.width, NULL);
#pragma GCC unroll 8
    for (int r = 0; r < VECTOR_ROWS; r++) {
        if (r == n) break;
        const v_f32 by = v_set(s.by != NULL ? s.sign * s.by[i + r] : s.sign);
        const v_f32 factor = v_set(s.factor != NULL ? s.factor[i + r] : 1.0f);
        const float *from = s.to.at + (i + r) * s.to.width + j;
        float *to = y.at + (i + r) * y.width + j;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            v_f32 z = by * block[r][v];
            if (s.to.at != NULL) z += factor * load_whole(from + v * V_LANES);
            v_store_f32(to + v * V_LANES, z, V_LANES);
        }
    }
}

/*
 * The register block at row i, column j; it ends at row n and at the last of `columns`. Not inlined, so that strides
 * stay in registers.
 */
ONE_COPY void product_rows(rows y, int64_t n, int64_t columns, left a, rows b, int64_t depth, finish s, int64_t i,
                           int64_t j) {
    const int64_t some = ls_min(VECTOR_ROWS, n - i);
    switch (ls_min(VECTOR_COLUMNS, (columns - j) / V_LANES)) {
    case 1:
        product_block(1, y, some, a, b, depth, s, i, j);
        break;
    case 2:
        product_block(2, y, some, a, b, depth, s, i, j);
        break;
    case 3:
        product_block(VECTOR_COLUMNS > 2 ? 3 : 2, y, some, a, b, depth, s, i, j);
        break;
    default:
        product_block(VECTOR_COLUMNS, y, some, a, b, depth, s, i, j);
    }
}

/*
 * y [n,columns] = a b, finished as s says; columns: a multiple of V_LANES. Up to VECTOR_ROWS - 1 rows of `a` behind row
 * n - 1 are read.
 */
ONE_COPY void product_of(shape of, rows y, int64_t n, int64_t columns, left a, rows b, int64_t depth, finish s) {
    for (int64_t j = 0; j < columns; j += VECTOR_COLUMNS * V_LANES) {
        for (int64_t i = 0; i < n; i += VECTOR_ROWS) {
            const int64_t first = of == UPPER ? i : 0, past = of == LOWER ? ls_min(depth, i + VECTOR_ROWS) : depth;
            const left some = {a.at + i * a.row + first * a.step, a.row, a.step};
            product_rows(y, n, columns, some, row_from(b, first), past - first, s, i, j);
            fetch_row(s.next);
        }
    }
}

static inline void product(rows y, int64_t n, left a, rows b, int64_t depth, finish s) {
    product_of(WHOLE, y, n, y.columns, a, b, depth, s);
}

/* y [n,n] = a b on and below the diagonal; some elements above the diagonal get meaningless numbers. */
static inline void lower_of_product(rows y, int64_t n, left a, rows b, int64_t depth) {
    for (int64_t i = 0; i < n; i += VECTOR_ROWS) {
        const left some = {a.at + i * a.row, a.row, a.step};
        const int64_t columns = whole_vectors(ls_min(n, i + VECTOR_ROWS));
        for (int64_t j = 0; j < columns; j += VECTOR_COLUMNS * V_LANES)
            product_rows(y, n, columns, some, b, depth, alone(), i, j);
    }
}

/* to [columns, n rounded up to whole vectors] = from [n,columns] transposed; columns from n on are 0. */
static inline void turn(rows to, rows from, int64_t n, int64_t columns) {
    for (int64_t i = 0; i < n; i += V_LANES) {
        for (int64_t j = 0; j < columns; j += V_LANES) {
            v_f32 square[V_LANES];
            for (int r = 0; r < V_LANES; r++)
                square[r] = i + r < n ? load_whole(from.at + (i + r) * from.width + j) : v_set(0.0f);
            transpose_square(square);
            for (int r = 0; r < V_LANES; r++) v_store_f32(to.at + (j + r) * to.width + i, square[r], V_LANES);
        }
    }
}

/* --- the solution of (I + T) X = B -------------------------------------------------------------------------------- */

/* Rows that stay in registers while they are solved: a multiple of the rows of a register block. */
enum { SOLVED = VECTOR_ROWS * (V_REGISTERS == 32 ? 4 : 2) };

/*
 * Solves SOLVED rows of x with their square of T: from the first row to the last, or with T transposed (upwards) from
 * the last to the first. Row r subtracts row i, already solved, times t[r * row + i * step].
 */
V_INLINE void solve_block(const float *t, int64_t row, int64_t step, rows x, bool upwards) {
    for (int64_t d = 0; d < x.columns; d += V_LANES) {
        v_f32 y[SOLVED];
#pragma GCC unroll 24
        for (int r = 0; r < SOLVED; r++) y[r] = load_whole(x.at + r * x.width + d);
#pragma GCC unroll 24
        for (int done = 0; done < SOLVED; done++) {
            const int from = upwards ? SOLVED - 1 - done : done;
#pragma GCC unroll 24
            for (int r = 0; r < SOLVED; r++)
                if (upwards ? r < from : r > from) y[r] -= v_set(t[r * row + from * step]) * y[from];
        }
#pragma GCC unroll 24
        for (int r = 0; r < SOLVED; r++) v_store_f32(x.at + r * x.width + d, y[r], V_LANES);
    }
}

/*
 * x = (I + T)^-1 x. T is strictly lower triangular. T and x are padded with zeros to a multiple of SOLVED rows, T also
 * to as many columns.
 */
ONE_COPY void solve(rows T, rows x, int64_t n) {
    for (int64_t i = 0; i < n; i += SOLVED) {
        const rows some = row_from(x, i);
        if (i > 0) product(some, SOLVED, as_it_is(row_from(T, i)), x, i, minus(some));
        solve_block(T.at + i * T.width + i, T.width, 1, some, false);
    }
}

/* x = (I + T^T)^-1 x. */
ONE_COPY void solve_turned(rows T, rows x, int64_t n) {
    for (int64_t i = (n - 1) / SOLVED * SOLVED; i >= 0; i -= SOLVED) {
        const int64_t past = i + SOLVED;
        const rows some = row_from(x, i), behind = row_from(T, past);
        if (past < n)
            product(some, SOLVED, turned(columns_from(behind, i, SOLVED)), row_from(x, past), n - past, minus(some));
        solve_block(T.at + i * T.width + i, 1, T.width, some, true);
    }
}

#endif
