/* mul: a·b per element. */
#include "graph/graph_impl.h"

static void mul_gradient(ls_gradient *d, const ls_node *node) {
    for (int i = 0; i < 2; i++) {
        if (ls_gradient_wanted(d, i))
            ls_gradient_add(d, i, ls_mul(ls_gradient_graph(d), ls_gradient_out(d, 0), node->in[1 - i]));
    }
}

static bool expression(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    return ls_rule_step(g, node, LS_MAP_MUL, out);
}

const ls_op ls_op_mul = {.name = "mul",
                         .reach = LS_REACH_OWN,
                         .kernel = LS_KERNEL_MUL,
                         .kernel_by_input = true,
                         .least_in = 2,
                         .most_in = 2,
                         .n_out = 1,
                         .shape = ls_rule_same_shape,
                         .gradient = mul_gradient,
                         .dims = "*,*>*",
                         .expression = expression};

ls_tensor ls_mul(ls_graph *g, ls_tensor a, ls_tensor b) {
    const ls_tensor in[] = {a, b};
    return ls_graph_add(g, &ls_op_mul, NULL, 0, in, 2, -1);
}
