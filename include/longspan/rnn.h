/* Kinds of recurrent cells, for ls_rnn in longspan/graph.h. */
#ifndef LONGSPAN_RNN_H
#define LONGSPAN_RNN_H

/*
 * s is the sigmoid. y and c on the right are the state after the previous token; in front of a document they are 0.
 * a[g] = x[g] + R[g] y + b[g] for the gates in the order given; in a formula the letter of a gate stands for its a,
 * unless the formula defines it. The last two kinds have a number per element, w[..], instead of each matrix R.
 */
typedef enum ls_rnn_kind {
    /* y = tanh(a). (Elman, 1990.) */
    LS_RNN_ELMAN,
    /* Gates i, f, z, o: c = s(f) c + s(i) tanh(z), y = s(o) tanh(c). (Gers et al., 2000; PyTorch's order.) */
    LS_RNN_LSTM,
    /* Gates r, z, n: n = tanh(x[n] + s(r) (R[n] y + b[n])), y = (1 - s(z)) n + s(z) y. (PyTorch's order.) */
    LS_RNN_GRU,
    /*
     * Gates i, f, z, o: c = s(f) c + e^i tanh(z), n = s(f) n + e^i, y = s(o) c / n, where c and n are kept as multiples
     * of e^m, with m = max(i, log s(f) + m), so that nothing overflows. (sLSTM of xLSTM, arXiv 2405.04517.)
     */
    LS_RNN_SLSTM,
    /*
     * Gates z, r, c, with one w each: y = s(z) c + (1 - s(z)) y with z = x[z] + w[z] y, r = x[r] + w[r] y and c =
     * tanh(x[c] + w[c] y s(r)). (ParaRNN, arXiv 2510.21450.)
     */
    LS_RNN_DIAGONAL_GRU,
    /*
     * Gates f, o, z; the numbers w are those of f, o, z for y, then of f, o for c: c = s(f) c + (1 - s(f)) tanh(x[z] +
     * w[z] y), y = s(o) tanh(c) with f = x[f] + w[f] y + w[f,c] c and o = x[o] + w[o] y + w[o,c] c, where o uses the
     * new c. (ParaRNN.)
     */
    LS_RNN_DIAGONAL_LSTM,
    LS_RNN_KINDS
} ls_rnn_kind;

#endif
