/* reduce: sums over neighbouring dimensions, which the kernel sees as one between those outside and inside of it. */
#include "compile/compile_impl.h"

static ls_operand as(ls_operand x, int ndim, const int64_t *size) {
    return ls_operand_dense(x.buffer, x.offset, x.view.dtype, ndim, size);
}

static void lower_reduce(ls_builder *b, const ls_program_node *at) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand x = ls_lower_tensor(b, node->in[0]), sum = ls_lower_tensor(b, node->out[0]);
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    const int merged = ls_graph_tensor(g, node->in[0])->shape.ndim - x.view.ndim; /* of a tile batch and sequence */
    enum { OUTSIDE, OVER, INSIDE, PARTS };
    int64_t size[PARTS] = {1, 1, 1};
    int part = OUTSIDE;
    for (int d = 0; d < x.view.ndim; d++) {
        const bool over = ls_letter_dim(&dims, &dims.out[0], dims.in[0].dim[d + merged].letter[0]) < 0;
        if (over) part = OVER;
        if (!over && part == OVER) part = INSIDE;
        size[part] *= x.view.size[d];
    }
    const ls_operand to = ls_lower_sum(b, at->of, as(sum, 2, (int64_t[]){size[OUTSIDE], size[INSIDE]}));
    ls_kernel_build call = {.op = node->op->name,
                            .kernel = LS_KERNEL_REDUCE,
                            .dtype = g->dtype,
                            .n_in = 1,
                            .in = {as(x, PARTS, size)},
                            .n_out = 1,
                            .out = {to}};
    call.flops = ls_lower_flops(node->op, &call);
    ls_build_kernel(b, &call);
}

const ls_lowering ls_lowering_reduce = {.lower = lower_reduce};
