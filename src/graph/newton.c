/*
 * Diagonal cells by Newton's method (Danieli et al., "ParaRNN", arXiv 2510.21450). The states of all tokens are
 * guessed. A step linearises the cell around the guess, and the solution of this linear recurrence, which is parallel
 * along the sequence (ops/recurrence.c), is the next guess. Token k is exact after k steps; if the cell forgets, all
 * tokens are after a few steps. All steps but the last are constants for derivatives: at the solution a step does not
 * depend on its guess, so the derivative of the last step is the gradient, a recurrence in the other direction.
 */
#include "longspan/newton.h"

#include "graph/graph_impl.h"

#include <float.h>
#include <math.h>

enum { MOST_GATES = 3, MOST_STATES = 2, MOST_NUMBERS = 5 };

typedef struct layer layer;

/*
 * A cell: computes the states after each token from the states before, and the slopes (partial derivatives), row by
 * row.
 */
typedef struct cell {
    ls_rnn_kind kind;
    void (*apply)(const layer *l, const ls_tensor *before, ls_tensor *after, ls_tensor *slope);
} cell;

/*
 * The heads of a layer as one: x of each gate [B,S,E], the weights of each gate [E]; and a tensor that is 0 for the
 * first tokens of documents, or none.
 */
struct layer {
    ls_graph *g;
    const cell *cell;
    int states;
    ls_tensor x[MOST_GATES], w[MOST_NUMBERS], follows;
};

static ls_tensor constant(ls_graph *g, ls_tensor t) {
    if (t.id != 0) g->tensors[t.id].constant = true;
    return t;
}

/* One map. */
#define COMPUTE(g, in, ...)                                               \
    compute(g, in, (int)LS_COUNT(in), (const ls_map_step[]){__VA_ARGS__}, \
            (int)LS_COUNT(((const ls_map_step[]){__VA_ARGS__})))
static ls_tensor compute(ls_graph *g, const ls_tensor *in, int n_in, const ls_map_step *step, int n) {
    return ls_map(g, in, n_in, &(ls_expression){.step = step, .n_steps = n});
}

/* --- cells (longspan/rnn.h) --------------------------------------------------------------------------------------- */

/* The sigmoid of a gate that depends on y. */
static ls_tensor gate_of(const layer *l, int i, ls_tensor y) {
    const ls_tensor in[] = {y, l->x[i], l->w[i]};
    return COMPUTE(l->g, in, {LS_MAP_MUL, 0, 2, 0, 0}, {LS_MAP_ADD, 1, 3, 0, 0}, {LS_MAP_SIGMOID, 4, 0, 0, 0});
}

static void apply_gru(const layer *l, const ls_tensor *before, ls_tensor *after, ls_tensor *slope) {
    enum { Y, Z, R, C, WZ, WR, WC };
    const ls_tensor y = before[0], z = gate_of(l, 0, y), r = gate_of(l, 1, y), of_value[] = {y, l->x[2], l->w[2], r},
                    c = COMPUTE(l->g, of_value, {LS_MAP_MUL, 0, 2, 0, 0}, {LS_MAP_MUL, 4, 3, 0, 0},
                                {LS_MAP_ADD, 5, 1, 0, 0}, {LS_MAP_TANH, 6, 0, 0, 0}),
                    of_state[] = {y, z, c}, of_slope[] = {y, z, r, c, l->w[0], l->w[1], l->w[2]};
    after[0] = COMPUTE(l->g, of_state, {LS_MAP_SUB, 2, 0, 0, 0}, {LS_MAP_MUL, 1, 3, 0, 0}, {LS_MAP_ADD, 0, 4, 0, 0});
    /* (1 - z) + (c - y) z (1 - z) wz + z (1 - c c) wc r (1 + y wr (1 - r)) */
    slope[0] = COMPUTE(l->g, of_slope, {LS_MAP_NUMBER, 0, 0, 0, 1}, {LS_MAP_SUB, 7, Z, 0, 0}, {LS_MAP_SUB, C, Y, 0, 0},
                       {LS_MAP_MUL, 9, Z, 0, 0}, {LS_MAP_MUL, 10, 8, 0, 0}, {LS_MAP_MUL, 11, WZ, 0, 0},
                       {LS_MAP_ADD, 8, 12, 0, 0}, {LS_MAP_MUL, C, C, 0, 0}, {LS_MAP_SUB, 7, 14, 0, 0},
                       {LS_MAP_MUL, 15, Z, 0, 0}, {LS_MAP_MUL, 16, WC, 0, 0}, {LS_MAP_MUL, 17, R, 0, 0},
                       {LS_MAP_SUB, 7, R, 0, 0}, {LS_MAP_MUL, 19, WR, 0, 0}, {LS_MAP_MUL, 20, Y, 0, 0},
                       {LS_MAP_ADD, 21, 7, 0, 0}, {LS_MAP_MUL, 18, 22, 0, 0}, {LS_MAP_ADD, 13, 23, 0, 0});
}

/* The sigmoid of a gate that depends on y and c. */
static ls_tensor peephole_of(const layer *l, int i, ls_tensor y, ls_tensor c, ls_tensor of_c) {
    const ls_tensor in[] = {y, l->x[i], l->w[i], c, of_c};
    return COMPUTE(l->g, in, {LS_MAP_MUL, 0, 2, 0, 0}, {LS_MAP_ADD, 1, 5, 0, 0}, {LS_MAP_MUL, 3, 4, 0, 0},
                   {LS_MAP_ADD, 6, 7, 0, 0}, {LS_MAP_SIGMOID, 8, 0, 0, 0});
}

/* The states are y, c. */
static void apply_lstm(const layer *l, const ls_tensor *before, ls_tensor *after, ls_tensor *slope) {
    ls_graph *g = l->g;
    const ls_tensor y = before[0], old = before[1], f = peephole_of(l, 0, y, old, l->w[3]),
                    of_value[] = {y, l->x[2], l->w[2]},
                    z = COMPUTE(g, of_value, {LS_MAP_MUL, 0, 2, 0, 0}, {LS_MAP_ADD, 1, 3, 0, 0},
                                {LS_MAP_TANH, 4, 0, 0, 0}),
                    of_c[] = {old, f, z},
                    c = COMPUTE(g, of_c, {LS_MAP_SUB, 0, 2, 0, 0}, {LS_MAP_MUL, 1, 3, 0, 0}, {LS_MAP_ADD, 2, 4, 0, 0}),
                    o = peephole_of(l, 1, y, c, l->w[4]), only_c[] = {c},
                    t = COMPUTE(g, only_c, {LS_MAP_TANH, 0, 0, 0, 0});
    after[0] = ls_mul(g, o, t);
    after[1] = c;
    /* Slope of c by c: f + (c - z) f (1 - f) wfc; of c by y: (c - z) f (1 - f) wf + (1 - f) (1 - z z) wz. */
    const ls_tensor by_c[] = {old, z, f, l->w[3]}, by_y[] = {old, z, f, l->w[0], l->w[2]};
    slope[3] =
        COMPUTE(g, by_c, {LS_MAP_SUB, 0, 1, 0, 0}, {LS_MAP_MUL, 4, 2, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 1},
                {LS_MAP_SUB, 6, 2, 0, 0}, {LS_MAP_MUL, 5, 7, 0, 0}, {LS_MAP_MUL, 8, 3, 0, 0}, {LS_MAP_ADD, 9, 2, 0, 0});
    slope[2] = COMPUTE(g, by_y, {LS_MAP_SUB, 0, 1, 0, 0}, {LS_MAP_MUL, 5, 2, 0, 0}, {LS_MAP_MUL, 6, 3, 0, 0},
                       {LS_MAP_MUL, 1, 1, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 1}, {LS_MAP_SUB, 9, 8, 0, 0},
                       {LS_MAP_MUL, 10, 4, 0, 0}, {LS_MAP_ADD, 7, 11, 0, 0}, {LS_MAP_SUB, 9, 2, 0, 0},
                       {LS_MAP_MUL, 12, 13, 0, 0});
    /* Slope of y by the new c: o (1 - o) woc t + o (1 - t t); of y by y, in addition: t o (1 - o) wo. */
    const ls_tensor of_new[] = {o, t, l->w[4]}, of_o[] = {o, t, l->w[1]};
    const ls_tensor through = COMPUTE(g, of_new, {LS_MAP_NUMBER, 0, 0, 0, 1}, {LS_MAP_SUB, 3, 0, 0, 0},
                                      {LS_MAP_MUL, 4, 2, 0, 0}, {LS_MAP_MUL, 5, 1, 0, 0}, {LS_MAP_MUL, 1, 1, 0, 0},
                                      {LS_MAP_SUB, 3, 7, 0, 0}, {LS_MAP_ADD, 6, 8, 0, 0}, {LS_MAP_MUL, 0, 9, 0, 0});
    const ls_tensor besides = COMPUTE(g, of_o, {LS_MAP_NUMBER, 0, 0, 0, 1}, {LS_MAP_SUB, 3, 0, 0, 0},
                                      {LS_MAP_MUL, 4, 0, 0, 0}, {LS_MAP_MUL, 5, 1, 0, 0}, {LS_MAP_MUL, 6, 2, 0, 0});
    const ls_tensor sums[] = {besides, through, slope[2]};
    slope[1] = ls_mul(g, through, slope[3]);
    slope[0] = COMPUTE(g, sums, {LS_MAP_MUL, 1, 2, 0, 0}, {LS_MAP_ADD, 0, 3, 0, 0});
}

static const cell cells[] = {{LS_RNN_DIAGONAL_GRU, apply_gru}, {LS_RNN_DIAGONAL_LSTM, apply_lstm}};

static const cell *cell_of(ls_rnn_kind kind) {
    for (size_t i = 0; i < LS_COUNT(cells); i++)
        if (cells[i].kind == kind) return &cells[i];
    return NULL;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* States, and tensors with a value per state, are [B,S,states E]: first the E elements of the first state. */
static void take_apart(const layer *l, ls_tensor h, ls_tensor *state) {
    const int64_t E = ls_graph_tensor(l->g, l->x[0])->shape.dim[2].size, size[MOST_STATES] = {E, E};
    if (l->states == 1)
        state[0] = h;
    else
        ls_split(l->g, h, l->states, size, state);
}

static ls_tensor put_together(ls_graph *g, const ls_tensor *part, int n) {
    return n == 1 ? part[0] : ls_join(g, n, part);
}

/* t, with 0 at the first tokens of documents. */
static ls_tensor within_documents(const layer *l, ls_tensor t) {
    const ls_tensor in[] = {t, l->follows};
    return l->follows.id != 0 ? COMPUTE(l->g, in, {LS_MAP_MUL, 0, 1, 0, 0}) : t;
}

/* The states that the cell computes from guesses h, and its slopes there [B,S,states states E], as constants. */
static ls_tensor apply(const layer *l, ls_tensor h, ls_tensor *slopes) {
    ls_tensor before[MOST_STATES], after[MOST_STATES], slope[MOST_STATES * MOST_STATES];
    take_apart(l, constant(l->g, within_documents(l, ls_shift(l->g, h, 1))), before);
    for (int i = 0; i < l->states; i++) (void)constant(l->g, before[i]);
    l->cell->apply(l, before, after, slope);
    for (int i = 0; i < l->states * l->states; i++) (void)constant(l->g, slope[i]);
    *slopes = constant(l->g, within_documents(l, put_together(l->g, slope, l->states * l->states)));
    return put_together(l->g, after, l->states);
}

/* The solution of h = slopes h' + x. */
static ls_tensor solve(const layer *l, ls_tensor slopes, ls_tensor x) {
    if (l->states == 1) return ls_recurrence(l->g, slopes, x);
    const ls_shape *s = &ls_graph_tensor(l->g, x)->shape;
    const int64_t B = s->dim[0].size, S = s->dim[1].size, K = l->states, E = s->dim[2].size / K;
    const ls_tensor gate = constant(l->g, ls_reshape(l->g, slopes, 5, (int64_t[]){B, S, K, K, E}));
    return ls_merge_last(l->g, ls_recurrence(l->g, gate, ls_split_last(l->g, x, K, E)));
}

/* The difference between guesses h and `made`, which the cell computes from them. */
static ls_tensor rest_of(const layer *l, ls_tensor made, ls_tensor h) {
    return ls_add(l->g, made, constant(l->g, ls_scale(l->g, h, -1)));
}

/* One step from guesses h; *rest: the difference before the step. */
static ls_tensor improve(const layer *l, ls_tensor h, bool last, ls_tensor *rest) {
    ls_tensor slopes;
    const ls_tensor made = apply(l, h, &slopes);
    if (!last) (void)constant(l->g, made);
    *rest = rest_of(l, made, h);
    return ls_add(l->g, h, solve(l, slopes, *rest));
}

/* The first guess: what the cell computes from states of 0. */
static ls_tensor begin(const layer *l) {
    ls_tensor zero[MOST_STATES], after[MOST_STATES], slope[MOST_STATES * MOST_STATES];
    for (int i = 0; i < l->states; i++) zero[i] = constant(l->g, ls_scale(l->g, l->x[0], 0));
    l->cell->apply(l, zero, after, slope);
    return constant(l->g, put_together(l->g, after, l->states));
}

/* The difference in the states after the last step. */
static ls_tensor last_rest(const layer *l, ls_tensor h) {
    ls_tensor slopes;
    return rest_of(l, constant(l->g, apply(l, h, &slopes)), h);
}

/*
 * 1 where a state differs by more than the bound from what the cell computes from the previous one, else 0; G [B,S,E].
 */
static ls_tensor find_wrong(const layer *l, ls_tensor rest, double bound) {
    const ls_map_step step[] = {
        {LS_MAP_ABS, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, bound}, {LS_MAP_LE, 1, 2, 0, 0}, {LS_MAP_NOT, 3, 0, 0, 0}};
    ls_tensor wrong[MOST_STATES];
    take_apart(
        l, constant(l->g, ls_map(l->g, &rest, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = 1})),
        wrong);
    static const ls_map_step max = {LS_MAP_MAX, 0, 1, 0, 0};
    for (int i = 1; i < l->states; i++) {
        const ls_tensor both[] = {wrong[0], wrong[i]};
        wrong[0] = ls_map(l->g, both, 2, &(ls_expression){.step = &max, .n_steps = 1, .wide = 1});
    }
    return constant(l->g, wrong[0]);
}

static ls_tensor sum_of_squares(const layer *l, ls_tensor rest) {
    static const ls_map_step square = {LS_MAP_MUL, 0, 0, 0, 0};
    return ls_sum(l->g,
                  constant(l->g, ls_map(l->g, &rest, 1, &(ls_expression){.step = &square, .n_steps = 1, .wide = 1})));
}

/* *count: how many are wrong; an engine reads it if a loss is not finite. */
static void report(const layer *l, ls_tensor wrong, ls_tensor weight, const ls_newton_form *form, ls_tensor *count) {
    ls_graph *g = l->g;
    const ls_shape *s = &ls_graph_tensor(g, wrong)->shape;
    *count = ls_named(g, ls_sum(g, wrong), "unconverged %d", g->n_shortfalls);
    if (count->id == 0) return;
    const int64_t states = s->dim[0].size * s->dim[1].size * s->dim[2].size;
    char what[512];
    ls_print(
        what, sizeof what,
        "of %lld states of rnn_newton with weight \"%s\" have not converged: after %d steps they differ by more than"
        " %g from what the cell makes of those before; take more steps, or ls_rnn, which goes token by token",
        (long long)states, ls_graph_tensor(g, weight)->name, form->steps, form->bound);
    *LS_PUSH(g->arena, g->shortfalls, g->n_shortfalls, g->shortfall_capacity) =
        (ls_shortfall){*count, ls_arena_strdup(g->arena, what)};
}

/* y, with NaN where it is wrong. */
static ls_tensor spoil(ls_graph *g, ls_tensor y, ls_tensor wrong) {
    const ls_tensor in[] = {y, wrong};
    return COMPUTE(g, in, {LS_MAP_NUMBER, 0, 0, 0, INFINITY}, {LS_MAP_SUB, 2, 2, 0, 0}, {LS_MAP_WHERE, 1, 3, 0, 0});
}

/*
 * 1 for tokens with others before them in their document, 0 for the first; in the graph's type, with a last dimension.
 */
static ls_tensor followers(ls_graph *g, ls_tensor places) {
    const ls_shape *s = &ls_graph_tensor(g, places)->shape;
    const int64_t size[] = {s->dim[0].size, s->dim[1].size, 1};
    const ls_tensor in[] = {places};
    return ls_reshape(g, COMPUTE(g, in, {LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 1, 0, 0, 0}), 3, size);
}

/* --- the layer ---------------------------------------------------------------------------------------------------- */

static ls_status check(const ls_graph *g, ls_tensor x, ls_tensor weight, const ls_newton_form *form,
                       const ls_tensor *unconverged) {
    if (g->dtype == LS_BF16)
        return ls_error(LS_INVALID,
                        "rnn_newton: the graph is bf16, in which no residual is small; expected f32 or f64");
    const double least = 4 * (g->dtype == LS_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    if (form == NULL || form->steps < 1 || form->steps > LS_NEWTON_STEPS || !(form->bound >= least) ||
        !isfinite(form->bound))
        return ls_error(LS_INVALID,
                        "rnn_newton: %d steps and a bound of %g, expected 1 to %d and a finite number of at least %.2g,"
                        " as states are rounded",
                        form == NULL ? 0 : form->steps, form == NULL ? 0 : form->bound, LS_NEWTON_STEPS, least);
    if (unconverged == NULL)
        return ls_error(LS_INVALID, "rnn_newton: unconverged is NULL, expected a place for the number of elements");
    if (!ls_graph_has(g, x) || !ls_graph_has(g, weight) || (form->places.id != 0 && !ls_graph_has(g, form->places)))
        return ls_error(LS_INVALID, "rnn_newton: x, weight or places is no tensor of this graph");
    if (cell_of(form->kind) == NULL)
        return ls_error(LS_INVALID, "rnn_newton: kind %d, expected a diagonal GRU or LSTM", (int)form->kind);
    const ls_rnn_sizes sizes = ls_rnn_sizes_of(form->kind);
    const ls_shape *s = &ls_graph_tensor(g, x)->shape, *w = &ls_graph_tensor(g, weight)->shape;
    if (s->ndim == 4 && w->ndim == 3 && s->dim[3].size == sizes.gates * w->dim[2].size &&
        s->dim[2].size == w->dim[0].size && w->dim[1].size == sizes.numbers)
        return ls_ok();
    return ls_error(LS_INVALID,
                    "rnn_newton: x and weight have other shapes than those of a cell of its kind of ls_rnn");
}

/* Merges the heads into one. */
static layer layer_of(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_newton_form *form) {
    const ls_rnn_sizes sizes = ls_rnn_sizes_of(form->kind);
    const ls_shape *w = &ls_graph_tensor(g, weight)->shape;
    const int64_t D = w->dim[2].size, E = w->dim[0].size * D, size[MOST_GATES] = {D, D, D};
    layer l = {.g = g, .cell = cell_of(form->kind), .states = sizes.states};
    LS_ASSERT(l.cell != NULL);
    ls_tensor part[MOST_GATES];
    ls_split(g, x, sizes.gates, size, part);
    for (int i = 0; i < sizes.gates; i++) l.x[i] = ls_merge_last(g, part[i]);
    for (int i = 0; i < sizes.numbers; i++) l.w[i] = ls_reshape(g, ls_slice(g, weight, 1, i, 1, 1), 1, &E);
    if (form->places.id != 0) l.follows = constant(g, followers(g, form->places));
    return l;
}

/* The differences before each step and after the last, in the form of ls_newton_progress. */
typedef struct left {
    ls_tensor *missing, *squares;
    int n;
} left;

static void add_left(const layer *l, ls_tensor rest, ls_tensor wrong, left *to) {
    to->missing[to->n] = ls_sum(l->g, wrong);
    to->squares[to->n++] = sum_of_squares(l, rest);
}

/* The states after all steps; *wrong: where they have not converged. */
static ls_tensor take_steps(const layer *l, const ls_newton_form *form, ls_newton_progress *progress,
                            ls_tensor *wrong) {
    ls_graph *g = l->g;
    const int n = form->steps + 1;
    left all = {LS_NEW_ARRAY(g->arena, ls_tensor, n), LS_NEW_ARRAY(g->arena, ls_tensor, n), 0};
    ls_tensor h = begin(l), rest;
    for (int i = 0; i < form->steps; i++) {
        const bool last = i + 1 == form->steps;
        h = improve(l, h, last, &rest);
        if (!last) (void)constant(g, h);
        if (progress != NULL) add_left(l, rest, find_wrong(l, rest, form->bound), &all);
    }
    rest = last_rest(l, h);
    *wrong = find_wrong(l, rest, form->bound);
    if (progress == NULL) return h;
    add_left(l, rest, *wrong, &all);
    *progress = (ls_newton_progress){ls_concat(g, 0, n, all.missing), ls_concat(g, 0, n, all.squares)};
    return h;
}

ls_tensor ls_rnn_newton(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_newton_form *form, ls_tensor *unconverged,
                        ls_newton_progress *progress) {
    if (unconverged != NULL) *unconverged = LS_NO_TENSOR;
    if (progress != NULL) *progress = (ls_newton_progress){LS_NO_TENSOR, LS_NO_TENSOR};
    if (ls_graph_status(g).code != LS_OK) return LS_NO_TENSOR;
    const ls_status fits = check(g, x, weight, form, unconverged);
    if (fits.code != LS_OK) return ls_graph_fail(g, fits);
    const ls_shape *w = &ls_graph_tensor(g, weight)->shape;
    const int64_t H = w->dim[0].size, D = w->dim[2].size;
    const layer l = layer_of(g, x, weight, form);
    ls_tensor wrong, state[MOST_STATES];
    const ls_tensor h = take_steps(&l, form, progress, &wrong);
    report(&l, wrong, weight, form, unconverged);
    take_apart(&l, h, state);
    return ls_split_last(g, spoil(g, state[0], wrong), H, D);
}
