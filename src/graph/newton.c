/*
 * The diagonal GRU by Newton's method (Danieli et al., "ParaRNN", arXiv 2510.21450): states of all tokens are guessed,
 * and a step takes from them the solution of the linear recurrence that the cell is around the guess, which is
 * parallel along the sequence (ops/recurrence.c). Token k is exact after k steps; where the cell forgets, all are after
 * a few. All but the last step are constants to derivatives: at the solution a step does not depend on where it began,
 * so what goes through the last one is the gradient, a recurrence backwards.
 */
#include "longspan/newton.h"

#include "graph/graph_impl.h"

#include <math.h>

/* Of heads in one: x of each gate [B,S,E], numbers of each [E]; and 1 but for the first tokens of documents, or none.
 */
typedef struct cells {
    ls_graph *g;
    ls_tensor x[3], w[3], follows;
} cells;

static ls_tensor constant(ls_graph *g, ls_tensor t) {
    if (t.id != 0) g->tensors[t.id].constant = true;
    return t;
}

/* The states in front of tokens. */
static ls_tensor before(const cells *c, ls_tensor h) {
    const ls_tensor moved = ls_shift(c->g, h, 1);
    return c->follows.id != 0 ? ls_mul(c->g, moved, c->follows) : moved;
}

/* One map. */
static ls_tensor compute(ls_graph *g, const ls_tensor *in, int n_in, const ls_map_step *step, int n) {
    return ls_map(g, in, n_in, &(ls_expression){.step = step, .n_steps = n});
}

/* The sigmoid of gate i, from the states in front of tokens. */
static ls_tensor gate_of(const cells *c, int i, ls_tensor y) {
    static const ls_map_step step[] = {
        {LS_MAP_MUL, 0, 2, 0, 0}, {LS_MAP_ADD, 1, 3, 0, 0}, {LS_MAP_SIGMOID, 4, 0, 0, 0}};
    const ls_tensor in[] = {y, c->x[i], c->w[i]};
    return compute(c->g, in, 3, step, LS_COUNT(step));
}

/* From the states in front of tokens those behind them, and their slopes: derivatives by the former, a constant. */
static ls_tensor apply(const cells *c, ls_tensor y, ls_tensor *slope) {
    static const ls_map_step to_value[] = {{LS_MAP_MUL, 0, 2, 0, 0},
                                           {LS_MAP_MUL, 4, 3, 0, 0},
                                           {LS_MAP_ADD, 5, 1, 0, 0},
                                           {LS_MAP_TANH, 6, 0, 0, 0}},
                             to_state[] = {
                                 {LS_MAP_SUB, 2, 0, 0, 0}, {LS_MAP_MUL, 1, 3, 0, 0}, {LS_MAP_ADD, 0, 4, 0, 0}};
    enum { Y, Z, R, C, WZ, WR, WC, INPUTS };
    /* (1 - z) + (c - y) z (1 - z) wz + z (1 - c c) wc r (1 + y wr (1 - r)) */
    static const ls_map_step to_slope[] = {
        {LS_MAP_NUMBER, 0, 0, 0, 1}, {LS_MAP_SUB, 7, Z, 0, 0},   {LS_MAP_SUB, C, Y, 0, 0},   {LS_MAP_MUL, 9, Z, 0, 0},
        {LS_MAP_MUL, 10, 8, 0, 0},   {LS_MAP_MUL, 11, WZ, 0, 0}, {LS_MAP_ADD, 8, 12, 0, 0},  {LS_MAP_MUL, C, C, 0, 0},
        {LS_MAP_SUB, 7, 14, 0, 0},   {LS_MAP_MUL, 15, Z, 0, 0},  {LS_MAP_MUL, 16, WC, 0, 0}, {LS_MAP_MUL, 17, R, 0, 0},
        {LS_MAP_SUB, 7, R, 0, 0},    {LS_MAP_MUL, 19, WR, 0, 0}, {LS_MAP_MUL, 20, Y, 0, 0},  {LS_MAP_ADD, 21, 7, 0, 0},
        {LS_MAP_MUL, 18, 22, 0, 0},  {LS_MAP_ADD, 13, 23, 0, 0}};
    const ls_tensor z = gate_of(c, 0, y), r = gate_of(c, 1, y), of_value[] = {y, c->x[2], c->w[2], r},
                    value = compute(c->g, of_value, 4, to_value, LS_COUNT(to_value)), of_state[] = {y, z, value},
                    of_slope[INPUTS] = {y, z, r, value, c->w[0], c->w[1], c->w[2]};
    *slope = constant(c->g, compute(c->g, of_slope, INPUTS, to_slope, LS_COUNT(to_slope)));
    return compute(c->g, of_state, 3, to_state, LS_COUNT(to_state));
}

/* One step from guesses h. */
static ls_tensor improve(const cells *c, ls_tensor h, bool last) {
    ls_tensor slope;
    const ls_tensor made = apply(c, constant(c->g, before(c, h)), &slope);
    if (c->follows.id != 0) slope = ls_mul(c->g, slope, c->follows);
    (void)constant(c->g, slope);
    if (!last) (void)constant(c->g, made);
    const ls_tensor minus = constant(c->g, ls_scale(c->g, h, -1));
    return ls_add(c->g, h, ls_recurrence(c->g, slope, ls_add(c->g, made, minus)));
}

/* Where a state is not what the cell makes of the one before, to the bound; 1 or 0, G. */
static ls_tensor find_wrong(const cells *c, ls_tensor h, double bound) {
    const ls_map_step step[] = {{LS_MAP_SUB, 0, 1, 0, 0},
                                {LS_MAP_ABS, 2, 0, 0, 0},
                                {LS_MAP_NUMBER, 0, 0, 0, bound},
                                {LS_MAP_LE, 3, 4, 0, 0},
                                {LS_MAP_NOT, 5, 0, 0, 0}};
    ls_tensor slope;
    const ls_tensor made = apply(c, constant(c->g, before(c, h)), &slope);
    const ls_tensor in[] = {constant(c->g, made), h};
    return constant(c->g, ls_map(c->g, in, 2, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = 1}));
}

/* NaN there. */
static ls_tensor spoil(ls_graph *g, ls_tensor h, ls_tensor wrong) {
    static const ls_map_step step[] = {
        {LS_MAP_NUMBER, 0, 0, 0, INFINITY}, {LS_MAP_SUB, 2, 2, 0, 0}, {LS_MAP_WHERE, 1, 3, 0, 0}};
    const ls_tensor in[] = {h, wrong};
    return ls_map(g, in, 2, &(ls_expression){.step = step, .n_steps = LS_COUNT(step)});
}

/* 1 for tokens whose document has others in front, 0 for its first, of the graph's type and with a last dimension. */
static ls_tensor followers(ls_graph *g, ls_tensor places, ls_tensor like) {
    static const ls_map_step step[] = {{LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 1, 0, 0, 0}};
    const ls_shape *s = &ls_graph_tensor(g, like)->shape;
    const ls_tensor one = ls_map(g, &places, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step)});
    const int64_t size[] = {s->dim[0].size, s->dim[1].size, 1};
    return ls_broadcast(g, ls_reshape(g, one, 3, size), 1U << 2, like);
}

static ls_status check(const ls_graph *g, ls_tensor x, ls_tensor weight, const ls_newton_form *form) {
    if (form == NULL || form->steps < 1 || !(form->bound > 0))
        return ls_error(LS_INVALID, "rnn_newton: %d steps and a bound of %g, expected at least 1 and more than 0",
                        form == NULL ? 0 : form->steps, form == NULL ? 0 : form->bound);
    if (g->dtype == LS_BF16)
        return ls_error(LS_INVALID,
                        "rnn_newton: the graph is bf16, in which no residual is small; expected f32 or f64");
    const ls_shape *s = &ls_graph_tensor(g, x)->shape, *w = &ls_graph_tensor(g, weight)->shape;
    if (s->ndim == 4 && w->ndim == 3 && s->dim[3].size == 3 * w->dim[2].size && s->dim[2].size == w->dim[0].size &&
        w->dim[1].size == 3)
        return ls_ok();
    return ls_error(LS_INVALID, "rnn_newton: x and weight have other shapes than those of a diagonal GRU of ls_rnn");
}

ls_tensor ls_rnn_newton(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_newton_form *form,
                        ls_tensor *unconverged) {
    *unconverged = LS_NO_TENSOR;
    if (ls_graph_status(g).code != LS_OK) return LS_NO_TENSOR;
    const ls_status fits = check(g, x, weight, form);
    if (fits.code != LS_OK) return ls_graph_fail(g, fits);
    const ls_shape *w = &ls_graph_tensor(g, weight)->shape;
    const int64_t H = w->dim[0].size, D = w->dim[2].size, E = H * D;
    cells c = {.g = g};
    ls_tensor part[3];
    ls_split(g, x, 3, (int64_t[]){D, D, D}, part);
    for (int i = 0; i < 3; i++) {
        c.x[i] = ls_merge_last(g, part[i]);
        c.w[i] = ls_reshape(g, ls_slice(g, weight, 1, i, 1, 1), 1, &E);
    }
    if (form->places.id != 0) c.follows = constant(g, followers(g, form->places, c.x[0]));
    ls_tensor slope, h = constant(g, apply(&c, constant(g, ls_scale(g, c.x[0], 0)), &slope));
    for (int i = 0; i < form->steps; i++) {
        h = improve(&c, h, i + 1 == form->steps);
        if (i + 1 < form->steps) (void)constant(g, h);
    }
    const ls_tensor wrong = find_wrong(&c, h, form->bound);
    *unconverged = ls_sum(g, wrong);
    return ls_split_last(g, spoil(g, h, wrong), H, D);
}
