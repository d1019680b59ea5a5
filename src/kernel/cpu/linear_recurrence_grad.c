/*
 * linear_recurrence_grad: a first pass keeps the states in front of the chunks, then the chunks are computed from the
 * last to the first. Gradients of q and k are sums over the value heads that share a key head. Those of a bundle are
 * added chunk by chunk; if decays are by head, what is added are the gradients of the products of q and k. Threads take
 * key heads, or pieces of a key head if there are few key heads; the sums of the pieces are then added in order.
 */
#include "kernel/cpu/linear_recurrence.h"

enum { FEWEST_TASKS = 8 };

typedef struct grad_room {
    chunk c;
    rows zero, dS[BUNDLE], turned_S;
    rows written, grad_o, turned_written;
    rows z;                  /* gradient of V', then, in a delta rule, of the right side of the system for V' */
    rows w;                  /* delta rule: gradient of k e, divided by beta */
    rows scores;             /* gradients of P or of T */
    rows dqk, dkk;           /* decays by head: gradients of the products of q and k, and of k and k, of a bundle */
    rows dq, dk;             /* of a bundle */
    rows own_q, own_k, some; /* decays by element: gradients from one head's scores; a factored part of them */
    rows dqe, dkf;
    /* Gradients of the sums of decays up to each token and behind it, and of decays themselves; by head: in lanes. */
    rows dsum, dbehind, ddecay;
    float *last;
    rows kept[BUNDLE]; /* D rows for each state in front of a chunk that has one */
    int32_t *ends;
} grad_room;

static views grad_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .v = &call->in[2],
                         .decay = &call->in[3],
                         .beta = &call->in[4],
                         .places = &call->in[5],
                         .grad_o = &call->in[6],
                         .result = &call->out[2]},
                 call);
}

static grad_room take_grad(const views *x, room *at) {
    const int64_t elements = x->by_element ? CHUNK : 0, sums = x->by_element ? x->LD : V_LANES;
    grad_room r = {.c = take_chunk(x, at), .zero = take(at, x->D, x->LE), .turned_S = take(at, x->LE, x->LD)};
    r.written = take(at, CHUNK, x->LE);
    r.grad_o = take(at, CHUNK, x->LE);
    r.turned_written = take(at, x->LE, CHUNK);
    r.z = take(at, CHUNK, x->LE);
    r.w = take(at, x->delta ? CHUNK : 0, x->LD);
    r.scores = take(at, CHUNK, CHUNK);
    r.dqk = take(at, CHUNK, CHUNK);
    r.dkk = take(at, CHUNK, CHUNK);
    r.dq = take(at, CHUNK, x->LD);
    r.dk = take(at, CHUNK, x->LD);
    r.own_q = take(at, elements, x->LD);
    r.own_k = take(at, elements, x->LD);
    r.some = take(at, elements, x->LD);
    r.dqe = take(at, CHUNK, x->LD);
    r.dkf = take(at, CHUNK, x->LD);
    r.dsum = take(at, CHUNK, sums);
    r.dbehind = take(at, CHUNK, sums);
    r.ddecay = take(at, CHUNK, sums);
    r.last = take(at, 1, x->LD).at;
    r.ends = (int32_t *)take(at, 1, x->N + 1).at;
    for (int i = 0; i < BUNDLE; i++) {
        r.dS[i] = take(at, x->D, x->LE);
        r.kept[i] = take(at, (x->N / CHUNK + 1) * x->D, x->LE);
    }
    return r;
}

static int64_t grad_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_grad(x, &at);
    return at.used;
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_GRAD, call, state);
}

/* --- small sums --------------------------------------------------------------------------------------------------- */

/* y += sign a b, element by element, n rows. */
static void add_products(rows y, float sign, rows a, rows b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < y.columns; d += V_LANES) {
            float *to = y.at + i * y.width + d;
            const v_f32 more = load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d);
            v_store_f32(to, load_whole(to) + v_set(sign) * more, V_LANES);
        }
}

/* y += sign x, n rows. */
static void add_rows_of(rows y, float sign, rows x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < y.columns; d += V_LANES) {
            float *to = y.at + i * y.width + d;
            v_store_f32(to, load_whole(to) + v_set(sign) * load_whole(x.at + i * x.width + d), V_LANES);
        }
}

/* The product of row i of a and row i of b, over the columns of a. */
static float dot(rows a, rows b, int64_t i) {
    v_f32 sum = v_set(0.0f);
    for (int64_t d = 0; d < a.columns; d += V_LANES)
        sum += load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d);
    return v_sum_lanes(sum);
}

/* The product of row i of a and row i of k e. */
static float dot_decayed(const views *x, const chunk *c, rows a, int64_t i) {
    if (!x->by_element) return c->up_to[i] * dot(a, c->k, i);
    v_f32 sum = v_set(0.0f);
    for (int64_t d = 0; d < a.columns; d += V_LANES)
        sum += load_whole(a.at + i * a.width + d) * load_whole(c->k.at + i * c->k.width + d) *
               load_whole(c->e.at + i * c->e.width + d);
    return v_sum_lanes(sum);
}

/*
 * Adds `given` times e or f (`elements` if decays are by element, else `tokens`) to `to`, and the same times y to
 * `sums`, the gradients of the sums of decays: element by element, or lane by lane if decays are by head.
 */
static void through_decay(const views *x, const chunk *c, rows to, rows sums, rows given, rows elements,
                          const float *tokens, rows y) {
    for (int64_t i = 0; i < c->n; i++) {
        float *sum = sums.at + i * sums.width;
        v_f32 lanes = load_whole(sum);
        for (int64_t d = 0; d < to.columns; d += V_LANES) {
            const v_f32 decay = x->by_element ? load_whole(elements.at + i * elements.width + d) : v_set(tokens[i]);
            const v_f32 more = decay * load_whole(given.at + i * given.width + d);
            const v_f32 exponent = more * load_whole(y.at + i * y.width + d);
            v_store_f32(to.at + i * to.width + d, load_whole(to.at + i * to.width + d) + more, V_LANES);
            if (x->by_element)
                v_store_f32(sum + d, load_whole(sum + d) + exponent, V_LANES);
            else
                lanes += exponent;
        }
        if (!x->by_element) v_store_f32(sum, lanes, V_LANES);
    }
}

/* --- through the scores ------------------------------------------------------------------------------------------- */

/*
 * Decays by head: adds to the gradient of `both` and to ddecay. r->scores are the gradients of factor_i both_ij D_ij;
 * factor NULL: 1. The decay of token t is in D_ij for j < t <= i, and in no other: a difference of sums over rows and
 * columns would round what cancels, which is more than the gradient if decays are strong.
 */
static void scores_of_heads_back(grad_room *r, rows both, rows d_both, const float *factor) {
    const chunk *c = &r->c;
    v_f32 column[CHUNK / V_LANES]; /* sums over the tokens from i on */
    for (int v = 0; v < CHUNK / V_LANES; v++) column[v] = v_set(0.0f);
    for (int64_t i = c->n - 1; i >= 0; i--) {
        const v_f32 by = v_set(factor != NULL ? factor[i] : 1.0f);
        float *sum = r->ddecay.at + i * r->ddecay.width;
        v_f32 all = load_whole(sum);
        for (int64_t j = 0; j <= i; j += V_LANES) {
            float *to = d_both.at + i * d_both.width + j;
            const v_f32 score =
                by * load_whole(r->scores.at + i * r->scores.width + j) * load_whole(c->D.at + i * c->D.width + j);
            v_store_f32(to, load_whole(to) + score, V_LANES);
            column[j / V_LANES] += score * load_whole(both.at + i * both.width + j);
            all += v_select(lane_numbers() + (int32_t)j < (int32_t)i, column[j / V_LANES], v_set(0.0f));
        }
        v_store_f32(sum, all, V_LANES);
    }
}

/* Decays by element: the gradients through the scores of tokens i and j < i of one part. */
static void back_within(const chunk *c, rows scores, rows of, int64_t first, int64_t past, rows d_of, rows d_k) {
    for (int64_t d = 0; d < of.columns; d += V_LANES) {
        for (int64_t i = first; i < past; i++) {
            const v_f32 at = load_whole(of.at + i * of.width + d);
            v_f32 between = load_whole(c->g.at + i * c->g.width + d), sum = load_whole(d_of.at + i * d_of.width + d);
            for (int64_t j = i - 1; j >= first; j--) {
                const v_f32 factor = v_set(scores.at[i * scores.width + j]) * v_exp(between);
                float *to = d_k.at + j * d_k.width + d;
                sum += factor * load_whole(c->k.at + j * c->k.width + d);
                v_store_f32(to, load_whole(to) + factor * at, V_LANES);
                between += load_whole(c->g.at + j * c->g.width + d);
            }
            v_store_f32(d_of.at + i * d_of.width + d, sum, V_LANES);
        }
    }
}

/* Decays by element: the gradients through the scores of each token with itself, which no decay changes. */
static void own_scores_back(grad_room *r, rows of, rows d_of) {
    const chunk *c = &r->c;
    for (int64_t i = 0; i < c->n; i++) {
        const v_f32 score = v_set(r->scores.at[i * r->scores.width + i]);
        for (int64_t d = 0; d < of.columns; d += V_LANES) {
            float *to = d_of.at + i * d_of.width + d, *to_k = r->dk.at + i * r->dk.width + d;
            v_store_f32(to, load_whole(to) + score * load_whole(c->k.at + i * c->k.width + d), V_LANES);
            v_store_f32(to_k, load_whole(to_k) + score * load_whole(of.at + i * of.width + d), V_LANES);
        }
    }
}

/*
 * Decays by element: adds to dsum, d_of and dk. r->scores are the gradients of the scores, sum over d of of_id k_jd
 * D_ijd.
 */
static void scores_of_elements_back(grad_room *r, rows of, rows d_of) {
    const chunk *c = &r->c;
    clear(r->own_q, c->n);
    clear(r->own_k, c->n);
    for (int64_t i = 0; i < c->n; i += PART) {
        const int64_t past = ls_min(i + PART, c->n), n = past - i;
        if (i > 0) {
            const rows scores = row_from(r->scores, i);
            decay_until(c, c->some_k, c->k, i);
            product(r->some, n, as_it_is(scores), c->some_k, i, alone());
            decay_from(c, r->some, r->some, i, n);
            add_rows_of(row_from(r->own_q, i), 1, r->some, n);
            decay_from(c, c->some_x, row_from(of, i), i, n);
            product(r->some, i, turned(scores), c->some_x, n, alone());
            decay_until(c, r->some, r->some, i);
            add_rows_of(r->own_k, 1, r->some, i);
        }
        back_within(c, r->scores, of, i, past, r->own_q, r->own_k);
    }
    add_products(r->dsum, 1, of, r->own_q, c->n);
    add_products(r->dsum, -1, c->k, r->own_k, c->n);
    add_rows_of(d_of, 1, r->own_q, c->n);
    add_rows_of(r->dk, 1, r->own_k, c->n);
    own_scores_back(r, of, d_of);
}

/* --- a head of a chunk -------------------------------------------------------------------------------------------- */

/* Gradients through P, Q e and K f. S: the state in front of the chunk; dS: the gradient of the state behind it. */
static void through_state(const views *x, grad_room *r, rows written, rows S, rows dS) {
    chunk *c = &r->c;
    turn(r->turned_written, written, c->n, x->LE);
    lower_of_product(r->scores, c->n, as_it_is(r->grad_o), r->turned_written, x->E);
    if (x->by_element)
        scores_of_elements_back(r, c->q, r->dq);
    else
        scores_of_heads_back(r, c->qk, r->dqk, NULL);
    turn(r->turned_S, S, x->D, x->LE);
    product(r->dqe, c->n, as_it_is(r->grad_o), r->turned_S, x->E, fetching(c, alone()));
    if (x->delta) product(r->w, c->n, as_it_is(r->z), r->turned_S, x->E, (finish){.sign = -1, .next = &c->next});
    turn(r->turned_S, dS, x->D, x->LE);
    product(r->dkf, c->n, as_it_is(written), r->turned_S, x->E, fetching(c, alone()));
}

static void store_gate(const ls_view *to, int64_t b, int64_t n, int64_t h, float value) {
    if (to->size[3] > 0) ((float *)to->data)[place_of(to, b, n, h)] = value;
}

/* Gradients through the system (I + T) V' = beta V - beta (K e) S of a delta rule: sets dbeta, adds to dk. */
static void through_solution(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const chunk *c = &r->c;
    float minus_beta[CHUNK];
    lower_of_product(r->scores, c->n, as_it_is(r->z), r->turned_written, x->E);
    for (int64_t i = 0; i < c->n; i++) { /* r->scores has the gradient of T with the other sign */
        v_f32 sum = v_set(0.0f);
        for (int64_t j = 0; j <= i; j += V_LANES) /* A is 0 on its diagonal and above it */
            sum -= load_whole(r->scores.at + i * r->scores.width + j) * load_whole(c->A.at + i * c->A.width + j);
        for (int64_t j = i; j < ls_min(CHUNK, whole_vectors(i + 1)); j++) r->scores.at[i * r->scores.width + j] = 0;
        minus_beta[i] = -c->beta[i];
        store_gate(&call->out[4], b, c->first + i, h,
                   v_sum_lanes(sum) + dot(r->z, c->v, i) + dot_decayed(x, c, r->w, i));
    }
    if (x->by_element) {
        scale_rows(r->scores, r->scores, minus_beta, c->n);
        scores_of_elements_back(r, c->k, r->dk);
    } else {
        scores_of_heads_back(r, c->kk, r->dkk, minus_beta);
    }
    scale_rows(r->w, r->w, c->beta, c->n);
    through_decay(x, c, r->dk, r->dsum, r->w, c->e, c->up_to, c->k);
}

/* Gradients through beta V: dv and, without a delta rule, dbeta. */
static void through_values(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const chunk *c = &r->c;
    if (!x->delta)
        for (int64_t i = 0; i < c->n; i++) store_gate(&call->out[4], b, c->first + i, h, dot(r->z, c->v, i));
    scale_rows(r->z, r->z, c->beta, c->n);
    store_rows(r->z, &call->out[2], b, c->first, c->n, h);
}

/* Stores the gradients of the decays, after adding to them those of the sums that they are part of. */
static void store_decays(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const chunk *c = &r->c;
    const ls_view *to = &call->out[3];
    const rows end = row_from(r->dsum, c->n - 1);
    if (to->size[3] == 0) return;
    for (int64_t d = 0; d < x->D; d++) end.at[x->by_element ? d : 0] += r->last[d] * c->last[d];
    for (int64_t i = c->n - 2; i >= 0; i--) add_rows_of(row_from(r->dsum, i), 1, row_from(r->dsum, i + 1), 1);
    add_rows_of(r->dsum, 1, r->ddecay, c->n);
    for (int64_t i = 1; i < c->n; i++) {
        add_rows_of(row_from(r->dsum, i), 1, row_from(r->dbehind, i - 1), 1);
        add_rows_of(row_from(r->dbehind, i), 1, row_from(r->dbehind, i - 1), 1);
    }
    if (c->fresh) clear(r->dsum, 1); /* the state that the first token's decay multiplies is 0 */
    for (int64_t i = 0; i < c->n; i++) {
        float *at = (float *)to->data + place_of(to, b, c->first + i, h);
        const float *from = r->dsum.at + i * r->dsum.width;
        for (int64_t d = 0; d < x->D && x->by_element; d += V_LANES)
            v_store_f32(at + d, load_whole(from + d), x->D - d);
        if (!x->by_element) *at = v_sum_lanes(load_whole(from));
    }
}

/* S: the state in front of the chunk. dS: the gradient of the state behind it; becomes that of the state in front. */
static void head_back(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h, rows S, rows dS) {
    chunk *c = &r->c;
    make_head(x, c, h);
    load_rows(r->grad_o, x->grad_o, b, c->first, c->n, h);
    const rows written = find_written(x, c, S, r->written);
    find_written_gradient(x, c, dS, r->grad_o, r->z);
    for (int64_t d = 0; d < x->D; d++) r->last[d] = dot(S, dS, d);
    clear(r->dsum, c->n);
    clear(r->dbehind, c->n);
    clear(r->ddecay, c->n);
    through_state(x, r, written, S, dS);
    retreat(x, c, dS, r->grad_o, r->z);
    if (c->fresh) clear(dS, x->D);
    if (x->delta) through_solution(call, x, r, b, h);
    through_values(call, x, r, b, h);
    through_decay(x, c, r->dq, r->dsum, r->dqe, c->e, c->up_to, c->q);
    through_decay(x, c, r->dk, r->dbehind, r->dkf, c->f, c->behind, c->k);
    store_decays(call, x, r, b, h);
}

/* Without a mask: all tokens read and write the same state. */
static void head_back_unmasked(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h, rows S,
                               rows dS) {
    const chunk *c = &r->c;
    make_head(x, &r->c, h);
    load_rows(r->grad_o, x->grad_o, b, c->first, c->n, h);
    turn(r->turned_S, S, x->D, x->LE);
    product(r->dq, c->n, as_it_is(r->grad_o), r->turned_S, x->E, plus(r->dq));
    turn(r->turned_S, dS, x->D, x->LE);
    product(r->dk, c->n, as_it_is(c->bv), r->turned_S, x->E, plus(r->dk));
    product(r->z, c->n, as_it_is(c->k), dS, x->D, alone());
    through_values(call, x, r, b, h);
}

/* --- a bundle ----------------------------------------------------------------------------------------------------- */

static rows kept_state(const views *x, const grad_room *r, int64_t i, int64_t slot) {
    return row_from(r->kept[i], slot * x->D);
}

/*
 * Keeps the state in front of every chunk that has one, in slots from 1 on; slot 0 has the state in front of the first
 * token. Returns the number of slots used. Also sets r->ends, the ends of the chunks, and *chunks, their number.
 */
static int64_t keep_states(const views *all, grad_room *r, const bundle *of, int64_t *chunks) {
    views front = *all;
    const views *x = &front;
    front.q = front.result = NULL; /* results are not needed */
    int64_t kept = 1;
    *chunks = 0;
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, of->b, first);
        r->ends[(*chunks)++] = (int32_t)end;
        if (x->unmasked || end == x->N || begins(x, of->b, end)) continue;
        begin_chunk(x, &r->c, of, first, end, false);
        for (int64_t h = of->first, i = 0; h < of->past; h++, i++) {
            const rows S = r->c.fresh ? r->zero : kept_state(x, r, i, kept - 1);
            make_head(x, &r->c, h);
            advance(x, &r->c, kept_state(x, r, i, kept), S, find_written(x, &r->c, S, r->written));
        }
        kept++;
    }
    return kept;
}

/*
 * Completes the gradients of q and k of a chunk, and stores them, or adds them to `sums`: the rows of q of all tokens,
 * then the rows of k. sums.at NULL: the key head has one bundle, so they are stored in the results.
 */
static void end_chunk(const ls_kernel_call *call, const views *x, grad_room *r, const bundle *of, rows sums) {
    const chunk *c = &r->c;
    if (!x->by_element && !x->unmasked) {
        product_of(LOWER, r->dq, c->n, x->LD, as_it_is(r->dqk), c->k, c->n, plus(r->dq));
        product_of(UPPER, r->dk, c->n, x->LD, turned(r->dqk), c->q, c->n, plus(r->dk));
    }
    if (!x->by_element && x->delta) {
        product_of(LOWER, r->dk, c->n, x->LD, as_it_is(r->dkk), c->k, c->n, plus(r->dk));
        product_of(UPPER, r->dk, c->n, x->LD, turned(r->dkk), c->k, c->n, plus(r->dk));
    }
    if (sums.at == NULL) {
        store_rows(r->dq, &call->out[0], of->b, c->first, c->n, of->key);
        store_rows(r->dk, &call->out[1], of->b, c->first, c->n, of->key);
    } else {
        add_rows_of(row_from(sums, c->first), 1, r->dq, c->n);
        add_rows_of(row_from(sums, x->N + c->first), 1, r->dk, c->n);
    }
}

static void bundle_back(const ls_kernel_call *call, const views *x, grad_room *r, const bundle *of, rows sums) {
    const int64_t heads = of->past - of->first, size = x->D * x->E, at = of->b * x->H + of->first;
    const float *states = (const float *)call->in[7].data + at * size;
    float *dstates = (float *)call->out[5].data + at * size;
    int64_t n;
    for (int64_t i = 0; i < heads; i++) {
        load_dense(kept_state(x, r, i, 0), states + i * size, x->D, x->E);
        load_dense(r->dS[i], dstates + i * size, x->D, x->E);
    }
    int64_t kept = keep_states(x, r, of, &n);
    while (n-- > 0) {
        begin_chunk(x, &r->c, of, n > 0 ? r->ends[n - 1] : 0, r->ends[n], true);
        clear(r->dqk, CHUNK);
        clear(r->dkk, CHUNK);
        clear(r->dq, r->c.n);
        clear(r->dk, r->c.n);
        if (!r->c.fresh && !x->unmasked) kept--;
        for (int64_t i = 0; i < heads; i++) {
            const rows S = r->c.fresh && !x->unmasked ? r->zero : kept_state(x, r, i, x->unmasked ? 0 : kept);
            (x->unmasked ? head_back_unmasked : head_back)(call, x, r, of->b, of->first + i, S, r->dS[i]);
        }
        end_chunk(call, x, r, of, sums);
    }
    for (int64_t i = 0; i < heads; i++) store_dense(r->dS[i], dstates + i * size, x->D, x->E);
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

/* The key heads of all sequences. If there are few, each is divided into pieces, which are whole bundles. */
typedef struct grad_plan {
    views x;
    const ls_kernel_call *call;
    int64_t keys, bundles, pieces; /* keys: key heads of all sequences; bundles and pieces of each */
    int64_t elements, sums;        /* floats of a thread's room, and of the sums of a piece */
} grad_plan;

static grad_plan make_plan(const ls_kernel_call *call) {
    grad_plan p = {.x = grad_views(call), .call = call};
    const views *x = &p.x;
    room at = {NULL, 0};
    p.keys = x->B * x->K;
    p.bundles = ls_ceil_div(x->H / x->K, BUNDLE);
    p.pieces = ls_min(p.bundles, ls_ceil_div(FEWEST_TASKS, ls_max(1, p.keys)));
    p.elements = grad_elements(x);
    (void)take(&at, 2 * x->N, x->LD);
    p.sums = p.bundles > 1 ? at.used : 0;
    return p;
}

static size_t grad_workspace(const ls_kernel_call *call) {
    const grad_plan p = make_plan(call);
    const int64_t threads = ls_max(1, call->threads), sums = p.pieces > 1 ? p.keys * p.pieces : threads;
    return (size_t)(threads * p.elements + sums * p.sums) * sizeof(float);
}

static rows sums_at(const grad_plan *p, int64_t i) {
    if (p->sums == 0) return (rows){0};
    room at = {(float *)p->call->workspace + ls_max(1, p->call->threads) * p->elements + i * p->sums, 0};
    return take(&at, 2 * p->x.N, p->x.LD);
}

static void piece_back(void *context, int i, int thread) {
    const grad_plan *p = context;
    const views *x = &p->x;
    const int64_t key = i / p->pieces, piece = i % p->pieces;
    room at = {(float *)p->call->workspace + thread * p->elements, 0};
    grad_room r = take_grad(x, &at);
    const rows sums = sums_at(p, p->pieces > 1 ? i : thread);
    const uint32_t before = v_flush_begin();
    clear(r.zero, x->D);
    if (sums.at != NULL) clear(sums, 2 * x->N);
    for (int64_t j = ls_part_start(p->bundles, p->pieces, piece); j < ls_part_start(p->bundles, p->pieces, piece + 1);
         j++) {
        const bundle of = bundle_at(x, key * p->bundles + j);
        bundle_back(p->call, x, &r, &of, sums);
    }
    if (sums.at != NULL && p->pieces == 1) {
        store_rows(sums, &p->call->out[0], key / x->K, 0, x->N, key % x->K);
        store_rows(row_from(sums, x->N), &p->call->out[1], key / x->K, 0, x->N, key % x->K);
    }
    v_flush_end(before);
}

/* Adds and stores the sums of all pieces for some rows. For each key head: the rows of q of all tokens, then of k. */
static void add_pieces(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const grad_plan *p = context;
    const views *x = &p->x;
    for (int64_t row = first; row < last; row++) {
        const int64_t key = row / (2 * x->N), token = row % (2 * x->N);
        const rows sum = row_from(sums_at(p, key * p->pieces), token);
        LS_ASSERT(sum.at != NULL);
        for (int64_t i = 1; i < p->pieces; i++)
            add_rows_of(sum, 1, row_from(sums_at(p, key * p->pieces + i), token), 1);
        store_rows(sum, &p->call->out[token < x->N ? 0 : 1], key / x->K, token % x->N, 1, key % x->K);
    }
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    enum { LEAST = 256 }; /* rows of a part */
    grad_plan p = make_plan(call);
    LS_ASSERT(call->workspace != NULL);
    ls_pool_run(pool, (int)(p.keys * p.pieces), piece_back, &p);
    const int64_t rows_of_keys = 2 * p.keys * p.x.N;
    if (p.pieces > 1)
        ls_cpu_split(pool, rows_of_keys, ls_cpu_parts(rows_of_keys, LEAST, call->threads), add_pieces, &p);
}

const ls_kernel LS_CPU_NAME(linear_recurrence_grad) = {.id = LS_KERNEL_LINEAR_RECURRENCE_GRAD,
                                                       LS_CPU_VARIANT,
                                                       .workspace = grad_workspace,
                                                       .prepare = grad_prepare,
                                                       .run = grad_run};
