/*
 * Diagonal cells, forward. A vector of elements of one sequence goes from token to token, and each step waits for the
 * one before, so several take turns; where there are too few of them for all threads, the sequence is cut into pieces,
 * each of which is a strand as well.
 *
 * A piece begins with a guess: the state that its last tokens in front make of 0. What a cell remembers of where it
 * began vanishes in rounding after some tokens, so the guess is mostly right to the last bit. Then the pieces are
 * mended, in order: where the state behind one is another than the next one began with, that is computed again from
 * the right one, until its states are those of the first time. So results are those of a single piece, bit by bit,
 * whatever the cell does; a cell that never forgets costs the time of both.
 */
#ifndef LS_KERNEL_CPU_RNN_STRANDS_H
#define LS_KERNEL_CPU_RNN_STRANDS_H

#include <string.h>

#include "kernel/cpu/rnn.h"

enum {
    RNN_TOGETHER = 8,      /* strands that take turns */
    RNN_LEAST_PIECE = 512, /* tokens */
    RNN_GUESS = 64,        /* tokens in front of a piece that its guess is made from */
    RNN_STRETCH = 32       /* tokens from one mark to the next */
};

typedef struct rnn_strands {
    const rnn_call *call;
    float *state; /* [B,H,states D]: in front of the tokens; becomes that behind them */
    int64_t vectors, pieces, piece;
    int64_t stretch,
        marks;   /* of a strand: the states in front of it and behind each stretch, [marks][states] vectors */
    float *mark; /* [pieces][vectors][marks][states][V_LANES] */
} rnn_strands;

static inline rnn_strands rnn_strands_of(const rnn_call *r, const ls_kernel_call *call) {
    rnn_strands s = {
        .call = r, .state = call->out[1].data, .vectors = r->B * r->H * (r->wide / V_LANES), .mark = call->workspace};
    const int64_t wanted = ls_ceil_div((int64_t)RNN_TOGETHER * ls_max(1, call->threads), ls_max(1, s.vectors));
    s.piece = ls_ceil_div(r->N, ls_max(1, ls_min(wanted, r->N / RNN_LEAST_PIECE)));
    s.pieces = s.piece == 0 ? 1 : ls_ceil_div(r->N, s.piece);
    s.stretch = s.pieces == 1 ? ls_max(1, r->N) : RNN_STRETCH;
    s.marks = 1 + ls_ceil_div(s.piece, s.stretch);
    return s;
}

static inline size_t rnn_strands_workspace(const rnn_strands *s) {
    return (size_t)(s->pieces * s->vectors * s->marks * s->call->cell->states * V_LANES) * sizeof(float);
}

/* Tokens from .. end - 1 of a vector of elements. */
typedef struct strand {
    int64_t b, h, d, from, end;
    v_f32 w[RNN_MOST_NUMBERS], state[RNN_MOST_STATES];
    float *mark;
} strand;

static inline int64_t state_bytes(const rnn_strands *all) { return all->call->cell->states * (int64_t)sizeof(v_f32); }

static inline float *mark_of(const rnn_strands *all, const strand *s, int64_t i) {
    return s->mark + i * all->call->cell->states * V_LANES;
}

/* Strand i, from a state of 0. */
static inline strand strand_at(const rnn_strands *all, int64_t i) {
    const rnn_call *r = all->call;
    const int64_t v = i % all->vectors, blocks = r->wide / V_LANES;
    strand s = {.b = v / blocks / r->H, .h = v / blocks % r->H, .d = v % blocks * V_LANES};
    s.from = i / all->vectors * all->piece;
    s.end = ls_min(r->N, s.from + all->piece);
    s.mark = all->mark + i * all->marks * r->cell->states * V_LANES;
    rnn_load_numbers(r, s.h, s.d, s.w);
    return s;
}

static inline float *given_state(const rnn_strands *all, const strand *s, int k) {
    const rnn_call *r = all->call;
    return all->state + ((s->b * r->H + s->h) * r->cell->states + k) * r->D + s->d;
}

V_INLINE void step_strand(const rnn_call *r, strand *s, int64_t n, bool write) {
    v_f32 x[RNN_MOST_GATES], after[RNN_MOST_STATES];
    for (int k = 0; k < r->cell->states && rnn_begins(r, s->b, n); k++) s->state[k] = v_set(0);
    rnn_load_x(r, s->b, n, s->h, s->d, x);
    r->cell->step(x, s->w, s->state, after);
    if (write) v_store(rnn_at(r->y, s->b, n, s->h) + s->d, after[0], r->D - s->d);
    for (int k = 0; k < r->cell->states && !rnn_leaves_state(r, s->b, n); k++) s->state[k] = after[k];
}

/* Steps of n strands, from token `from` of each to its end, `count` at most. */
V_INLINE void step_strands(const rnn_call *r, strand *s, int64_t n, int64_t from, int64_t count, bool write) {
    for (int64_t t = from; t < from + count; t++)
        for (int64_t i = 0; i < n; i++)
            if (s[i].from + t >= 0 && s[i].from + t < s[i].end) step_strand(r, &s[i], s[i].from + t, write);
}

/* The same for each cell, so that the compiler knows which it is. */
#define STEP_STRANDS(kind, name, gates, states, numbers)                                                            \
    static void name##_strands(const rnn_call *of, strand *s, int64_t n, int64_t from, int64_t count, bool write) { \
        rnn_call r = *of;                                                                                           \
        r.cell = &rnn_cells[LS_RNN_##kind];                                                                         \
        step_strands(&r, s, n, from, count, write);                                                                 \
    }
#define STEP_STRANDS_ROW(kind, name, gates, states, numbers) [LS_RNN_##kind] = name##_strands,
LS_RNN_DIAGONAL_CELLS(STEP_STRANDS)
static void (*const steps_of[LS_RNN_KINDS])(const rnn_call *, strand *, int64_t, int64_t, int64_t,
                                            bool) = {LS_RNN_DIAGONAL_CELLS(STEP_STRANDS_ROW)};

static inline void step_all(const rnn_strands *all, strand *s, int64_t n, int64_t from, int64_t count, bool write) {
    steps_of[all->call->kind](all->call, s, n, from, count, write);
}

/* n strands at most RNN_TOGETHER, with their marks. */
static inline void advance_together(const rnn_strands *all, int64_t first, int64_t n) {
    strand s[RNN_TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        s[i] = strand_at(all, first + i);
        for (int k = 0; k < all->call->cell->states && s[i].from == 0; k++)
            s[i].state[k] = v_load_f32(given_state(all, &s[i], k), all->call->D - s[i].d);
    }
    if (all->pieces > 1) step_all(all, s, n, -RNN_GUESS, RNN_GUESS, false);
    for (int64_t m = 0; m < all->marks; m++) {
        for (int64_t i = 0; i < n; i++) memcpy(mark_of(all, &s[i], m), s[i].state, (size_t)state_bytes(all));
        step_all(all, s, n, m * all->stretch, m + 1 < all->marks ? all->stretch : 0, true);
    }
}

/* Strands start .. end - 1, each from its guess. */
static inline void rnn_strands_advance(const rnn_strands *all, int64_t start, int64_t end) {
    const int64_t groups = ls_ceil_div(end - start, RNN_TOGETHER);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t first = start + (end - start) * g / groups, next = start + (end - start) * (g + 1) / groups;
        advance_together(all, first, next - first);
    }
}

/* Piece p of n vectors, each from the state behind its piece before, as far as states are others than they were. */
static inline void mend_piece(const rnn_strands *all, int64_t p, int64_t vector, int64_t n) {
    const size_t bytes = (size_t)state_bytes(all);
    strand s[RNN_TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        const strand before = strand_at(all, (p - 1) * all->vectors + vector + i);
        s[i] = strand_at(all, p * all->vectors + vector + i);
        memcpy(s[i].state, mark_of(all, &before, all->marks - 1), bytes);
    }
    for (int64_t m = 0; m < all->marks; m++) {
        int64_t others = 0;
        for (int64_t i = 0; i < n; i++) {
            if (memcmp(s[i].state, mark_of(all, &s[i], m), bytes) == 0) continue;
            memcpy(mark_of(all, &s[i], m), s[i].state, bytes);
            s[others++] = s[i];
        }
        n = others;
        step_all(all, s, n, m * all->stretch, m + 1 < all->marks ? all->stretch : 0, true);
    }
}

/* Vectors of elements start .. end - 1: their pieces in order, and the states behind the last ones. */
static inline void rnn_strands_mend(const rnn_strands *all, int64_t start, int64_t end) {
    const rnn_call *r = all->call;
    for (int64_t v = start, n; v < end; v += n) {
        n = ls_min(RNN_TOGETHER, end - v);
        for (int64_t p = 1; p < all->pieces; p++) mend_piece(all, p, v, n);
        for (int64_t i = 0; i < n; i++) {
            const strand s = strand_at(all, (all->pieces - 1) * all->vectors + v + i);
            const float *behind = mark_of(all, &s, all->marks - 1);
            for (int k = 0; k < r->cell->states; k++)
                v_store_f32(given_state(all, &s, k), v_load_f32(behind + k * V_LANES, V_LANES), r->D - s.d);
        }
    }
}

#endif
