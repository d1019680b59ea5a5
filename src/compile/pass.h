/*
 * Passes over what a program runs. Each takes the list of its nodes and puts some between them, or nodes into regions:
 * a decision about what moves, what is kept and what is added up is a node, before anything is lowered. A pass reads
 * the builder and emits nothing. One pass is one file with its row, and with the lowerings of the nodes that it puts
 * there.
 */
#ifndef LS_COMPILE_PASS_H
#define LS_COMPILE_PASS_H

#include "compile/compile_impl.h"

typedef struct ls_pass {
    const char *name, *about;
    LS_MUST_USE ls_status (*run)(const ls_builder *b, ls_program_nodes *nodes);
} ls_pass;

/*
 * All passes, in their order: X(name) for the row ls_pass_name. Where two passes put nodes in front of the same node of
 * the graph, or of nodes that stand together, those of the later pass come first.
 */
#define LS_PASSES(X) X(tile), X(sums), X(reduce), X(gather), X(offload), X(update)
#define LS_PASS_ROW(name) ls_pass_##name
extern const ls_pass LS_PASSES(LS_PASS_ROW);

/* What the program runs, after all passes; the image keeps how many nodes each has put there. */
LS_MUST_USE ls_status ls_passes_run(const ls_builder *b, ls_program_nodes *out);

/* --- for passes (nodes.c) ----------------------------------------------------------------------------------------- */

/* `n` nodes at the end of the list. */
void ls_nodes_copy(const ls_builder *b, ls_program_nodes *to, const ls_program_node *nodes, int n);
/* A node of a pass at the end of the list; it stands together with nodes of that number (ls_program_node). */
void ls_nodes_put(const ls_builder *b, ls_program_nodes *to, const ls_lowering *lowering, int together, void *params);
/* The nodes from `first` on that stand together end in front of this one. */
int ls_nodes_past(const ls_program_nodes *nodes, int first);
/* Behind the graph's last node that stands in nodes first .. past - 1; 0: there is none. */
int ls_nodes_end(const ls_program_nodes *nodes, int first, int past);

/* --- gradients on this rank (sums.c) ------------------------------------------------------------------------------ */

/* The sum of a group's gradients over some nodes. Params of the node that makes it. */
typedef struct ls_group_sum {
    int group;
    const bool *adds; /* by parameter: one of the nodes adds to its gradients */
    ls_operand all;   /* once it is made */
} ls_group_sum;

/* Whether each group's gradients have a buffer of their own in this program, and leave it. */
extern const ls_lowering ls_lowering_sum;
bool ls_sums_leave(const ls_builder *b);
/* Puts the node there that makes a sum to which nothing is added. */
ls_group_sum *ls_put_empty_sum(const ls_builder *b, ls_program_nodes *to, int together, int group);
/* The sums of a group that are made in the list, in their order; returns how many. */
int ls_find_sums(const ls_builder *b, const ls_program_nodes *nodes, int group, ls_group_sum ***out);

/* --- a group's elements to all ranks (group_gather.c) ------------------------------------------------------------- */

/* Params of the nodes of one such exchange. */
typedef struct ls_group_gather ls_group_gather;

/*
 * Each rank has its pieces in what the host finds as `from`; NULL: where they are to be. The group's elements come to
 * lie in *all, an operand with all elements of the flat space; NULL: in a buffer of the group, where the nodes that
 * follow find its parameters.
 */
ls_group_gather *ls_group_gather_make(const ls_builder *b, const char *label, int group, const char *from,
                                      const ls_operand *all);
/* The slots are granted; the pieces leave; those that have come go on by a stage; all are there. */
extern const ls_lowering ls_lowering_gather_expect, ls_lowering_gather, ls_lowering_gather_stage, ls_lowering_gathered;

/* --- the scalars of a step (totals.c) ----------------------------------------------------------------------------- */

extern const ls_lowering ls_lowering_features, ls_lowering_totals, ls_lowering_control;

/* --- tiles (region.c) --------------------------------------------------------------------------------------------- */

/*
 * Params of a region: its tokens on this rank, those of one tile but the last, and storage that exists for one only.
 * Where nodes of a tile exchange something, all ranks have as many tiles: then their tokens are dealt evenly to so
 * many.
 */
typedef struct ls_tiles {
    int64_t rows, tile;
    int64_t even; /* tiles on every rank; 0: as many as there are */
    int64_t most; /* tokens of a tile, on any rank */
    ls_tensor *inner;
    int n_inner;
} ls_tiles;
extern const ls_lowering ls_lowering_tiles;

#endif
