/*
 * Double ring: rings of blocks within a ring of such rings, for ranks whose network has two levels (Gu et al.,
 * "LoongTrain: efficient training of long-sequence LLMs with head-context parallelism", arXiv 2406.18485; it calls the
 * inner ring a window). A block goes once round the inner ring; meanwhile a copy is on its way along the outer one, to
 * the rank with the same place in the next inner ring, and is used there when this round is over. So what crosses the
 * slow level has the time of a whole round for it, and each rank sends (R/W - 1) blocks across where there are R/W
 * inner rings of W blocks; of a plain ring, R - 1 blocks cross at each border between them, in the time of a hop each.
 *
 * LoongTrain's gradients go along with the blocks, all the way round both rings. Here each inner ring adds up its own
 * parts of a block from outside, in type G, and sends one sum home (put_gradients.c): R - 1 messages from each rank in
 * place of R + R/W, of which R/W - 1 cross.
 *
 * The walk over the hops, the kernels and their order are those of the ring (ring.c). Read in place it would be that
 * ring in another order, so blocks are put.
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
