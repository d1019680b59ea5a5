/*
 * reduce, reduce_max and its gradient, over neighbouring dimensions. The kernel sees three dimensions: those outside,
 * those that are reduced, those inside.
 */
#include "compile/compile_impl.h"

enum { OUTSIDE, OVER, INSIDE, PARTS };

static ls_operand as(ls_operand x, int ndim, const int64_t *size) {
    return ls_operand_dense(x.buffer, x.offset, x.view.dtype, ndim, size);
}

/* The operand x, which is input 0, and the operand that is left after the reduction. */
typedef struct parts {
    ls_operand x, left;
} parts;

/* Both operands in the form that the kernels take; `left` is output 0, or the last input. */
static parts find_parts(ls_builder *b, const ls_node *node, bool left_is_output) {
    const ls_operand x = ls_lower_tensor(b, node->in[0]);
    const int last = node->n_in - 1, merged = ls_graph_tensor(b->job->graph, node->in[0])->shape.ndim - x.view.ndim;
    int64_t size[PARTS] = {1, 1, 1};
    ls_node_dims dims;
    ls_node_dims_find(b->job->graph, node, &dims);
    for (int d = 0, part = OUTSIDE; d < x.view.ndim; d++) { /* a tile has one dimension of tokens instead of two */
        const bool over = ls_letter_dim(&dims, left_is_output ? &dims.out[0] : &dims.in[last],
                                        dims.in[0].dim[d + merged].letter[0]) < 0;
        if (over) part = OVER;
        if (!over && part == OVER) part = INSIDE;
        size[part] *= x.view.size[d];
    }
    const ls_operand left = ls_lower_tensor(b, left_is_output ? node->out[0] : node->in[last]);
    return (parts){as(x, PARTS, size), as(left, 2, (int64_t[]){size[OUTSIDE], size[INSIDE]})};
}

static void call_kernel(ls_builder *b, const ls_node *node, ls_kernel_build *call) {
    call->op = node->op->name;
    call->kernel = node->op->kernel;
    call->dtype = b->job->graph->dtype;
    call->n_out = 1;
    call->flops = ls_lower_flops(node->op, call);
    ls_build_kernel(b, call);
}

static void lower_reduce(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const parts p = find_parts(b, node, true);
    ls_kernel_build call = {.n_in = 1, .in = {p.x}, .out = {ls_lower_sum(b, at->of, p.left)}};
    call_kernel(b, node, &call);
}

static void lower_max(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const parts p = find_parts(b, node, true);
    ls_kernel_build call = {.n_in = 1, .in = {p.x}, .out = {p.left}};
    call_kernel(b, node, &call);
}

static void lower_max_grad(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const parts p = find_parts(b, node, false);
    ls_kernel_build call = {.params = node->params,
                            .params_bytes = sizeof(ls_reduce_max_params),
                            .n_in = 2,
                            .in = {p.x, p.left},
                            .out = {as(ls_lower_tensor(b, node->out[0]), PARTS, p.x.view.size)}};
    call_kernel(b, node, &call);
}

const ls_lowering ls_lowering_reduce = {.lower = lower_reduce};
const ls_lowering ls_lowering_reduce_max = {.lower = lower_max};
const ls_lowering ls_lowering_reduce_max_grad = {.lower = lower_max_grad};
