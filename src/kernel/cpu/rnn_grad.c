/*
 * rnn_grad: from the last token to the first. Since the results are known, w = R y of many tokens is one product. Cells
 * whose state is more than y recompute the rest for one segment of tokens at a time, from the kept states in front of
 * segments. The gradient of R is also one product per segment, so only the path of the gradient from y to the previous
 * y is computed token by token.
 */
#include "kernel/cpu/register_block.h"
#include "kernel/cpu/rnn_strands.h"

#include <string.h>

enum { SEGMENT = 32 };

/* --- with matrices ------------------------------------------------------------------------------------------------ */

/* Memory of a head. The rows of a segment are its tokens, and for each token the sequences. */
typedef struct rooms {
    float *panels, *turned; /* R in the form for w = R y, and for the gradient of y */
    float *starts;          /* [segments][B][size]: states in front of the segments */
    float *states;          /* [SEGMENT + 1][B][size] */
    float *w, *dw;          /* [SEGMENT][B][rows rounded up to whole panels] */
    float *d, *dy;          /* [B][size], [B][D rounded up to whole panels] */
} rooms;

static int64_t segments_of(const rnn_call *r) { return ls_ceil_div(r->N, SEGMENT); }

enum { BEHIND = VECTOR_COLUMNS * V_LANES }; /* floats after states and dw that are read and not used */

static rooms rooms_at(const rnn_call *r, float *at) {
    const int64_t width = whole_panels(r->rows);
    rooms m;
    m.panels = at;
    m.turned = m.panels + r->D * width;
    m.starts = m.turned + r->rows * whole_panels(r->D);
    m.states = m.starts + segments_of(r) * r->B * r->size;
    m.w = m.states + (SEGMENT + 1) * r->B * r->size + BEHIND;
    m.dw = m.w + SEGMENT * r->B * width;
    m.d = m.dw + SEGMENT * r->B * width + BEHIND;
    m.dy = m.d + r->B * r->size;
    return m;
}

static int64_t room_of(const rnn_call *r) {
    const int64_t width = whole_panels(r->rows), columns = whole_panels(r->D);
    return r->D * width + r->rows * columns + (segments_of(r) + SEGMENT + 2) * r->B * r->size +
           2 * (SEGMENT * r->B * width + BEHIND) + r->B * columns;
}

static void pack_turned(const rnn_call *r, int64_t h, float *panels) {
    const element *weight = (const element *)r->weight->data + h * r->rows * r->D;
    for (int64_t d = 0; d < whole_panels(r->D); d++)
        for (int64_t row = 0; row < r->rows; row++)
            panels[in_panels(r->rows, row, d)] = d < r->D ? element_to_f32(weight[row * r->D + d]) : 0.0f;
}

/*
 * Computes w of a segment, from the y of the token before each of its tokens; this y is 0 at the beginning of a
 * document.
 */
static void make_w(const rnn_call *r, const rooms *m, int64_t h, int64_t first, int64_t count) {
    const int64_t width = whole_panels(r->rows);
    for (int64_t t = 0; t < count; t++) {
        for (int64_t b = 0; b < r->B; b++) {
            float *y = m->states + (t * r->B + b) * r->size;
            for (int64_t d = 0; d < r->D && t > 0; d += V_LANES)
                v_store_f32(y + d, v_load(rnn_at(r->y, b, first + t - 1, h) + d, r->D - d), V_LANES);
            if (rnn_begins(r, b, first + t)) memset(y, 0, (size_t)r->wide * sizeof *y);
        }
    }
    begin_rows(r, h, count * r->B, m->w);
    add_products(count * r->B, m->states, r->size, r->D, m->panels, width, m->w, width);
}

/*
 * Computes the states in front of each token of a segment, and behind the last, from the states in front of the first.
 */
static void make_states(const rnn_call *r, const rooms *m, int64_t h, int64_t first, int64_t count) {
    const int64_t width = whole_panels(r->rows), all = r->B * r->size;
    memcpy(m->states, m->starts + first / SEGMENT * all, (size_t)all * sizeof *m->states);
    make_w(r, m, h, first, count);
    for (int64_t i = 0; i < count * r->B; i++) {
        const int64_t b = i % r->B, n = first + i / r->B;
        float *state = m->states + i * r->size, *next = state + all;
        if (rnn_begins(r, b, n)) memset(state, 0, (size_t)r->size * sizeof *state);
        for (int64_t d = 0; d < r->D; d += V_LANES) {
            v_f32 x[RNN_MOST_GATES], w[RNN_MOST_GATES], before[RNN_MOST_STATES], after[RNN_MOST_STATES];
            rnn_load_x(r, b, n, h, d, x);
            rnn_load_w(r, m->w + i * width, d, w);
            for (int s = 0; s < r->cell->states; s++) before[s] = v_load_f32(state + s * r->wide + d, V_LANES);
            r->cell->step(x, w, before, after);
            for (int s = 1; s < r->cell->states; s++) v_store_f32(next + s * r->wide + d, after[s], V_LANES);
        }
    }
    for (int64_t b = 0; b < r->B; b++) {
        float *y = m->states + (count * r->B + b) * r->size;
        for (int64_t d = 0; d < r->D; d += V_LANES)
            v_store_f32(y + d, v_load(rnn_at(r->y, b, first + count - 1, h) + d, r->D - d), V_LANES);
    }
}

/* d, the gradient of the state behind a token, becomes that of the state in front of it, without the part through w. */
static void back_token(const rnn_call *r, const ls_kernel_call *call, const rooms *m, int64_t i, int64_t n, int64_t h) {
    const int64_t b = i % r->B, width = whole_panels(r->rows);
    const float *state = m->states + i * r->size, *w = m->w + i * width;
    float *of = m->d + b * r->size, *dw = m->dw + i * width;
    memset(dw + r->rows, 0, (size_t)(width - r->rows) * sizeof *dw);
    for (int64_t d = 0; d < r->D; d += V_LANES) {
        v_f32 x[RNN_MOST_GATES], of_w[RNN_MOST_GATES], before[RNN_MOST_STATES], after[RNN_MOST_STATES];
        v_f32 dx[RNN_MOST_GATES], d_of_w[RNN_MOST_GATES], dbefore[RNN_MOST_STATES];
        rnn_load_x(r, b, n, h, d, x);
        rnn_load_w(r, w, d, of_w);
        for (int s = 0; s < r->cell->states; s++) {
            before[s] = v_load_f32(state + s * r->wide + d, V_LANES);
            after[s] = v_load_f32(of + s * r->wide + d, V_LANES);
        }
        after[0] += v_load(rnn_at(&call->in[5], b, n, h) + d, r->D - d);
        r->cell->back(x, of_w, before, after, dx, d_of_w, dbefore);
        for (int g = 0; g < r->cell->gates; g++) {
            v_store(rnn_at(&call->out[0], b, n, h) + g * r->D + d, dx[g], r->D - d);
            v_store_f32(dw + g * r->D + d, d_of_w[g], r->D - d);
        }
        for (int s = 0; s < r->cell->states; s++) v_store_f32(of + s * r->wide + d, dbefore[s], V_LANES);
    }
}

/* The same for all sequences, with the part through w; in front of the first token of a document the gradient is 0. */
static void back_tokens(const rnn_call *r, const ls_kernel_call *call, const rooms *m, int64_t t, int64_t n,
                        int64_t h) {
    const int64_t width = whole_panels(r->rows), columns = whole_panels(r->D);
    for (int64_t b = 0; b < r->B; b++) back_token(r, call, m, t * r->B + b, n, h);
    memset(m->dy, 0, (size_t)(r->B * columns) * sizeof *m->dy);
    add_products(r->B, m->dw + t * r->B * width, width, r->rows, m->turned, columns, m->dy, columns);
    for (int64_t b = 0; b < r->B; b++) {
        float *of = m->d + b * r->size;
        for (int64_t d = 0; d < r->D; d++) of[d] += m->dy[b * columns + d];
        if (rnn_begins(r, b, n)) memset(of, 0, (size_t)r->size * sizeof *of);
    }
}

/* dR += the sum over a segment's rows of dw y^T; gradient of the biases += the sum of dw. */
static void add_weight(const rnn_call *r, const rooms *m, int64_t rows, float *dweight, float *dbias) {
    const int64_t width = whole_panels(r->rows);
    for (int64_t row = 0; row < r->rows; row += VECTOR_ROWS) {
        for (int64_t d = 0; d < r->D; d += VECTOR_COLUMNS * V_LANES) {
            v_f32 sum[VECTOR_ROWS][VECTOR_COLUMNS];
            vector_sums(sum, VECTOR_COLUMNS, rows, m->dw + row, 1, width, m->states + d, r->size, NULL);
            for (int i = 0; i < VECTOR_ROWS && row + i < r->rows; i++) {
                float *at = dweight + (row + i) * r->D + d;
                for (int j = 0; j < VECTOR_COLUMNS && d + j * V_LANES < r->D; j++) {
                    const int64_t count = r->D - d - j * V_LANES;
                    v_store_f32(at + j * V_LANES, v_load_f32(at + j * V_LANES, count) + sum[i][j], count);
                }
            }
        }
    }
    for (int64_t row = 0; row < r->rows && r->bias->size[1] > 0; row++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += (double)m->dw[i * width + row];
        dbias[row] += (float)sum;
    }
}

/* Computes the states in front of all segments. If y is the whole state, they are results. */
static void make_starts(const rnn_call *r, const rooms *m, const float *front, int64_t h) {
    const int64_t all = r->B * r->size;
    memset(m->starts, 0, (size_t)(segments_of(r) * all) * sizeof *m->starts);
    for (int64_t b = 0; b < r->B && r->N > 0; b++)
        for (int s = 0; s < r->cell->states; s++)
            memcpy(m->starts + b * r->size + s * r->wide, front + ((b * r->H + h) * r->cell->states + s) * r->D,
                   (size_t)r->D * sizeof *front);
    for (int64_t first = SEGMENT; first < r->N; first += SEGMENT) {
        float *start = m->starts + first / SEGMENT * all;
        if (r->cell->states > 1) {
            make_states(r, m, h, first - SEGMENT, SEGMENT);
            memcpy(start, m->states + SEGMENT * all, (size_t)all * sizeof *start);
        }
        for (int64_t b = 0; b < r->B && r->cell->states == 1; b++)
            for (int64_t d = 0; d < r->D; d += V_LANES)
                v_store_f32(start + b * r->size + d, v_load(rnn_at(r->y, b, first - 1, h) + d, r->D - d), V_LANES);
    }
}

static void copy_states(const rnn_call *r, int64_t h, float *wide, float *dense, bool back) {
    for (int64_t i = 0; i < r->B * r->cell->states; i++) {
        const int64_t b = i / r->cell->states, s = i % r->cell->states;
        float *w = wide + b * r->size + s * r->wide, *d = dense + ((b * r->H + h) * r->cell->states + s) * r->D;
        memcpy(back ? d : w, back ? w : d, (size_t)r->D * sizeof *w);
    }
}

static void heads_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const rnn_call r = rnn_call_of(call, &call->in[4]);
    for (int64_t h = start; h < end; h++) {
        const rooms m = rooms_at(&r, (float *)call->workspace + h * room_of(&r));
        pack_for_rows(&r, h, m.panels);
        pack_turned(&r, h, m.turned);
        make_starts(&r, &m, call->in[6].data, h);
        memset(m.d, 0, (size_t)(r.B * r.size) * sizeof *m.d);
        copy_states(&r, h, m.d, call->out[3].data, false);
        for (int64_t s = segments_of(&r) - 1; s >= 0; s--) {
            const int64_t first = s * SEGMENT, count = ls_min(SEGMENT, r.N - first);
            make_states(&r, &m, h, first, count);
            for (int64_t t = count - 1; t >= 0; t--) back_tokens(&r, call, &m, t, first + t, h);
            add_weight(&r, &m, count * r.B, (float *)call->out[1].data + h * r.rows * r.D,
                       (float *)call->out[2].data + h * r.rows);
        }
        copy_states(&r, h, m.d, call->out[3].data, true);
    }
}

/* --- diagonal ----------------------------------------------------------------------------------------------------- */

/* The cell's state in front of token n; y is the result of the previous token, which has been rounded. */
V_INLINE void load_before(const rnn_common *c, const strand *s, int64_t n, v_f32 *before) {
    const int kept = c->cell->states - 1;
    const bool first = begins(c, s, n);
    for (int i = 0; i <= kept; i++) {
        if (first)
            before[i] = v_set(0);
        else if (n == 0)
            before[i] = s->front[i];
        else if (i == 0)
            before[i] = v_load(s->y + (n - 1) * c->of_y, lanes(c, s));
        else
            before[i] = v_load_f32(s->kept + ((n - 1) * kept + i - 1) * V_LANES, V_LANES);
    }
}

/* Recomputes the cell's states other than y. */
V_INLINE void find(const rnn_common *c, strand *s, int64_t n) {
    const int kept = c->cell->states - 1;
    v_f32 x[RNN_MOST_GATES], before[RNN_MOST_STATES], after[RNN_MOST_STATES];
    load_before(c, s, n, before);
    for (int i = 0; i < kept && !begins(c, s, n); i++) before[i + 1] = s->state[i];
    load_x(c, s, n, x);
    c->cell->step(x, s->w, before, after);
    for (int i = 0; i < kept; i++) {
        v_store_f32(s->kept + (n * kept + i) * V_LANES, after[i + 1], V_LANES);
        s->state[i] = after[i + 1];
    }
}

V_INLINE void back(const rnn_common *c, strand *s, int64_t n) {
    v_f32 x[RNN_MOST_GATES], before[RNN_MOST_STATES], dbefore[RNN_MOST_STATES];
    v_f32 dx[RNN_MOST_GATES], dw[RNN_MOST_NUMBERS];
    load_before(c, s, n, before);
    load_x(c, s, n, x);
    s->state[0] += v_load(s->dy + n * c->of_dy, lanes(c, s));
    ask_for(s->dy, n + c->ahead, c->of_dy);
    ask_for(s->y, n + c->ahead, c->of_y);
    c->cell->back(x, s->w, before, s->state, dx, dw, dbefore);
    for (int g = 0; g < c->cell->gates; g++) {
        v_store(s->dx + n * c->of_dx + g * c->D, dx[g], lanes(c, s));
        ask_for(s->dx + g * c->D, n + c->ahead, c->of_dx);
    }
    for (int i = 0; i < c->cell->numbers; i++) s->sum[i] += dw[i];
    const bool first = begins(c, s, n);
    for (int i = 0; i < c->cell->states; i++) s->state[i] = first ? v_set(0) : dbefore[i];
}

#define GO(kind, name, gates, states, numbers) RNN_GO(kind, name, find) RNN_GO(kind, name, back)
#define FIND_ROW(kind, name, gates, states, numbers) [LS_RNN_##kind] = name##_go_find,
#define BACK_ROW(kind, name, gates, states, numbers) [LS_RNN_##kind] = name##_go_back,
LS_RNN_DIAGONAL_CELLS(GO)
static const rnn_go find_of[LS_RNN_KINDS] = {LS_RNN_DIAGONAL_CELLS(FIND_ROW)},
                    back_of[LS_RNN_KINDS] = {LS_RNN_DIAGONAL_CELLS(BACK_ROW)};

/*
 * Two passes, which use the same memory one after the other: a forward pass that recomputes the states other than y, if
 * there are any, then the backward pass.
 */
typedef struct passes {
    rnn_strands find, back;
    int64_t kept; /* floats of these states, which come before the shared memory */
} passes;

enum { TURNS_BACK = 2 };

static passes passes_of(const rnn_call *r, const ls_kernel_call *call) {
    const int more = r->cell->states - 1;
    const float *front = call->in[6].data;
    float *kept = more > 0 ? call->workspace : NULL, *d = call->out[3].data;
    passes p = {
        .find = {.call = r, .go = find_of, .skipped = 1, .states = more, .before = front, .front = front, .kept = kept},
        .back = {.call = r,
                 .go = back_of,
                 .dy = &call->in[5],
                 .dx = &call->out[0],
                 .backwards = true,
                 .states = r->cell->states,
                 .sums = r->cell->numbers,
                 .before = d,
                 .after = d,
                 .front = front,
                 .kept = kept}};
    rnn_strands_cut(&p.find, RNN_TOGETHER, call->threads);
    rnn_strands_cut(&p.back, TURNS_BACK, call->threads);
    p.kept = p.back.vectors * r->N * more * V_LANES;
    return p;
}

typedef struct numbers_work {
    const rnn_strands *all;
    float *dweight; /* [H,W,D] */
} numbers_work;

/* Vectors start .. end - 1 of the elements of all heads: adds the sums over sequences and stretches. */
static void numbers_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const numbers_work *work = context;
    const rnn_strands *all = work->all;
    const rnn_call *r = all->call;
    const int64_t blocks = r->wide / V_LANES, of_sequence = r->H * blocks;
    for (int64_t i = start; i < end; i++) {
        v_f32 sum[RNN_MOST_NUMBERS] = {{0}};
        for (int64_t p = 0; p < r->B * all->pieces; p++) {
            const int64_t of = p % all->pieces * all->vectors + p / all->pieces * of_sequence + i;
            const float *at = all->sums_of + of * all->stretches * all->sums * V_LANES;
            for (int64_t m = 0; m < all->stretches; m++)
                for (int k = 0; k < all->sums; k++) sum[k] += v_load_f32(at + (m * all->sums + k) * V_LANES, V_LANES);
        }
        const int64_t h = i / blocks, d = i % blocks * V_LANES;
        float *dweight = work->dweight + h * r->rows * r->D + d;
        for (int k = 0; k < all->sums; k++)
            v_store_f32(dweight + k * r->D, v_load_f32(dweight + k * r->D, r->D - d) + sum[k], r->D - d);
    }
}

static void run_diagonal(const ls_kernel_call *call, const rnn_call *r, ls_pool *pool) {
    passes p = passes_of(r, call);
    float *room = (float *)call->workspace + p.kept;
    rnn_strands_place(&p.find, room);
    rnn_strands_place(&p.back, room);
    if (p.find.states > 0) rnn_strands_run(&p.find, call->threads, pool);
    rnn_strands_run(&p.back, call->threads, pool);
    const int64_t n = r->H * (r->wide / V_LANES);
    const numbers_work work = {&p.back, call->out[1].data};
    ls_cpu_split(pool, n, ls_cpu_parts(n, 1, call->threads), numbers_part, &work);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static size_t workspace(const ls_kernel_call *call) {
    const rnn_call r = rnn_call_of(call, &call->in[4]);
    if (r.cell->numbers == 0) return (size_t)(r.H * room_of(&r)) * sizeof(float);
    const passes p = passes_of(&r, call);
    return (size_t)(p.kept + ls_max(rnn_strands_room(&p.find), rnn_strands_room(&p.back))) * sizeof(float);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rnn_call r = rnn_call_of(call, &call->in[4]);
    if (r.cell->numbers > 0)
        run_diagonal(call, &r, pool);
    else
        ls_cpu_split(pool, r.H, ls_cpu_parts(r.H, 1, call->threads), heads_part, call);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_RNN_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(rnn_grad) = {
    .id = LS_KERNEL_RNN_GRAD, LS_CPU_VARIANT, .workspace = workspace, .prepare = prepare, .run = run};
