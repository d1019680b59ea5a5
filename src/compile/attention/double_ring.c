/*
 * Double ring: rings of blocks within a ring of such rings, for ranks whose network has two levels (Gu et al.,
 * "LoongTrain: efficient training of long-sequence LLMs with head-context parallelism", arXiv 2406.18485, where the
 * inner ring is called a window). A block goes once round the inner ring; meanwhile a copy of it goes along the outer
 * ring, to the rank with the same place in the next inner ring, and is used there when this round is over. So a
 * transfer over the slow level may take as long as a whole inner round, and each rank sends (R/W - 1) blocks over it,
 * with R/W inner rings of W blocks. In a plain ring, R - 1 blocks cross each border between these groups, in the time
 * of one hop each.
 *
 * LoongTrain's gradients go along with the blocks, all the way round both rings. Here each inner ring adds its own
 * parts of the gradient of a block from another inner ring, in type G, and sends one sum to the block's rank
 * (put_gradients.c). That is R - 1 messages from each rank instead of R + R/W, and R/W - 1 of them cross the slow
 * level.
 *
 * The walk over the hops, the kernels and their order are those of the ring (ring.c). Read in place, this would be the
 * plain ring in another order; so blocks are always put.
 */
#include "compile/attention/attention.h"

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    const ls_axes blocks = ls_mesh_block_axes(&p->mesh);
    const int all = ls_mesh_size(&p->mesh, blocks);
    if (all > ls_mesh_inner_size(&p->mesh, blocks)) return ls_strategy_heads(strategy, p);
    return ls_error(
        LS_USAGE, "strategy %s: the mesh has one ring, of %d blocks; expected several ranks along both outer and ring",
        strategy->name, all);
}

const ls_strategy ls_strategy_double_ring = {
    .name = "double-ring",
    .about = "rings of blocks within a ring of rings: outer hops go on behind the inner ones",
    .two_rings = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
