/*
 * Shared by the kernels of recurrent cells: cells in vectors, the operands of a call, and products of a few rows with a
 * head's matrix. A head's states are in f32, [sequences][states][wide]; wide: D rounded up to whole vectors.
 */
#ifndef LS_KERNEL_CPU_RNN_H
#define LS_KERNEL_CPU_RNN_H

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"
#include "kernel/rnn_cells.h"

/* log(1 + u) for u = exp(-|x|), by the series of 2 artanh(u / (2 + u)), whose argument is at most 1/3. */
V_INLINE v_f32 v_log_sigmoid(v_f32 x) {
    const v_f32 u = v_exp(v_select(x < 0.0f, x, -x)), s = u / (2.0f + u), q = s * s;
    v_f32 p = q * (1.0f / 13) + 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    p = p * q + 1.0f;
    return v_select(x < 0.0f, x, v_set(0)) - 2.0f * s * p;
}

#define cell_real v_f32
#define cell_zero v_set(0)
#define CELL_FUNCTION V_INLINE
#define cell_sigmoid v_sigmoid
#define cell_tanh v_tanh
#define cell_exp v_exp
#define cell_log_sigmoid v_log_sigmoid
#define cell_max v_max
#define cell_if_zero(x, a, b) v_select((v_i32)((x) == 0.0f), a, b)
#include "kernel/rnn_cells.h"

typedef struct rnn_cell {
    int gates, states, numbers;
    void (*step)(const v_f32 *x, const v_f32 *w, const v_f32 *before, v_f32 *after);
    void (*back)(const v_f32 *x, const v_f32 *w, const v_f32 *before, const v_f32 *d, v_f32 *dx, v_f32 *dw,
                 v_f32 *dbefore);
} rnn_cell;

#define RNN_CELL(kind, name, gates, states, numbers) \
    [LS_RNN_##kind] = {gates, states, numbers, name##_step, name##_back},
static const rnn_cell rnn_cells[LS_RNN_KINDS] = {LS_RNN_CELLS(RNN_CELL)};

typedef struct rnn_call {
    const rnn_cell *cell;
    ls_rnn_kind kind;
    bool ends; /* places have the meaning of params.ends */
    const ls_view *x, *weight, *bias, *places, *y;
    int64_t B, N, H, D;
    int64_t rows;       /* of a head's weight */
    int64_t wide, size; /* wide: D rounded up to whole vectors; size of a state: states · wide */
} rnn_call;

V_INLINE int64_t whole_vectors(int64_t n) { return ls_ceil_div(n, V_LANES) * V_LANES; }

V_INLINE rnn_call rnn_call_of(const ls_kernel_call *call, const ls_view *y) {
    const ls_rnn_params *params = call->params;
    rnn_call r = {.cell = &rnn_cells[params->kind],
                  .kind = params->kind,
                  .ends = params->ends,
                  .x = &call->in[0],
                  .weight = &call->in[1],
                  .bias = &call->in[2],
                  .places = &call->in[3],
                  .y = y,
                  .B = y->size[0],
                  .N = y->size[1],
                  .H = y->size[2],
                  .D = y->size[3]};
    r.rows = r.weight->size[1];
    r.wide = whole_vectors(r.D);
    r.size = r.cell->states * r.wide;
    return r;
}

V_INLINE element *rnn_at(const ls_view *v, int64_t b, int64_t n, int64_t h) {
    return (element *)v->data + b * v->stride[0] + n * v->stride[1] + h * v->stride[2];
}

V_INLINE int32_t rnn_place(const rnn_call *r, int64_t b, int64_t n) {
    return ((const int32_t *)r->places->data)[b * r->places->stride[0] + n * r->places->stride[1]];
}

V_INLINE bool rnn_begins(const rnn_call *r, int64_t b, int64_t n) {
    return r->places->size[2] > 0 && !r->ends && rnn_place(r, b, n) == 0;
}

V_INLINE bool rnn_leaves_state(const rnn_call *r, int64_t b, int64_t n) { return r->ends && rnn_place(r, b, n) >= 0; }

V_INLINE void rnn_load_x(const rnn_call *r, int64_t b, int64_t n, int64_t h, int64_t d, v_f32 *x) {
    const element *at = rnn_at(r->x, b, n, h) + d;
    for (int g = 0; g < r->cell->gates; g++) x[g] = v_load(at + g * r->D, r->D - d);
}

/* The weights of elements d .. of a diagonal cell. */
V_INLINE void rnn_load_numbers(const rnn_call *r, int64_t h, int64_t d, v_f32 *w) {
    const element *at = (const element *)r->weight->data + h * r->rows * r->D + d;
    for (int i = 0; i < r->cell->numbers; i++) w[i] = v_load(at + i * r->D, r->D - d);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

enum {
    PANEL_VECTORS = V_REGISTERS == 32 ? 4 : 2,
    PANEL = PANEL_VECTORS * V_LANES, /* columns of a matrix that are stored together, row by row */
    PANEL_ROWS = 4
};

V_INLINE int64_t whole_panels(int64_t columns) { return ls_ceil_div(columns, PANEL) * PANEL; }

/* Index of element (k, c) of a matrix of `depth` rows that is stored in panels. */
V_INLINE int64_t in_panels(int64_t depth, int64_t k, int64_t c) { return (c / PANEL * depth + k) * PANEL + c % PANEL; }

V_INLINE void panel_sums(int rows, const float *a, int64_t a_row, int64_t depth, const float *panel, float *out,
                         int64_t out_row) {
    v_f32 sum[PANEL_ROWS][PANEL_VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < PANEL_VECTORS; j++) sum[i][j] = v_load_f32(out + i * out_row + j * V_LANES, V_LANES);
    }
    for (int64_t k = 0; k < depth; k++) {
#pragma GCC unroll 4
        for (int j = 0; j < PANEL_VECTORS; j++) {
            const v_f32 column = v_load_f32(panel + k * PANEL + j * V_LANES, V_LANES);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) sum[i][j] += a[i * a_row + k] * column;
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < PANEL_VECTORS; j++) v_store_f32(out + i * out_row + j * V_LANES, sum[i][j], V_LANES);
    }
}

/* out[i][c] += the sum over k of a[i][k] times row k of the matrix in panels; columns: a multiple of PANEL. */
static inline void add_products(int64_t n, const float *a, int64_t a_row, int64_t depth, const float *panels,
                                int64_t columns, float *out, int64_t out_row) {
    for (int64_t c = 0; c < columns; c += PANEL) {
        const float *panel = panels + c * depth;
        int64_t i = 0;
        for (; i + PANEL_ROWS <= n; i += PANEL_ROWS)
            panel_sums(PANEL_ROWS, a + i * a_row, a_row, depth, panel, out + i * out_row + c, out_row);
        for (; i < n; i++) panel_sums(1, a + i * a_row, a_row, depth, panel, out + i * out_row + c, out_row);
    }
}

/* A head's R in the form for w = R y: [D][rows] in panels. */
static inline void pack_for_rows(const rnn_call *r, int64_t h, float *panels) {
    const element *weight = (const element *)r->weight->data + h * r->rows * r->D;
    for (int64_t row = 0; row < whole_panels(r->rows); row++)
        for (int64_t d = 0; d < r->D; d++)
            panels[in_panels(r->D, d, row)] = row < r->rows ? element_to_f32(weight[row * r->D + d]) : 0.0f;
}

/* Sets n rows w[rows rounded up to whole panels] to the biases. */
static inline void begin_rows(const rnn_call *r, int64_t h, int64_t n, float *w) {
    const int64_t width = whole_panels(r->rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < width; row++)
            w[i * width + row] = row < r->rows && r->bias->size[1] > 0
                                     ? element_to_f32(((const element *)r->bias->data)[h * r->rows + row])
                                     : 0.0f;
}

/* The parts of w of the elements from d on, one vector for each gate. */
V_INLINE void rnn_load_w(const rnn_call *r, const float *w, int64_t d, v_f32 *out) {
    for (int g = 0; g < r->cell->gates; g++) out[g] = v_load_f32(w + g * r->D + d, r->D - d);
}

#endif
