/* Which elements of a parameter a rank has if axes of heads and features cut it. */
#include "program/parts.h"

int64_t ls_flat_part(const ls_image *image, const ls_flat *flat, int rank) {
    if (flat->elsewhere) return 0;
    if (flat->cut == 0) return flat->whole_count;
    const int parts = ls_mesh_size(&image->mesh, flat->cut), part = ls_mesh_index(&image->mesh, flat->cut, rank);
    return flat->whole_count / flat->shape.dim[flat->cut_dim].size * ls_units_count(&flat->units, parts, part);
}

int64_t ls_flat_whole(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t *follow) {
    if (flat->cut == 0) {
        *follow = flat->whole_count - at;
        return at;
    }
    const int parts = ls_mesh_size(&image->mesh, flat->cut), part = ls_mesh_index(&image->mesh, flat->cut, rank);
    int64_t inner = 1; /* elements of one index of the dimension */
    for (int d = flat->cut_dim + 1; d < flat->shape.ndim; d++) inner *= flat->shape.dim[d].size;
    const int64_t count = ls_units_count(&flat->units, parts, part), outer = at / inner / count,
                  index = at / inner % count, within = at % inner;
    int64_t indices;
    const int64_t place = ls_units_place(&flat->units, parts, part, index, &indices);
    *follow = indices * inner - within;
    return (outer * flat->shape.dim[flat->cut_dim].size + place) * inner + within;
}

ls_flat_runs ls_flat_runs_of(const ls_image *image, const ls_binding *binding, const ls_flat *flat, int rank,
                             int64_t skip) {
    return (ls_flat_runs){.image = image, .binding = binding, .flat = flat, .rank = rank, .skip = skip};
}

ls_flat_run ls_flat_run_of(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t count) {
    int64_t follow;
    const int64_t whole = ls_flat_whole(image, flat, rank, at, &follow);
    return (ls_flat_run){whole, {at, ls_min(follow, count), 0}};
}

bool ls_flat_next_part(ls_flat_runs *r) {
    const int64_t count = ls_flat_part(r->image, r->flat, r->rank);
    for (; r->bucket < r->image->n_pieces; r->bucket++, r->done = 0) {
        const ls_flat_piece piece = r->binding != NULL ? ls_image_held(r->image, r->binding, r->bucket, r->rank)
                                                       : ls_image_piece(r->image, r->bucket, r->rank);
        const ls_flat_piece part = ls_piece_within(&piece, r->flat->start, count);
        const int64_t skipped = ls_min(r->skip, part.count - r->done);
        r->skip -= skipped;
        r->done += skipped;
        if (r->done == part.count) continue;
        r->run.whole = part.start - r->flat->start + r->done;
        r->run.part = (ls_flat_piece){part.start + r->done, part.count - r->done, part.at + r->done};
        r->done = part.count;
        return true;
    }
    return false;
}

bool ls_flat_next(ls_flat_runs *r) {
    if (!ls_flat_next_part(r)) return false;
    const int64_t count = r->run.part.count;
    const ls_flat_run run = ls_flat_run_of(r->image, r->flat, r->rank, r->run.whole, count);
    r->run.whole = run.whole;
    r->run.part.count = run.part.count;
    r->done -= count - run.part.count; /* the rest of the bucket's part comes next */
    return true;
}

bool ls_flat_is_saved(const ls_image *image, const ls_flat *flat, int rank) {
    const ls_axes others = ls_mesh_axes(&image->mesh, LS_AXIS_FEATURE) & ~flat->cut;
    return ls_mesh_index(&image->mesh, others, rank) == 0;
}
