/* Operands: their parts and shapes, and their bytes on one rank and on all ranks of a class at once. */
#include "program/program.h"

double ls_operand_pieces(const ls_operand *operand) {
    const ls_range range = ls_view_range(&operand->view, 0);
    return (double)range.count[0] * (double)range.count[1] * (double)range.count[2];
}

ls_operand ls_operand_slice(ls_operand operand, int dim, int64_t start, int64_t count) {
    operand.offset += (size_t)(start * operand.view.stride[dim]) * ls_dtype_bytes(operand.view.dtype);
    operand.view.size[dim] = count;
    return operand;
}

ls_operand ls_operand_elements(ls_operand operand, int64_t start, int64_t count) {
    LS_ASSERT(start >= 0 && start + count <= ls_view_elements(&operand.view));
    operand.offset += (size_t)start * ls_dtype_bytes(operand.view.dtype);
    operand.view = ls_view_dense(NULL, operand.view.dtype, 1, &count);
    return operand;
}

ls_operand ls_operand_dense(int buffer, size_t offset, ls_dtype dtype, int ndim, const int64_t *size) {
    return (ls_operand){.buffer = buffer, .offset = offset, .view = ls_view_dense(NULL, dtype, ndim, size)};
}

ls_operand ls_operand_nothing(ls_operand like, ls_dtype dtype, int ndim) {
    int64_t size[LS_MAX_DIMS] = {0};
    for (int d = 0; d < ndim - 1; d++) size[d] = like.view.size[d];
    return ls_operand_dense(like.buffer, like.offset, dtype, ndim, size);
}

ls_operand ls_operand_of_peer(ls_operand operand, ls_peer peer) {
    operand.peer = peer;
    return operand;
}

/* --- on one rank -------------------------------------------------------------------------------------------------- */

int ls_peer_rank(const ls_image *image, ls_peer peer, int rank) {
    return ls_peer_is_self(peer) ? rank : ls_team_member(&image->teams[peer.team], rank, peer.shift);
}

size_t ls_operand_displacement(const ls_image *image, const ls_operand *operand, int rank) {
    if (operand->displacement == 0) return 0;
    const ls_displacement *d = &image->displacements[operand->displacement];
    size_t bytes = 0;
    for (int t = 0; t < d->n; t++) {
        const ls_team *team = &image->teams[d->term[t].team];
        bytes += (size_t)ls_team_place_at(team, rank, d->term[t].shift) * d->term[t].bytes;
    }
    return bytes;
}

ls_range ls_operand_range(const ls_image *image, const ls_operand *operand, int rank) {
    return ls_view_range(&operand->view, image->buffers[operand->buffer].offset + operand->offset +
                                             ls_operand_displacement(image, operand, rank));
}

/* --- on all ranks of a class -------------------------------------------------------------------------------------- */

ls_extent ls_operand_extent(const ls_operand *operand, size_t start) {
    return (ls_extent){ls_view_range(&operand->view, start + operand->offset), operand->displacement};
}

size_t ls_extent_end(const ls_image *image, const ls_extent *extent) {
    return ls_range_end(&extent->range) + image->displacements[extent->displacement].most;
}

/* The most that terms t, t + 1, .. add. */
static size_t most_of_rest(const ls_image *image, const ls_displacement *d, int t) {
    size_t most = 0;
    for (; t < d->n; t++) most += (size_t)(ls_team_size(&image->teams[d->term[t].team]) - 1) * d->term[t].bytes;
    return most;
}

/*
 * Whether on every rank two extents lie in different steps of one term. The first term in which their displacements
 * differ must differ in the shift alone, and each extent, with the terms after this one, must fit into one step
 * wherever the step begins.
 */
static bool are_steps_apart(const ls_image *image, const ls_extent *a, const ls_extent *b) {
    const ls_displacement *x = &image->displacements[a->displacement], *y = &image->displacements[b->displacement];
    int t = 0;
    while (t < x->n && t < y->n && x->term[t].team == y->term[t].team && x->term[t].bytes == y->term[t].bytes &&
           x->term[t].shift == y->term[t].shift)
        t++;
    if (t == x->n || t == y->n || x->term[t].team != y->term[t].team || x->term[t].bytes != y->term[t].bytes)
        return false;
    const size_t step = x->term[t].bytes;
    return ls_range_end(&a->range) + most_of_rest(image, x, t + 1) <= b->range.offset + step &&
           ls_range_end(&b->range) + most_of_rest(image, y, t + 1) <= a->range.offset + step;
}

/*
 * The least distance between pieces of a range; 0: the range has one piece, or its other distances are not multiples of
 * the least.
 */
static size_t period_of(const ls_range *range) {
    size_t least = 0;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        const size_t stride = range->count[d] > 1 ? (size_t)range->stride[d] : 0;
        if (stride > 0 && (least == 0 || stride < least)) least = stride;
    }
    if (least == 0) return 0;
    for (int d = 0; d < LS_RANGE_DIMS; d++)
        if (range->count[d] > 1 && (size_t)range->stride[d] % least != 0) return 0;
    return least;
}

/* The place of an extent's pieces within the periods that begin at `start`, which is the same for all pieces. */
static ls_extent in_period(const ls_extent *extent, size_t start, size_t period) {
    const size_t offset = start + (extent->range.offset - start) % period;
    return (ls_extent){ls_range_flat(offset, extent->range.length), extent->displacement};
}

/*
 * Whether two extents, at least one of which has pieces at equal distances, lie at different places within these
 * periods on every rank: then they meet in no period.
 */
static bool are_apart_in_periods(const ls_image *image, const ls_extent *a, const ls_extent *b) {
    const size_t x = period_of(&a->range), y = period_of(&b->range), period = x > 0 ? x : y;
    if (period == 0 || (x == 0 && !ls_range_is_flat(&a->range)) || (y == 0 && !ls_range_is_flat(&b->range)) ||
        (x > 0 && y > 0 && x != y))
        return false;
    const size_t start = a->range.offset < b->range.offset ? a->range.offset : b->range.offset;
    const ls_extent one = in_period(a, start, period), other = in_period(b, start, period);
    return ls_extent_end(image, &one) <= start + period && ls_extent_end(image, &other) <= start + period &&
           !ls_extents_meet(image, &one, &other);
}

bool ls_extents_meet(const ls_image *image, const ls_extent *a, const ls_extent *b) {
    if (a->displacement == b->displacement) return ls_range_overlap(&a->range, &b->range);
    if (a->range.offset >= ls_extent_end(image, b) || b->range.offset >= ls_extent_end(image, a)) return false;
    return !are_steps_apart(image, a, b) && !are_apart_in_periods(image, a, b);
}

bool ls_extent_covers(const ls_image *image, const ls_extent *whole, const ls_extent *part) {
    if (whole->displacement == part->displacement) return ls_range_covers(&whole->range, &part->range);
    const size_t end = ls_extent_end(image, part);
    const ls_range all = ls_range_flat(part->range.offset, end - part->range.offset);
    return whole->displacement == 0 && ls_range_covers(&whole->range, &all);
}
