/*
 * scale_rows: multiplies the row of each token by the row of a table that its id names. If the table is cut over ranks,
 * rows go to the ranks that have their rows of the table, and come back (compile/scale_rows.c), which is the least that
 * experts need. The gradient of the rows is the op itself; that of the table adds dy times x to the row of each id.
 */
#include "graph/graph_impl.h"

static ls_status scale_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *ids = ls_graph_tensor(g, node->in[0]), *x = ls_graph_tensor(g, node->in[1]),
                         *table = ls_graph_tensor(g, node->in[2]);
    if (ids->dtype != LS_I32) return ls_op_input_error(g, node, 0, "i32 ids");
    bool fits = x->dtype == g->dtype && x->shape.ndim == ids->shape.ndim + 1;
    for (int d = 0; fits && d < ids->shape.ndim; d++)
        fits = x->shape.dim[d].size == ids->shape.dim[d].size && x->shape.dim[d].factor == ids->shape.dim[d].factor;
    if (!fits) return ls_op_input_error(g, node, 1, "a row for each of the ids \"%s\"", ids->name);
    const int64_t E = x->shape.dim[x->shape.ndim - 1].size;
    if (table->dtype != g->dtype || table->shape.ndim != 2 || table->shape.dim[1].size != E)
        return ls_op_input_error(g, node, 2, "a table [V,%lld]", (long long)E);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

static void scale_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor ids = node->in[0], dy = ls_gradient_out(d, 0);
    if (ls_gradient_wanted(d, 1)) ls_gradient_add(d, 1, ls_scale_rows(g, ids, dy, node->in[2]));
    if (!ls_gradient_wanted(d, 2)) return;
    const ls_embedding_params every = {.padding = -1};
    const ls_tensor in[] = {ids, ls_mul(g, node->in[1], dy), ls_gradient_sum(d, 2)};
    ls_gradient_summed(d, 2, ls_graph_add(g, &ls_op_scale_rows_dw, &every, sizeof every, in, 3, -1));
}

static double scale_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return (double)ls_view_elements(&in[1]);
}

const ls_op ls_op_scale_rows = {.name = "scale_rows",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_SCALE_ROWS,
                                .least_in = 3,
                                .most_in = 3,
                                .n_out = 1,
                                .lookup = {.ids = 1, .among = 2, .dim = 0},
                                .exchanges = true,
                                .shape = scale_shape,
                                .gradient = scale_gradient,
                                .dims = "*,*E,vE>*E",
                                .flops = scale_flops};

const ls_op ls_op_scale_rows_dw = {.name = "scale_rows_dw",
                                   .reach = LS_REACH_OWN,
                                   .kernel = LS_KERNEL_EMBEDDING_GRAD,
                                   .least_in = 3,
                                   .most_in = 3,
                                   .n_out = 1,
                                   .in_place = {3},
                                   .lookup = {.ids = 1, .among = 2, .dim = 0},
                                   .exchanges = true,
                                   .shape = ls_rule_sum_shape,
                                   .dims = "*,*E,vE>vE",
                                   .flops = scale_flops};

ls_tensor ls_scale_rows(ls_graph *g, ls_tensor ids, ls_tensor x, ls_tensor table) {
    const ls_tensor in[] = {ids, x, table};
    return ls_graph_add(g, &ls_op_scale_rows, NULL, 0, in, 3, -1);
}
