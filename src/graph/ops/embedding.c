/* embedding: looks up rows of a table by id. Its gradient adds each row of dy to the table row of its id. */
#include "graph/graph_impl.h"

static ls_status embedding_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *ids = ls_graph_tensor(g, node->in[0]), *table = ls_graph_tensor(g, node->in[1]);
    if (ids->dtype != LS_I32) return ls_op_input_error(g, node, 0, "i32 ids");
    if (ids->shape.ndim >= LS_MAX_DIMS) return ls_op_input_error(g, node, 0, "at most %d dimensions", LS_MAX_DIMS - 1);
    if (table->shape.ndim != 2 || table->dtype != g->dtype) return ls_op_input_error(g, node, 1, "a table [V,E]");
    const ls_embedding_params *params = node->params;
    const int64_t V = table->shape.dim[0].size;
    if (params->padding < -1 || params->padding >= V)
        return ls_error(LS_INVALID, "op embedding: the padding id %lld; expected -1 (none) or less than %lld",
                        (long long)params->padding, (long long)V);
    out->dtype = table->dtype;
    out->shape = ids->shape;
    out->shape.dim[out->shape.ndim++] = (ls_dim){table->shape.dim[1].size, LS_FACTOR_NONE};
    return ls_ok();
}

static void embedding_gradient(ls_gradient *d, const ls_node *node) {
    if (!ls_gradient_wanted(d, 1)) return;
    const ls_tensor in[] = {node->in[0], ls_gradient_out(d, 0), ls_gradient_sum(d, 1)};
    ls_gradient_summed(
        d, 1, ls_graph_add(ls_gradient_graph(d), &ls_op_embedding_grad, node->params, node->params_bytes, in, 3, -1));
}

const ls_op ls_op_embedding = {.name = "embedding",
                               .reach = LS_REACH_OWN,
                               .kernel = LS_KERNEL_EMBEDDING,
                               .least_in = 2,
                               .most_in = 2,
                               .n_out = 1,
                               .lookup = {.ids = 1, .among = 1, .dim = 0},
                               .shape = embedding_shape,
                               .gradient = embedding_gradient,
                               .dims = "*,ve>*e"};

const ls_op ls_op_embedding_grad = {.name = "embedding_grad",
                                    .reach = LS_REACH_OWN,
                                    .kernel = LS_KERNEL_EMBEDDING_GRAD,
                                    .least_in = 3,
                                    .most_in = 3,
                                    .n_out = 1,
                                    .in_place = {3},
                                    .lookup = {.ids = 1, .among = 2, .dim = 0, .padded = true},
                                    .shape = ls_rule_sum_shape,
                                    .dims = "*,*e,ve>ve"};

ls_tensor ls_embedding_padded(ls_graph *g, ls_tensor ids, ls_tensor table, int64_t padding) {
    const ls_tensor in[] = {ids, table};
    const ls_embedding_params params = {padding};
    return ls_graph_add(g, &ls_op_embedding, &params, sizeof params, in, 2, -1);
}

ls_tensor ls_embedding(ls_graph *g, ls_tensor ids, ls_tensor table) { return ls_embedding_padded(g, ids, table, -1); }
