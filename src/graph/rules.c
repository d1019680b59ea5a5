/* Shape rules that several ops share, and words of their errors. */
#include "graph/graph_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

int ls_shape_dim_of(const ls_shape *shape, ls_factor factor) {
    int dim = 0;
    while (dim < shape->ndim && shape->dim[dim].factor != factor) dim++;
    return dim < shape->ndim ? dim : -1;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i].size != b->dim[i].size || a->dim[i].factor != b->dim[i].factor) return false;
    }
    return true;
}

const char *ls_reach_name(ls_reach reach) {
    static const char *const names[LS_REACHES] = {[LS_REACH_ALL] = "all tokens",
                                                  [LS_REACH_PREFIX] = "earlier tokens",
                                                  [LS_REACH_NEIGHBOURS] = "neighbouring tokens",
                                                  [LS_REACH_OWN] = "its own token"};
    return names[reach];
}

ls_status ls_op_input_error(const ls_graph *g, const ls_node *node, int i, const char *expected, ...) {
    char expectation[200], shape[80];
    va_list args;
    va_start(args, expected);
    ls_vprint(expectation, sizeof expectation, expected, args);
    va_end(args);
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
    ls_shape_print(&t->shape, shape, sizeof shape);
    return ls_error(LS_INVALID, "op %s: input %d \"%s\" is %s%s, expected %s", node->op->name, i, t->name,
                    ls_dtype_name(t->dtype), shape, expectation);
}

ls_status ls_rule_same_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *first = ls_graph_tensor(g, node->in[0]);
    for (int i = 1; i < node->n_in; i++) {
        const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
        if (t->dtype != first->dtype || !ls_shape_equal(&t->shape, &first->shape))
            return ls_op_input_error(g, node, i, "the type and shape of \"%s\"", first->name);
    }
    for (int i = 0; i < node->n_out; i++) {
        out[i].dtype = first->dtype;
        out[i].shape = first->shape;
    }
    return ls_ok();
}

ls_status ls_rule_sum_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *sum = ls_graph_tensor(g, node->in[node->n_in - 1]);
    out->dtype = sum->dtype;
    out->shape = sum->shape;
    return ls_ok();
}

ls_status ls_norm_check(const ls_node *node) {
    const ls_norm_params *p = node->params;
    if (p->epsilon >= 0 && isfinite(p->epsilon) && isfinite(p->offset)) return ls_ok();
    return ls_error(LS_INVALID, "op %s: epsilon %g, offset %g; expected finite numbers, epsilon not negative",
                    node->op->name, p->epsilon, p->offset);
}
