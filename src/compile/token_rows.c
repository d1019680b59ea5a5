/*
 * Tensors whose first dimensions are batch and sequence, so that tokens are rows of memory; and a tile's part of them
 */
#include "compile/compile_impl.h"

bool ls_has_token_rows(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    return s->ndim >= 2 && s->dim[0].factor == LS_FACTOR_BATCH && s->dim[1].factor == LS_FACTOR_SEQUENCE;
}

int64_t ls_row_width(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    int64_t n = 1;
    for (int i = 2; i < s->ndim; i++) n *= s->dim[i].size;
    return n;
}

int64_t ls_logits_width(const ls_graph *g) {
    int64_t width = 0;
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        bool reduces = node->op->reach == LS_REACH_OWN && node->n_in > 0 && ls_has_token_rows(g, node->in[0]);
        for (int o = 0; o < node->n_out && reduces; o++)
            reduces = ls_has_token_rows(g, node->out[o]) && ls_row_width(g, node->out[o]) == 1;
        if (reduces) width = ls_max(width, ls_row_width(g, node->in[0]));
    }
    return width;
}

bool ls_tile_is_inner(const ls_builder *b, ls_tensor storage) {
    for (int i = 0; b->tile != NULL && i < b->tile->n_inner; i++) {
        if (b->tile->inner[i].id == storage.id) return true;
    }
    return false;
}

ls_operand ls_tile_view(const ls_builder *b, ls_tensor t, ls_operand whole) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    if (b->tile == NULL || !ls_has_token_rows(b->job->graph, t)) return whole;
    const bool inner = ls_tile_is_inner(b, info->storage);
    int64_t local[LS_MAX_DIMS], row = 1, size[LS_MAX_DIMS] = {b->tile->count};
    ls_local_size(b, t, local);
    for (int i = 2; i < info->shape.ndim; i++) row *= size[i - 1] = local[i];
    const int64_t start = inner ? 0 : b->tile->start * row;
    return ls_operand_dense(whole.buffer, whole.offset + (size_t)start * ls_dtype_bytes(info->dtype), info->dtype,
                            info->shape.ndim - 1, size);
}
