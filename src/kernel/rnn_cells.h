/*
 * The arithmetic of recurrent cells (longspan/rnn.h), one element of a head at a time, for all implementations of the
 * kernels rnn: one row per cell. A file that includes this one defines before:
 *
 *   cell_real                a number, or a vector of numbers
 *   CELL_FUNCTION            the specifiers of a function, such as static inline, or those for a device
 *   cell_sigmoid(x), cell_tanh(x), cell_exp(x), cell_log_sigmoid(x), cell_max(a, b)
 *   cell_zero                0
 *   cell_if_zero(x, a, b)    a if x is 0, else b
 *
 * step: x[gates] and w belong to the token; before[states] is the state after the previous token, of which element 0 is
 * y; `after` is the state after this token. w is R y + b of each gate, or, in a diagonal cell, the element's own
 * weights. back: the gradients of x, w and `before` from the gradient of `after`; that of `before` without the part
 * that goes through w = R y + b.
 */
#ifndef LS_KERNEL_RNN_CELLS_H
#define LS_KERNEL_RNN_CELLS_H

/*
 * X(kind, name, gates, states, numbers). numbers: how many weights w an element of a diagonal cell has; 0: the cell has
 * matrices R and biases.
 */
#define LS_RNN_CELLS(X)      \
    X(ELMAN, elman, 1, 1, 0) \
    X(LSTM, lstm, 4, 2, 0)   \
    X(GRU, gru, 3, 1, 0)     \
    X(SLSTM, slstm, 4, 4, 0) \
    LS_RNN_DIAGONAL_CELLS(X)
#define LS_RNN_DIAGONAL_CELLS(X)   \
    X(DIAGONAL_GRU, dgru, 3, 1, 3) \
    X(DIAGONAL_LSTM, dlstm, 3, 2, 5)

enum { RNN_MOST_GATES = 4, RNN_MOST_STATES = 4, RNN_MOST_NUMBERS = 5 };

#endif

#ifdef cell_real

typedef const cell_real *cell_given;

CELL_FUNCTION void elman_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    (void)before;
    after[0] = cell_tanh(x[0] + w[0]);
}

CELL_FUNCTION void elman_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                              cell_real *dbefore) {
    (void)before;
    const cell_real y = cell_tanh(x[0] + w[0]);
    dx[0] = dw[0] = d[0] * (1.0f - y * y);
    dbefore[0] = cell_zero;
}

CELL_FUNCTION void lstm_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    const cell_real i = cell_sigmoid(x[0] + w[0]), f = cell_sigmoid(x[1] + w[1]), z = cell_tanh(x[2] + w[2]);
    after[1] = f * before[1] + i * z;
    after[0] = cell_sigmoid(x[3] + w[3]) * cell_tanh(after[1]);
}

CELL_FUNCTION void lstm_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                             cell_real *dbefore) {
    const cell_real i = cell_sigmoid(x[0] + w[0]), f = cell_sigmoid(x[1] + w[1]), z = cell_tanh(x[2] + w[2]),
                    o = cell_sigmoid(x[3] + w[3]), t = cell_tanh(f * before[1] + i * z),
                    dc = d[1] + d[0] * o * (1.0f - t * t);
    dx[0] = dw[0] = dc * z * i * (1.0f - i);
    dx[1] = dw[1] = dc * before[1] * f * (1.0f - f);
    dx[2] = dw[2] = dc * i * (1.0f - z * z);
    dx[3] = dw[3] = d[0] * t * o * (1.0f - o);
    dbefore[0] = cell_zero;
    dbefore[1] = dc * f;
}

CELL_FUNCTION void gru_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    const cell_real r = cell_sigmoid(x[0] + w[0]), z = cell_sigmoid(x[1] + w[1]), n = cell_tanh(x[2] + r * w[2]);
    after[0] = n + z * (before[0] - n);
}

CELL_FUNCTION void gru_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                            cell_real *dbefore) {
    const cell_real r = cell_sigmoid(x[0] + w[0]), z = cell_sigmoid(x[1] + w[1]), n = cell_tanh(x[2] + r * w[2]),
                    dn = d[0] * (1.0f - z) * (1.0f - n * n);
    dx[0] = dw[0] = dn * w[2] * r * (1.0f - r);
    dx[1] = dw[1] = d[0] * (before[0] - n) * z * (1.0f - z);
    dx[2] = dn;
    dw[2] = dn * r;
    dbefore[0] = d[0] * z;
}

/*
 * after: y, c, n, m. Results depend only on c / n, and so not on m, whose gradient is left out everywhere. n is at
 * least 1: the larger of the two exponents is m, so either `written` is 1, or n keeps its former value.
 */
CELL_FUNCTION void slstm_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    const cell_real i = x[0] + w[0], kept = cell_log_sigmoid(x[1] + w[1]) + before[3],
                    m = cell_if_zero(before[2], i, cell_max(i, kept)), written = cell_exp(i - m),
                    factor = cell_if_zero(before[2], cell_zero, cell_exp(kept - m));
    after[1] = factor * before[1] + written * cell_tanh(x[2] + w[2]);
    after[2] = factor * before[2] + written;
    after[3] = m;
    after[0] = cell_sigmoid(x[3] + w[3]) * after[1] / after[2];
}

CELL_FUNCTION void slstm_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                              cell_real *dbefore) {
    const cell_real i = x[0] + w[0], kept = cell_log_sigmoid(x[1] + w[1]) + before[3],
                    m = cell_if_zero(before[2], i, cell_max(i, kept)), written = cell_exp(i - m),
                    factor = cell_if_zero(before[2], cell_zero, cell_exp(kept - m)), z = cell_tanh(x[2] + w[2]),
                    o = cell_sigmoid(x[3] + w[3]), n = factor * before[2] + written,
                    h = (factor * before[1] + written * z) / n, dc = d[1] + d[0] * o / n, dn = d[2] - d[0] * o * h / n;
    dx[0] = dw[0] = (dc * z + dn) * written;
    dx[1] = dw[1] = (dc * before[1] + dn * before[2]) * factor * (1.0f - cell_sigmoid(x[1] + w[1]));
    dx[2] = dw[2] = dc * written * (1.0f - z * z);
    dx[3] = dw[3] = d[0] * h * o * (1.0f - o);
    dbefore[0] = dbefore[3] = cell_zero;
    dbefore[1] = dc * factor;
    dbefore[2] = dn * factor;
}

CELL_FUNCTION void dgru_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    const cell_real y = before[0], z = cell_sigmoid(x[0] + w[0] * y), r = cell_sigmoid(x[1] + w[1] * y);
    after[0] = y + z * (cell_tanh(x[2] + w[2] * y * r) - y);
}

CELL_FUNCTION void dgru_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                             cell_real *dbefore) {
    const cell_real y = before[0], z = cell_sigmoid(x[0] + w[0] * y), r = cell_sigmoid(x[1] + w[1] * y),
                    c = cell_tanh(x[2] + w[2] * y * r);
    dx[0] = d[0] * (c - y) * z * (1.0f - z);
    dx[2] = d[0] * z * (1.0f - c * c);
    dx[1] = dx[2] * w[2] * y * r * (1.0f - r);
    dw[0] = dx[0] * y;
    dw[1] = dx[1] * y;
    dw[2] = dx[2] * y * r;
    dbefore[0] = d[0] * (1.0f - z) + dx[0] * w[0] + dx[1] * w[1] + dx[2] * w[2] * r;
}

CELL_FUNCTION void dlstm_step(cell_given x, cell_given w, cell_given before, cell_real *after) {
    const cell_real f = cell_sigmoid(x[0] + w[0] * before[0] + w[3] * before[1]),
                    z = cell_tanh(x[2] + w[2] * before[0]);
    after[1] = z + f * (before[1] - z);
    after[0] = cell_sigmoid(x[1] + w[1] * before[0] + w[4] * after[1]) * cell_tanh(after[1]);
}

CELL_FUNCTION void dlstm_back(cell_given x, cell_given w, cell_given before, cell_given d, cell_real *dx, cell_real *dw,
                              cell_real *dbefore) {
    const cell_real f = cell_sigmoid(x[0] + w[0] * before[0] + w[3] * before[1]),
                    z = cell_tanh(x[2] + w[2] * before[0]), c = z + f * (before[1] - z),
                    o = cell_sigmoid(x[1] + w[1] * before[0] + w[4] * c), t = cell_tanh(c);
    dx[1] = d[0] * t * o * (1.0f - o);
    const cell_real dc = d[1] + d[0] * o * (1.0f - t * t) + dx[1] * w[4];
    dx[0] = dc * (before[1] - z) * f * (1.0f - f);
    dx[2] = dc * (1.0f - f) * (1.0f - z * z);
    dw[0] = dx[0] * before[0];
    dw[1] = dx[1] * before[0];
    dw[2] = dx[2] * before[0];
    dw[3] = dx[0] * before[1];
    dw[4] = dx[1] * c;
    dbefore[0] = dx[0] * w[0] + dx[1] * w[1] + dx[2] * w[2];
    dbefore[1] = dc * f + dx[0] * w[3];
}

#endif
