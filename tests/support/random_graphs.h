/* Random graphs of general ops over meshes of two to six ranks, compared with one rank. */
#ifndef TESTS_RANDOM_GRAPHS_H
#define TESTS_RANDOM_GRAPHS_H

/*
 * Graphs first .. past - 1: loss and gradients over a mesh are those of one rank to 1e-12, in f64, and both verifiers
 * accept the programs. Each kind of step occurs, and in hundreds of graphs each mesh. A difference fails the test that
 * calls it.
 */
void check_random_graphs(int first, int past);

#endif
