/* Shared by the reference kernels of recurrent cells: a call's operands, and the cells in double. */
#ifndef LS_KERNEL_REF_RNN_H
#define LS_KERNEL_REF_RNN_H

#include "kernel/ref/ref_impl.h"
#include "kernel/rnn_cells.h"

#define cell_real double
#define cell_zero 0.0
#define CELL_FUNCTION static inline
#define cell_tanh tanh
#define cell_exp exp
#define cell_max fmax
#define cell_if_zero(x, a, b) ((x) == 0 ? (a) : (b))
static inline double cell_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static inline double cell_log_sigmoid(double x) { return fmin(x, 0) - log1p(exp(-fabs(x))); }
#include "kernel/rnn_cells.h"

typedef struct rnn_cell {
    int gates, states, numbers;
    void (*step)(const double *x, const double *w, const double *before, double *after);
    void (*back)(const double *x, const double *w, const double *before, const double *d, double *dx, double *dw,
                 double *dbefore);
} rnn_cell;

#define RNN_CELL(kind, name, gates, states, numbers) \
    [LS_RNN_##kind] = {gates, states, numbers, name##_step, name##_back},
static const rnn_cell rnn_cells[LS_RNN_KINDS] = {LS_RNN_CELLS(RNN_CELL)};

typedef struct rnn_views {
    const rnn_cell *cell;
    const ls_view *x, *weight, *bias, *places, *y;
    int64_t B, N, H, D;
    int64_t size; /* of a head's state: states · D */
    int64_t rows; /* of a head's weight: gates · D, or the numbers of a diagonal cell */
    bool ends;    /* places have the meaning of params.ends */
} rnn_views;

static inline rnn_views rnn_views_of(const ls_kernel_call *call, const ls_view *y) {
    rnn_views v = {.cell = &rnn_cells[((const ls_rnn_params *)call->params)->kind],
                   .x = &call->in[0],
                   .weight = &call->in[1],
                   .bias = &call->in[2],
                   .places = &call->in[3],
                   .y = y,
                   .B = y->size[0],
                   .N = y->size[1],
                   .H = y->size[2],
                   .D = y->size[3]};
    v.size = v.cell->states * v.D;
    v.rows = v.weight->size[1];
    v.ends = ((const ls_rnn_params *)call->params)->ends;
    return v;
}

static inline real *rnn_at(const ls_view *v, int64_t b, int64_t n, int64_t h) {
    return (real *)v->data + b * v->stride[0] + n * v->stride[1] + h * v->stride[2];
}

static inline int32_t rnn_place(const rnn_views *v, int64_t b, int64_t n) {
    return ((const int32_t *)v->places->data)[b * v->places->stride[0] + n * v->places->stride[1]];
}

static inline bool rnn_begins(const rnn_views *v, int64_t b, int64_t n) {
    return v->places->size[2] > 0 && !v->ends && rnn_place(v, b, n) == 0;
}

static inline bool rnn_leaves_state(const rnn_views *v, int64_t b, int64_t n) {
    return v->ends && rnn_place(v, b, n) >= 0;
}

/* w of element d of a head: for each gate, from y of the previous token; or the numbers of a diagonal cell. */
static inline void rnn_numbers(const rnn_views *v, int64_t h, int64_t d, const double *y, double *w) {
    const real *weight = (const real *)v->weight->data + h * v->rows * v->D;
    for (int i = 0; i < v->cell->numbers; i++) w[i] = (double)weight[i * v->D + d];
    for (int g = 0; g < v->cell->gates && v->cell->numbers == 0; g++) {
        const int64_t row = g * v->D + d;
        w[g] = v->bias->size[1] > 0 ? (double)((const real *)v->bias->data)[h * v->rows + row] : 0;
        for (int64_t j = 0; j < v->D; j++) w[g] += (double)weight[row * v->D + j] * y[j];
    }
}

/* The arguments of a cell for element d. */
typedef struct rnn_element {
    double x[RNN_MOST_GATES], w[RNN_MOST_NUMBERS], before[RNN_MOST_STATES];
} rnn_element;

static inline rnn_element rnn_element_of(const rnn_views *v, int64_t b, int64_t n, int64_t h, int64_t d,
                                         const double *before) {
    rnn_element e;
    for (int g = 0; g < v->cell->gates; g++) e.x[g] = (double)rnn_at(v->x, b, n, h)[g * v->D + d];
    for (int s = 0; s < v->cell->states; s++) e.before[s] = before[s * v->D + d];
    rnn_numbers(v, h, d, before, e.w);
    return e;
}

/*
 * `before`, the state in front of token n, is set to 0 if the token begins a document; `after` becomes the state behind
 * it.
 */
static inline void rnn_step(const rnn_views *v, int64_t b, int64_t n, int64_t h, double *before, double *after) {
    for (int64_t i = 0; i < v->size && rnn_begins(v, b, n); i++) before[i] = 0;
    for (int64_t d = 0; d < v->D; d++) {
        const rnn_element e = rnn_element_of(v, b, n, h, d, before);
        double out[RNN_MOST_STATES];
        v->cell->step(e.x, e.w, e.before, out);
        for (int s = 0; s < v->cell->states; s++) after[s * v->D + d] = out[s];
    }
}

#endif
