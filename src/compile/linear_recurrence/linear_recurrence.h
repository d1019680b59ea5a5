/*
 * Linear recurrences over ranks. A node on this rank is described once, as a site (site.c). Calls of the kernels are in
 * calls.c; how states come to the ranks that share a sequence is a way, one row each.
 */
#ifndef LS_LINEAR_RECURRENCE_H
#define LS_LINEAR_RECURRENCE_H

#include "compile/redistribute/redistribute.h"

/* Inputs and results of the kernels, of some tokens and heads. What a node does not have has a last size of 0. */
typedef struct ls_linear_tensors {
    ls_operand q, k, v, decay, beta, places; /* [B,n,K,D] twice, [B,n,H,E], [B,n,H,A], [B,n,H,C], [B,n,X] */
    ls_operand o;                            /* forward */
    ls_operand last; /* [B,H,D,E]: the state behind the last token, zeros on all ranks but one; buffer -1: not wanted */
    ls_operand grad_o; /* backward, as are those below */
    ls_operand dq, dk, dv, ddecay, dbeta;
} ls_linear_tensors;

typedef struct ls_linear_site {
    const ls_node *node; /* the forward node, or the gradient's */
    int forward;         /* the forward node's number */
    ls_linear_recurrence_params params;
    int64_t B, K, H, D, E; /* heads on this rank */
    int64_t map;           /* elements of a map of a head */
    ls_sizes keys, values; /* heads on the ranks along axes of features that have fewest and most */
    ls_linear_tensors tensors;
} ls_linear_site;

/* --- calls (calls.c) --- */

/* The kernels on tokens first .. first + count - 1 of them. `state` [B,H,D,E] of each is as in their contracts. */
void ls_linear_forward(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first,
                       int64_t count, ls_operand state);
void ls_linear_backward(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first,
                        int64_t count, ls_operand front, ls_operand behind);
/* map [B,H,map]; of the gradient if `back`. */
void ls_linear_map(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first, int64_t count,
                   bool back, ls_operand map);
/* state [B,H,D,E] becomes what the maps [n,B,H,map] make of it; of the gradient if `back`. */
void ls_linear_follow(ls_builder *b, const ls_linear_site *site, ls_operand maps, bool back, bool reverse,
                      ls_operand state);
/*
 * Where the state behind the last token is wanted: copies that of heads `first` .. if the tokens so far end in front of
 * position `past`, and that is the end of the sequence.
 */
void ls_linear_keep(ls_builder *b, const ls_linear_site *site, int64_t first, int64_t past, ls_operand state);
/* An operand without its first dimension, of which it has one. */
ls_operand ls_linear_single(ls_operand operand);
/* Room of type G for n states, or for n maps: [n,B,H,D,E], [n,B,H,map]. */
ls_operand ls_linear_states(ls_builder *b, const ls_linear_site *site, const char *name, int64_t n);
ls_operand ls_linear_maps(ls_builder *b, const ls_linear_site *site, int64_t n);
/* The ranks that share a sequence; the place of a rank is its number in the layout. */
int ls_linear_team(ls_builder *b);

/* --- ways --------------------------------------------------------------------------------------------------------- */

typedef struct ls_linear_way ls_linear_way;
struct ls_linear_way {
    ls_state_way way;
    void (*forward)(ls_builder *b, const ls_linear_way *way, ls_linear_site *site);
    void (*backward)(ls_builder *b, const ls_linear_way *way, ls_linear_site *site);
    /*
     * Of those by maps of runs: states [room,B,H,D,E] become those in front of each run of this rank, or behind it
     * (back), from the maps [room,B,H,map] of its runs.
     */
    void (*exchange)(ls_builder *b, const ls_linear_site *site, bool back, ls_operand maps, ls_operand states);
};

/* All ways: the row of X is ls_linear_way_X. */
#define LS_LINEAR_WAYS(X) X(maps), X(owners), X(heads)
#define LS_LINEAR_WAY_ROW(name) ls_linear_way_##name
extern const ls_linear_way LS_LINEAR_WAYS(LS_LINEAR_WAY_ROW);

#endif
