/*
 * A layout says which positions of the sequence each rank holds: it is a permutation of 0..S-1, rank after rank, stored
 * as runs. For every kind, rank p holds n(p) = ls_part_start(S,P,p+1) - ls_part_start(S,P,p) tokens, which is floor or
 * ceil of S/P, in ascending order of their positions.
 *   contiguous  rank p holds one run
 *   zigzag      block p holds run p from the front and run p from the back, which balances a causal mask
 *   striped     rank p holds p, p+P, p+2P, ...; the ranks with one token more hold the first stripes
 *   documents   each packed document is split as zigzag splits a sequence
 *   balanced    pieces of the sequence are assigned to blocks by the work that the masks leave in them
 * The last two depend on the masks. zigzag, documents and balanced balance the work of the blocks of a ring. The ranks
 * of a block share its heads and therefore its work; the block's positions are cut between them in ascending order.
 */
#ifndef LS_TENSOR_LAYOUT_H
#define LS_TENSOR_LAYOUT_H

#include <stdint.h>

#include "base/base.h"
#include "longspan/status.h"
#include "longspan/tensor.h"

typedef enum ls_layout_kind {
    LS_LAYOUT_CONTIGUOUS,
    LS_LAYOUT_ZIGZAG,
    LS_LAYOUT_STRIPED,
    LS_LAYOUT_DOCUMENTS,
    LS_LAYOUT_BALANCED,
    LS_LAYOUTS
} ls_layout_kind;

/* The positions first, first + step, ...: `count` of them. */
typedef struct ls_layout_run {
    int64_t first, count, step;
} ls_layout_run;

typedef struct ls_layout {
    ls_layout_kind kind;
    int64_t S;                 /* tokens */
    int P;                     /* ranks that share the sequence; P <= S */
    int members;               /* ranks of a block */
    const int *first_run;      /* the runs of rank p are runs[first_run[p]] ... runs[first_run[p + 1] - 1] */
    const ls_layout_run *runs; /* both arrays belong to the arena that the layout was made in */
} ls_layout;

/* A mask, and how many times attention under this mask is computed. */
typedef struct ls_layout_mask {
    const ls_mask *mask;
    double weight;
} ls_layout_mask;

/* The inputs of a layout. Equal inputs give equal layouts, on all ranks. */
typedef struct ls_layout_need {
    ls_layout_kind kind;
    int64_t S;
    int P;
    int members; /* ranks p*members .. p*members + members-1 are a block; divides P; 0 counts as 1 */
    const ls_layout_mask *masks;
    int n_masks;
} ls_layout_need;

ls_layout ls_layout_make(const ls_layout_need *need, ls_arena *arena);
/* A copy of a layout in another arena. */
ls_layout ls_layout_copy(const ls_layout *layout, ls_arena *arena);

int64_t ls_layout_count(const ls_layout *layout, int p); /* tokens of rank p */
int64_t ls_layout_most(const ls_layout *layout);         /* the largest count of any rank */
bool ls_layout_is_even(const ls_layout *layout);         /* all ranks have the same count */
int64_t ls_layout_start(const ls_layout *layout, int p); /* sum of the counts of the ranks before p; p may be P */
/* The runs of rank p, in ascending order, none empty; returns their number. */
int ls_layout_runs(const ls_layout *layout, int p, const ls_layout_run **out);
/* The largest number of runs of a rank. */
int ls_layout_most_runs(const ls_layout *layout);
/* The positions of the tokens of rank p, in the order in which it holds them: out[ls_layout_count(p)]. */
void ls_layout_positions(const ls_layout *layout, int p, int32_t *out);

const char *ls_layout_name(ls_layout_kind kind);
/* An unknown name is an LS_USAGE error that lists the names. */
LS_MUST_USE ls_status ls_layout_parse(const char *text, ls_layout_kind *out);

#endif
