/* How many elements of a tensor a rank has, and which indices. */
#include "compile/redistribute/redistribute.h"

/* The indices of a dimension that a rank has if these axes, none of them of features, cut it. */
static ls_indices share_of(const ls_builder *b, const ls_dim *dim, ls_axes cut, int rank) {
    const int parts = ls_mesh_size(&b->target->mesh, cut), part = ls_mesh_index(&b->target->mesh, cut, rank);
    if (cut != 0 && dim->factor == LS_FACTOR_SEQUENCE)
        return (ls_indices){ls_layout_start(&b->image->layout, part), ls_layout_count(&b->image->layout, part)};
    const int64_t start = ls_part_start(dim->size, parts, part);
    return (ls_indices){start, ls_part_start(dim->size, parts, part + 1) - start};
}

static const ls_dim *dim_of(const ls_builder *b, ls_tensor t, int d) {
    return &ls_graph_tensor(b->job->graph, t)->shape.dim[d];
}

ls_indices ls_indices_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut, int rank) {
    const ls_mesh *mesh = &b->target->mesh;
    const ls_axes features = cut & ls_mesh_axes(mesh, LS_AXIS_FEATURE);
    const ls_indices share = share_of(b, dim_of(b, t, d), cut & ~features, rank);
    const int parts = ls_mesh_size(mesh, features), part = ls_mesh_index(mesh, features, rank);
    if (features == 0) return share;
    if (dim_of(b, t, d)->factor == LS_FACTOR_SEQUENCE) {
        const int64_t start = ls_part_start(share.count, parts, part);
        return (ls_indices){share.start + start, ls_part_start(share.count, parts, part + 1) - start};
    }
    const ls_dim_units *units = &b->sharding->units[t.id * LS_MAX_DIMS + d];
    int64_t follow;
    return (ls_indices){ls_units_place(units, parts, part, 0, &follow), ls_units_count(units, parts, part)};
}

ls_sizes ls_sizes_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut) {
    const ls_mesh *mesh = &b->target->mesh;
    const ls_axes features = cut & ls_mesh_axes(mesh, LS_AXIS_FEATURE);
    const ls_dim *dim = dim_of(b, t, d);
    const int parts = ls_mesh_size(mesh, features), shares = ls_mesh_size(mesh, cut & ~features);
    if (features != 0 && dim->factor != LS_FACTOR_SEQUENCE) {
        const ls_dim_units *units = &b->sharding->units[t.id * LS_MAX_DIMS + d];
        return (ls_sizes){ls_units_count(units, parts, 0), ls_units_most(units, parts)};
    }
    return (ls_sizes){dim->size / shares / parts, ls_ceil_div(ls_ceil_div(dim->size, shares), parts)};
}

void ls_placements_size(const ls_builder *b, ls_tensor t, const ls_placements *spread, int64_t size[LS_MAX_DIMS]) {
    for (int d = 0; d < ls_graph_tensor(b->job->graph, t)->shape.ndim; d++)
        size[d] = ls_indices_of(b, t, d, spread->cut[d], b->target->rank).count;
}

void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]) {
    ls_placements_size(b, t, &b->sharding->tensor[t.id], size);
}

int64_t ls_most_elements(const ls_builder *b, ls_tensor t) {
    int64_t n = 1;
    for (int d = 0; d < ls_graph_tensor(b->job->graph, t)->shape.ndim; d++)
        n *= ls_sizes_of(b, t, d, b->sharding->tensor[t.id].cut[d]).most;
    return n;
}
