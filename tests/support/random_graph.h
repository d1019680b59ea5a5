/*
 * Random graphs of general ops, for programs over several ranks: a few ops on tensors of two to six dimensions, one
 * after the other, whose results all count in the loss. In f64.
 */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "graph/graph.h"

enum { RANDOM_GRAPH_IDS = 11 }; /* tokens are less */

/* The graph that random_graph_loss builds next: the same one for a seed, whoever builds it. */
void random_graph_choose(uint64_t seed);
ls_tensor random_graph_loss(ls_graph *g);

/* The kinds of steps that graphs are made of, by their names: NULL past the end; and how often the last graph has one.
 */
const char *random_graph_step(int kind);
int random_graph_count(int kind);

#endif
