/* rmsnorm: y = x / sqrt(mean(x²) + epsilon) · (offset + weight) over the last dimension (arXiv 1910.07467). */
#include "graph/graph_impl.h"

static ls_status rmsnorm_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *w = ls_graph_tensor(g, node->in[1]);
    const int n = x->shape.ndim;
    if (n < 1 || x->dtype != g->dtype) return ls_op_input_error(g, node, 0, "activations [..,E]");
    const ls_dim E = x->shape.dim[n - 1];
    if (E.factor != LS_FACTOR_NONE) return ls_op_input_error(g, node, 0, "a last dimension that is not the sequence");
    if (w->dtype != g->dtype || w->shape.ndim != 1 || w->shape.dim[0].size != E.size)
        return ls_op_input_error(g, node, 1, "a weight [%lld]", (long long)E.size);
    LS_TRY(ls_norm_check(node));
    out[0].dtype = x->dtype;
    out[0].shape = x->shape;
    out[1].dtype = g->accumulator; /* 1 / sqrt(...), for the gradient */
    out[1].shape = x->shape;
    out[1].shape.ndim = n - 1;
    return ls_ok();
}

static void rmsnorm_gradient(ls_gradient *d, const ls_node *node) {
    const ls_tensor in[] = {node->in[0], node->in[1], node->out[1], ls_gradient_out(d, 0), ls_gradient_sum(d, 1)};
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor dx = ls_graph_add(g, &ls_op_rmsnorm_grad, node->params, sizeof(ls_norm_params), in, 5, -1);
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, dx);
    ls_gradient_summed(d, 1, ls_graph_output(g, dx, 1));
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *sum = ls_graph_tensor(g, node->in[4]);
    out[0].dtype = x->dtype;
    out[0].shape = x->shape;
    out[1].dtype = sum->dtype;
    out[1].shape = sum->shape;
    return ls_ok();
}

static double norm_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 4.0 * (double)ls_view_elements(&in[0]);
}

static double grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 9.0 * (double)ls_view_elements(&in[0]);
}

const ls_op ls_op_rmsnorm = {.name = "rmsnorm",
                             .reach = LS_REACH_OWN,
                             .kernel = LS_KERNEL_RMSNORM,
                             .least_in = 2,
                             .most_in = 2,
                             .n_out = 2,
                             .shape = rmsnorm_shape,
                             .gradient = rmsnorm_gradient,
                             .dims = "*E,E>*E,*",
                             .flops = norm_flops};

const ls_op ls_op_rmsnorm_grad = {.name = "rmsnorm_grad",
                                  .reach = LS_REACH_OWN,
                                  .kernel = LS_KERNEL_RMSNORM_GRAD,
                                  .least_in = 5,
                                  .most_in = 5,
                                  .n_out = 2,
                                  .in_place = {0, 5},
                                  .shape = grad_shape,
                                  .dims = "*E,E,*,*E,E>*E,E",
                                  .flops = grad_flops};

ls_tensor ls_rmsnorm(ls_graph *g, ls_tensor x, ls_tensor weight, double epsilon) {
    return ls_rmsnorm_offset(g, x, weight, epsilon, 0);
}

ls_tensor ls_rmsnorm_offset(ls_graph *g, ls_tensor x, ls_tensor weight, double epsilon, double offset) {
    const ls_norm_params params = {.epsilon = epsilon, .offset = offset};
    const ls_tensor in[] = {x, weight};
    return ls_graph_add(g, &ls_op_rmsnorm, &params, sizeof params, in, 2, -1);
}

/* By way of rmsnorm, with a weight that is the same for all elements. */
ls_tensor ls_l2norm(ls_graph *g, ls_tensor x, double epsilon, double scale) {
    if (!ls_graph_usable(g, x, "ls_l2norm")) return LS_NO_TENSOR;
    const ls_shape *shape = &ls_graph_tensor(g, x)->shape;
    if (shape->ndim == 0) return ls_graph_fail(g, ls_error(LS_INVALID, "ls_l2norm: a tensor without dimensions"));
    if (!isfinite(epsilon) || epsilon < 0 || !isfinite(scale))
        return ls_graph_fail(g, ls_error(LS_INVALID,
                                         "ls_l2norm: epsilon %g, scale %g; expected finite numbers, epsilon not "
                                         "negative",
                                         epsilon, scale));
    const ls_shape last = {1, {shape->dim[shape->ndim - 1]}};
    const double n = (double)last.dim[0].size;
    const ls_tensor zeros = ls_zeros(g, &last);
    const ls_tensor weight = g->dtype == g->accumulator ? zeros : ls_cast(g, zeros, g->dtype);
    return ls_rmsnorm_offset(g, x, weight, epsilon / n, scale / sqrt(n));
}
