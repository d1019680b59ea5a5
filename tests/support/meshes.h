/* Meshes for tests: of the axes of the table, and with two axes of blocks, which the table does not have. */
#ifndef TESTS_MESHES_H
#define TESTS_MESHES_H

#include "tensor/tensor.h"

ls_mesh mesh_of(int dp, int ring, int ulysses);
/* With an axis of rings around the ring; the same as mesh_of where that has one rank. */
ls_mesh mesh_of_outer(int dp, int outer, int ring, int ulysses);
ls_mesh mesh_with_tp(int dp, int ring, int ulysses, int tp);
/* The same axes, but tp, which is the innermost, as the outermost. */
ls_mesh mesh_tp_outside(const ls_mesh *mesh);
/* The same axes within each of so many stages of a pipeline. */
ls_mesh mesh_with_stages(const ls_mesh *mesh, int stages);
/* Lists dp, far, near, ulysses: along far and near attention works block by block. */
ls_mesh mesh_of_two_rings(int dp, int far, int near, int ulysses);

/* The number of blocks, and of the ranks of a block. */
static inline int mesh_ring(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_block_axes(mesh)); }
static inline int mesh_inner(const ls_mesh *mesh) { return ls_mesh_inner_size(mesh, ls_mesh_block_axes(mesh)); }
static inline int mesh_ulysses(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_head_axes(mesh)); }

#endif
