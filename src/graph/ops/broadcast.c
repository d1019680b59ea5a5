/*
 * broadcast: repeats a tensor along dimensions that it lacks, or has with size 1. Broadcasts and sums are each other's
 * gradients. It is one call of the kernel map, whose input has strides of 0.
 */
#include "graph/graph_impl.h"

typedef struct broadcast_params {
    ls_shape shape; /* of the result */
    ls_dtype dtype;
    unsigned over; /* bit d: repeated along dimension d */
} broadcast_params;

static ls_status broadcast_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const broadcast_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    LS_TRY(ls_rule_numbers(g, node));
    if (!ls_shape_leaves(&params->shape, params->over, &x->shape)) {
        char shape[80];
        ls_shape_print(&params->shape, shape, sizeof shape);
        return ls_op_input_error(g, node, 0,
                                 "what is left of %s without the dimensions that it is repeated along (0x%x)", shape,
                                 params->over);
    }
    out->dtype = params->dtype;
    out->shape = params->shape;
    return ls_ok();
}

/* "a>ab", or "aO>ab". */
static void broadcast_dims(const ls_graph *g, const ls_node *node, char *text) {
    const broadcast_params *params = node->params;
    text = ls_write_left(text, &params->shape, params->over, &ls_graph_tensor(g, node->in[0])->shape);
    *text++ = '>';
    *ls_write_all(text, &params->shape) = 0;
}

static void broadcast_gradient(ls_gradient *d, const ls_node *node) {
    if (!ls_gradient_wanted(d, 0)) return;
    ls_graph *g = ls_gradient_graph(d);
    const unsigned over = ((const broadcast_params *)node->params)->over;
    ls_gradient_summed(d, 0, ls_reduce_into(g, ls_gradient_out(d, 0), over, ls_gradient_sum(d, 0)));
}

/* Only if the dimensions that the input lacks are the first ones, since a map counts dimensions from the last one. */
static bool expression(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    const broadcast_params *params = node->params;
    const int lacking = params->shape.ndim - ls_graph_tensor(g, node->in[0])->shape.ndim;
    return (lacking == 0 || params->over == (1U << lacking) - 1) && ls_rule_no_step(g, node, out);
}

/* The shape is in the params, so the new token needs its own. */
static ls_tensor broadcast_next(ls_next *n, const ls_node *node) {
    const broadcast_params *params = node->params;
    const ls_shape shape = ls_next_shape(n, node->out[0]);
    return ls_broadcast_to(ls_next_graph(n), ls_next_tensor(n, node->in[0]), params->over, &shape, params->dtype);
}

const ls_op ls_op_broadcast = {.name = "broadcast",
                               .reach = LS_REACH_OWN,
                               .kernel = LS_KERNEL_MAP,
                               .least_in = 1,
                               .most_in = 1,
                               .n_out = 1,
                               .shape = broadcast_shape,
                               .gradient = broadcast_gradient,
                               .dims_of = broadcast_dims,
                               .addends = 1U << 0,
                               .expression = expression,
                               .next = broadcast_next};

ls_tensor ls_broadcast_to(ls_graph *g, ls_tensor x, unsigned over, const ls_shape *shape, ls_dtype dtype) {
    const broadcast_params params = {*shape, dtype, over};
    return ls_graph_add(g, &ls_op_broadcast, &params, sizeof params, &x, 1, -1);
}

ls_tensor ls_broadcast(ls_graph *g, ls_tensor x, unsigned over, ls_tensor like) {
    if (!ls_graph_usable(g, x, "ls_broadcast") || !ls_graph_usable(g, like, "ls_broadcast")) return LS_NO_TENSOR;
    const ls_shape shape = ls_graph_tensor(g, like)->shape;
    return ls_broadcast_to(g, x, over, &shape, ls_graph_tensor(g, x)->dtype);
}
