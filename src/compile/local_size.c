/* How much of a tensor a rank has, and which of its indices. */
#include "compile/redistribute/redistribute.h"

ls_indices ls_indices_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut, int rank) {
    const ls_mesh *mesh = &b->target->mesh;
    const ls_dim *dim = &ls_graph_tensor(b->job->graph, t)->shape.dim[d];
    const int parts = ls_mesh_size(mesh, cut), part = ls_mesh_index(mesh, cut, rank);
    if (cut != 0 && dim->factor == LS_FACTOR_SEQUENCE)
        return (ls_indices){ls_layout_start(&b->image->layout, part), ls_layout_count(&b->image->layout, part)};
    if (cut & ls_mesh_axes(mesh, LS_AXIS_FEATURE)) {
        const ls_dim_units *units = &b->sharding->units[t.id * LS_MAX_DIMS + d];
        int64_t follow;
        return (ls_indices){ls_units_place(units, parts, part, 0, &follow), ls_units_count(units, parts, part)};
    }
    const int64_t start = ls_part_start(dim->size, parts, part);
    return (ls_indices){start, ls_part_start(dim->size, parts, part + 1) - start};
}

void ls_placements_size(const ls_builder *b, ls_tensor t, const ls_placements *spread, int64_t size[LS_MAX_DIMS]) {
    for (int d = 0; d < ls_graph_tensor(b->job->graph, t)->shape.ndim; d++)
        size[d] = ls_indices_of(b, t, d, spread->cut[d], b->target->rank).count;
}

void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]) {
    ls_placements_size(b, t, &b->sharding->tensor[t.id], size);
}

int64_t ls_most_elements(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
    int64_t size[LS_MAX_DIMS], n = 1;
    ls_local_size(b, t, size);
    for (int d = 0; d < info->shape.ndim; d++) {
        const ls_axes cut = b->sharding->tensor[t.id].cut[d];
        if (info->shape.dim[d].factor == LS_FACTOR_SEQUENCE)
            size[d] = ls_max(size[d], ls_layout_most(&b->image->layout));
        if (cut & features)
            size[d] = ls_units_most(&b->sharding->units[t.id * LS_MAX_DIMS + d], ls_mesh_size(&b->target->mesh, cut));
        n *= size[d];
    }
    return n;
}
