/* The diagonal GRU and LSTM by Newton's method, parallel along the sequence. */
#ifndef LONGSPAN_NEWTON_H
#define LONGSPAN_NEWTON_H

#include "longspan/graph.h"

LS_PUBLIC_BEGIN

/*
 * kind: LS_RNN_DIAGONAL_GRU or LS_RNN_DIAGONAL_LSTM. steps: of Newton's method, at least 1; each is one scan. Token k
 * is exact after k of them, and where the cell forgets, all tokens after a few (docs/lab/34-recurrent-cells.md). bound:
 * a state has converged where it differs from what the cell makes of the one before it by no more; states lie between
 * -1 and 1. places: as in ls_rnn_form.
 */
typedef struct ls_newton_form {
    ls_rnn_kind kind;
    int steps;
    double bound;
    ls_tensor places;
} ls_newton_form;

/*
 * What is left to find in front of the first step and behind each, G[steps + 1]: how many states differ by more than
 * the bound from what the cell makes of the one before, of elements of all tokens and sequences; and the sum of the
 * squares of these differences, of all numbers of the states (of the LSTM y and c). As many steps are needed as numbers
 * of `missing` are not 0.
 */
typedef struct ls_newton_progress {
    ls_tensor missing, squares;
} ls_newton_progress;

/*
 * ls_rnn of one of these kinds, of the same x, weight and result (Danieli et al., "ParaRNN", arXiv 2510.21450). In
 * graphs of f32 and f64. A state that has not converged is NaN, so that no result that depends on it passes for one;
 * *unconverged G[1] is how many there are, of elements of all tokens and sequences. A step of an engine whose loss is
 * not finite for that reason is an error, LS_DIVERGED, that names the weight and the number. Gradients are those of the
 * solution. progress: for a caller who reads it; NULL: it is not computed.
 */
ls_tensor ls_rnn_newton(ls_graph *graph, ls_tensor x, ls_tensor weight, const ls_newton_form *form,
                        ls_tensor *unconverged, ls_newton_progress *progress);

LS_PUBLIC_END

#endif
