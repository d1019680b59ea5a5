/*
 * Recurrent cells over ranks. A node on this rank is described once, as a site (site.c). Calls of the kernels are in
 * calls.c; how states come to the ranks that share a sequence is a way, one row each.
 */
#ifndef LS_COMPILE_RNN_H
#define LS_COMPILE_RNN_H

#include "compile/redistribute/redistribute.h"

/* Inputs and results of the kernels, of some tokens and heads. What a node does not have has a last size of 0. */
typedef struct ls_rnn_tensors {
    ls_operand x, weight, bias, places; /* [B,n,H,gates·D], [H,W,D], [H,C], [B,n,F] */
    ls_operand y;                       /* [B,n,H,D] */
    ls_operand dy, dx, dweight, dbias;  /* backward; of the last two the sums that are added to */
    ls_operand last;                    /* [B,H,size]: the state behind the last token; buffer -1: nobody asks for it */
} ls_rnn_tensors;

typedef struct ls_rnn_site {
    const ls_node *node; /* the forward node, or the gradient's */
    int forward;         /* the forward node's number */
    ls_rnn_params params;
    int64_t B, H, D, size; /* heads on this rank; numbers of a head's state */
    ls_sizes heads;        /* on the ranks along axes of features that have fewest and most */
    ls_rnn_tensors tensors;
} ls_rnn_site;

/* Tokens from .. from + count - 1 of them, of sequences first .. first + sequences - 1. */
typedef struct ls_rnn_part {
    int64_t from, count, first, sequences;
} ls_rnn_part;

/* --- calls (calls.c) --- */

/* `state` [sequences,H,size] of each is as in the kernels' contracts. */
void ls_rnn_forward(ls_builder *b, const ls_rnn_site *site, const ls_rnn_part *part, ls_operand state);
void ls_rnn_backward(ls_builder *b, const ls_rnn_site *site, const ls_rnn_part *part, ls_operand front,
                     ls_operand behind);
/* `state`, of heads first .. of the site's, is that behind the tokens before position `past`. */
void ls_rnn_keep(ls_builder *b, const ls_rnn_site *site, int64_t first, int64_t past, ls_operand state);
/* Room of type G for n states [n,B,H,size]; and one of them, of some sequences. */
ls_operand ls_rnn_states(ls_builder *b, const ls_rnn_site *site, const char *name, int64_t n);
ls_operand ls_rnn_state_at(ls_operand states, int64_t i, int64_t first, int64_t sequences);
/* Room for results y that nobody reads. */
ls_operand ls_rnn_unread(ls_builder *b, const ls_rnn_site *site);

/* --- ways --------------------------------------------------------------------------------------------------------- */

typedef struct ls_rnn_way {
    ls_state_way way;
    void (*forward)(ls_builder *b, ls_rnn_site *site);
    void (*backward)(ls_builder *b, ls_rnn_site *site);
} ls_rnn_way;

/* All ways: the row of X is ls_rnn_way_X. */
#define LS_RNN_WAYS(X) X(chain), X(heads)
#define LS_RNN_WAY_ROW(name) ls_rnn_way_##name
extern const ls_rnn_way LS_RNN_WAYS(LS_RNN_WAY_ROW);

#endif
