/*
 * Passes over the nodes of a program. Each takes the program's list of nodes and inserts nodes of its own, or groups
 * nodes into regions. So every decision about what is moved, kept or added up is a node before anything is lowered. A
 * pass reads the builder and emits no instructions. Each pass is one file with its row and the lowerings of the nodes
 * that it inserts.
 */
#ifndef LS_COMPILE_PASS_H
#define LS_COMPILE_PASS_H

#include "compile/compile_impl.h"

typedef struct ls_pass {
    const char *name, *about;
    LS_MUST_USE ls_status (*run)(const ls_builder *b, ls_program_nodes *nodes);
} ls_pass;

/*
 * All passes in their order: X(name) stands for the row ls_pass_name. Where two passes insert nodes before the same
 * node of the graph, or before the same nodes that stand together, those of the later pass come first.
 */
#define LS_PASSES(X) X(tile), X(sums), X(reduce), X(gather), X(offload), X(update)
#define LS_PASS_ROW(name) ls_pass_##name
extern const ls_pass LS_PASSES(LS_PASS_ROW);

/* The program's nodes after all passes. The image records how many nodes each pass has inserted. */
LS_MUST_USE ls_status ls_passes_run(const ls_builder *b, ls_program_nodes *out);

/* --- for passes (nodes.c) ----------------------------------------------------------------------------------------- */

/* Appends `n` nodes to the list. */
void ls_nodes_copy(const ls_builder *b, ls_program_nodes *to, const ls_program_node *nodes, int n);
/*
 * Appends a node of a pass to the list; it stands together with the nodes that have the number `together`
 * (ls_program_node).
 */
void ls_nodes_put(const ls_builder *b, ls_program_nodes *to, const ls_lowering *lowering, int together, void *params);
/* The index of the first node after those that stand together from `first` on. */
int ls_nodes_past(const ls_program_nodes *nodes, int first);
/* One more than the largest number of a graph node among nodes first .. past - 1; 0: there is none. */
int ls_nodes_end(const ls_program_nodes *nodes, int first, int past);

/* --- gradients on this rank (sums.c) ------------------------------------------------------------------------------ */

/* The sum of a group's gradients over some nodes: the params of the node that allocates the sum. */
typedef struct ls_group_sum {
    int group;
    const bool *adds; /* by parameter: whether one of the nodes adds to its gradients */
    ls_operand all;   /* the sum, once it is allocated */
} ls_group_sum;

/*
 * ls_sums_leave: whether each group's gradients have a buffer of their own in this program, from which they leave to be
 * reduced over the ranks.
 */
extern const ls_lowering ls_lowering_sum;
bool ls_sums_leave(const ls_builder *b);
/* Appends the node that makes a sum to which nothing is added. */
ls_group_sum *ls_put_empty_sum(const ls_builder *b, ls_program_nodes *to, int together, int group);
/* Finds the sums of a group that nodes in the list make, in the order of the list. Returns their number. */
int ls_find_sums(const ls_builder *b, const ls_program_nodes *nodes, int group, ls_group_sum ***out);

/* --- a group's elements to all ranks (group_gather.c) ------------------------------------------------------------- */

/* The params of the nodes of one all-gather of a group. */
typedef struct ls_group_gather ls_group_gather;

/*
 * from: the binding (a name) that holds each rank's pieces; NULL: they are already at their destination. all: an
 * operand with all elements of the flat space, to which the group's elements are gathered; NULL: a buffer of the group,
 * in which the nodes that follow find its parameters.
 */
ls_group_gather *ls_group_gather_make(const ls_builder *b, const char *label, int group, const char *from,
                                      const ls_operand *all);
/*
 * In this order: grant the slots; send this rank's pieces; forward by one stage the pieces that have arrived; wait
 * until all are there.
 */
extern const ls_lowering ls_lowering_gather_expect, ls_lowering_gather, ls_lowering_gather_stage, ls_lowering_gathered;

/* --- the scalars of a step (totals.c) ----------------------------------------------------------------------------- */

extern const ls_lowering ls_lowering_features, ls_lowering_totals, ls_lowering_control;

/* --- tiles (region.c) --------------------------------------------------------------------------------------------- */

/*
 * The params of a region: its tokens on this rank, the tokens of each tile but the last, and storage that exists for
 * one tile only. If nodes of a tile exchange something, all ranks need the same number of tiles: each rank then divides
 * its tokens evenly into `even` tiles.
 */
typedef struct ls_tiles {
    int64_t rows, tile;
    int64_t even; /* number of tiles on every rank; 0: rows / tile, rounded up */
    int64_t most; /* most tokens of a tile on any rank */
    ls_tensor *inner;
    int n_inner;
} ls_tiles;
extern const ls_lowering ls_lowering_tiles;

#endif
