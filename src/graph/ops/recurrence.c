/*
 * recurrence: a linear recurrence along the sequence with a gate for each element, h[i] = gate[i]*h[i-1] + x[i]. What
 * a rank's tokens do to the state in front of them is an affine map, and ranks compose their maps
 * (compile/recurrence.c). Its gradient is the same recurrence from the last token to the first, with the gates of the
 * next tokens: dx[i] = dh[i] + gate[i+1]*dx[i+1], dgate[i] = dx[i]*h[i-1].
 */
#include "graph/graph_impl.h"

static ls_status recurrence_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *gate = ls_graph_tensor(g, node->in[0]), *x = ls_graph_tensor(g, node->in[1]);
    const ls_dim *dim = x->shape.dim;
    if (x->dtype != g->dtype || x->shape.ndim != 3 || dim[0].factor != LS_FACTOR_BATCH ||
        dim[1].factor != LS_FACTOR_SEQUENCE || dim[2].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, 1, "%s[B,S,E] with the batch and the sequence first",
                                 ls_dtype_name(g->dtype));
    if (gate->dtype != g->dtype || !ls_shape_equal(&gate->shape, &x->shape))
        return ls_op_input_error(g, node, 0, "the type and shape of \"%s\"", x->name);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

static ls_tensor add_node(ls_graph *g, const ls_op *op, bool backwards, ls_tensor gate, ls_tensor x) {
    const ls_recurrence_params params = {.backwards = backwards};
    const ls_tensor in[] = {gate, x};
    return ls_graph_add(g, op, &params, sizeof params, in, 2, -1);
}

static void recurrence_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0) && !ls_gradient_wanted(d, 1)) return;
    const ls_tensor next_gate = ls_shift(g, node->in[0], -1);
    const ls_tensor dx = add_node(g, &ls_op_recurrence_back, true, next_gate, ls_gradient_out(d, 0));
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, ls_mul(g, dx, ls_shift(g, node->out[0], 1)));
    if (ls_gradient_wanted(d, 1)) ls_gradient_add(d, 1, dx);
}

/* One product and one sum per element. */
static double recurrence_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 2.0 * (double)ls_view_elements(out);
}

const ls_op ls_op_recurrence = {.name = "recurrence",
                                .kernel = LS_KERNEL_RECURRENCE,
                                .reach = LS_REACH_PREFIX,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 1,
                                .shape = recurrence_shape,
                                .gradient = recurrence_gradient,
                                .dims = "*,*>*",
                                .flops = recurrence_flops};

/* From the last token to the first. */
const ls_op ls_op_recurrence_back = {.name = "recurrence_back",
                                     .kernel = LS_KERNEL_RECURRENCE,
                                     .reach = LS_REACH_ALL,
                                     .least_in = 2,
                                     .most_in = 2,
                                     .n_out = 1,
                                     .shape = recurrence_shape,
                                     .dims = "*,*>*",
                                     .flops = recurrence_flops};

ls_tensor ls_recurrence(ls_graph *g, ls_tensor gate, ls_tensor x) {
    return add_node(g, &ls_op_recurrence, false, gate, x);
}
