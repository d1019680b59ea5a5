/*
 * Which positions of the sequence each rank holds. A layout is a permutation of 0..S-1 written rank after rank, kept as runs;
 * rank p holds floor or ceil of S/P tokens: n(p) = part_start(S,P,p+1) - part_start(S,P,p), whatever the kind, and
 * its positions ascend.
 *   contiguous  rank p holds one run
 *   zigzag      block p holds run p from the front and run p from the back: a causal mask is balanced
 *   striped     rank p holds p, p+P, p+2P, ...; where P does not divide S, the ranks with a token more take the first stripes
 *   documents   each packed document is dealt as zigzag deals a sequence (layout_documents.c)
 *   balanced    pieces of the sequence dealt by how much of them the masks leave (layout_balanced.c)
 * The last two follow the masks. What they and zigzag balance is the work of the blocks that go round a ring: where several ranks
 * share a block's heads, they share its work, and the block's positions are cut between them in ascending order.
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

/* Positions first, first + step, ... */
typedef struct ls_layout_run {
    int64_t first, count, step;
} ls_layout_run;

typedef struct ls_layout {
    ls_layout_kind kind;
    int64_t S;                 /* tokens */
    int P;                     /* ranks that share the sequence; P <= S */
    int members;               /* of a block */
    const int *first_run;      /* rank p's runs are runs[first_run[p]] ... runs[first_run[p + 1] - 1] */
    const ls_layout_run *runs; /* both lie in the arena that the layout was made in */
} ls_layout;

/* A mask and how often it is computed with. */
typedef struct ls_layout_mask {
    const ls_mask *mask;
    double weight;
} ls_layout_mask;

/* What a layout follows from; every rank that asks the same gets the same. */
typedef struct ls_layout_need {
    ls_layout_kind kind;
    int64_t S;
    int P;
    int members; /* ranks p*members .. p*members + members-1 are a block; divides P; 0 is 1 */
    const ls_layout_mask *masks;
    int n_masks;
} ls_layout_need;

ls_layout ls_layout_make(const ls_layout_need *need, ls_arena *arena);
/* The same layout, kept in another arena. */
ls_layout ls_layout_copy(const ls_layout *layout, ls_arena *arena);

int64_t ls_layout_count(const ls_layout *layout, int p); /* tokens of rank p */
int64_t ls_layout_most(const ls_layout *layout);         /* the largest count */
int64_t ls_layout_start(const ls_layout *layout, int p); /* sum of the counts before p; p may be P */
/* Rank p's tokens as runs, ascending and none empty; returns how many. */
int ls_layout_runs(const ls_layout *layout, int p, const ls_layout_run **out);
/* The most runs that any rank has. */
int ls_layout_most_runs(const ls_layout *layout);
/* Positions of rank p's tokens, in the order in which it holds them: out[count(p)]. */
void ls_layout_positions(const ls_layout *layout, int p, int32_t *out);

const char *ls_layout_name(ls_layout_kind kind);
LS_MUST_USE ls_status ls_layout_parse(const char *text,
                                      ls_layout_kind *out); /* LS_USAGE error listing the names */

#endif
