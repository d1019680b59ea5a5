/* softmax: exp(x) / sum(exp(x)) over the last dimension, for each token separately. */
#include "graph/graph_impl.h"

static ls_status softmax_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    LS_TRY(ls_rule_numbers(g, node));
    LS_TRY(ls_rule_last(g, node, 0));
    out->dtype = g->dtype;
    out->shape = x->shape;
    return ls_ok();
}

typedef struct softmax_grad_params {
    ls_dtype dtype; /* of x */
} softmax_grad_params;

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    out->dtype = ((const softmax_grad_params *)node->params)->dtype;
    out->shape = ls_graph_tensor(g, node->in[0])->shape;
    return ls_ok();
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 10.0 * (double)ls_view_elements(&in[0]);
}

static void softmax_gradient(ls_gradient *d, const ls_node *node) {
    if (!ls_gradient_wanted(d, 0)) return;
    ls_graph *g = ls_gradient_graph(d);
    const softmax_grad_params params = {ls_graph_tensor(g, node->in[0])->dtype};
    const ls_tensor in[] = {node->out[0], ls_gradient_out(d, 0)};
    ls_gradient_add(d, 0, ls_graph_add(g, &ls_op_softmax_grad, &params, sizeof params, in, 2, -1));
}

const ls_op ls_op_softmax = {.name = "softmax",
                             .reach = LS_REACH_OWN,
                             .kernel = LS_KERNEL_SOFTMAX,
                             .least_in = 1,
                             .most_in = 1,
                             .n_out = 1,
                             .shape = softmax_shape,
                             .gradient = softmax_gradient,
                             .dims = "*K>*K",
                             .flops = flops};

const ls_op ls_op_softmax_grad = {.name = "softmax_grad",
                                  .reach = LS_REACH_OWN,
                                  .kernel = LS_KERNEL_SOFTMAX_GRAD,
                                  .least_in = 2,
                                  .most_in = 2,
                                  .n_out = 1,
                                  .shape = grad_shape,
                                  .dims = "*K,*K>*K",
                                  .addends = 1U << 1,
                                  .flops = flops};

ls_tensor ls_softmax(ls_graph *g, ls_tensor x) { return ls_graph_add(g, &ls_op_softmax, NULL, 0, &x, 1, -1); }
