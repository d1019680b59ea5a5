/*
 * cross_entropy: output 0 is -log softmax(logits)[label] for each token, 0 for the label -100 (ignored). Output 1 is
 * the log-sum-exp of the logits. cross_entropy_grad computes softmax(logits) again, from the logits and the
 * log-sum-exp, and returns (softmax - onehot(label)) * dloss, 0 for an ignored label. With params (tensor/params.h)
 * labels are smoothed, or the loss has the square of the log-sum-exp as a term. The vocabulary may be cut: then the
 * lowering merges the ranks' losses and log-sum-exps, and both results are whole (compile/vocabulary.c).
 */
#include "graph/graph_impl.h"

static ls_status loss_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *labels = ls_graph_tensor(g, node->in[1]);
    ls_shape tokens = x->shape;
    if (tokens.ndim < 1 || (x->dtype != g->dtype && x->dtype != g->accumulator))
        return ls_op_input_error(g, node, 0, "logits [..,V]");
    if (tokens.dim[--tokens.ndim].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, 0, "a vocabulary in the last dimension");
    if (labels->dtype != LS_I32 || !ls_shape_equal(&labels->shape, &tokens))
        return ls_op_input_error(g, node, 1, "one i32 label for each row of \"%s\"", x->name);
    for (int i = 0; i < 2; i++) {
        out[i].dtype = g->accumulator;
        out[i].shape = tokens;
    }
    return ls_ok();
}

static void loss_gradient(ls_gradient *d, const ls_node *node) {
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_tensor in[] = {node->in[0], node->in[1], node->out[1], ls_gradient_out(d, 0)};
    const ls_tensor dx = ls_graph_add(ls_gradient_graph(d), &ls_op_cross_entropy_grad, node->params,
                                      node->params != NULL ? sizeof(ls_cross_entropy_params) : 0, in, 4, -1);
    ls_gradient_add(d, 0, dx);
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    out->dtype = g->dtype;
    out->shape = ls_graph_tensor(g, node->in[0])->shape;
    return ls_ok();
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 12.0 * (double)ls_view_elements(&in[0]);
}

const ls_op ls_op_cross_entropy = {.name = "cross_entropy",
                                   .reach = LS_REACH_OWN,
                                   .kernel = LS_KERNEL_CROSS_ENTROPY,
                                   .least_in = 2,
                                   .most_in = 2,
                                   .n_out = 2,
                                   .lookup = {.ids = 2, .among = 0, .dim = -1, .may_ignore = true},
                                   .shape = loss_shape,
                                   .gradient = loss_gradient,
                                   .dims = "*v,*>=*,=*",
                                   .flops = flops};

const ls_op ls_op_cross_entropy_grad = {.name = "cross_entropy_grad",
                                        .reach = LS_REACH_OWN,
                                        .kernel = LS_KERNEL_CROSS_ENTROPY_GRAD,
                                        .least_in = 4,
                                        .most_in = 4,
                                        .n_out = 1,
                                        .lookup = {.ids = 2, .among = 0, .dim = -1, .may_ignore = true},
                                        .shape = grad_shape,
                                        .dims = "*v,*,*,*>*v",
                                        .flops = flops};

ls_tensor ls_cross_entropy(ls_graph *g, ls_tensor logits, ls_tensor labels) {
    const ls_tensor in[] = {logits, labels};
    return ls_graph_add(g, &ls_op_cross_entropy, NULL, 0, in, 2, -1);
}

ls_tensor ls_cross_entropy_smoothed(ls_graph *g, ls_tensor logits, ls_tensor labels, double smoothing, double z) {
    const ls_shape *shape = &ls_graph_tensor(g, logits)->shape;
    const double V = shape->ndim > 0 ? (double)shape->dim[shape->ndim - 1].size : 1;
    const ls_cross_entropy_params params = {.label = 1 - smoothing, .each = smoothing / V, .z = z};
    const ls_tensor in[] = {logits, labels};
    if (smoothing == 0 && z == 0) return ls_cross_entropy(g, logits, labels);
    return ls_graph_add(g, &ls_op_cross_entropy, &params, sizeof params, in, 2, -1);
}
