/*
 * Recurrent cells over ranks. A site (site.c) describes a node on this rank. calls.c has the calls of the kernels. A
 * way is how states reach the ranks that share a sequence; each way is one table row.
 */
#ifndef LS_COMPILE_RNN_H
#define LS_COMPILE_RNN_H

#include "compile/redistribute/redistribute.h"

/*
 * Inputs and results of the kernels, for some tokens and heads. The last dimension of an input that the node lacks has
 * size 0.
 */
typedef struct ls_rnn_tensors {
    ls_operand x, weight, bias, places; /* [B,n,H,gates·D], [H,W,D], [H,C], [B,n,F] */
    ls_operand y;                       /* [B,n,H,D] */
    ls_operand dy, dx, dweight, dbias;  /* backward; dweight and dbias are the sums to which the gradients are added */
    ls_operand last;                    /* [B,H,size]: the state after the last token; buffer -1: not wanted */
} ls_rnn_tensors;

typedef struct ls_rnn_site {
    const ls_node *node; /* the forward node, or its gradient node */
    int forward;         /* number of the forward node */
    ls_rnn_params params;
    int64_t B, H, D, size; /* H: heads on this rank; size: elements of one head's state */
    ls_sizes heads;        /* numbers of heads on the ranks along feature axes with the fewest and the most heads */
    ls_rnn_tensors tensors;
} ls_rnn_site;

/* Tokens from .. from + count - 1 of this rank, of sequences first .. first + sequences - 1. */
typedef struct ls_rnn_part {
    int64_t from, count, first, sequences;
} ls_rnn_part;

/* --- calls (calls.c) --- */

/* The kernels' contracts (kernel/contracts.c) say what each state [sequences,H,size] is. */
void ls_rnn_forward(ls_builder *b, const ls_rnn_site *site, const ls_rnn_part *part, ls_operand state);
void ls_rnn_backward(ls_builder *b, const ls_rnn_site *site, const ls_rnn_part *part, ls_operand front,
                     ls_operand behind);
/*
 * If the node's last state is wanted and position `past` is the end of the sequence: copies `state`, which is the state
 * in front of `past`, to heads `first` .. of the node's last state.
 */
void ls_rnn_keep(ls_builder *b, const ls_rnn_site *site, int64_t first, int64_t past, ls_operand state);
/*
 * Memory in the type of sums for n states [n,B,H,size]; and state i of it, of sequences first .. first + sequences - 1.
 */
ls_operand ls_rnn_states(ls_builder *b, const ls_rnn_site *site, const char *name, int64_t n);
ls_operand ls_rnn_state_at(ls_operand states, int64_t i, int64_t first, int64_t sequences);
/* Memory for results y that are computed again only for the sake of the states. */
ls_operand ls_rnn_unread(ls_builder *b, const ls_rnn_site *site);

/* --- ways --------------------------------------------------------------------------------------------------------- */

typedef struct ls_rnn_way {
    ls_state_way way;
    void (*forward)(ls_builder *b, ls_rnn_site *site);
    void (*backward)(ls_builder *b, ls_rnn_site *site);
} ls_rnn_way;

/* All ways; the row of way X is ls_rnn_way_X. */
#define LS_RNN_WAYS(X) X(chain), X(heads)
#define LS_RNN_WAY_ROW(name) ls_rnn_way_##name
extern const ls_rnn_way LS_RNN_WAYS(LS_RNN_WAY_ROW);

#endif
