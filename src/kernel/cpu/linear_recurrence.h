/*
 * Shared by the kernels of the linear recurrence: a chunk of at most CHUNK tokens of one head is computed by matrix
 * products in f32 (Yang et al., "Parallelizing linear transformers with the delta rule", arXiv 2406.06484, and "Gated
 * delta networks", arXiv 2412.06464). Each token has a decay g. e_i is the exponential of the sum of the decays up to
 * token i, f_i the exponential of the sum of the decays behind token i, and D_ij the exponential of the sum of the
 * decays of tokens j+1..i:
 *
 *   P_ij = sum over d of q_id k_jd D_ijd, j <= i    A_ij = sum over d of k_id k_jd D_ijd, j < i    T = Diag(beta) A
 *   V' = (I+T)^-1 (beta V - beta (K e) S) in a delta rule, else V' = beta V
 *   O = (q e) S + P V'      S = Diag(e of the last token) S + (k f)^T V'
 *
 * The term of the state, beta (K e) S, is subtracted from the right side before the system is solved. So the system has
 * E columns; a solution that is valid for every state, (I+T)^-1 [beta V | beta (K e)], would have E + D.
 *
 * Every exponent is a sum of decays of consecutive tokens, never a difference of two sums: if decays are strong, such a
 * difference has few correct digits, and the exponential of one of the sums may overflow. A chunk does not reach across
 * the beginning of a document, so the state in front of it either counts for all of its tokens or is 0.
 *
 * Up to BUNDLE value heads with the same key head are computed together: they share q and k and, if a decay is one
 * number for the whole head, also the products of q and k.
 */
#ifndef LS_KERNEL_CPU_LINEAR_RECURRENCE_H
#define LS_KERNEL_CPU_LINEAR_RECURRENCE_H

#include "kernel/cpu/linear_recurrence_products.h"
#include "kernel/cpu/vmath.h"

/* Tokens of a chunk, and of a part of it. Between parts, decays by element are factored; within a part they are not. */
enum { CHUNK = 48, PART = 16 };
/* The most value heads with one key head that are computed together. */
enum { BUNDLE = 4 };

/* --- the call ----------------------------------------------------------------------------------------------------- */

/* Views of a call; NULL: the call has no such operand. */
typedef struct views {
    const ls_view *q, *k, *v, *decay, *beta, *places, *grad_o;
    const ls_view *result;            /* a row for each token and value head; NULL: none */
    bool delta, unmasked, by_element; /* by_element: each element of a key has a decay of its own */
    int64_t B, N, K, H, D, E, LD, LE; /* LD, LE: D and E rounded up to whole vectors */
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

/* to = the rows of tokens first .. first+n-1 of a head. */
static inline void load_rows(rows to, const ls_view *v, int64_t b, int64_t first, int64_t n, int64_t h) {
    const int64_t count = v->size[3], whole = count / V_LANES * V_LANES;
    for (int64_t i = 0; i < n; i++) {
        const element *from = (const element *)v->data + place_of(v, b, first + i, h);
        float *row = to.at + i * to.width;
        for (int64_t d = 0; d < whole; d += V_LANES) v_store_f32(row + d, v_load(from + d, V_LANES), V_LANES);
        if (whole < count) v_store_f32(row + whole, v_load(from + whole, count - whole), V_LANES);
    }
}

static inline void store_rows(rows from, const ls_view *v, int64_t b, int64_t first, int64_t n, int64_t h) {
    const int64_t count = v->size[3], whole = count / V_LANES * V_LANES;
    for (int64_t i = 0; i < n; i++) {
        element *to = (element *)v->data + place_of(v, b, first + i, h);
        const float *row = from.at + i * from.width;
        for (int64_t d = 0; d < whole; d += V_LANES) v_store(to + d, load_whole(row + d), V_LANES);
        if (whole < count) v_store(to + whole, load_whole(row + whole), count - whole);
    }
}

/* The rows to prefetch of those tokens among first .. first+n-1 of a head that exist; v NULL: no rows. */
static inline next_rows rows_of_head(const ls_view *v, int64_t b, int64_t first, int64_t n, int64_t h) {
    if (v == NULL) return (next_rows){.count = 0};
    const int64_t begin = ls_max(0, first), end = ls_min(v->size[1], first + n), size = (int64_t)sizeof(element);
    return (next_rows){.at = (const char *)((const element *)v->data + place_of(v, b, begin, h)),
                       .step = v->stride[1] * size,
                       .size = v->size[3] * size,
                       .count = ls_max(0, end - begin)};
}

/* Copies a dense matrix [n,count] to rows of whole vectors; store_dense copies it back. */
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

/* The end of the chunk that begins with token `first`. */
static inline int64_t chunk_end(const views *x, int64_t b, int64_t first) {
    int64_t end = first + 1;
    while (end < x->N && end < first + CHUNK && !begins(x, b, end)) end++;
    return end;
}

/* What a thread takes at a time: value heads first .. past-1, which have one key head, of sequence b. */
typedef struct bundle {
    int64_t b, key, first, past;
} bundle;

/* --- room --------------------------------------------------------------------------------------------------------- */

/* Rows, each to be multiplied by the number `by` of its token; by NULL: by 1. */
typedef struct scaled {
    rows of;
    const float *by;
} scaled;

/* A chunk: first what belongs to the key head, then what belongs to one of its value heads. */
typedef struct chunk {
    const bundle *of;
    int64_t first, n;
    bool back;  /* the next chunk to be computed is the one in front of this chunk, not the one behind it */
    bool fresh; /* a document begins with this chunk: the state in front is 0 */
    fetches next;
    rows q, k, turned_k;
    rows qk, kk; /* decays by head: the products of q and k, and of k and k */

    rows v;                                /* as given */
    rows g, e, f;                          /* decays by element */
    scaled qe, kf, bke;                    /* q e, k f; beta k e in a delta rule */
    rows room_qe, room_kf, room_bke;       /* room for them, if they are not the given rows times a number by token */
    rows D, P, A, T;                       /* D: decays by head */
    rows bv;                               /* beta v, without a delta rule */
    rows some_x, some_k, turned_some;      /* decays by element: the factors of the scores of a part */
    float *beta, *scalar, *up_to, *behind; /* by token; up_to and behind: e and f of decays by head */
    float *beta_up_to;                     /* beta e */
    float *last;                           /* by element of a key: the factor of the state across the chunk */
} chunk;

/* Columns of a map [U | M]; a diagonal M is not among them. */
static inline int64_t map_width(const views *x) { return x->LE + (x->delta ? x->LD : 0); }
static inline rows u_of(const views *x, rows map) { return columns_from(map, 0, x->LE); }
static inline rows m_of(const views *x, rows map) { return columns_from(map, x->LE, map.columns - x->LE); }

static inline chunk take_chunk(const views *x, room *at) {
    const int64_t elements = x->by_element ? CHUNK : 0;
    chunk c = {.q = take(at, CHUNK, x->LD), .k = take(at, CHUNK, x->LD), .turned_k = take(at, x->LD, CHUNK)};
    c.qk = take(at, CHUNK, CHUNK);
    c.kk = take(at, CHUNK, CHUNK);
    c.v = take(at, CHUNK, x->LE);
    c.g = take(at, elements, x->LD);
    c.e = take(at, elements, x->LD);
    c.f = take(at, elements, x->LD);
    c.room_qe = take(at, CHUNK, x->LD);
    c.room_kf = take(at, CHUNK, x->LD);
    c.D = take(at, CHUNK, CHUNK);
    c.P = take(at, CHUNK, CHUNK);
    c.A = take(at, CHUNK, CHUNK);
    c.T = take(at, CHUNK, CHUNK);
    c.bv = take(at, CHUNK, x->LE);
    c.room_bke = take(at, x->delta ? CHUNK : 0, x->LD);
    c.some_x = take(at, x->by_element ? PART : 0, x->LD);
    c.some_k = take(at, elements, x->LD);
    c.turned_some = take(at, x->by_element ? x->LD : 0, CHUNK);
    c.beta = take(at, 1, CHUNK).at;
    c.scalar = take(at, 1, CHUNK).at;
    c.up_to = take(at, 1, CHUNK).at;
    c.behind = take(at, 1, CHUNK).at;
    c.beta_up_to = take(at, 1, CHUNK).at;
    c.last = take(at, 1, x->LD).at;
    return c;
}

/* --- decays ------------------------------------------------------------------------------------------------------- */

/* The number of each lane. */
V_INLINE v_i32 lane_numbers(void) {
    static const int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    v_i32 lanes;
    memcpy(&lanes, all, sizeof lanes);
    return lanes;
}

/* Replaces each of n numbers by its exp; x has room for CHUNK numbers. */
static inline void exponentials(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += V_LANES) v_store_f32(x + i, v_exp(load_whole(x + i)), V_LANES);
}

/* e, f, `last` and D if there is one decay for a head, or none. */
static inline void find_decays_of_heads(const views *x, chunk *c) {
    float *sum = c->up_to, *behind = c->behind;
    memset(sum, 0, CHUNK * sizeof *sum);
    memset(behind, 0, CHUNK * sizeof *behind);
    for (int64_t i = 0; i < c->n; i++) sum[i] = c->scalar[i] + (i > 0 ? sum[i - 1] : 0);
    for (int64_t i = c->n - 2; i >= 0; i--) behind[i] = behind[i + 1] + c->scalar[i + 1];
    exponentials(sum, c->n);
    exponentials(behind, c->n);
    for (int64_t d = 0; d < x->LD; d++) c->last[d] = sum[c->n - 1];
    v_f32 between[CHUNK / V_LANES];
    for (int v = 0; v < CHUNK / V_LANES; v++) between[v] = v_set(0.0f);
    for (int64_t i = 0; i < c->n; i++) {
        float *row = c->D.at + i * c->D.width;
        for (int32_t v = 0; v < CHUNK / V_LANES; v++) {
            const v_i32 token = lane_numbers() + v * V_LANES;
            between[v] += v_select(token < (int32_t)i, v_set(c->scalar[i]), v_set(0.0f));
            v_f32 decay = v_set(0.0f);
            if (v * V_LANES <= i) decay = v_select(token <= (int32_t)i, v_exp(between[v]), decay);
            v_store_f32(row + v * V_LANES, decay, V_LANES);
        }
    }
}

/* e, f and `last` of decays by element. */
static inline void find_decays_of_elements(const views *x, chunk *c) {
    for (int64_t d = 0; d < x->LD; d += V_LANES) {
        v_f32 sum = v_set(0.0f), behind = v_set(0.0f);
        for (int64_t i = 0; i < c->n; i++) {
            sum += load_whole(c->g.at + i * c->g.width + d);
            v_store_f32(c->e.at + i * c->e.width + d, v_exp(sum), V_LANES);
        }
        for (int64_t i = c->n - 1; i >= 0; i--) {
            v_store_f32(c->f.at + i * c->f.width + d, v_exp(behind), V_LANES);
            behind += load_whole(c->g.at + i * c->g.width + d);
        }
        v_store_f32(c->last + d, v_exp(sum), V_LANES);
    }
}

/* to_i = a_i b_i, element by element. */
static inline void multiply(rows to, rows a, rows b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < to.columns; d += V_LANES)
            v_store_f32(to.at + i * to.width + d,
                        load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d), V_LANES);
}

/* to_i = factor_i from_i. */
static inline void scale_rows(rows to, rows from, const float *factor, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < to.columns; d += V_LANES)
            v_store_f32(to.at + i * to.width + d, v_set(factor[i]) * load_whole(from.at + i * from.width + d), V_LANES);
}

/*
 * Rows times e or f, which is `elements` (decays by element) or `tokens` (a number for each token). A product with one
 * row per token can multiply by the token's number itself; for other products, which need rows that are already
 * `multiplied`, the product of rows and numbers is stored in `to`.
 */
static inline scaled decayed(const views *x, const chunk *c, rows to, rows from, rows elements, const float *tokens,
                             bool multiplied) {
    if (!x->by_element && !multiplied) return (scaled){from, tokens};
    x->by_element ? multiply(to, from, elements, c->n) : scale_rows(to, from, tokens, c->n);
    return (scaled){to, NULL};
}

/* Decays by element: to_i = exp(sum of the decays of tokens first..first+i) from_i, for i < n. */
static inline void decay_from(const chunk *c, rows to, rows from, int64_t first, int64_t n) {
    for (int64_t d = 0; d < from.columns; d += V_LANES) {
        v_f32 sum = v_set(0.0f);
        for (int64_t i = 0; i < n; i++) {
            sum += load_whole(c->g.at + (first + i) * c->g.width + d);
            v_store_f32(to.at + i * to.width + d, load_whole(from.at + i * from.width + d) * v_exp(sum), V_LANES);
        }
    }
}

/* Decays by element: to_j = exp(sum of the decays of tokens j+1..end-1) from_j, for j < end. */
static inline void decay_until(const chunk *c, rows to, rows from, int64_t end) {
    for (int64_t d = 0; d < from.columns; d += V_LANES) {
        v_f32 sum = v_set(0.0f);
        for (int64_t j = end - 1; j >= 0; j--) {
            v_store_f32(to.at + j * to.width + d, load_whole(from.at + j * from.width + d) * v_exp(sum), V_LANES);
            sum += load_whole(c->g.at + j * c->g.width + d);
        }
    }
}

/* --- scores ------------------------------------------------------------------------------------------------------- */

/* Decays by element: the scores of tokens i and j of one part, j <= i, or j < i if strict. */
static inline void scores_within(const chunk *c, rows out, rows of, int64_t first, int64_t past, bool strict) {
    for (int64_t i = first; i < past; i++) {
        v_f32 sum[PART];
        for (int64_t j = first; j <= i; j++) sum[j - first] = v_set(0.0f);
        for (int64_t d = 0; d < of.columns; d += V_LANES) {
            const v_f32 at = load_whole(of.at + i * of.width + d);
            v_f32 between = v_set(0.0f);
            for (int64_t j = i; j >= first; j--) {
                sum[j - first] += at * load_whole(c->k.at + j * c->k.width + d) * v_exp(between);
                between += load_whole(c->g.at + j * c->g.width + d);
            }
        }
        for (int64_t j = first; j < past; j++)
            out.at[i * out.width + j] = j < i || (j == i && !strict) ? v_sum_lanes(sum[j - first]) : 0;
    }
}

/* out_ij = sum over d of of_id k_jd D_ijd. both: the products of `of` and k, used if decays are by head. */
static inline void find_scores(const views *x, const chunk *c, rows out, rows of, rows both, bool strict) {
    if (!x->by_element) {
        for (int64_t i = 0; i < c->n; i++) {
            float *row = out.at + i * out.width;
            for (int64_t j = 0; j < CHUNK; j += V_LANES) {
                const v_f32 score = load_whole(both.at + i * both.width + j) * load_whole(c->D.at + i * c->D.width + j);
                v_store_f32(row + j, j <= i ? score : v_set(0.0f), V_LANES);
            }
            if (strict) row[i] = 0;
        }
        return;
    }
    for (int64_t i = 0; i < c->n; i += PART) {
        const int64_t past = ls_min(i + PART, c->n);
        memset(out.at + i * out.width, 0, (size_t)((past - i) * out.width) * sizeof *out.at);
        if (i > 0) {
            decay_from(c, c->some_x, row_from(of, i), i, past - i);
            decay_until(c, c->some_k, c->k, i);
            turn(c->turned_some, c->some_k, i, x->LD);
            product_of(WHOLE, row_from(out, i), past - i, i, as_it_is(c->some_x), c->turned_some, x->D, alone());
        }
        scores_within(c, out, of, i, past, strict);
    }
}

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

/*
 * Loads tokens first .. end-1 of the key head of a bundle. The operands of the call decide which products are computed:
 * those of q and k are computed if there is a q, and also values or a delta rule.
 */
static inline void begin_chunk(const views *x, chunk *c, const bundle *of, int64_t first, int64_t end, bool back) {
    const int64_t next = back ? first - CHUNK : end;
    c->of = of;
    c->first = first;
    c->n = end - first;
    c->back = back;
    c->fresh = begins(x, of->b, first);
    c->next = (fetches){.of = {[NEXT - 2] = rows_of_head(x->q, of->b, next, CHUNK, of->key),
                               [NEXT - 1] = rows_of_head(x->k, of->b, next, CHUNK, of->key)}};
    load_rows(c->k, x->k, of->b, first, c->n, of->key);
    const bool scores = x->q != NULL && (x->delta || x->v != NULL);
    if (x->q != NULL) load_rows(c->q, x->q, of->b, first, c->n, of->key);
    if (x->by_element || x->unmasked) return;
    if (x->delta || scores) turn(c->turned_k, c->k, c->n, x->LD);
    if (scores) lower_of_product(c->qk, c->n, as_it_is(c->q), c->turned_k, x->D);
    if (x->delta) lower_of_product(c->kk, c->n, as_it_is(c->k), c->turned_k, x->D);
}

/*
 * Sets what a head's products prefetch: its result rows, and the inputs of the next head of the bundle or of the next
 * chunk.
 */
static inline void fetch_for(const views *x, chunk *c, int64_t h) {
    const bundle *of = c->of;
    const bool last = h + 1 == of->past;
    const int64_t head = last ? of->first : h + 1;
    const int64_t first = !last ? c->first : c->back ? c->first - CHUNK : c->first + c->n;
    c->next.of[0] = rows_of_head(x->result, of->b, c->first, c->n, h);
    c->next.of[1] = rows_of_head(x->v, of->b, first, CHUNK, head);
    c->next.of[2] = rows_of_head(x->grad_o, of->b, first, CHUNK, head);
}

/* The finish s, which also prefetches the next rows. */
static inline finish fetching(chunk *c, finish s) {
    s.next = &c->next;
    return s;
}

static inline void load_gates(const views *x, chunk *c, int64_t b, int64_t h) {
    for (int64_t i = 0; i < c->n; i++) {
        const float *at = (const float *)x->decay->data + place_of(x->decay, b, c->first + i, h);
        c->scalar[i] = x->decay->size[3] == 1 ? *at : 0;
        for (int64_t d = 0; d < x->LD && x->by_element; d += V_LANES)
            v_store_f32(c->g.at + i * c->g.width + d, v_load_f32(at + d, x->D - d), V_LANES);
        c->beta[i] =
            x->beta->size[3] > 0 ? ((const float *)x->beta->data)[place_of(x->beta, b, c->first + i, h)] : 1.0f;
    }
}

/* Clears the rows from row n on, up to a multiple of SOLVED rows. */
static inline void clear_behind(rows m, int64_t n) { clear(row_from(m, n), ls_ceil_div(n, SOLVED) * SOLVED - n); }

/* Computes everything of a head that does not depend on the state. */
static inline void make_head(const views *x, chunk *c, int64_t h) {
    const int64_t b = c->of->b;
    fetch_for(x, c, h);
    load_gates(x, c, b, h);
    if (x->v != NULL) load_rows(c->v, x->v, b, c->first, c->n, h);
    if (x->v != NULL && !x->delta) scale_rows(c->bv, c->v, c->beta, c->n);
    x->by_element ? find_decays_of_elements(x, c) : find_decays_of_heads(x, c);
    c->kf = decayed(x, c, c->room_kf, c->k, c->f, c->behind, !c->back);
    if (x->q != NULL) {
        c->qe = decayed(x, c, c->room_qe, c->q, c->e, c->up_to, c->back);
        if ((x->delta || x->v != NULL) && !x->unmasked) find_scores(x, c, c->P, c->q, c->qk, false);
    }
    if (!x->delta) return;
    find_scores(x, c, c->A, c->k, c->kk, true);
    scale_rows(c->T, c->A, c->beta, c->n);
    for (int64_t i = 0; i < c->n; i++) c->beta_up_to[i] = c->beta[i] * c->up_to[i];
    c->bke = decayed(x, c, c->room_bke, c->k, c->e, c->beta_up_to, c->back);
    if (x->by_element) scale_rows(c->room_bke, c->room_bke, c->beta, c->n);
    clear_behind(c->T, c->n);
}

/*
 * Returns V': stored in `written` in a delta rule, else c->bv. For a map, V' has columns for M too, in which V counts
 * as 0.
 */
static inline rows find_written(const views *x, chunk *c, rows S, rows written) {
    if (!x->delta) return c->bv;
    const rows more = m_of(x, written);
    const finish taken = {.sign = -1, .by = c->bke.by, .to = c->v, .factor = c->beta, .next = &c->next};
    product(u_of(x, written), c->n, as_it_is(c->bke.of), S, x->D, taken);
    if (more.columns > 0)
        product(more, c->n, as_it_is(c->bke.of), m_of(x, S), x->D, (finish){.sign = -1, .by = c->bke.by});
    clear_behind(written, c->n);
    solve(c->T, written, c->n);
    return written;
}

/* to = the state behind the chunk, from the state S in front of it and V'. */
static inline void advance(const views *x, chunk *c, rows to, rows S, rows written) {
    product(to, x->D, turned(c->kf.of), written, c->n, fetching(c, plus_of(c->last, S)));
}

/* --- a chunk backwards -------------------------------------------------------------------------------------------- */

/*
 * z = the gradient of V', P^T dO + (k f) dS; in a delta rule, z then becomes the gradient of the right side of the
 * system whose solution is V'. For a map, dS and z have columns for M too.
 */
static inline void find_written_gradient(const views *x, chunk *c, rows dS, rows grad_o, rows z) {
    product(z, c->n, as_it_is(c->kf.of), dS, x->D, (finish){.sign = 1, .by = c->kf.by, .next = &c->next});
    product_of(UPPER, z, c->n, x->LE, turned(c->P), grad_o, c->n, plus(z));
    if (!x->delta) return;
    clear_behind(z, c->n);
    solve_turned(c->T, z, c->n);
}

/*
 * dS becomes the gradient of the state in front of the chunk. z: from find_written_gradient; only a delta rule reads
 * it.
 */
static inline void retreat(const views *x, chunk *c, rows dS, rows grad_o, rows z) {
    const rows u = u_of(x, dS), more = m_of(x, dS);
    product(u, x->D, turned(c->qe.of), grad_o, c->n, fetching(c, plus_of(c->last, u)));
    if (!x->delta) return;
    product(u, x->D, turned(c->bke.of), z, c->n, fetching(c, minus(u)));
    if (more.columns > 0)
        product(more, x->D, turned(c->bke.of), m_of(x, z), c->n, (finish){.sign = -1, .to = more, .factor = c->last});
}

/* --- work in parts ------------------------------------------------------------------------------------------------ */

static inline bundle bundle_at(const views *x, int64_t i) {
    const int64_t group = x->H / x->K, each = ls_ceil_div(group, BUNDLE), key = i / each % x->K;
    return (bundle){i / each / x->K, key, key * group + ls_part_start(group, each, i % each),
                    key * group + ls_part_start(group, each, i % each + 1)};
}

/* The work on each bundle of a call, in a room of `elements` floats for each thread. */
typedef struct bundle_work {
    const ls_kernel_call *call;
    const views *x;
    int64_t elements;
    void (*body)(const ls_kernel_call *call, const views *x, const bundle *of, room at);
} bundle_work;

static inline void run_bundle(void *context, int i, int thread) {
    const bundle_work *w = context;
    const bundle of = bundle_at(w->x, i);
    const room at = {(float *)w->call->workspace + thread * w->elements, 0};
    const uint32_t before = v_flush_begin();
    w->body(w->call, w->x, &of, at);
    v_flush_end(before);
}

static inline void run_bundles(const bundle_work *work, ls_pool *pool) {
    bundle_work w = *work;
    const views *x = w.x;
    LS_ASSERT(w.call->workspace != NULL);
    ls_pool_run(pool, (int)(x->B * x->K * ls_ceil_div(x->H / x->K, BUNDLE)), run_bundle, &w);
}

/* Bytes of one room for each thread. Which thread takes which bundle changes no bit. */
static inline size_t rooms_of(const ls_kernel_call *call, int64_t elements) {
    return (size_t)(ls_max(1, call->threads) * elements) * sizeof(float);
}

#endif
