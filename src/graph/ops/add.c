/* add: a + b. The sum of two partial sums is a partial sum. */
#include "graph/graph_impl.h"

static void add_gradient(ls_gradient *d, const ls_node *node) {
    (void)node;
    for (int i = 0; i < 2; i++) {
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, ls_gradient_out(d, 0));
    }
}

static bool expression(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    return ls_rule_step(g, node, LS_MAP_ADD, out);
}

const ls_op ls_op_add = {.name = "add",
                         .reach = LS_REACH_OWN,
                         .kernel = LS_KERNEL_ADD,
                         .kernel_by_input = true,
                         .least_in = 2,
                         .most_in = 2,
                         .n_out = 1,
                         .shape = ls_rule_same_shape,
                         .gradient = add_gradient,
                         .dims = "*,*>*",
                         .addends = 1U << 0 | 1U << 1,
                         .expression = expression};

ls_tensor ls_add(ls_graph *g, ls_tensor a, ls_tensor b) {
    const ls_tensor in[] = {a, b};
    return ls_graph_add(g, &ls_op_add, NULL, 0, in, 2, -1);
}
