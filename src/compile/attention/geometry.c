/* The ranks of rings and blocks, and the tokens that they hold. */
#include "compile/attention/attention.h"

static ls_axes ring_axes(const ls_builder *b) { return ls_mesh_block_axes(&b->target->mesh); }
static ls_axes block_axes(const ls_builder *b) { return ls_mesh_head_axes(&b->target->mesh); }

int ls_blocks(const ls_builder *b) { return ls_mesh_size(&b->target->mesh, ring_axes(b)); }
int ls_block_members(const ls_builder *b) { return ls_mesh_size(&b->target->mesh, block_axes(b)); }
int ls_ring_index(const ls_builder *b) { return ls_mesh_index(&b->target->mesh, ring_axes(b), b->target->rank); }
int ls_member_index(const ls_builder *b) { return ls_mesh_index(&b->target->mesh, block_axes(b), b->target->rank); }

int ls_block_team(ls_builder *b) { return ls_build_team_of(b, block_axes(b)); }

ls_peer ls_rank_in_ring(ls_builder *b, int ring) {
    return ls_build_peer(b, ls_build_team_of(b, ring_axes(b)), ring - ls_ring_index(b));
}

int64_t ls_block_start(const ls_builder *b, int ring) {
    return ls_layout_start(&b->image->layout, ring * ls_block_members(b));
}

int64_t ls_block_tokens(const ls_builder *b, int ring) { return ls_block_start(b, ring + 1) - ls_block_start(b, ring); }

int ls_inner_blocks(const ls_builder *b) {
    return !b->sites->two_rings ? ls_blocks(b) : ls_mesh_inner_size(&b->target->mesh, ring_axes(b));
}

const char *ls_ring_name(const ls_builder *b) { return b->sites->two_rings ? "inner" : "ring"; }

/* The place `by` places before `place`, in a circle of n. */
static int behind(int place, int by, int n) { return ((place - by) % n + n) % n; }

int ls_block_at(const ls_builder *b, int hop) {
    const int W = ls_inner_blocks(b), O = ls_blocks(b) / W, me = ls_ring_index(b);
    return behind(me / W, hop / W, O) * W + behind(me % W, hop % W, W);
}

ls_peer ls_rank_at(ls_builder *b, int hop) { return ls_rank_in_ring(b, ls_block_at(b, hop)); }

ls_operand ls_with_tokens(ls_operand o, int64_t tokens) {
    int64_t size[4];
    for (int i = 0; i < 4; i++) size[i] = o.view.size[i];
    size[1] = tokens;
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 4, size);
}

int64_t ls_block_most(const ls_builder *b) {
    int64_t most = 0;
    for (int r = 0; r < ls_blocks(b); r++) most = ls_max(most, ls_block_tokens(b, r));
    return most;
}

/* The index along the sequence of a member of my block. */
static int index_of(const ls_builder *b, int member) { return ls_ring_index(b) * ls_block_members(b) + member; }

int64_t ls_member_tokens(const ls_builder *b, int member) {
    return ls_layout_count(&b->image->layout, index_of(b, member));
}

int64_t ls_member_start(const ls_builder *b, int member) {
    return ls_layout_start(&b->image->layout, index_of(b, member)) - ls_block_start(b, ls_ring_index(b));
}

int32_t *ls_block_positions(const ls_builder *b, ls_arena *scratch, int ring, int slice) {
    const int U = ls_block_members(b);
    const int64_t n = ls_block_tokens(b, ring);
    int32_t *positions = LS_NEW_ARRAY(scratch, int32_t, n + 1);
    for (int64_t u = 0, at = 0; u < U; u++) {
        ls_layout_positions(&b->image->layout, (int)(ring * U + u), positions + at);
        at += ls_layout_count(&b->image->layout, (int)(ring * U + u));
    }
    for (int64_t i = 0; i < n; i++) positions[i] += (int32_t)(slice * b->image->layout.S);
    return positions;
}

ls_operand ls_key_positions(const ls_builder *b, int mask, int64_t start, int64_t count) {
    const int64_t slice = b->image->masks[mask].keys * b->image->layout.S;
    return ls_operand_slice(b->image->positions, 0, slice + start, count);
}
