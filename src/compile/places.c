/* Where the tensors of a program lie on this rank. */
#include "compile/redistribute/redistribute.h"

/* Tensor t as an operand where its storage lies. */
static ls_operand at_storage(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    const ls_operand base = b->tensor[info->storage.id];
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    return ls_operand_dense(base.buffer, base.offset, info->dtype, info->shape.ndim, size);
}

ls_operand ls_lower_place(ls_builder *b, ls_buffer_kind kind, ls_tensor storage) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, storage);
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, storage, size);
    if (b->shared[storage.id])
        return ls_build_symmetric(b, kind, info->name, ls_most_elements(b, storage), info->dtype, info->shape.ndim,
                                  size);
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

ls_operand ls_lower_kept(ls_builder *b, const ls_node *node, int input) {
    const ls_operand at = ls_lower_tensor(b, node->in[input]);
    if (b->image->buffers[at.buffer].program >= 0)
        ls_build_fail(b,
                      ls_error(LS_UNSUPPORTED,
                               "op %s changes \"%s\", which the ranks along tp do not share as it needs it; expected "
                               "a mesh with another tp",
                               node->op->name, ls_graph_tensor(b->job->graph, node->in[input])->name));
    return at;
}

void ls_lower_bind(ls_builder *b, ls_tensor t, ls_operand operand) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, t)->storage;
    LS_ASSERT(storage.id == t.id);
    if (b->tensor[t.id].buffer >= 0)
        ls_build_copy(b, operand, at_storage(b, t)); /* the host reads the tensor, so it already has its own place */
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
