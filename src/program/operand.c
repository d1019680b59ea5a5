/* Operands: parts and shapes of them, the bytes that they are on one rank, and on all ranks of a class at once. */
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

ls_operand ls_operand_dense(int buffer, size_t offset, ls_dtype dtype, int ndim, const int64_t *size) {
    return (ls_operand){.buffer = buffer, .offset = offset, .view = ls_view_dense(NULL, dtype, ndim, size)};
}

ls_operand ls_operand_of_peer(ls_operand operand, ls_peer peer) {
    operand.peer = peer;
    return operand;
}

/* --- on one rank ----------------------------------------------------------------------------------------------------------------- */

int ls_peer_rank(const ls_image *image, ls_peer peer, int rank) {
    return ls_peer_is_self(peer) ? rank : ls_team_member(&image->teams[peer.team], rank, peer.shift);
}

size_t ls_operand_displacement(const ls_image *image, const ls_operand *operand, int rank) {
    if (operand->displacement == 0) return 0;
    const ls_displacement *d = &image->displacements[operand->displacement];
    size_t bytes = 0;
    for (int t = 0; t < d->n; t++) {
        const ls_team *team = &image->teams[d->term[t].team];
        const int place = (ls_team_place(team, rank) + d->term[t].shift) % ls_team_size(team);
        bytes += (size_t)place * d->term[t].bytes;
    }
    return bytes;
}

ls_range ls_operand_range(const ls_image *image, const ls_operand *operand, int rank) {
    return ls_view_range(&operand->view, image->buffers[operand->buffer].offset + operand->offset +
                                             ls_operand_displacement(image, operand, rank));
}

/* --- on all ranks of a class ------------------------------------------------------------------------------------------------------ */

ls_extent ls_operand_extent(const ls_operand *operand, size_t start) {
    return (ls_extent){ls_view_range(&operand->view, start + operand->offset), operand->displacement};
}

size_t ls_extent_end(const ls_image *image, const ls_extent *extent) {
    return ls_range_end(&extent->range) + image->displacements[extent->displacement].most;
}

/*
 * Whether two displacements place their bytes a whole number of steps apart on every rank, and not 0: their last terms differ only in the
 * shift. *step: bytes.
 */
static bool are_steps_apart(const ls_displacement *a, const ls_displacement *b, size_t *step) {
    if (a->n != b->n || a->n == 0) return false;
    for (int t = 0; t < a->n; t++) {
        const bool last = t + 1 == a->n, shifted = a->term[t].shift != b->term[t].shift;
        if (a->term[t].team != b->term[t].team || a->term[t].bytes != b->term[t].bytes || last != shifted)
            return false;
        *step = a->term[t].bytes;
    }
    return true;
}

bool ls_extents_meet(const ls_image *image, const ls_extent *a, const ls_extent *b) {
    if (a->displacement == b->displacement) return ls_range_overlap(&a->range, &b->range);
    const ls_displacement *of_a = &image->displacements[a->displacement],
                          *of_b = &image->displacements[b->displacement];
    const size_t end_a = ls_range_end(&a->range), end_b = ls_range_end(&b->range);
    if (a->range.offset >= end_b + of_b->most || b->range.offset >= end_a + of_a->most) return false;
    size_t step;
    return !are_steps_apart(of_a, of_b, &step) || end_b > a->range.offset + step ||
           end_a > b->range.offset + step;
}

bool ls_extent_covers(const ls_image *image, const ls_extent *whole, const ls_extent *part) {
    if (whole->displacement == part->displacement) return ls_range_covers(&whole->range, &part->range);
    const size_t end = ls_extent_end(image, part);
    const ls_range all = ls_range_flat(part->range.offset, end - part->range.offset);
    return whole->displacement == 0 && ls_range_covers(&whole->range, &all);
}
