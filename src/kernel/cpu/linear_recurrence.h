/*
 * What the kernels of the linear recurrence share: a chunk of at most CHUNK tokens of one head, as products of matrices
 * in f32 (Yang et al., "Parallelizing linear transformers with the delta rule", arXiv 2406.06484, and "Gated delta
 * networks", arXiv 2412.06464). With decays g, of which e_i is the exponential of the sum up to token i, f_i that of
 * the sum behind it, and D_ij = exp of the sum of tokens j+1..i:
 *
 *   P_ij = sum over d of q_id k_jd D_ijd, j <= i      A_ij = the same of k and k, j < i      T = Diag(beta) A
 *   U = (I+T)^-1 beta V     W = (I+T)^-1 beta (K e)   or, where values are added, U = beta V and W = 0
 *   V' = U - W S            O = (q e) S + P V'        S = Diag(e of the last token) S + (k f)^T V'
 *
 * All exponents are sums of decays of neighbouring tokens, none a difference of two sums: where decays are strong, such
 * a difference has few correct digits, and the exponential of one of the sums may overflow. A chunk ends where a
 * document does, so that a state is either whole or 0.
 *
 * Matrices have rows of LD or LE elements, those of keys and values rounded up to whole vectors; what is more is 0.
 */
#ifndef LS_KERNEL_CPU_LINEAR_RECURRENCE_H
#define LS_KERNEL_CPU_LINEAR_RECURRENCE_H

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/register_block.h"
#include "kernel/cpu/vmath.h"

/* Tokens of a chunk, and of a part of it within which decays of elements are not factored. */
enum { CHUNK = 64, PART = 16 };

static inline int64_t whole_vectors(int64_t n) { return ls_ceil_div(n, V_LANES) * V_LANES; }

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct rows {
    float *at;
    int64_t width; /* elements from row to row */
} rows;

typedef struct left {
    const float *at;
    int64_t row, step;
} left;

static inline rows row_from(rows m, int64_t i) { return (rows){m.at + i * m.width, m.width}; }
static inline rows column_from(rows m, int64_t j) { return (rows){m.at + j, m.width}; }
static inline left as_it_is(rows m) { return (left){m.at, m.width, 1}; }
static inline left turned(rows m) { return (left){m.at, 1, m.width}; }

typedef enum becomes { PUT, PLUS, MINUS } becomes;

V_INLINE void product_block(int vectors, rows y, int64_t n, left a, rows b, int64_t depth, becomes how) {
    v_f32 sum[VECTOR_ROWS][VECTOR_COLUMNS];
    vector_sums(sum, vectors, depth, a.at, a.row, a.step, b.at, b.width, NULL);
#pragma GCC unroll 8
    for (int i = 0; i < VECTOR_ROWS; i++) {
        if (i == n) break;
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            float *to = y.at + i * y.width + j * V_LANES;
            const v_f32 s = sum[i][j];
            v_store_f32(to, how == PUT ? s : v_load_f32(to, V_LANES) + (how == PLUS ? s : -s), V_LANES);
        }
    }
}

/* y [n,columns] becomes a b, or more or less by it; columns are whole vectors. Rows of `a` behind the n are read. */
static inline void product(rows y, int64_t n, int64_t columns, left a, rows b, int64_t depth, becomes how) {
    for (int64_t j = 0; j < columns; j += VECTOR_COLUMNS * V_LANES) {
        for (int64_t i = 0; i < n; i += VECTOR_ROWS) {
            const rows to = column_from(row_from(y, i), j), from = column_from(b, j);
            const left of = {a.at + i * a.row, a.row, a.step};
            const int64_t some = ls_min(VECTOR_ROWS, n - i);
            switch (ls_min(VECTOR_COLUMNS, (columns - j) / V_LANES)) {
            case 1:
                product_block(1, to, some, of, from, depth, how);
                break;
            case 2:
                product_block(2, to, some, of, from, depth, how);
                break;
            case 3:
                product_block(VECTOR_COLUMNS > 2 ? 3 : 2, to, some, of, from, depth, how);
                break;
            default:
                product_block(VECTOR_COLUMNS, to, some, of, from, depth, how);
            }
        }
    }
}

/* y [n,columns] becomes more by a b, where `a` has nothing above its diagonal. */
static inline void lower_product(rows y, int64_t n, int64_t columns, rows a, rows b) {
    for (int64_t i = 0; i < n; i += PART)
        product(row_from(y, i), ls_min(PART, n - i), columns, as_it_is(row_from(a, i)), b, ls_min(i + PART, n), PLUS);
}

/* The same with `a` transposed. */
static inline void upper_product(rows y, int64_t n, int64_t columns, rows a, rows b) {
    for (int64_t i = 0; i < n; i += PART)
        product(row_from(y, i), ls_min(PART, n - i), columns, turned(column_from(row_from(a, i), i)), row_from(b, i),
                n - i, PLUS);
}

/* to [columns, n rounded up to whole vectors] becomes from [n,columns] transposed; columns behind n are 0. */
static inline void turn(rows to, rows from, int64_t n, int64_t columns) {
    for (int64_t i = 0; i < n; i += V_LANES) {
        for (int64_t j = 0; j < columns; j += V_LANES) {
            v_f32 square[V_LANES];
            for (int r = 0; r < V_LANES; r++)
                square[r] = i + r < n ? v_load_f32(from.at + (i + r) * from.width + j, V_LANES) : v_set(0.0f);
            transpose_square(square);
            for (int r = 0; r < V_LANES; r++) v_store_f32(to.at + (j + r) * to.width + i, square[r], V_LANES);
        }
    }
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

/* Views of a call; those that it does not have are NULL. */
typedef struct views {
    const ls_view *q, *k, *v, *decay, *beta, *places, *grad_o;
    bool delta, unmasked, by_element; /* by_element: each element of a key decays by itself */
    int64_t B, N, K, H, D, E, LD, LE;
} views;

static inline views sized(views x, const ls_kernel_call *call) {
    const ls_linear_recurrence_params *p = call->params;
    x.delta = p->delta;
    x.unmasked = p->unmasked;
    x.B = x.k->size[0];
    x.N = x.k->size[1];
    x.K = x.k->size[2];
    x.D = x.k->size[3];
    x.H = x.decay->size[2];
    x.E = (x.v != NULL ? x.v : x.grad_o)->size[3];
    x.LD = whole_vectors(x.D);
    x.LE = whole_vectors(x.E);
    x.by_element = x.decay->size[3] > 1;
    return x;
}

static inline int64_t place_of(const ls_view *v, int64_t b, int64_t n, int64_t h) {
    return b * v->stride[0] + n * v->stride[1] + h * v->stride[2];
}

static inline void load_rows(rows to, const ls_view *v, int64_t b, int64_t first, int64_t n, int64_t h) {
    for (int64_t i = 0; i < n; i++) {
        const element *from = (const element *)v->data + place_of(v, b, first + i, h);
        for (int64_t d = 0; d < to.width; d += V_LANES)
            v_store_f32(to.at + i * to.width + d, v_load(from + d, v->size[3] - d), V_LANES);
    }
}

static inline void store_rows(rows from, const ls_view *v, int64_t b, int64_t first, int64_t n, int64_t h) {
    for (int64_t i = 0; i < n; i++) {
        element *to = (element *)v->data + place_of(v, b, first + i, h);
        for (int64_t d = 0; d < v->size[3]; d += V_LANES)
            v_store(to + d, v_load_f32(from.at + i * from.width + d, V_LANES), v->size[3] - d);
    }
}

/* A matrix [n,count], dense, to rows of whole vectors, and back. */
static inline void load_dense(rows to, const float *from, int64_t n, int64_t count) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < count; d += V_LANES)
            v_store_f32(to.at + i * to.width + d, v_load_f32(from + i * count + d, count - d), V_LANES);
}

static inline void store_dense(rows from, float *to, int64_t n, int64_t count) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < count; d += V_LANES)
            v_store_f32(to + i * count + d, v_load_f32(from.at + i * from.width + d, V_LANES), count - d);
}

static inline bool begins(const views *x, int64_t b, int64_t n) {
    return x->places->size[2] > 0 &&
           ((const int32_t *)x->places->data)[b * x->places->stride[0] + n * x->places->stride[1]] == 0;
}

/* Where the chunk that begins with token `first` ends. */
static inline int64_t chunk_end(const views *x, int64_t b, int64_t first) {
    int64_t end = first + 1;
    while (end < x->N && end < first + CHUNK && !begins(x, b, end)) end++;
    return end;
}

/* --- room --------------------------------------------------------------------------------------------------------- */

/* Where matrices lie one behind the other; without `at` they are only counted. */
typedef struct room {
    float *at;
    int64_t used;
} room;

/* The room of one of the parts into which a call is split. */
static inline room room_of_part(const ls_kernel_call *call, int part, int64_t elements) {
    LS_ASSERT(call->workspace != NULL);
    return (room){(float *)call->workspace + part * elements, 0};
}

/* With some rows more, which products read (VECTOR_ROWS). */
static inline rows take(room *r, int64_t n, int64_t width) {
    const rows m = {r->at != NULL ? r->at + r->used : NULL, width};
    r->used += whole_vectors((n + VECTOR_ROWS) * width);
    return m;
}

typedef struct chunk {
    int64_t first, n;
    bool fresh;   /* a document begins: there is no state in front */
    rows q, k, v; /* as they are given */
    rows g;       /* decays of elements */
    rows e, f, qe, ke, kf;
    rows D, P, A, T; /* D: of decays of heads */
    rows x;          /* [U | W], where W is left out if values are added */
    rows turned_k;
    rows some_x, some_k, turned_some; /* decays of elements: factored parts */
    float *beta, *scalar, *last;      /* last: what a state is multiplied by, for each element of a key */
} chunk;

static inline int64_t solved_width(const views *x) { return x->LE + (x->delta ? x->LD : 0); }

static inline chunk take_chunk(const views *x, room *at) {
    chunk c = {.q = take(at, CHUNK, x->LD), .k = take(at, CHUNK, x->LD), .v = take(at, CHUNK, x->LE)};
    c.g = take(at, x->by_element ? CHUNK : 0, x->LD);
    c.e = take(at, CHUNK, x->LD);
    c.f = take(at, CHUNK, x->LD);
    c.qe = take(at, CHUNK, x->LD);
    c.ke = take(at, CHUNK, x->LD);
    c.kf = take(at, CHUNK, x->LD);
    c.D = take(at, CHUNK, CHUNK);
    c.P = take(at, CHUNK, CHUNK);
    c.A = take(at, CHUNK, CHUNK);
    c.T = take(at, CHUNK, CHUNK);
    c.x = take(at, CHUNK, solved_width(x));
    c.turned_k = take(at, x->LD, CHUNK);
    c.some_x = take(at, PART, x->LD);
    c.some_k = take(at, x->by_element ? CHUNK : 0, x->LD);
    c.turned_some = take(at, x->by_element ? x->LD : 0, CHUNK);
    c.beta = take(at, 1, CHUNK).at;
    c.scalar = take(at, 1, CHUNK).at;
    c.last = take(at, 1, x->LD).at;
    return c;
}

/* --- decays ------------------------------------------------------------------------------------------------------- */

V_INLINE v_f32 load_whole(const float *p) { return v_load_f32(p, V_LANES); }

static inline void fill_row(rows m, int64_t i, float value) {
    for (int64_t d = 0; d < m.width; d += V_LANES) v_store_f32(m.at + i * m.width + d, v_set(value), V_LANES);
}

/* exp of each of n numbers, which lie in room for CHUNK. */
static inline void exponentials(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += V_LANES) v_store_f32(x + i, v_exp(load_whole(x + i)), V_LANES);
}

/* e, f, `last` and D of one decay a head, or of none. */
static inline void find_decays_of_heads(const views *x, chunk *c) {
    float sum[CHUNK] = {0}, behind[CHUNK] = {0};
    for (int64_t i = 0; i < c->n; i++) sum[i] = c->scalar[i] + (i > 0 ? sum[i - 1] : 0);
    for (int64_t i = c->n - 2; i >= 0; i--) behind[i] = behind[i + 1] + c->scalar[i + 1];
    exponentials(sum, c->n);
    exponentials(behind, c->n);
    for (int64_t i = 0; i < c->n; i++) {
        fill_row(c->e, i, sum[i]);
        fill_row(c->f, i, behind[i]);
    }
    for (int64_t d = 0; d < x->LD; d++) c->last[d] = sum[c->n - 1];
    float between[CHUNK] = {0};
    for (int64_t i = 0; i < c->n; i++) {
        float *row = c->D.at + i * CHUNK;
        for (int64_t j = 0; j < i; j++) between[j] += c->scalar[i];
        memcpy(row, between, sizeof between);
        exponentials(row, i + 1);
        for (int64_t j = i + 1; j < CHUNK; j++) row[j] = 0;
    }
}

/* The same of decays of elements, but D. */
static inline void find_decays_of_elements(const views *x, chunk *c) {
    for (int64_t d = 0; d < x->LD; d += V_LANES) {
        v_f32 sum = v_set(0.0f), behind = v_set(0.0f);
        for (int64_t i = 0; i < c->n; i++) {
            sum += load_whole(c->g.at + i * x->LD + d);
            v_store_f32(c->e.at + i * x->LD + d, v_exp(sum), V_LANES);
        }
        for (int64_t i = c->n - 1; i >= 0; i--) {
            v_store_f32(c->f.at + i * x->LD + d, v_exp(behind), V_LANES);
            behind += load_whole(c->g.at + i * x->LD + d);
        }
        v_store_f32(c->last + d, v_exp(sum), V_LANES);
    }
}

/* to_i = a_i b_i, element by element. */
static inline void multiply(rows to, rows a, rows b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < to.width; d += V_LANES)
            v_store_f32(to.at + i * to.width + d,
                        load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d), V_LANES);
}

/* Of decays of elements: exp of the sum of decays of tokens first..first+i, times row i, for n of them. */
static inline void decay_from(const chunk *c, rows to, rows from, int64_t first, int64_t n) {
    for (int64_t d = 0; d < from.width; d += V_LANES) {
        v_f32 sum = v_set(0.0f);
        for (int64_t i = 0; i < n; i++) {
            sum += load_whole(c->g.at + (first + i) * c->g.width + d);
            v_store_f32(to.at + i * to.width + d, load_whole(from.at + i * from.width + d) * v_exp(sum), V_LANES);
        }
    }
}

/* exp of the sum of decays of tokens j+1..end-1, times row j of `from`, for the tokens j < end. */
static inline void decay_until(const chunk *c, rows to, rows from, int64_t end) {
    for (int64_t d = 0; d < from.width; d += V_LANES) {
        v_f32 sum = v_set(0.0f);
        for (int64_t j = end - 1; j >= 0; j--) {
            v_store_f32(to.at + j * to.width + d, load_whole(from.at + j * from.width + d) * v_exp(sum), V_LANES);
            sum += load_whole(c->g.at + j * c->g.width + d);
        }
    }
}

/* --- scores ------------------------------------------------------------------------------------------------------- */

/* Of decays of elements: tokens i of one part with tokens j of the same one, j <= i or, strictly, j < i. */
static inline void scores_within(const chunk *c, rows out, rows of, int64_t first, int64_t past, bool strict) {
    for (int64_t i = first; i < past; i++) {
        v_f32 sum[PART];
        for (int64_t j = first; j <= i; j++) sum[j - first] = v_set(0.0f);
        for (int64_t d = 0; d < of.width; d += V_LANES) {
            const v_f32 at = load_whole(of.at + i * of.width + d);
            v_f32 between = v_set(0.0f);
            for (int64_t j = i; j >= first; j--) {
                sum[j - first] += at * load_whole(c->k.at + j * of.width + d) * v_exp(between);
                between += load_whole(c->g.at + j * of.width + d);
            }
        }
        for (int64_t j = first; j < past; j++)
            out.at[i * CHUNK + j] = j < i || (j == i && !strict) ? v_sum_lanes(sum[j - first]) : 0;
    }
}

/* out_ij = sum over d of of_id k_jd D_ijd. */
static inline void find_scores(const views *x, const chunk *c, rows out, rows of, bool strict) {
    for (int64_t i = 0; i < c->n; i += PART) {
        const int64_t past = ls_min(i + PART, c->n);
        for (int64_t r = i; r < past; r++) memset(out.at + r * CHUNK, 0, CHUNK * sizeof *out.at);
        if (!x->by_element) {
            product(row_from(out, i), past - i, whole_vectors(past), as_it_is(row_from(of, i)), c->turned_k, x->D, PUT);
            continue;
        }
        if (i > 0) {
            decay_from(c, c->some_x, row_from(of, i), i, past - i);
            decay_until(c, c->some_k, c->k, i);
            turn(c->turned_some, c->some_k, i, x->LD);
            product(row_from(out, i), past - i, i, as_it_is(c->some_x), c->turned_some, x->D, PUT);
        }
        scores_within(c, out, of, i, past, strict);
    }
    if (x->by_element) return;
    multiply(out, out, c->D, c->n);
    for (int64_t i = 0; i < c->n && strict; i++) out.at[i * CHUNK + i] = 0;
}

/* --- the solution of (I + T) X = B -------------------------------------------------------------------------------- */

/* y -= factor * x, rows of whole vectors. */
static inline void subtract(float *y, float factor, const float *x, int64_t width) {
    for (int64_t d = 0; d < width; d += V_LANES)
        v_store_f32(y + d, load_whole(y + d) - v_set(factor) * load_whole(x + d), V_LANES);
}

static inline void solve(rows T, rows x, int64_t n) {
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t past = ls_min(i + PART, n);
        if (i > 0) product(row_from(x, i), past - i, x.width, as_it_is(row_from(T, i)), x, i, MINUS);
        for (int64_t r = i + 1; r < past; r++)
            for (int64_t j = i; j < r; j++)
                subtract(x.at + r * x.width, T.at[r * T.width + j], x.at + j * x.width, x.width);
    }
}

/* With T transposed. */
static inline void solve_turned(rows T, rows x, int64_t n) {
    for (int64_t i = (n - 1) / PART * PART; i >= 0; i -= PART) {
        const int64_t past = ls_min(i + PART, n);
        if (past < n)
            product(row_from(x, i), past - i, x.width, turned(column_from(row_from(T, past), i)), row_from(x, past),
                    n - past, MINUS);
        for (int64_t r = past - 2; r >= i; r--)
            for (int64_t j = r + 1; j < past; j++)
                subtract(x.at + r * x.width, T.at[j * T.width + r], x.at + j * x.width, x.width);
    }
}

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

/* to_i = beta_i from_i. */
static inline void scale_rows(rows to, rows from, const float *beta, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < width; d += V_LANES)
            v_store_f32(to.at + i * to.width + d, v_set(beta[i]) * load_whole(from.at + i * from.width + d), V_LANES);
}

static inline void load_decays(const views *x, chunk *c, int64_t b, int64_t h) {
    for (int64_t i = 0; i < c->n; i++) {
        const float *at = (const float *)x->decay->data + place_of(x->decay, b, c->first + i, h);
        c->scalar[i] = x->decay->size[3] == 1 ? *at : 0;
        for (int64_t d = 0; d < x->LD && x->by_element; d += V_LANES)
            v_store_f32(c->g.at + i * x->LD + d, v_load_f32(at + d, x->D - d), V_LANES);
        c->beta[i] =
            x->beta->size[3] > 0 ? ((const float *)x->beta->data)[place_of(x->beta, b, c->first + i, h)] : 1.0f;
    }
}

/* Tokens first .. end-1 of a head, with what does not depend on a state. What is given decides what is made: P needs
 * q, and without values only a map that takes from states needs it. */
static inline void make_chunk(const views *x, chunk *c, int64_t b, int64_t h, int64_t first, int64_t end) {
    const int64_t key = h / (x->H / x->K);
    c->first = first;
    c->n = end - first;
    c->fresh = begins(x, b, first);
    load_rows(c->k, x->k, b, first, c->n, key);
    load_decays(x, c, b, h);
    x->by_element ? find_decays_of_elements(x, c) : find_decays_of_heads(x, c);
    multiply(c->kf, c->k, c->f, c->n);
    if (!x->by_element && (x->delta || x->q != NULL)) turn(c->turned_k, c->k, c->n, x->LD);
    if (x->q != NULL) {
        load_rows(c->q, x->q, b, first, c->n, key);
        multiply(c->qe, c->q, c->e, c->n);
        if (x->delta || x->v != NULL) find_scores(x, c, c->P, c->q, false);
    }
    if (x->v != NULL) {
        load_rows(c->v, x->v, b, first, c->n, h);
        scale_rows(c->x, c->v, c->beta, c->n, x->LE);
    } else {
        for (int64_t i = 0; i < c->n; i++) memset(c->x.at + i * c->x.width, 0, (size_t)x->LE * sizeof(float));
    }
    if (!x->delta) return;
    multiply(c->ke, c->k, c->e, c->n);
    find_scores(x, c, c->A, c->k, true);
    scale_rows(c->T, c->A, c->beta, c->n, CHUNK);
    scale_rows(column_from(c->x, x->LE), c->ke, c->beta, c->n, x->LD);
    solve(c->T, c->x, c->n);
}

/* V' = U - W S, of E columns or, of a map, of LE + D, where U has zeros. */
static inline void find_written(const views *x, const chunk *c, rows S, rows written) {
    for (int64_t i = 0; i < c->n; i++) {
        memcpy(written.at + i * written.width, c->x.at + i * c->x.width, (size_t)x->LE * sizeof(float));
        memset(written.at + i * written.width + x->LE, 0, (size_t)(written.width - x->LE) * sizeof(float));
    }
    if (x->delta) product(written, c->n, written.width, as_it_is(column_from(c->x, x->LE)), S, x->D, MINUS);
}

static inline void clear(rows m, int64_t n) { memset(m.at, 0, (size_t)(n * m.width) * sizeof(float)); }

/* S = Diag(last) S. */
static inline void decay_state(const views *x, const chunk *c, rows S) { scale_rows(S, S, c->last, x->D, S.width); }

/* The state behind the chunk. */
static inline void advance(const views *x, const chunk *c, rows S, rows written) {
    decay_state(x, c, S);
    product(S, x->D, S.width, turned(c->kf), written, c->n, PLUS);
}

/* How many parts a call's `tasks` are split into, each with a room of its own: no bit depends on it. */
static inline int lr_parts(int64_t tasks, int threads) { return (int)ls_max(1, ls_min(tasks, (int64_t)threads)); }

#endif
