/* The op contract in its normal form, for the equations (equation.c). */
#ifndef LS_GRAPH_OPS_CONTRACT_IMPL_H
#define LS_GRAPH_OPS_CONTRACT_IMPL_H

#include "graph/graph_impl.h"

/*
 * a [tokens,n,i,k], b [tokens,n,k,j], each with tokens or without -> [tokens,n,i,j]. transpose_a: a is [..,n,k,i];
 * transpose_b: b is [..,n,j,k].
 */
ls_tensor ls_contract_normal(ls_graph *g, ls_tensor a, bool transpose_a, ls_tensor b, bool transpose_b);

#endif
