/*
 * Diagonal cells, along the sequence or against it: states go forward from token to token, their gradients backward. A
 * vector of elements of one sequence is a strand. Each step of a strand waits for the step before, so a core computes
 * several strands in turns; if there are too few strands for all threads, the sequence is cut into pieces, and each
 * piece of a strand is a strand of its own.
 *
 * The later pieces begin with a guess: the state 0. Most elements forget their first state after some tokens, when its
 * influence is lost in rounding. Each piece is then corrected: it is computed again from the state that the piece
 * before it ended with, until its states equal those of the first computation bit by bit. First all pieces are
 * corrected at the same time; then, in order, those whose preceding piece has ended with another state after its own
 * correction, which happens if elements never forget. So for any cell the results equal those of a single piece bit by
 * bit.
 *
 * Sums over tokens are made over each stretch of RNN_STRETCH tokens, and these are added in order: the result does not
 * depend on the pieces.
 */
#ifndef LS_KERNEL_CPU_RNN_STRANDS_H
#define LS_KERNEL_CPU_RNN_STRANDS_H

#include <string.h>

#include "kernel/cpu/rnn.h"

enum {
    RNN_TOGETHER = 8,      /* strands that are computed in turns */
    RNN_LEAST_PIECE = 512, /* tokens */
    RNN_STRETCH = 32,      /* tokens between two marks */
    RNN_AHEAD = 4          /* tokens ahead that rows are prefetched; they are too far apart for the prefetcher */
};

typedef struct rnn_strands rnn_strands;

/* Some tokens of a vector of elements. Step i is token i or, backwards, token N - 1 - i. */
typedef struct strand {
    int64_t index, b, h, d;
    int64_t from, end; /* steps */
    v_f32 w[RNN_MOST_NUMBERS], state[RNN_MOST_STATES], sum[RNN_MOST_NUMBERS];
    element *x, *y; /* at token 0 */
    /*
     * For the gradient: dy and dx at token 0; the cell's state in front of token 0; and the states other than y behind
     * each token, [N][states of the cell - 1] vectors.
     */
    element *dy, *dx;
    v_f32 front[RNN_MOST_STATES];
    float *kept;
} strand;

/* Computes steps of n strands: each from its step `from` + `first` on, up to its end, at most `count` steps. */
typedef void (*rnn_go)(const rnn_strands *all, strand *s, int64_t n, int64_t first, int64_t count);

struct rnn_strands {
    const rnn_call *call;
    const rnn_go *go;       /* by kind */
    const ls_view *dy, *dx; /* for the gradient */
    bool backwards;
    int skipped, states, sums; /* the cell's states before those of a strand; its states; sums over tokens */
    const float *before;       /* [B,H,states D] of the cell, in front of the first step */
    float *after;              /* behind the last step; NULL: not wanted */
    const float *front;        /* for the gradient: [B,H,states D] */
    float *kept;               /* for the gradient: [vectors][N][states of the cell - 1] vectors */
    int64_t vectors, pieces, piece, stretch, stretches; /* tokens of a piece and of a stretch; stretches of a piece */
    float *marks; /* [pieces][vectors][stretches + 2][states] vectors: states in front of each stretch, behind the last,
                     and behind the previous piece when it was first computed */
    float *sums_of; /* [pieces][vectors][stretches][sums] vectors */
};

static inline int64_t rnn_strands_n(const rnn_strands *s) { return s->pieces * s->vectors; }

/* Cuts the sequence into pieces if it has enough tokens. turns: strands that each thread should have. */
static inline void rnn_strands_cut(rnn_strands *s, int turns, int threads) {
    const rnn_call *r = s->call;
    s->vectors = r->B * r->H * (r->wide / V_LANES);
    const int64_t wanted = ls_ceil_div((int64_t)turns * ls_max(1, threads), ls_max(1, s->vectors)),
                  pieces = ls_max(1, ls_min(wanted, r->N / RNN_LEAST_PIECE));
    s->piece = ls_max(1, ls_ceil_div(ls_ceil_div(r->N, pieces), RNN_STRETCH)) * RNN_STRETCH;
    s->pieces = ls_max(1, ls_ceil_div(r->N, s->piece));
    s->stretch = s->pieces == 1 && s->sums == 0 ? s->piece : RNN_STRETCH;
    s->stretches = s->piece / s->stretch;
}

/* Floats of all marks, and of all sums; each a multiple of a vector. */
static inline int64_t rnn_strands_marks(const rnn_strands *s) {
    return rnn_strands_n(s) * (s->stretches + 2) * s->states * V_LANES;
}

static inline int64_t rnn_strands_room(const rnn_strands *s) {
    return rnn_strands_marks(s) + rnn_strands_n(s) * s->stretches * s->sums * V_LANES;
}

static inline void rnn_strands_place(rnn_strands *s, float *room) {
    s->marks = room;
    s->sums_of = room + rnn_strands_marks(s);
}

static inline float *mark_of(const rnn_strands *all, int64_t of, int64_t i) {
    return all->marks + (of * (all->stretches + 2) + i) * all->states * V_LANES;
}

static inline size_t state_bytes(const rnn_strands *all) { return (size_t)all->states * sizeof(v_f32); }

/* The index of state k of the cell in [B,H,states D]. */
static inline int64_t place_of_state(const rnn_call *r, const strand *s, int k) {
    return ((s->b * r->H + s->h) * r->cell->states + k) * r->D + s->d;
}

/* Strand number i, with the state in front of its first step. */
static inline strand strand_at(const rnn_strands *all, int64_t i) {
    const rnn_call *r = all->call;
    const int64_t v = i % all->vectors, blocks = r->wide / V_LANES;
    strand s = {.index = i, .b = v / blocks / r->H, .h = v / blocks % r->H, .d = v % blocks * V_LANES};
    s.from = i / all->vectors * all->piece;
    s.end = ls_min(r->N, s.from + all->piece);
    rnn_load_numbers(r, s.h, s.d, s.w);
    for (int k = 0; k < all->states; k++)
        s.state[k] = v_load_f32(all->before + place_of_state(r, &s, all->skipped + k), r->D - s.d);
    for (int k = 0; k < r->cell->states && all->front != NULL; k++)
        s.front[k] = v_load_f32(all->front + place_of_state(r, &s, k), r->D - s.d);
    s.x = rnn_at(r->x, s.b, 0, s.h) + s.d;
    s.y = rnn_at(r->y, s.b, 0, s.h) + s.d;
    if (all->dy != NULL) s.dy = rnn_at(all->dy, s.b, 0, s.h) + s.d;
    if (all->dx != NULL) s.dx = rnn_at(all->dx, s.b, 0, s.h) + s.d;
    if (all->kept != NULL) s.kept = all->kept + v * r->N * (r->cell->states - 1) * V_LANES;
    return s;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Values that all steps share, in registers. plain: vectors are whole, and no token begins or ends a document. */
typedef struct rnn_common {
    const rnn_call *call;
    const rnn_cell *cell;
    bool plain;
    int64_t D, of_x, of_y, of_dy, of_dx; /* of_x ..: elements between two tokens */
    int64_t ahead;                       /* tokens to the row that is prefetched; negative against the sequence */
} rnn_common;

typedef void (*rnn_step)(const rnn_common *c, strand *s, int64_t token);

V_INLINE rnn_common rnn_common_of(const rnn_strands *all, ls_rnn_kind kind, bool plain) {
    const rnn_call *r = all->call;
    return (rnn_common){.call = r,
                        .cell = &rnn_cells[kind],
                        .plain = plain,
                        .D = r->D,
                        .of_x = r->x->stride[1],
                        .of_y = r->y->stride[1],
                        .of_dy = all->dy == NULL ? 0 : all->dy->stride[1],
                        .of_dx = all->dx == NULL ? 0 : all->dx->stride[1],
                        .ahead = all->backwards ? -RNN_AHEAD : RNN_AHEAD};
}

V_INLINE int64_t lanes(const rnn_common *c, const strand *s) { return c->plain ? V_LANES : c->D - s->d; }

V_INLINE bool begins(const rnn_common *c, const strand *s, int64_t n) {
    return !c->plain && rnn_begins(c->call, s->b, n);
}

/* Prefetches the elements of token n, `of` elements per token after `at`, token 0; token n need not exist. */
V_INLINE void ask_for(const element *at, int64_t n, int64_t of) {
    __builtin_prefetch((const char *)at + n * of * (int64_t)sizeof *at);
}

V_INLINE void load_x(const rnn_common *c, const strand *s, int64_t n, v_f32 *x) {
    for (int g = 0; g < c->cell->gates; g++) {
        x[g] = v_load(s->x + n * c->of_x + g * c->D, lanes(c, s));
        ask_for(s->x + g * c->D, n + c->ahead, c->of_x);
    }
}

V_INLINE void rnn_go_on(const rnn_strands *all, strand *s, int64_t n, int64_t first, int64_t count, const rnn_common *c,
                        rnn_step step) {
    const int64_t last = all->call->N - 1;
    const bool backwards = all->backwards;
    for (int64_t t = first; t < first + count; t++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = s[i].from + t;
            if (at < s[i].end) step(c, &s[i], backwards ? last - at : at);
        }
    }
}

/* Defines functions name##_go_step, one for each cell, so that the cell is known at compile time. */
#define RNN_GO(kind, name, step)                                                                               \
    static void name##_go_##step(const rnn_strands *all, strand *s, int64_t n, int64_t first, int64_t count) { \
        const rnn_common plain = rnn_common_of(all, LS_RNN_##kind, true),                                      \
                         other = rnn_common_of(all, LS_RNN_##kind, false);                                     \
        if (all->call->D == all->call->wide && all->call->places->size[2] == 0)                                \
            rnn_go_on(all, s, n, first, count, &plain, step);                                                  \
        else                                                                                                   \
            rnn_go_on(all, s, n, first, count, &other, step);                                                  \
    }

/* Computes stretch m of n strands. */
static inline void go_stretch(const rnn_strands *all, strand *s, int64_t n, int64_t m) {
    for (int64_t i = 0; i < n && all->sums > 0; i++) memset(s[i].sum, 0, sizeof s[i].sum);
    all->go[all->call->kind](all, s, n, m * all->stretch, all->stretch);
    for (int64_t i = 0; i < n && all->sums > 0; i++)
        memcpy(all->sums_of + (s[i].index * all->stretches + m) * all->sums * V_LANES, s[i].sum,
               (size_t)all->sums * sizeof(v_f32));
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

/* Calls body for groups of at most RNN_TOGETHER of strands start .. end - 1. */
typedef void (*rnn_group)(const rnn_strands *all, int64_t first, int64_t n);

static inline void for_groups(const rnn_strands *all, int64_t start, int64_t end, rnn_group body) {
    const int64_t groups = ls_ceil_div(end - start, RNN_TOGETHER);
    /* Without new contributions, gradients decay towards zero and would become subnormal. */
    const uint32_t before = v_flush_begin();
    for (int64_t g = 0; g < groups; g++) {
        const int64_t first = start + (end - start) * g / groups, next = start + (end - start) * (g + 1) / groups;
        body(all, first, next - first);
    }
    v_flush_end(before);
}

/* First computation of n strands; those of later pieces begin with 0. */
static void begin_group(const rnn_strands *all, int64_t first, int64_t n) {
    strand s[RNN_TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        s[i] = strand_at(all, first + i);
        if (s[i].from > 0) memset(s[i].state, 0, state_bytes(all));
    }
    for (int64_t m = 0; m < all->stretches; m++) {
        for (int64_t i = 0; i < n; i++) memcpy(mark_of(all, s[i].index, m), s[i].state, state_bytes(all));
        go_stretch(all, s, n, m);
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(mark_of(all, s[i].index, all->stretches), s[i].state, state_bytes(all));
        if (s[i].index + all->vectors < rnn_strands_n(all))
            memcpy(mark_of(all, s[i].index + all->vectors, all->stretches + 1), s[i].state, state_bytes(all));
    }
}

/* Corrects n strands, each from its first state on, as far as states differ from those computed before. */
static inline void mend_strands(const rnn_strands *all, strand *s, int64_t n) {
    for (int64_t m = 0; m <= all->stretches && n > 0; m++) {
        int64_t others = 0;
        for (int64_t i = 0; i < n; i++) {
            float *mark = mark_of(all, s[i].index, m);
            if (memcmp(s[i].state, mark, state_bytes(all)) == 0) continue;
            memcpy(mark, s[i].state, state_bytes(all));
            s[others++] = s[i];
        }
        n = others;
        if (m < all->stretches) go_stretch(all, s, n, m);
    }
}

/*
 * Corrects n strands of later pieces, counted from the first of these, each from what the previous piece first ended
 * with.
 */
static void mend_group(const rnn_strands *all, int64_t first, int64_t n) {
    strand s[RNN_TOGETHER];
    for (int64_t i = 0; i < n; i++) {
        s[i] = strand_at(all, all->vectors + first + i);
        memcpy(s[i].state, mark_of(all, s[i].index, all->stretches + 1), state_bytes(all));
    }
    mend_strands(all, s, n);
}

/* Completes n vectors of elements: corrects their pieces in order, and writes the states behind the last ones. */
static void end_group(const rnn_strands *all, int64_t first, int64_t n) {
    strand s[RNN_TOGETHER];
    for (int64_t p = 1; p < all->pieces; p++) {
        for (int64_t i = 0; i < n; i++) {
            s[i] = strand_at(all, p * all->vectors + first + i);
            memcpy(s[i].state, mark_of(all, s[i].index - all->vectors, all->stretches), state_bytes(all));
        }
        mend_strands(all, s, n);
    }
    for (int64_t i = 0; i < n && all->after != NULL; i++) {
        const strand last = strand_at(all, rnn_strands_n(all) - all->vectors + first + i);
        const float *behind = mark_of(all, last.index, all->stretches);
        for (int k = 0; k < all->states; k++)
            v_store_f32(all->after + place_of_state(all->call, &last, all->skipped + k),
                        v_load_f32(behind + k * V_LANES, V_LANES), all->call->D - last.d);
    }
}

#define RNN_PART(name)                                                                   \
    static void name##_part(const void *context, int part, int64_t start, int64_t end) { \
        (void)part;                                                                      \
        for_groups(context, start, end, name##_group);                                   \
    }
RNN_PART(begin)
RNN_PART(mend)
RNN_PART(end)

/* How many parts n things are divided into, for all threads; of RNN_TOGETHER things each if there are enough. */
static inline int rnn_parts(int64_t n, int threads) {
    return (int)ls_max(ls_cpu_parts(n, RNN_TOGETHER, threads), ls_max(1, ls_min(n, threads)));
}

static inline void rnn_strands_run(const rnn_strands *s, int threads, ls_pool *pool) {
    const int64_t n = rnn_strands_n(s), later = n - s->vectors;
    ls_cpu_split(pool, n, rnn_parts(n, threads), begin_part, s);
    if (later > 0) ls_cpu_split(pool, later, rnn_parts(later, threads), mend_part, s);
    ls_cpu_split(pool, s->vectors, rnn_parts(s->vectors, threads), end_part, s);
}

#endif
