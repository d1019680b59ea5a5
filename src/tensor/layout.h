/*
 * Which positions of the sequence each rank holds. A layout is a permutation of 0..S-1 written rank after rank;
 * rank p holds floor or ceil of S/P tokens: n(p) = part_start(S,P,p+1) - part_start(S,P,p), whatever the kind.
 *   contiguous  rank p holds one run
 *   zigzag      rank p holds run p from the front and run p from the back: a causal mask is balanced
 *   striped     rank p holds p, p+P, p+2P, ...; where P does not divide S, the ranks with a token more take the first stripes
 */
#ifndef LS_TENSOR_LAYOUT_H
#define LS_TENSOR_LAYOUT_H

#include <stdint.h>

#include "longspan/status.h"

typedef enum ls_layout_kind {
    LS_LAYOUT_CONTIGUOUS,
    LS_LAYOUT_ZIGZAG,
    LS_LAYOUT_STRIPED,
    LS_LAYOUTS
} ls_layout_kind;

typedef struct ls_layout {
    ls_layout_kind kind;
    int64_t S; /* tokens */
    int P;     /* ranks that share the sequence; P <= S */
} ls_layout;

int64_t ls_layout_count(const ls_layout *layout, int p); /* tokens of rank p */
int64_t ls_layout_most(const ls_layout *layout);         /* the largest count */
int64_t ls_layout_start(const ls_layout *layout, int p); /* sum of the counts before p; p may be P */
/* Those tokens as runs of positions first, first + step, ...; returns how many there are, 1 or 2. */
#define LS_LAYOUT_RUNS 2
typedef struct ls_layout_run {
    int64_t first, count, step;
} ls_layout_run;
int ls_layout_runs(const ls_layout *layout, int p, ls_layout_run out[LS_LAYOUT_RUNS]);
/* Positions of rank p's tokens, in the order in which it holds them: out[count(p)]. */
void ls_layout_positions(const ls_layout *layout, int p, int32_t *out);

const char *ls_layout_name(ls_layout_kind kind);
LS_MUST_USE ls_status ls_layout_parse(const char *text,
                                      ls_layout_kind *out); /* LS_USAGE error listing the names */

#endif
