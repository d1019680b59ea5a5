/* layernorm: y = (x - mean) / sqrt(variance + epsilon) · weight (+ bias) over the last dimension (arXiv 1607.06450). */
#include "graph/graph_impl.h"

static ls_status layernorm_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    const int n = x->shape.ndim;
    if (n < 1 || x->dtype != g->dtype) return ls_op_input_error(g, node, 0, "activations [..,E]");
    const ls_dim E = x->shape.dim[n - 1];
    if (E.factor != LS_FACTOR_NONE) return ls_op_input_error(g, node, 0, "a last dimension that is not the sequence");
    for (int i = 1; i < node->n_in; i++) {
        const ls_tensor_info *w = ls_graph_tensor(g, node->in[i]);
        if (w->dtype != g->dtype || w->shape.ndim != 1 || w->shape.dim[0].size != E.size)
            return ls_op_input_error(g, node, i, "a %s [%lld]", i == 1 ? "weight" : "bias", (long long)E.size);
    }
    out[0].dtype = x->dtype;
    out[0].shape = x->shape;
    LS_TRY(ls_norm_check(node));
    for (int i = 1; i < 3; i++) { /* the mean and 1 / sqrt(...), for the gradient */
        out[i].dtype = g->accumulator;
        out[i].shape = x->shape;
        out[i].shape.ndim = n - 1;
    }
    return ls_ok();
}

static void layernorm_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor dy = ls_gradient_out(d, 0);
    const ls_tensor in[] = {node->in[0], node->in[1], node->out[1], node->out[2], dy, ls_gradient_sum(d, 1)};
    const ls_tensor dx = ls_graph_add(g, &ls_op_layernorm_grad, NULL, 0, in, 6, -1);
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, dx);
    ls_gradient_summed(d, 1, ls_graph_output(g, dx, 1));
    if (node->n_in < 3 || !ls_gradient_wanted(d, 2)) return;
    const ls_tensor rows[] = {dy, ls_gradient_sum(d, 2)};
    ls_gradient_summed(d, 2, ls_graph_add(g, &ls_op_column_sum, NULL, 0, rows, 2, -1));
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *sum = ls_graph_tensor(g, node->in[5]);
    out[0].dtype = x->dtype;
    out[0].shape = x->shape;
    out[1].dtype = sum->dtype;
    out[1].shape = sum->shape;
    return ls_ok();
}

static double norm_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 7.0 * (double)ls_view_elements(&in[0]);
}

static double grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 12.0 * (double)ls_view_elements(&in[0]);
}

const ls_op ls_op_layernorm = {.name = "layernorm",
                               .reach = LS_REACH_OWN,
                               .kernel = LS_KERNEL_LAYERNORM,
                               .least_in = 2,
                               .most_in = 3,
                               .n_out = 3,
                               .shape = layernorm_shape,
                               .gradient = layernorm_gradient,
                               .dims = "*E,E,E>*E,*,*",
                               .flops = norm_flops};

const ls_op ls_op_layernorm_grad = {.name = "layernorm_grad",
                                    .reach = LS_REACH_OWN,
                                    .kernel = LS_KERNEL_LAYERNORM_GRAD,
                                    .least_in = 6,
                                    .most_in = 6,
                                    .n_out = 2,
                                    .in_place = {0, 6},
                                    .shape = grad_shape,
                                    .dims = "*E,E,*,*,*E,E>*E,E",
                                    .flops = grad_flops};

ls_tensor ls_layernorm(ls_graph *g, ls_tensor x, ls_tensor weight, ls_tensor bias, double epsilon) {
    const ls_norm_params params = {.epsilon = epsilon};
    const ls_tensor in[] = {x, weight, bias};
    return ls_graph_add(g, &ls_op_layernorm, &params, sizeof params, in, bias.id != 0 ? 3 : 2, -1);
}
