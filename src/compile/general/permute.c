/* permute: a copy of the input's view with its dimensions in the order of the result's. */
#include "compile/compile_impl.h"

static void lower_permute(ls_builder *b, const ls_program_node *at) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand x = ls_lower_tensor(b, node->in[0]), y = ls_lower_tensor(b, node->out[0]);
    const int merged = ls_graph_tensor(g, node->in[0])->shape.ndim - x.view.ndim; /* in a tile: batch and sequence */
    ls_operand turned = x;
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    for (int d = merged; d < x.view.ndim; d++) {
        const int from = ls_letter_dim(&dims, &dims.in[0], dims.out[0].dim[d + merged].letter[0]) - merged;
        turned.view.size[d] = x.view.size[from];
        turned.view.stride[d] = x.view.stride[from];
    }
    ls_build_copy(b, turned, y);
}

const ls_lowering ls_lowering_permute = {.lower = lower_permute};
