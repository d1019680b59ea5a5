/* scale: multiplies by a constant. */
#include "graph/graph_impl.h"

#include <math.h>

static ls_status scale_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_scale_params *params = node->params;
    if (!isfinite(params->factor))
        return ls_error(LS_INVALID, "op scale: the factor is %g, expected a finite number", params->factor);
    return ls_rule_same_shape(g, node, out);
}

static void scale_gradient(ls_gradient *d, const ls_node *node) {
    const ls_scale_params *params = node->params;
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, ls_scale(ls_gradient_graph(d), ls_gradient_out(d, 0), params->factor));
}

/* Two steps: a number, and a product with it. */
static bool expression(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    const ls_scale_params *params = node->params;
    if (!ls_rule_no_step(g, node, out)) return false;
    out->step[0] = (ls_map_step){.code = LS_MAP_NUMBER, .number = params->factor};
    out->step[1] = (ls_map_step){.code = LS_MAP_MUL, .a = 0, .b = 1};
    out->n_steps = 2;
    out->result[0] = 2;
    return true;
}

const ls_op ls_op_scale = {.name = "scale",
                           .reach = LS_REACH_OWN,
                           .kernel = LS_KERNEL_SCALE,
                           .kernel_by_input = true,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = 1,
                           .shape = scale_shape,
                           .gradient = scale_gradient,
                           .dims = "*>*",
                           .addends = 1U << 0,
                           .expression = expression};

ls_tensor ls_scale(ls_graph *g, ls_tensor x, double factor) {
    const ls_scale_params params = {.factor = factor};
    return ls_graph_add(g, &ls_op_scale, &params, sizeof params, &x, 1, -1);
}
