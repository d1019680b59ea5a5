/*
 * The networks of step.c, at the sizes that run.py asks for. Longspan's examples (examples/graphs) have theirs fixed.
 */
#ifndef BENCH_PEERS_GRAPHS_H
#define BENCH_PEERS_GRAPHS_H

#include "longspan/graph.h"

typedef struct peers_sizes {
    int64_t B, S, L, E, Hq, Hkv, F, V;
} peers_sizes;

/* Inputs tokens, labels, positions; the sum of all losses. */
ls_tensor peers_llama(ls_graph *g, const peers_sizes *n);
ls_tensor peers_gpt2(ls_graph *g, const peers_sizes *n); /* Hkv is Hq */

#endif
