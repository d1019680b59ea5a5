/* Shape rules that several ops share, and the words of their errors. */
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

/*
 * The dimension of `left` that corresponds to dimension d of `all`. left has the same dimensions, except that those in
 * `over` have size 1 or are missing; -1: dimension d is missing. One element may stand for no dimensions at all.
 */
static int left_at(const ls_shape *all, unsigned over, const ls_shape *left, int d) {
    if (left->ndim == all->ndim) return d;
    if (over >> d & 1) return -1;
    int at = 0;
    for (int k = 0; k < d; k++) at += !(over >> k & 1);
    return at;
}

bool ls_shape_leaves(const ls_shape *all, unsigned over, const ls_shape *left) {
    int dims = 0;
    for (int d = 0; d < all->ndim; d++) dims += !(over >> d & 1);
    if (over == 0 || over >> all->ndim != 0) return false;
    if (dims == 0 && left->ndim == 1) return left->dim[0].size == 1 && left->dim[0].factor == LS_FACTOR_NONE;
    if (left->ndim != all->ndim && left->ndim != dims) return false;
    for (int d = 0; d < all->ndim; d++) {
        const int at = left_at(all, over, left, d);
        if (at < 0) continue;
        const ls_dim is = left->dim[at], by = over >> d & 1 ? (ls_dim){1, LS_FACTOR_NONE} : all->dim[d];
        if (is.size != by.size || is.factor != by.factor) return false;
    }
    return true;
}

char *ls_write_all(char *text, const ls_shape *all) {
    for (int d = 0; d < all->ndim; d++) *text++ = (char)('a' + d);
    return text;
}

char *ls_write_left(char *text, const ls_shape *all, unsigned over, const ls_shape *left) {
    int written = 0;
    for (int d = 0; d < all->ndim && written < left->ndim; d++) {
        if (left_at(all, over, left, d) < 0) continue;
        *text++ = over >> d & 1 ? 'O' : (char)('a' + d);
        written++;
    }
    if (written == 0) *text++ = 'O';
    return text;
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

ls_status ls_rule_numbers(const ls_graph *g, const ls_node *node) {
    const ls_dtype is = ls_graph_tensor(g, node->in[0])->dtype;
    if (is == g->dtype || is == g->accumulator) return ls_ok();
    return ls_op_input_error(g, node, 0, "elements of type %s or %s", ls_dtype_name(g->dtype),
                             ls_dtype_name(g->accumulator));
}

ls_status ls_rule_last(const ls_graph *g, const ls_node *node, int i) {
    const ls_shape *s = &ls_graph_tensor(g, node->in[i])->shape;
    if (s->ndim > 0 && s->dim[s->ndim - 1].factor == LS_FACTOR_NONE) return ls_ok();
    return ls_op_input_error(g, node, i, "a last dimension that is neither batch nor sequence");
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

/* --- expressions -------------------------------------------------------------------------------------------------- */

static bool is_mapped(const ls_graph *g, ls_tensor t) {
    const ls_dtype dtype = ls_graph_tensor(g, t)->dtype;
    return dtype == g->dtype || dtype == g->accumulator;
}

bool ls_rule_no_step(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    *out = (ls_map_params){.n_in = node->n_in, .n_results = 1};
    out->wide = ls_graph_tensor(g, node->out[0])->dtype != g->dtype;
    bool mapped = is_mapped(g, node->out[0]);
    for (int i = 0; i < node->n_in; i++) mapped = mapped && is_mapped(g, node->in[i]);
    return mapped;
}

bool ls_rule_step(const ls_graph *g, const ls_node *node, ls_map_code code, ls_map_params *out) {
    const bool mapped = ls_rule_no_step(g, node, out);
    out->step[0] = (ls_map_step){.code = code, .a = 0, .b = 1, .c = 2};
    out->n_steps = 1;
    out->result[0] = node->n_in;
    return mapped;
}
