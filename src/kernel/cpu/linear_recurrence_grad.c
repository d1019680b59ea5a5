/*
 * linear_recurrence_grad by chunks, the last first, after a pass that keeps the states in front of them;
 * linear_recurrence_back: what some tokens make of the gradient of any state behind them. Gradients of q and k are sums
 * over the heads that share a key head, so that threads split these.
 */
#include "kernel/cpu/linear_recurrence.h"

typedef struct grad_room {
    chunk c;
    rows S, dS, turned_S;
    rows written, grad_o, turned_written;
    rows z;        /* gradients of U and W, and of what they are solved from */
    rows turned_x; /* [U | W] transposed */
    rows scores;   /* gradients of P or of T */
    rows dq, dk, dk_left, dqe, dkf, dsum;
    rows some; /* decays of elements: a factored part */
    float *last;
    rows kept; /* [D] rows each: states in front of chunks that have one */
    int32_t *ends;
    rows sum_q, sum_k; /* over the heads, of all tokens */
} grad_room;

static views grad_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .v = &call->in[2],
                         .decay = &call->in[3],
                         .beta = &call->in[4],
                         .places = &call->in[5],
                         .grad_o = &call->in[6]},
                 call);
}

static grad_room take_grad(const views *x, room *at) {
    const int64_t solved = solved_width(x);
    grad_room r = {.c = take_chunk(x, at), .S = take(at, x->D, x->LE), .dS = take(at, x->D, x->LE)};
    r.turned_S = take(at, x->LE, x->LD);
    r.written = take(at, CHUNK, x->LE);
    r.grad_o = take(at, CHUNK, x->LE);
    r.turned_written = take(at, x->LE, CHUNK);
    r.z = take(at, CHUNK, solved);
    r.turned_x = take(at, solved, CHUNK);
    r.scores = take(at, CHUNK, CHUNK);
    r.dq = take(at, CHUNK, x->LD);
    r.dk = take(at, CHUNK, x->LD);
    r.dk_left = take(at, CHUNK, x->LD);
    r.dqe = take(at, CHUNK, x->LD);
    r.dkf = take(at, CHUNK, x->LD);
    r.dsum = take(at, CHUNK, x->LD);
    r.some = take(at, CHUNK, x->LD);
    r.last = take(at, 1, x->LD).at;
    r.kept = take(at, (ls_ceil_div(x->N, CHUNK) + 1) * x->D, x->LE);
    r.ends = (int32_t *)take(at, 1, whole_vectors(x->N + 1)).at;
    r.sum_q = take(at, x->N, x->LD);
    r.sum_k = take(at, x->N, x->LD);
    return r;
}

static int64_t grad_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_grad(x, &at);
    return at.used;
}

static size_t grad_workspace(const ls_kernel_call *call) {
    const views x = grad_views(call);
    return (size_t)(lr_parts(x.B * x.K, call->threads) * grad_elements(&x)) * sizeof(float);
}

static ls_status grad_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_GRAD, call, state);
}

/* --- small sums --------------------------------------------------------------------------------------------------- */

/* to_i += sign a_i b_i, element by element. */
static void add_products(rows to, float sign, rows a, rows b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < to.width; d += V_LANES) {
            float *at = to.at + i * to.width + d;
            const v_f32 more = load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d);
            v_store_f32(at, load_whole(at) + v_set(sign) * more, V_LANES);
        }
}

static void add_rows_of(rows to, rows from, int64_t n) {
    for (int64_t i = 0; i < n; i++) subtract(to.at + i * to.width, -1, from.at + i * from.width, to.width);
}

/* The sum over `width` elements of a_i b_i. */
static float dot(rows a, rows b, int64_t i, int64_t width) {
    v_f32 sum = v_set(0.0f);
    for (int64_t d = 0; d < width; d += V_LANES)
        sum += load_whole(a.at + i * a.width + d) * load_whole(b.at + i * b.width + d);
    return v_sum_lanes(sum);
}

/* --- through the scores ------------------------------------------------------------------------------------------- */

/* scores = a b^T, of which b is given transposed; 0 above the diagonal and, if strict, on it. */
static void find_scores_gradient(const chunk *c, rows scores, rows a, rows turned_b, int64_t depth, bool strict) {
    for (int64_t i = 0; i < c->n; i += PART) {
        const int64_t past = ls_min(i + PART, c->n);
        product(row_from(scores, i), past - i, whole_vectors(past), as_it_is(row_from(a, i)), turned_b, depth, PUT);
        for (int64_t r = i; r < past; r++)
            for (int64_t j = r + (strict ? 0 : 1); j < CHUNK; j++) scores.at[r * CHUNK + j] = 0;
    }
}

/* Of decays of elements: tokens i of one part with tokens j of the same one. */
static void back_within(const chunk *c, rows scores, rows of, int64_t first, int64_t past, rows d_of, rows d_k) {
    for (int64_t d = 0; d < of.width; d += V_LANES) {
        for (int64_t i = first; i < past; i++) {
            const v_f32 at = load_whole(of.at + i * of.width + d);
            v_f32 between = v_set(0.0f), sum = load_whole(d_of.at + i * of.width + d);
            for (int64_t j = i; j >= first; j--) {
                const v_f32 factor = v_set(scores.at[i * CHUNK + j]) * v_exp(between);
                float *to = d_k.at + j * of.width + d;
                sum += factor * load_whole(c->k.at + j * of.width + d);
                v_store_f32(to, load_whole(to) + factor * at, V_LANES);
                between += load_whole(c->g.at + j * of.width + d);
            }
            v_store_f32(d_of.at + i * of.width + d, sum, V_LANES);
        }
    }
}

/* The gradients of `of` and k of the scores sum over d of of_id k_jd D_ijd are added; r->scores has theirs. */
static void scores_back(const views *x, grad_room *r, rows of, rows d_of, rows d_k) {
    const chunk *c = &r->c;
    if (!x->by_element) {
        multiply(r->scores, r->scores, c->D, c->n);
        lower_product(d_of, c->n, x->LD, r->scores, c->k);
        upper_product(d_k, c->n, x->LD, r->scores, of);
        return;
    }
    for (int64_t i = 0; i < c->n; i += PART) {
        const int64_t past = ls_min(i + PART, c->n), n = past - i;
        if (i > 0) {
            const rows scores = row_from(r->scores, i);
            decay_until(c, c->some_k, c->k, i);
            product(r->some, n, x->LD, as_it_is(scores), c->some_k, i, PUT);
            decay_from(c, r->some, r->some, i, n);
            add_rows_of(row_from(d_of, i), r->some, n);
            decay_from(c, c->some_x, row_from(of, i), i, n);
            product(r->some, i, x->LD, turned(scores), c->some_x, n, PUT);
            decay_until(c, r->some, r->some, i);
            add_rows_of(d_k, r->some, i);
        }
        back_within(c, r->scores, of, i, past, d_of, d_k);
    }
}

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

/* last[d] = the sum over e of S dS: the gradient of what the state in front is multiplied by. */
static void find_last(const views *x, grad_room *r) {
    for (int64_t d = 0; d < x->D; d++) r->last[d] = dot(r->S, r->dS, d, x->LE);
}

/* dS becomes the gradient of the state in front of the chunk, where dV' is what z has in front. */
static void retreat(const views *x, const chunk *c, rows dS, rows grad_o, rows z) {
    decay_state(x, c, dS);
    product(dS, x->D, dS.width, turned(c->qe), grad_o, c->n, PLUS);
    if (x->delta) product(dS, x->D, dS.width, turned(column_from(c->x, x->LE)), z, c->n, MINUS);
}

/* dV' of columns from 0 on: P^T dO + (k f) dS. */
static void find_written_gradient(const views *x, const chunk *c, rows dS, rows grad_o, rows z, bool scores) {
    product(z, c->n, dS.width, as_it_is(c->kf), dS, x->D, PUT);
    if (scores) upper_product(z, c->n, x->LE, c->P, grad_o);
}

/* Through P, Q e and K f; dsum: of the sums of decays up to each token. */
static void through_state(const views *x, grad_room *r) {
    const chunk *c = &r->c;
    turn(r->turned_written, r->written, c->n, x->LE);
    find_scores_gradient(c, r->scores, r->grad_o, r->turned_written, x->E, false);
    clear(r->dq, c->n);
    clear(r->dk, c->n);
    clear(r->dsum, c->n);
    scores_back(x, r, c->q, r->dq, r->dk);
    add_products(r->dsum, 1, c->q, r->dq, c->n);
    turn(r->turned_S, r->S, x->D, x->LE);
    product(r->dqe, c->n, x->LD, as_it_is(r->grad_o), r->turned_S, x->E, PUT);
    if (x->delta) {
        const rows dW = column_from(r->z, x->LE);
        for (int64_t i = 0; i < c->n; i++) fill_row((rows){dW.at + i * dW.width, x->LD}, 0, 0);
        product(dW, c->n, x->LD, as_it_is(r->z), r->turned_S, x->E, MINUS);
    }
    turn(r->turned_S, r->dS, x->D, x->LE);
    product(r->dkf, c->n, x->LD, as_it_is(r->written), r->turned_S, x->E, PUT);
}

static void store_gate(const ls_view *to, int64_t b, int64_t n, int64_t h, float value) {
    if (to->size[3] > 0) ((float *)to->data)[place_of(to, b, n, h)] = value;
}

/* Through the values and, of a delta rule, through (I + T) X = [beta V | beta K e]: dv, dbeta and more of dk. */
static void through_write(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const chunk *c = &r->c;
    const rows yw = column_from(r->z, x->LE);
    if (x->delta) {
        solve_turned(c->T, r->z, c->n);
        turn(r->turned_x, c->x, c->n, c->x.width);
        find_scores_gradient(c, r->scores, r->z, r->turned_x, c->x.width, true);
        for (int64_t i = 0; i < c->n; i++) { /* the gradient of T is that of -(I + T)^-1 */
            float *row = r->scores.at + i * CHUNK;
            const float sum = -dot(r->scores, c->A, i, CHUNK) + dot(r->z, c->v, i, x->LE) + dot(yw, c->ke, i, x->LD);
            store_gate(&call->out[4], b, c->first + i, h, sum);
            for (int64_t j = 0; j < CHUNK; j += V_LANES)
                v_store_f32(row + j, v_set(-c->beta[i]) * load_whole(row + j), V_LANES);
        }
        clear(r->dk_left, c->n);
        scores_back(x, r, c->k, r->dk_left, r->dk);
        add_products(r->dsum, 1, c->k, r->dk_left, c->n);
        add_products(r->dsum, -1, c->k, r->dk, c->n);
        add_rows_of(r->dk, r->dk_left, c->n);
        for (int64_t i = 0; i < c->n; i++) {
            const rows row = {yw.at + i * yw.width, x->LD};
            scale_rows(row, row, c->beta + i, 1, x->LD);
            add_products(row_from(r->dk, i), 1, row, row_from(c->e, i), 1);
            add_products(row_from(r->dsum, i), 1, row, row_from(c->ke, i), 1);
        }
    } else {
        for (int64_t i = 0; i < c->n; i++) store_gate(&call->out[4], b, c->first + i, h, dot(r->z, c->v, i, x->LE));
        add_products(r->dsum, -1, c->k, r->dk, c->n);
    }
    scale_rows(r->written, r->z, c->beta, c->n, x->LE);
    store_rows(r->written, &call->out[2], b, c->first, c->n, h);
}

/* Through e, f and `last`, which end the gradients of q, k and the decays. */
static void through_decays(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const chunk *c = &r->c;
    const ls_view *to = &call->out[3];
    add_products(r->dq, 1, r->dqe, c->e, c->n);
    add_products(r->dsum, 1, r->dqe, c->qe, c->n);
    add_products(r->dk, 1, r->dkf, c->f, c->n);
    add_rows_of(row_from(r->sum_q, c->first), r->dq, c->n);
    add_rows_of(row_from(r->sum_k, c->first), r->dk, c->n);
    multiply(r->dkf, r->dkf, c->kf, c->n);
    for (int64_t i = 0; i < c->n; i++) {
        subtract(r->dsum.at + i * x->LD, 1, r->dkf.at + i * x->LD, x->LD);
        subtract(r->dsum.at + (c->n - 1) * x->LD, -1, r->dkf.at + i * x->LD, x->LD);
    }
    for (int64_t d = 0; d < x->D; d++) r->dsum.at[(c->n - 1) * x->LD + d] += r->last[d] * c->last[d];
    for (int64_t i = c->n - 2; i >= 0; i--) subtract(r->dsum.at + i * x->LD, -1, r->dsum.at + (i + 1) * x->LD, x->LD);
    if (c->fresh) fill_row(r->dsum, 0, 0); /* what it multiplies is 0 */
    for (int64_t i = 0; i < c->n && to->size[3] > 0; i++) {
        float *at = (float *)to->data + place_of(to, b, c->first + i, h);
        const float *from = r->dsum.at + i * x->LD;
        v_f32 sum = v_set(0.0f);
        for (int64_t d = 0; d < x->LD; d += V_LANES) {
            sum += load_whole(from + d);
            if (x->by_element) v_store_f32(at + d, load_whole(from + d), x->D - d);
        }
        if (!x->by_element) *at = v_sum_lanes(sum);
    }
}

/* --- a head ------------------------------------------------------------------------------------------------------- */

/* The states in front of all chunks that have one are kept, and where chunks end; returns how many chunks there are. */
static int64_t keep_states(const views *x, grad_room *r, int64_t b, int64_t h) {
    int64_t n = 0, kept = 0;
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, b, first);
        r->ends[n++] = (int32_t)end;
        make_chunk(x, &r->c, b, h, first, end);
        if (r->c.fresh)
            clear(r->S, x->D);
        else
            memcpy(row_from(r->kept, kept++ * x->D).at, r->S.at, (size_t)(x->D * x->LE) * sizeof(float));
        find_written(x, &r->c, r->S, r->written);
        advance(x, &r->c, r->S, r->written);
    }
    return n;
}

static void head_back(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    const int64_t n = keep_states(x, r, b, h);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) kept += !begins(x, b, i > 0 ? r->ends[i - 1] : 0);
    for (int64_t i = n - 1; i >= 0; i--) {
        make_chunk(x, &r->c, b, h, i > 0 ? r->ends[i - 1] : 0, r->ends[i]);
        if (r->c.fresh)
            clear(r->S, x->D);
        else
            memcpy(r->S.at, row_from(r->kept, --kept * x->D).at, (size_t)(x->D * x->LE) * sizeof(float));
        load_rows(r->grad_o, x->grad_o, b, r->c.first, r->c.n, h);
        find_written(x, &r->c, r->S, r->written);
        find_written_gradient(x, &r->c, r->dS, r->grad_o, r->z, true);
        find_last(x, r);
        through_state(x, r);
        retreat(x, &r->c, r->dS, r->grad_o, r->z);
        if (r->c.fresh) clear(r->dS, x->D);
        through_write(call, x, r, b, h);
        through_decays(call, x, r, b, h);
    }
}

/* All tokens have read, and all have written, the same state. */
static void head_back_unmasked(const ls_kernel_call *call, const views *x, grad_room *r, int64_t b, int64_t h) {
    chunk *c = &r->c;
    for (int64_t first = 0; first < x->N; first += CHUNK) {
        make_chunk(x, c, b, h, first, ls_min(x->N, first + CHUNK));
        load_rows(r->grad_o, x->grad_o, b, first, c->n, h);
        turn(r->turned_S, r->S, x->D, x->LE);
        product(r->dq, c->n, x->LD, as_it_is(r->grad_o), r->turned_S, x->E, PUT);
        turn(r->turned_S, r->dS, x->D, x->LE);
        product(r->dk, c->n, x->LD, as_it_is(c->x), r->turned_S, x->E, PUT);
        product(r->z, c->n, x->LE, as_it_is(c->k), r->dS, x->D, PUT);
        add_rows_of(row_from(r->sum_q, first), r->dq, c->n);
        add_rows_of(row_from(r->sum_k, first), r->dk, c->n);
        for (int64_t i = 0; i < c->n; i++) store_gate(&call->out[4], b, first + i, h, dot(r->z, c->v, i, x->LE));
        scale_rows(r->written, r->z, c->beta, c->n, x->LE);
        store_rows(r->written, &call->out[2], b, first, c->n, h);
    }
}

/* Key heads, numbered over the batch. */
static void grad_part(const void *context, int part, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const views x = grad_views(call);
    const int64_t group = x.H / x.K, size = x.D * x.E;
    room at = room_of_part(call, part, grad_elements(&x));
    grad_room r = take_grad(&x, &at);
    for (int64_t i = first; i < last; i++) {
        const int64_t b = i / x.K, key = i % x.K;
        clear(r.sum_q, x.N);
        clear(r.sum_k, x.N);
        for (int64_t h = key * group; h < (key + 1) * group; h++) {
            float *dstate = (float *)call->out[5].data + (b * x.H + h) * size;
            load_dense(r.S, (const float *)call->in[7].data + (b * x.H + h) * size, x.D, x.E);
            load_dense(r.dS, dstate, x.D, x.E);
            (x.unmasked ? head_back_unmasked : head_back)(call, &x, &r, b, h);
            store_dense(r.dS, dstate, x.D, x.E);
        }
        store_rows(r.sum_q, &call->out[0], b, 0, x.N, key);
        store_rows(r.sum_k, &call->out[1], b, 0, x.N, key);
    }
}

static void grad_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = grad_views(call);
    ls_cpu_split(pool, x.B * x.K, lr_parts(x.B * x.K, call->threads), grad_part, call);
}

/* --- maps of gradients -------------------------------------------------------------------------------------------- */

static views back_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .decay = &call->in[2],
                         .beta = &call->in[3],
                         .places = &call->in[4],
                         .grad_o = &call->in[5]},
                 call);
}

/* dS: [dS | M^T], or dS where M is a diagonal, which `factor` has. */
typedef struct back_room {
    chunk c;
    rows dS, z, grad_o;
    float *factor;
    int32_t *ends;
} back_room;

static back_room take_back(const views *x, room *at) {
    back_room r = {.c = take_chunk(x, at),
                   .dS = take(at, x->D, solved_width(x)),
                   .z = take(at, CHUNK, solved_width(x)),
                   .grad_o = take(at, CHUNK, solved_width(x)),
                   .factor = take(at, 1, x->LD).at};
    r.ends = (int32_t *)take(at, 1, whole_vectors(x->N + 1)).at;
    return r;
}

static int64_t back_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_back(x, &at);
    return at.used;
}

static size_t back_workspace(const ls_kernel_call *call) {
    const views x = back_views(call);
    return (size_t)(lr_parts(x.B * x.H, call->threads) * back_elements(&x)) * sizeof(float);
}

static ls_status back_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_BACK, call, state);
}

static void head_back_map(const views *x, back_room *r, int64_t b, int64_t h) {
    int64_t n = 0;
    for (int64_t first = 0; first < x->N; first = r->ends[n++]) r->ends[n] = (int32_t)chunk_end(x, b, first);
    clear(r->dS, x->D);
    clear(r->grad_o, CHUNK);
    for (int64_t d = 0; d < x->D && x->delta; d++) r->dS.at[d * r->dS.width + x->LE + d] = 1;
    for (int64_t d = 0; d < x->LD; d++) r->factor[d] = 1;
    for (int64_t i = n - 1; i >= 0; i--) {
        make_chunk(x, &r->c, b, h, i > 0 ? r->ends[i - 1] : 0, r->ends[i]);
        for (int64_t t = 0; t < r->c.n; t++)
            load_rows((rows){r->grad_o.at + t * r->grad_o.width, x->LE}, x->grad_o, b, r->c.first + t, 1, h);
        if (x->delta) find_written_gradient(x, &r->c, r->dS, r->grad_o, r->z, true);
        retreat(x, &r->c, r->dS, r->grad_o, r->z);
        if (r->c.fresh) clear(r->dS, x->D);
        for (int64_t d = 0; d < x->LD; d++) r->factor[d] *= r->c.fresh ? 0 : r->c.last[d];
    }
}

static void back_part(const void *context, int part, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const views x = back_views(call);
    room at = room_of_part(call, part, back_elements(&x));
    back_room r = take_back(&x, &at);
    const int64_t size = call->out[0].size[2], factors = size - x.D * x.E;
    for (int64_t i = first; i < last; i++) {
        float *map = (float *)call->out[0].data + i * size, *M = map + x.D * x.E;
        head_back_map(&x, &r, i / x.H, i % x.H);
        store_dense(r.dS, map, x.D, x.E);
        if (x.delta)
            for (int64_t m = 0; m < factors; m++) M[m] = r.dS.at[m % x.D * r.dS.width + x.LE + m / x.D];
        else
            memcpy(M, r.factor, (size_t)factors * sizeof(float));
    }
}

static void back_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = back_views(call);
    ls_cpu_split(pool, x.B * x.H, lr_parts(x.B * x.H, call->threads), back_part, call);
}

const ls_kernel LS_CPU_NAME(linear_recurrence_grad) = {.id = LS_KERNEL_LINEAR_RECURRENCE_GRAD,
                                                       LS_CPU_VARIANT,
                                                       .workspace = grad_workspace,
                                                       .prepare = grad_prepare,
                                                       .run = grad_run};
const ls_kernel LS_CPU_NAME(linear_recurrence_back) = {.id = LS_KERNEL_LINEAR_RECURRENCE_BACK,
                                                       LS_CPU_VARIANT,
                                                       .workspace = back_workspace,
                                                       .prepare = back_prepare,
                                                       .run = back_run};
