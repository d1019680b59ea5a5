/* swiglu: silu(gate)·up per element (arXiv 2002.05202). */
#include "graph/graph_impl.h"

static void swiglu_gradient(ls_gradient *d, const ls_node *node) {
    const ls_tensor in[] = {node->in[0], node->in[1], ls_gradient_out(d, 0)};
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor dgate = ls_graph_add(g, &ls_op_swiglu_grad, NULL, 0, in, 3, -1);
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, dgate);
    if (ls_gradient_wanted(d, 1)) ls_gradient_add(d, 1, ls_graph_output(g, dgate, 1));
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 12.0 * (double)ls_view_elements(out);
}

const ls_op ls_op_swiglu = {.name = "swiglu",
                            .reach = LS_REACH_OWN,
                            .kernel = LS_KERNEL_SWIGLU,
                            .least_in = 2,
                            .most_in = 2,
                            .n_out = 1,
                            .shape = ls_rule_same_shape,
                            .gradient = swiglu_gradient,
                            .dims = "*,*>*",
                            .flops = flops};

const ls_op ls_op_swiglu_grad = {.name = "swiglu_grad",
                                 .reach = LS_REACH_OWN,
                                 .kernel = LS_KERNEL_SWIGLU_GRAD,
                                 .least_in = 3,
                                 .most_in = 3,
                                 .n_out = 2,
                                 .shape = ls_rule_same_shape,
                                 .dims = "*,*,*>*,*",
                                 .flops = flops};

ls_tensor ls_swiglu(ls_graph *g, ls_tensor gate, ls_tensor up) {
    const ls_tensor in[] = {gate, up};
    return ls_graph_add(g, &ls_op_swiglu, NULL, 0, in, 2, -1);
}
