/*
 * Linear recurrences over ranks. A site (site.c) describes a node on this rank. calls.c has the calls of the kernels. A
 * way is how states reach the ranks that share a sequence; each way is one table row.
 */
#ifndef LS_LINEAR_RECURRENCE_H
#define LS_LINEAR_RECURRENCE_H

#include "compile/redistribute/redistribute.h"

/*
 * Inputs and results of the kernels, for some tokens and heads. The last dimension of an input that the node lacks has
 * size 0.
 */
typedef struct ls_linear_tensors {
    ls_operand q, k, v, decay, beta, places; /* q, k [B,n,K,D]; [B,n,H,E]; [B,n,H,A]; [B,n,H,C]; [B,n,X] */
    ls_operand o;                            /* forward; [B,n,H,E] */
    ls_operand last; /* [B,H,D,E]: the state after the last token, zeros on all ranks but one; buffer -1: not wanted */
    ls_operand grad_o; /* backward, as are the next five */
    ls_operand dq, dk, dv, ddecay, dbeta;
} ls_linear_tensors;

typedef struct ls_linear_site {
    const ls_node *node; /* the forward node, or its gradient node */
    int forward;         /* number of the forward node */
    ls_linear_recurrence_params params;
    int64_t B, K, H, D, E; /* K and H: numbers of heads on this rank */
    int64_t map;           /* elements of one head's map */
    ls_sizes keys, values; /* numbers of heads on the ranks along feature axes with the fewest and the most heads */
    ls_linear_tensors tensors;
} ls_linear_site;

/* --- calls (calls.c) --- */

/*
 * Call the kernels on tokens first .. first + count - 1 of `t`. The kernel's contract (kernel/contracts.c) says what
 * each state [B,H,D,E] is.
 */
void ls_linear_forward(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first,
                       int64_t count, ls_operand state);
void ls_linear_backward(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first,
                        int64_t count, ls_operand front, ls_operand behind);
/* Computes the map [B,H,map] of the tokens; with `back`, the map of the state's gradient. */
void ls_linear_map(ls_builder *b, const ls_linear_site *site, const ls_linear_tensors *t, int64_t first, int64_t count,
                   bool back, ls_operand map);
/*
 * Applies the maps [n,B,H,map] to state [B,H,D,E] one after the other, the last one first if `reverse`; with `back`,
 * the maps and the state are those of the gradient.
 */
void ls_linear_follow(ls_builder *b, const ls_linear_site *site, ls_operand maps, bool back, bool reverse,
                      ls_operand state);
/*
 * If the node's last state is wanted and position `past` is the end of the sequence: copies `state`, which is the state
 * in front of `past`, to heads `first` .. of the node's last state.
 */
void ls_linear_keep(ls_builder *b, const ls_linear_site *site, int64_t first, int64_t past, ls_operand state);
/* The operand without its first dimension, whose size is 1. */
ls_operand ls_linear_single(ls_operand operand);
/* Memory in the type of sums for n states [n,B,H,D,E], or for n maps [n,B,H,map]. */
ls_operand ls_linear_states(ls_builder *b, const ls_linear_site *site, const char *name, int64_t n);
ls_operand ls_linear_maps(ls_builder *b, const ls_linear_site *site, int64_t n);
/* The team of the ranks that share a sequence; a rank's place in it is the rank's number in the layout. */
int ls_linear_team(ls_builder *b);

/* --- ways --------------------------------------------------------------------------------------------------------- */

typedef struct ls_linear_way ls_linear_way;
struct ls_linear_way {
    ls_state_way way;
    void (*forward)(ls_builder *b, const ls_linear_way *way, ls_linear_site *site);
    void (*backward)(ls_builder *b, const ls_linear_way *way, ls_linear_site *site);
    /*
     * For ways that use the maps of runs: fills states [room,B,H,D,E] with the state in front of each run of this rank
     * (with `back`: the gradient behind each run), from the maps [room,B,H,map] of the runs.
     */
    void (*exchange)(ls_builder *b, const ls_linear_site *site, bool back, ls_operand maps, ls_operand states);
};

/* All ways; the row of way X is ls_linear_way_X. */
#define LS_LINEAR_WAYS(X) X(maps), X(owners), X(heads)
#define LS_LINEAR_WAY_ROW(name) ls_linear_way_##name
extern const ls_linear_way LS_LINEAR_WAYS(LS_LINEAR_WAY_ROW);

#endif
