/* The diagonal GRU and LSTM by Newton's method, parallel along the sequence. */
#ifndef LONGSPAN_NEWTON_H
#define LONGSPAN_NEWTON_H

#include "longspan/graph.h"

LS_PUBLIC_BEGIN

enum { LS_NEWTON_STEPS = 1000 }; /* the most that a layer may have */

/*
 * kind: LS_RNN_DIAGONAL_GRU or LS_RNN_DIAGONAL_LSTM. steps: of Newton's method, 1 to LS_NEWTON_STEPS; each is one scan.
 * After k steps token k is exact; if the cell forgets, all tokens are after a few steps
 * (docs/lab/34-recurrent-cells.md). bound: a state has converged if it differs by no more than this from what the cell
 * makes of the previous state; states lie between -1 and 1. The least bound is four times the distance between 1 and
 * the next number of the graph's type: 4.8e-7 in f32, 8.9e-16 in f64. places: as in ls_rnn_form.
 */
typedef struct ls_newton_form {
    ls_rnn_kind kind;
    int steps;
    double bound;
    ls_tensor places;
} ls_newton_form;

/*
 * How far the states are from a solution before the first step and after each step, G[steps + 1]. A state's difference
 * is that to what the cell makes of the previous state. missing: how many elements, over all tokens and sequences,
 * differ by more than the bound. squares: the sum of the squares of all differences (for the LSTM of both y and c). The
 * number of steps needed is the number of entries of `missing` that are not 0.
 */
typedef struct ls_newton_progress {
    ls_tensor missing, squares;
} ls_newton_progress;

/*
 * ls_rnn for one of these kinds, with the same x, weight and result (Danieli et al., "ParaRNN", arXiv 2510.21450), in
 * graphs of f32 and f64. A state that has not converged is NaN, so that no result that depends on it can be mistaken
 * for a valid one. *unconverged G[1]: how many elements, over all tokens and sequences, have not converged. If for this
 * reason the loss of an engine's step is not finite, the step returns LS_DIVERGED, which names the weight and this
 * number. Gradients are those of the solution. *progress: for callers who read it; progress NULL: it is not computed.
 */
ls_tensor ls_rnn_newton(ls_graph *graph, ls_tensor x, ls_tensor weight, const ls_newton_form *form,
                        ls_tensor *unconverged, ls_newton_progress *progress);

LS_PUBLIC_END

#endif
