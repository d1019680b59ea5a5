/*
 * sum adds all elements; zeros is the start of a sum; accumulate adds one more term. A sum over elements that are cut
 * over ranks is a partial sum; the compiler adds the ranks' partial sums where the whole sum is needed.
 */
#include "graph/graph_impl.h"

typedef struct shape_params {
    ls_shape shape;
} shape_params;

static ls_status params_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const shape_params *params = node->params;
    out->dtype = g->accumulator;
    out->shape = params->shape;
    return ls_ok();
}

static ls_status sum_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    if (ls_graph_tensor(g, node->in[0])->dtype != g->accumulator)
        return ls_op_input_error(g, node, 0, "%s (cast it first)", ls_dtype_name(g->accumulator));
    return ls_rule_sum_shape(g, node, out);
}

static ls_status accumulate_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *sum = ls_graph_tensor(g, node->in[1]);
    if (!ls_shape_equal(&x->shape, &sum->shape)) return ls_op_input_error(g, node, 0, "the shape of \"%s\"", sum->name);
    return ls_rule_sum_shape(g, node, out);
}

static void sum_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_shape shape = ls_graph_tensor(g, node->in[0])->shape;
    const unsigned all = (1U << shape.ndim) - 1;
    ls_gradient_add(d, 0, ls_broadcast_to(g, ls_gradient_out(d, 0), all, &shape, g->accumulator));
}

const ls_op ls_op_sum = {.name = "sum",
                         .reach = LS_REACH_OWN,
                         .kernel = LS_KERNEL_SUM,
                         .least_in = 2,
                         .most_in = 2,
                         .n_out = 1,
                         .in_place = {2},
                         .shape = sum_shape,
                         .gradient = sum_gradient,
                         .dims = "*,N>N"};

const ls_op ls_op_zeros = {.name = "zeros",
                           .reach = LS_REACH_OWN,
                           .kernel = LS_KERNEL_FILL,
                           .least_in = 0,
                           .most_in = 0,
                           .n_out = 1,
                           .shape = params_shape,
                           .dims = ">*",
                           .addends = LS_MADE};

const ls_op ls_op_accumulate = {.name = "accumulate",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_ACCUMULATE,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 1,
                                .in_place = {2},
                                .shape = accumulate_shape,
                                .dims = "*,*>*",
                                .addends = 1U << 0};

ls_tensor ls_zeros(ls_graph *g, const ls_shape *shape) {
    const shape_params params = {*shape};
    return ls_graph_add(g, &ls_op_zeros, &params, sizeof params, NULL, 0, -1);
}

ls_tensor ls_accumulate(ls_graph *g, ls_tensor x, ls_tensor sum) {
    const ls_tensor in[] = {x, sum};
    return ls_graph_add(g, &ls_op_accumulate, NULL, 0, in, 2, -1);
}

ls_tensor ls_sum(ls_graph *g, ls_tensor x) {
    const ls_shape one = {1, {{1, LS_FACTOR_NONE}}};
    const ls_tensor in[] = {x, ls_zeros(g, &one)};
    return ls_graph_add(g, &ls_op_sum, NULL, 0, in, 2, -1);
}
