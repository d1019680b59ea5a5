/* Where the tensors of a program lie on this rank, and how much of each it has. */
#include "compile/redistribute/redistribute.h"

ls_indices ls_indices_of(const ls_builder *b, const ls_dim *dim, ls_axes cut, int rank) {
    const ls_mesh *mesh = &b->target->mesh;
    const int parts = ls_mesh_size(mesh, cut), part = ls_mesh_index(mesh, cut, rank);
    if (cut != 0 && dim->factor == LS_FACTOR_SEQUENCE)
        return (ls_indices){ls_layout_start(&b->image->layout, part), ls_layout_count(&b->image->layout, part)};
    const int64_t start = ls_part_start(dim->size, parts, part);
    return (ls_indices){start, ls_part_start(dim->size, parts, part + 1) - start};
}

void ls_placements_size(const ls_builder *b, const ls_shape *shape, const ls_placements *spread,
                        int64_t size[LS_MAX_DIMS]) {
    for (int i = 0; i < shape->ndim; i++)
        size[i] = ls_indices_of(b, &shape->dim[i], spread->cut[i], b->target->rank).count;
}

void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]) {
    ls_placements_size(b, &ls_graph_tensor(b->job->graph, t)->shape, &b->sharding->tensor[t.id], size);
}

/* Tensor t as it lies at its storage's place. */
static ls_operand at_storage(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    const ls_operand base = b->tensor[info->storage.id];
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    return ls_operand_dense(base.buffer, base.offset, info->dtype, info->shape.ndim, size);
}

/* Elements of a tensor on the rank that has most of it. */
static int64_t most_elements(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    int64_t size[LS_MAX_DIMS], n = 1;
    ls_local_size(b, t, size);
    for (int i = 0; i < info->shape.ndim; i++)
        n *= info->shape.dim[i].factor == LS_FACTOR_SEQUENCE ? ls_max(size[i], ls_layout_most(&b->image->layout))
                                                             : size[i];
    return n;
}

ls_operand ls_lower_place(ls_builder *b, ls_buffer_kind kind, ls_tensor storage) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, storage);
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, storage, size);
    if (b->shared[storage.id])
        return ls_build_symmetric(b, kind, info->name, most_elements(b, storage), info->dtype, info->shape.ndim, size);
    if (ls_tile_is_inner(b, storage)) {
        size[0] = b->tile->count;
        size[1] = 1;
    }
    return ls_build_private(b, kind, info->name, info->dtype, info->shape.ndim, size);
}

ls_operand ls_lower_tensor(ls_builder *b, ls_tensor t) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, t)->storage;
    if (b->tensor[storage.id].buffer < 0) b->tensor[storage.id] = ls_lower_place(b, LS_BUFFER_ACTIVATION, storage);
    return ls_tile_view(b, t, at_storage(b, t));
}

void ls_lower_bind(ls_builder *b, ls_tensor t, ls_operand operand) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, t)->storage;
    LS_ASSERT(storage.id == t.id);
    if (b->tensor[t.id].buffer >= 0)
        ls_build_copy(b, operand, at_storage(b, t)); /* the host reads it: it has a place of its own */
    else
        b->tensor[t.id] = operand;
}

ls_operand ls_bound(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    LS_ASSERT(binding != NULL);
    return binding->operand;
}

void ls_lower_shared(ls_builder *b, ls_tensor t) {
    if (t.id != 0) b->shared[ls_graph_tensor(b->job->graph, t)->storage.id] = true;
}
