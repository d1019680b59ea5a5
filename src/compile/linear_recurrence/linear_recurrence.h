/*
 * Linear recurrences over ranks. A node on this rank is described once, as a site (site.c). Calls of the kernels are in
 * calls.c; how states come to the ranks that share a sequence, in maps.c.
 */
#ifndef LS_LINEAR_RECURRENCE_H
#define LS_LINEAR_RECURRENCE_H

#include "compile/redistribute/redistribute.h"

/* Inputs and results of the kernels, of some tokens and heads. What a node does not have has a last size of 0. */
typedef struct ls_linear_tensors {
    ls_operand q, k, v, decay, beta, starts; /* [B,n,K,D] twice, [B,n,H,E], [B,n,H,A], [B,n,H,C], [B,n,X] */
    ls_operand o;                            /* forward */
    ls_operand grad_o;                       /* backward, as are those below */
    ls_operand dq, dk, dv, ddecay, dbeta;
} ls_linear_tensors;

typedef struct ls_linear_site {
    const ls_node *node; /* the forward node, or the gradient's */
    int forward;         /* the forward node's number */
    ls_linear_recurrence_params params;
    int64_t B, K, H, D, E; /* heads on this rank */
    int64_t map;           /* elements of a map of a head */
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
/* An operand without its first dimension, of which it has one. */
ls_operand ls_linear_single(ls_operand operand);
/* Room of type G for n states, or for n maps: [n,B,H,D,E], [n,B,H,map]. */
ls_operand ls_linear_states(ls_builder *b, const ls_linear_site *site, const char *name, int64_t n);
ls_operand ls_linear_maps(ls_builder *b, const ls_linear_site *site, int64_t n);

/* By maps of runs (maps.c). */
void ls_linear_forward_by_maps(ls_builder *b, ls_linear_site *site);
void ls_linear_backward_by_maps(ls_builder *b, ls_linear_site *site);

#endif
