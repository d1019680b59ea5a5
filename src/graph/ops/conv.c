/*
 * conv: a causal depth-wise convolution along the sequence, y[i,e] = sum over t of weight[t,e]·x[i-t,e]. The first
 * tokens of a rank need the last tokens of its neighbour (compile/redistribute/halo.c). The gradient with respect to x
 * is the same convolution in the other direction.
 */
#include "graph/graph_impl.h"

static ls_status conv_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *w = ls_graph_tensor(g, node->in[1]);
    const ls_dim *dim = x->shape.dim;
    if (x->dtype != g->dtype || x->shape.ndim != 3 || dim[0].factor != LS_FACTOR_BATCH ||
        dim[1].factor != LS_FACTOR_SEQUENCE || dim[2].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, 0, "%s[B,S,E] with the batch and the sequence first",
                                 ls_dtype_name(g->dtype));
    if (w->dtype != g->dtype || w->shape.ndim != 2 || w->shape.dim[1].size != dim[2].size)
        return ls_op_input_error(g, node, 1, "a weight [width,%lld]", (long long)dim[2].size);
    if (w->shape.dim[0].size > dim[1].size)
        return ls_op_input_error(g, node, 1, "a width of at most the %lld tokens of \"%s\"", (long long)dim[1].size,
                                 x->name);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* width: taps. */
static ls_neighbours neighbours(const ls_node *node, int64_t width) {
    const ls_conv_params *params = node->params;
    return params->ahead ? (ls_neighbours){.after = width - 1} : (ls_neighbours){.before = width - 1};
}

static ls_neighbours conv_neighbours(const ls_graph *g, const ls_node *node) {
    return neighbours(node, ls_graph_tensor(g, node->in[1])->shape.dim[0].size);
}

/* The gradient of the weight reads the same tokens of x; input 2 is the sum that it adds to. */
static ls_neighbours dw_neighbours(const ls_graph *g, const ls_node *node) {
    return neighbours(node, ls_graph_tensor(g, node->in[2])->shape.dim[0].size);
}

static void conv_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_conv_params *params = node->params, back = {.ahead = !params->ahead};
    const ls_tensor dy = ls_gradient_out(d, 0);
    if (ls_gradient_wanted(d, 0)) {
        const ls_tensor in[] = {dy, node->in[1]};
        ls_gradient_add(d, 0, ls_graph_add(g, &ls_op_conv, &back, sizeof back, in, 2, -1));
    }
    if (ls_gradient_wanted(d, 1)) {
        const ls_tensor in[] = {node->in[0], dy, ls_gradient_sum(d, 1)};
        ls_gradient_summed(d, 1, ls_graph_add(g, &ls_op_conv_dw, params, sizeof *params, in, 3, -1));
    }
}

/*
 * One product and one sum per element and tap. in[1] of the kernel conv is the weight [width,E], in[1] of conv_dw is
 * dy.
 */
static double conv_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)in[1].size[0] * (double)ls_view_elements(out);
}

static double dw_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)out->size[0] * (double)ls_view_elements(&in[1]);
}

const ls_op ls_op_conv = {.name = "conv",
                          .kernel = LS_KERNEL_CONV,
                          .reach = LS_REACH_NEIGHBOURS,
                          .neighbours = conv_neighbours,
                          .least_in = 2,
                          .most_in = 2,
                          .n_out = 1,
                          .shape = conv_shape,
                          .gradient = conv_gradient,
                          .dims = "bsc,Tc>bsc",
                          .flops = conv_flops};

const ls_op ls_op_conv_dw = {.name = "conv_dw",
                             .kernel = LS_KERNEL_CONV_DW,
                             .reach = LS_REACH_NEIGHBOURS,
                             .neighbours = dw_neighbours,
                             .least_in = 3,
                             .most_in = 3,
                             .n_out = 1,
                             .in_place = {3},
                             .shape = ls_rule_sum_shape,
                             .dims = "bsc,bsc,Tc>Tc",
                             .flops = dw_flops};

ls_tensor ls_conv(ls_graph *g, ls_tensor x, ls_tensor weight) {
    const ls_conv_params params = {.ahead = false};
    const ls_tensor in[] = {x, weight};
    return ls_graph_add(g, &ls_op_conv, &params, sizeof params, in, 2, -1);
}
