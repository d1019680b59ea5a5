/* Who holds what: ranks of ring and block, their tokens, and how much of a block pair the mask leaves. */
#include "compile/attention/attention.h"

#include <stdlib.h>

static int coordinate(const ls_builder *b, ls_axis axis) {
    return ls_mesh_coordinate(&b->target->mesh, b->target->rank, axis);
}

int ls_ring_index(const ls_builder *b) { return coordinate(b, LS_AXIS_RING); }
int ls_ulysses_index(const ls_builder *b) { return coordinate(b, LS_AXIS_ULYSSES); }

int ls_rank_in_ring(const ls_builder *b, int ring) {
    return ls_mesh_neighbour(&b->target->mesh, b->target->rank, LS_AXIS_RING, ring);
}

int ls_rank_in_block(const ls_builder *b, int ulysses) {
    return ls_mesh_neighbour(&b->target->mesh, b->target->rank, LS_AXIS_ULYSSES, ulysses);
}

int64_t ls_block_start(const ls_builder *b, int ring) {
    return ls_layout_start(&b->image->layout, ring * b->target->mesh.size[LS_AXIS_ULYSSES]);
}

int64_t ls_block_tokens(const ls_builder *b, int ring) {
    return ls_block_start(b, ring + 1) - ls_block_start(b, ring);
}

int ls_block_at(const ls_builder *b, int hop) {
    const int R = b->target->mesh.size[LS_AXIS_RING];
    return ((ls_ring_index(b) - hop) % R + R) % R;
}

ls_operand ls_with_tokens(ls_operand o, int64_t tokens) {
    int64_t size[4];
    for (int i = 0; i < 4; i++) size[i] = o.view.size[i];
    size[1] = tokens;
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 4, size);
}

int64_t ls_block_most(const ls_builder *b) {
    int64_t most = 0;
    for (int r = 0; r < b->target->mesh.size[LS_AXIS_RING]; r++) most = ls_max(most, ls_block_tokens(b, r));
    return most;
}

static int member(const ls_builder *b, int ulysses) {
    return ls_ring_index(b) * b->target->mesh.size[LS_AXIS_ULYSSES] + ulysses;
}

int64_t ls_member_tokens(const ls_builder *b, int ulysses) {
    return ls_layout_count(&b->image->layout, member(b, ulysses));
}

int64_t ls_member_start(const ls_builder *b, int ulysses) {
    return ls_layout_start(&b->image->layout, member(b, ulysses)) - ls_block_start(b, ls_ring_index(b));
}

/* Positions of a block, ascending. */
/* Sorts n different numbers below `limit`, in time n + limit / 64. */
static void sort(ls_arena *scratch, int32_t *positions, int64_t n, int64_t limit) {
    uint64_t *held = LS_NEW_ARRAY(scratch, uint64_t, limit / 64 + 1);
    for (int64_t i = 0; i < n; i++) held[positions[i] / 64] |= (uint64_t)1 << (positions[i] % 64);
    for (int64_t word = 0, at = 0; at < n; word++) {
        for (uint64_t left = held[word]; left != 0; left &= left - 1)
            positions[at++] = (int32_t)(64 * word + __builtin_ctzll(left));
    }
}

static int32_t *block_positions(const ls_builder *b, ls_arena *scratch, int ring) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES];
    int32_t *positions = LS_NEW_ARRAY(scratch, int32_t, ls_block_tokens(b, ring) + 1);
    for (int u = 0, at = 0; u < U; u++) {
        ls_layout_positions(&b->image->layout, ring * U + u, positions + at);
        at += (int)ls_layout_count(&b->image->layout, ring * U + u);
    }
    sort(scratch, positions, ls_block_tokens(b, ring), b->image->layout.S);
    return positions;
}

/* Number of entries below `limit`, found by walking from the last answer: spans move on with the queries. */
static int64_t below(const int32_t *sorted, int64_t n, int32_t limit, int64_t *answer) {
    while (*answer > 0 && sorted[*answer - 1] >= limit) --*answer;
    while (*answer < n && sorted[*answer] < limit) ++*answer;
    return *answer;
}

double ls_block_area(ls_builder *b, int mask, int ring) {
    const int R = b->target->mesh.size[LS_AXIS_RING];
    double *known = &b->areas[mask * R + ring];
    if (*known >= 0) return *known;
    const ls_mask *m = &b->image->masks[mask].mask;
    if (R == 1) return *known = (double)ls_mask_area(m, b->image->layout.S);
    const int64_t n = ls_block_tokens(b, ls_ring_index(b)), t = ls_block_tokens(b, ring);
    ls_arena *scratch = ls_arena_create();
    const int32_t *queries = block_positions(b, scratch, ls_ring_index(b));
    const int32_t *keys = block_positions(b, scratch, ring);
    int64_t area = 0, from[LS_MASK_SPANS] = {0}, to[LS_MASK_SPANS] = {0};
    for (int64_t i = 0; i < n; i++) {
        ls_span spans[LS_MASK_SPANS];
        const int w = ls_mask_spans(m, b->image->layout.S, queries[i], spans);
        for (int j = 0; j < w; j++)
            area += below(keys, t, spans[j].hi, &to[j]) - below(keys, t, spans[j].lo, &from[j]);
    }
    ls_arena_destroy(scratch);
    return *known = (double)area;
}
