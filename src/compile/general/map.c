/*
 * map and broadcast: one call of the kernel map on views of the inputs with the sizes of the results, and strides of 0
 * where elements are repeated.
 */
#include "compile/compile_impl.h"

/*
 * x as a view with the dimensions of `to`: dimension from[d] of x becomes dimension d; if from[d] is -1, x is repeated
 * there. A tile has one dimension less than its tensor, since batch and sequence are one.
 */
static ls_operand repeated(ls_operand x, const ls_view *to, const int from[LS_MAX_DIMS]) {
    const ls_view is = x.view;
    x.view.ndim = to->ndim;
    for (int d = 0; d < to->ndim; d++) {
        x.view.size[d] = to->size[d];
        x.view.stride[d] = from[d] >= 0 ? is.stride[from[d]] : 0;
    }
    return x;
}

static void call_map(ls_builder *b, const ls_node *node, const ls_map_params *params, ls_kernel_build *call) {
    call->op = node->op->name;
    call->kernel = LS_KERNEL_MAP;
    call->dtype = b->job->graph->dtype;
    call->params = params;
    call->params_bytes = ls_map_bytes(params);
    call->n_out = node->n_out;
    call->flops = ls_lower_flops(node->op, call);
    ls_build_kernel(b, call);
}

static void lower_map(ls_builder *b, const ls_program_node *at) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = ls_graph_node(b, at);
    const ls_shape *all = &ls_graph_tensor(g, node->out[0])->shape;
    ls_kernel_build call = {.n_in = node->n_in};
    for (int o = 0; o < node->n_out; o++) call.out[o] = ls_lower_tensor(b, node->out[o]);
    const ls_view *to = &call.out[0].view;
    for (int i = 0; i < node->n_in; i++) {
        const ls_shape *shape = &ls_graph_tensor(g, node->in[i])->shape;
        const ls_operand x = ls_lower_tensor(b, node->in[i]);
        int from[LS_MAX_DIMS];
        for (int d = 0; d < to->ndim; d++) {
            const int back = to->ndim - d; /* dimensions are counted from the last one, since a tile has fewer */
            const bool has =
                back <= x.view.ndim && shape->dim[shape->ndim - back].size == all->dim[all->ndim - back].size;
            from[d] = has ? x.view.ndim - back : -1;
        }
        call.in[i] = repeated(x, to, from);
    }
    call_map(b, node, node->params, &call);
}

static void lower_broadcast(ls_builder *b, const ls_program_node *at) {
    static const ls_map_params same = {.n_in = 1, .n_results = 1};
    const ls_node *node = ls_graph_node(b, at);
    ls_node_dims dims;
    ls_node_dims_find(b->job->graph, node, &dims);
    ls_kernel_build call = {.n_in = 1, .out = {ls_lower_tensor(b, node->out[0])}};
    const ls_operand x = ls_lower_tensor(b, node->in[0]);
    const int ndim = ls_graph_tensor(b->job->graph, node->out[0])->shape.ndim, merged = ndim - call.out[0].view.ndim;
    const int merged_in = ls_graph_tensor(b->job->graph, node->in[0])->shape.ndim - x.view.ndim;
    int from[LS_MAX_DIMS];
    for (int d = merged; d < ndim; d++) {
        const int is = ls_letter_dim(&dims, &dims.in[0], dims.out[0].dim[d].letter[0]);
        from[d - merged] = is >= merged_in ? is - merged_in : -1;
    }
    call.in[0] = repeated(x, &call.out[0].view, from);
    call_map(b, node, &same, &call);
}

const ls_lowering ls_lowering_map = {.lower = lower_map};
const ls_lowering ls_lowering_broadcast = {.lower = lower_broadcast};
