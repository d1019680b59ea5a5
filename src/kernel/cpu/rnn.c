/*
 * rnn: recurrent cells, token by token. Cells with matrices process all sequences of a head together, so that the
 * matrix, which stays in a cache near the core, is read once per token. Diagonal cells: rnn_strands.h.
 */
#include "kernel/cpu/rnn_strands.h"

#include <string.h>

/* Memory of a head with matrices. */
typedef struct rooms {
    float *panels, *states, *w;
} rooms;

static int64_t room_of(const rnn_call *r) {
    return r->D * whole_panels(r->rows) + r->B * (r->size + whole_panels(r->rows));
}

/* Copies a state [states][D] of the call to [states][wide], and back. */
static void load_state(const rnn_call *r, const float *from, float *to) {
    memset(to, 0, (size_t)r->size * sizeof *to);
    for (int s = 0; s < r->cell->states; s++) memcpy(to + s * r->wide, from + s * r->D, (size_t)r->D * sizeof *to);
}

static void store_state(const rnn_call *r, const float *from, float *to) {
    for (int s = 0; s < r->cell->states; s++) memcpy(to + s * r->D, from + s * r->wide, (size_t)r->D * sizeof *to);
}

/* --- with matrices ------------------------------------------------------------------------------------------------ */

/* Advances the state of a sequence by token n, from w = R y. */
static void step_token(const rnn_call *r, int64_t b, int64_t n, int64_t h, const float *w, float *state) {
    const bool leaves = rnn_leaves_state(r, b, n);
    for (int64_t d = 0; d < r->D; d += V_LANES) {
        v_f32 x[RNN_MOST_GATES], of_w[RNN_MOST_GATES], before[RNN_MOST_STATES], after[RNN_MOST_STATES];
        rnn_load_x(r, b, n, h, d, x);
        rnn_load_w(r, w, d, of_w);
        for (int s = 0; s < r->cell->states; s++) before[s] = v_load_f32(state + s * r->wide + d, V_LANES);
        r->cell->step(x, of_w, before, after);
        v_store(rnn_at(r->y, b, n, h) + d, after[0], r->D - d);
        for (int s = 0; s < r->cell->states && !leaves; s++) v_store_f32(state + s * r->wide + d, after[s], V_LANES);
    }
}

static void heads_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const rnn_call r = rnn_call_of(call, &call->out[0]);
    const int64_t width = whole_panels(r.rows), of_state = r.cell->states * r.D;
    for (int64_t h = start; h < end; h++) {
        float *panels = (float *)call->workspace + h * room_of(&r), *states = panels + r.D * width,
              *w = states + r.B * r.size;
        pack_for_rows(&r, h, panels);
        for (int64_t b = 0; b < r.B; b++)
            load_state(&r, (const float *)call->out[1].data + (b * r.H + h) * of_state, states + b * r.size);
        for (int64_t n = 0; n < r.N; n++) {
            for (int64_t b = 0; b < r.B; b++)
                if (rnn_begins(&r, b, n)) memset(states + b * r.size, 0, (size_t)r.size * sizeof *states);
            begin_rows(&r, h, r.B, w);
            add_products(r.B, states, r.size, r.D, panels, width, w, width);
            for (int64_t b = 0; b < r.B; b++) step_token(&r, b, n, h, w + b * width, states + b * r.size);
        }
        for (int64_t b = 0; b < r.B; b++)
            store_state(&r, states + b * r.size, (float *)call->out[1].data + (b * r.H + h) * of_state);
    }
}

/* --- diagonal ----------------------------------------------------------------------------------------------------- */

V_INLINE void forward(const rnn_common *c, strand *s, int64_t n) {
    v_f32 x[RNN_MOST_GATES], after[RNN_MOST_STATES];
    for (int k = 0; k < c->cell->states && begins(c, s, n); k++) s->state[k] = v_set(0);
    load_x(c, s, n, x);
    c->cell->step(x, s->w, s->state, after);
    v_store(s->y + n * c->of_y, after[0], lanes(c, s));
    const bool leaves = !c->plain && rnn_leaves_state(c->call, s->b, n);
    for (int k = 0; k < c->cell->states && !leaves; k++) s->state[k] = after[k];
}

#define FORWARD(kind, name, gates, states, numbers) RNN_GO(kind, name, forward)
#define FORWARD_ROW(kind, name, gates, states, numbers) [LS_RNN_##kind] = name##_go_forward,
LS_RNN_DIAGONAL_CELLS(FORWARD)
static const rnn_go forward_of[LS_RNN_KINDS] = {LS_RNN_DIAGONAL_CELLS(FORWARD_ROW)};

static rnn_strands strands_of(const rnn_call *r, const ls_kernel_call *call) {
    rnn_strands s = {.call = r,
                     .go = forward_of,
                     .states = r->cell->states,
                     .before = call->out[1].data,
                     .after = call->out[1].data};
    rnn_strands_cut(&s, RNN_TOGETHER, call->threads);
    return s;
}

static void run_diagonal(const ls_kernel_call *call, const rnn_call *r, ls_pool *pool) {
    rnn_strands s = strands_of(r, call);
    rnn_strands_place(&s, call->workspace);
    rnn_strands_run(&s, call->threads, pool);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static size_t workspace(const ls_kernel_call *call) {
    const rnn_call r = rnn_call_of(call, &call->out[0]);
    const rnn_strands s = strands_of(&r, call);
    return (size_t)(r.cell->numbers > 0 ? rnn_strands_room(&s) : r.H * room_of(&r)) * sizeof(float);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const rnn_call r = rnn_call_of(call, &call->out[0]);
    if (r.cell->numbers > 0)
        run_diagonal(call, &r, pool);
    else
        ls_cpu_split(pool, r.H, ls_cpu_parts(r.H, 1, call->threads), heads_part, call);
}

static ls_status prepare(const ls_kernel_call *call, void **state) { return check_only(LS_KERNEL_RNN, call, state); }

const ls_kernel LS_CPU_NAME(rnn) = {
    .id = LS_KERNEL_RNN, LS_CPU_VARIANT, .workspace = workspace, .prepare = prepare, .run = run};
