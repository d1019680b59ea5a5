/*
 * activation: a function of one element, chosen by params (tensor/params.h): gelu exact or with tanh, relu, silu, or
 * the soft cap c·tanh(x/c). x may be of type T or G (logits); the gradient has the type of dy.
 */
#include "graph/graph_impl.h"

#include <math.h>

static ls_status activation_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_activation_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    if (x->dtype != g->dtype && x->dtype != g->accumulator)
        return ls_op_input_error(g, node, 0, "activations of type %s or %s", ls_dtype_name(g->dtype),
                                 ls_dtype_name(g->accumulator));
    if (params->kind == LS_ACTIVATION_SOFTCAP && (!(params->cap > 0) || !isfinite(params->cap)))
        return ls_error(LS_INVALID, "op activation: softcap's cap is %g, expected a positive number", params->cap);
    return ls_rule_same_shape(g, node, out);
}

static void activation_gradient(ls_gradient *d, const ls_node *node) {
    const ls_tensor in[] = {ls_gradient_out(d, 0), node->in[0]};
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0,
                        ls_graph_add(ls_gradient_graph(d), &ls_op_activation_grad, node->params,
                                     sizeof(ls_activation_params), in, 2, -1));
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *dy = ls_graph_tensor(g, node->in[0]);
    out->dtype = dy->dtype;
    out->shape = dy->shape;
    return ls_ok();
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 12.0 * (double)ls_view_elements(out);
}

const ls_op ls_op_activation = {.name = "activation",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_ACTIVATION,
                                .kernel_by_input = true,
                                .least_in = 1,
                                .most_in = 1,
                                .n_out = 1,
                                .shape = activation_shape,
                                .gradient = activation_gradient,
                                .dims = "*>*",
                                .flops = flops};

const ls_op ls_op_activation_grad = {.name = "activation_grad",
                                     .reach = LS_REACH_OWN,
                                     .kernel = LS_KERNEL_ACTIVATION_GRAD,
                                     .kernel_by_input = true,
                                     .least_in = 2,
                                     .most_in = 2,
                                     .n_out = 1,
                                     .shape = grad_shape,
                                     .dims = "*,*>*",
                                     .flops = flops};

static ls_tensor activate(ls_graph *g, ls_tensor x, ls_activation_kind kind, double cap) {
    const ls_activation_params params = {.kind = kind, .cap = cap};
    return ls_graph_add(g, &ls_op_activation, &params, sizeof params, &x, 1, -1);
}

ls_tensor ls_gelu(ls_graph *g, ls_tensor x) { return activate(g, x, LS_ACTIVATION_GELU, 0); }
ls_tensor ls_gelu_tanh(ls_graph *g, ls_tensor x) { return activate(g, x, LS_ACTIVATION_GELU_TANH, 0); }
ls_tensor ls_relu(ls_graph *g, ls_tensor x) { return activate(g, x, LS_ACTIVATION_RELU, 0); }
ls_tensor ls_silu(ls_graph *g, ls_tensor x) { return activate(g, x, LS_ACTIVATION_SILU, 0); }
ls_tensor ls_softcap(ls_graph *g, ls_tensor x, double cap) { return activate(g, x, LS_ACTIVATION_SOFTCAP, cap); }
