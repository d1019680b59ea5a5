/* The interface between map.c, the op, and map_gradient.c, which differentiates expressions. */
#ifndef LS_GRAPH_OPS_MAP_IMPL_H
#define LS_GRAPH_OPS_MAP_IMPL_H

#include "graph/graph_impl.h"

/* What to differentiate, and with respect to what. */
typedef struct ls_map_derivative {
    const ls_map_params *of;
    unsigned given;  /* bit i: the gradient of result i is not 0 */
    unsigned wanted; /* bit i: the gradient of input i is wanted */
    unsigned wide;   /* bit i: the gradient of input i must have the accumulator's type */
} ls_map_derivative;

enum { LS_MAP_NONE = -1, LS_MAP_INPUT = 64 };

/*
 * A map that computes the wanted gradients. Its inputs are some of the inputs of the differentiated map, and of the
 * gradients of that map's results, which are numbered after these inputs: input[i] is the number of its input i.
 */
typedef struct ls_map_gradient {
    ls_map_params params; /* without results: nothing needs to be computed */
    int input[LS_MAP_TENSORS];
    /*
     * By input of the differentiated map, its gradient: the index of a result of this map, or LS_MAP_INPUT + the number
     * of a tensor that is itself the gradient; LS_MAP_NONE: it is 0, or not wanted.
     */
    int gradient[LS_MAP_TENSORS];
} ls_map_gradient;

/* LS_UNSUPPORTED: the gradient has more steps or tensors than a map may have. */
LS_MUST_USE ls_status ls_map_differentiate(const ls_map_derivative *what, ls_map_gradient *out);

#endif
