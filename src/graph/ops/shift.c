/*
 * shift: moves tokens along the sequence: y[i] = x[i-n], and 0 where i-n is outside. Some of the x[i-n] lie on other
 * ranks (compile/redistribute/halo.c). Its gradient is the shift by -n.
 */
#include "graph/graph_impl.h"

static ls_status shift_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    if (x->shape.ndim < 2 || x->shape.dim[0].factor != LS_FACTOR_BATCH || x->shape.dim[1].factor != LS_FACTOR_SEQUENCE)
        return ls_op_input_error(g, node, 0, "[B,S,..] with the batch and the sequence first");
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* Beyond the sequence all tokens are 0, so moving further than its length changes nothing. */
static ls_neighbours shift_neighbours(const ls_graph *g, const ls_node *node) {
    const ls_shift_params *params = node->params;
    const int64_t S = ls_graph_tensor(g, node->in[0])->shape.dim[1].size;
    const int64_t tokens = ls_max(-S, ls_min(S, params->tokens));
    return (ls_neighbours){.before = tokens, .after = -tokens};
}

static void shift_gradient(ls_gradient *d, const ls_node *node) {
    const ls_shift_params *params = node->params;
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, ls_shift(ls_gradient_graph(d), ls_gradient_out(d, 0), -params->tokens));
}

const ls_op ls_op_shift = {.name = "shift",
                           .reach = LS_REACH_NEIGHBOURS,
                           .neighbours = shift_neighbours,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = 1,
                           .shape = shift_shape,
                           .gradient = shift_gradient,
                           .dims = "*>*"};

ls_tensor ls_shift(ls_graph *g, ls_tensor x, int64_t tokens) {
    const ls_shift_params params = {.tokens = ls_max(tokens, -INT64_MAX)};
    return ls_graph_add(g, &ls_op_shift, &params, sizeof params, &x, 1, -1);
}
