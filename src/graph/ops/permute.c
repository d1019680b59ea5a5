/*
 * permute: the same elements with the dimensions in another order; one copy by strides (compile/general/permute.c). The
 * batch and the sequence keep their places, so each token keeps its elements.
 */
#include "graph/graph_impl.h"

typedef struct permute_params {
    int ndim, order[LS_MAX_DIMS]; /* dimension i of the result is order[i] of x */
} permute_params;

static ls_status permute_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const permute_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    unsigned seen = 0;
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < x->shape.ndim; d++) {
        const int from = params->order[d];
        if (from < 0 || from >= x->shape.ndim || (seen >> from & 1))
            return ls_op_input_error(g, node, 0, "an order that has each dimension once; place %d has %d", d, from);
        seen |= 1U << from;
        out->shape.dim[d] = x->shape.dim[from];
        if (from != d && x->shape.dim[from].factor != LS_FACTOR_NONE)
            return ls_op_input_error(g, node, 0, "an order in which the batch and the sequence stay; %d goes to %d",
                                     from, d);
    }
    return ls_ok();
}

/* "abcd>acbd" */
static void permute_dims(const ls_graph *g, const ls_node *node, char *text) {
    const permute_params *params = node->params;
    text = ls_write_all(text, &ls_graph_tensor(g, node->in[0])->shape);
    *text++ = '>';
    for (int d = 0; d < params->ndim; d++) *text++ = (char)('a' + params->order[d]);
    *text = 0;
}

static void permute_gradient(ls_gradient *d, const ls_node *node) {
    const permute_params *params = node->params;
    int back[LS_MAX_DIMS] = {0};
    if (!ls_gradient_wanted(d, 0)) return;
    for (int i = 0; i < params->ndim; i++) back[params->order[i]] = i;
    ls_gradient_add(d, 0, ls_permute_dims(ls_gradient_graph(d), ls_gradient_out(d, 0), back));
}

const ls_op ls_op_permute = {.name = "permute",
                             .reach = LS_REACH_OWN,
                             .least_in = 1,
                             .most_in = 1,
                             .n_out = 1,
                             .moves = true,
                             .shape = permute_shape,
                             .gradient = permute_gradient,
                             .dims_of = permute_dims,
                             .addends = 1U << 0};

ls_tensor ls_permute_dims(ls_graph *g, ls_tensor x, const int *order) {
    if (!ls_graph_usable(g, x, "ls_permute_dims")) return LS_NO_TENSOR;
    if (order == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op permute: its order is NULL"));
    permute_params params = {.ndim = ls_graph_tensor(g, x)->shape.ndim};
    bool same = true;
    for (int d = 0; d < params.ndim; d++) {
        params.order[d] = order[d];
        same &= order[d] == d;
    }
    return same ? x : ls_graph_add(g, &ls_op_permute, &params, sizeof params, &x, 1, -1);
}
