/* scale: x times a constant. */
#include "graph/ops/ops.h"

static void scale_gradient(ls_gradient *d, const ls_node *node) {
    const ls_scale_params *params = node->params;
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, ls_scale(ls_gradient_graph(d), ls_gradient_out(d, 0), params->factor));
}

const ls_op ls_op_scale = {.name = "scale",
                           .by_rows = true,
                           .kernel = "scale",
                           .kernel_by_input = true,
                           .linear = true,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = 1,
                           .shape = ls_rule_same_shape,
                           .gradient = scale_gradient,
                           .shard = ls_shard_together};

ls_tensor ls_scale(ls_graph *g, ls_tensor x, double factor) {
    const ls_scale_params params = {.factor = factor};
    return ls_graph_add(g, &ls_op_scale, &params, sizeof params, &x, 1, -1);
}
