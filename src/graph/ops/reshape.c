/*
 * reshape: the same elements in the same order with other dimensions; nothing moves. Batch and sequence must stay
 * dimensions of their own: if one were split or merged, a rank's tokens would no longer be a range of one dimension.
 */
#include "graph/graph_impl.h"

typedef struct reshape_params {
    int ndim;
    int64_t size[LS_MAX_DIMS];
} reshape_params;

static ls_status reshape_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const reshape_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    ls_shape to = {.ndim = params->ndim};
    const int64_t present = ls_shape_elements(&x->shape);
    int64_t elements = 1; /* at most `present`, so that the product cannot overflow */
    for (int i = 0; i < to.ndim; i++) {
        to.dim[i].size = params->size[i];
        if (params->size[i] < 1) return ls_op_input_error(g, node, 0, "new dimensions of at least 1");
        if (params->size[i] > present / elements)
            return ls_op_input_error(g, node, 0, "at least as many elements as the new dimensions have");
        elements *= params->size[i];
    }
    if (elements != present) return ls_op_input_error(g, node, 0, "%lld elements", (long long)elements);
    /* Among the new dimensions, that of a factor has the same size and the same product of the sizes before it. */
    int64_t before = 1;
    for (int i = 0; i < x->shape.ndim; i++) {
        if (x->shape.dim[i].factor != LS_FACTOR_NONE) {
            int64_t reached = 1;
            int j = 0;
            while (j < to.ndim && reached < before) reached *= to.dim[j++].size;
            while (j < to.ndim && reached == before && to.dim[j].size == 1 && x->shape.dim[i].size != 1) j++;
            while (j < to.ndim && to.dim[j].factor != LS_FACTOR_NONE) j++;
            if (reached != before || j == to.ndim || to.dim[j].size != x->shape.dim[i].size)
                return ls_op_input_error(g, node, 0, "a shape that keeps dimension %d (%s) whole", i,
                                         x->shape.dim[i].factor == LS_FACTOR_BATCH ? "the batch" : "the sequence");
            to.dim[j].factor = x->shape.dim[i].factor;
        }
        before *= x->shape.dim[i].size;
    }
    out->dtype = x->dtype;
    out->shape = to;
    return ls_ok();
}

static void reshape_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_shape *from = &ls_graph_tensor(g, node->in[0])->shape;
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < from->ndim; i++) size[i] = from->dim[i].size;
    ls_gradient_add(d, 0, ls_reshape(g, ls_gradient_out(d, 0), from->ndim, size));
}

/* The sizes are in the params, so the new token needs its own. */
static ls_tensor reshape_next(ls_next *n, const ls_node *node) {
    const ls_shape shape = ls_next_shape(n, node->out[0]);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < shape.ndim; d++) size[d] = shape.dim[d].size;
    return ls_reshape(ls_next_graph(n), ls_next_tensor(n, node->in[0]), shape.ndim, size);
}

const ls_op ls_op_reshape = {.name = "reshape",
                             .reach = LS_REACH_OWN,
                             .least_in = 1,
                             .most_in = 1,
                             .n_out = 1,
                             .in_place = {1},
                             .shape = reshape_shape,
                             .gradient = reshape_gradient,
                             .options = ls_alike_or_sum,
                             .next = reshape_next};

ls_tensor ls_reshape(ls_graph *g, ls_tensor x, int ndim, const int64_t *size) {
    reshape_params params = {.ndim = ndim};
    if (ndim < 1 || ndim > LS_MAX_DIMS)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op reshape: %d dimensions, expected 1 to %d", ndim, LS_MAX_DIMS));
    if (size == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op reshape: the list of sizes is NULL"));
    for (int i = 0; i < ndim; i++) params.size[i] = size[i];
    return ls_graph_add(g, &ls_op_reshape, &params, sizeof params, &x, 1, -1);
}

ls_tensor ls_split_last(ls_graph *g, ls_tensor x, int64_t H, int64_t D) {
    if (!ls_graph_usable(g, x, "ls_split_last")) return LS_NO_TENSOR;
    const ls_shape *from = &ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS + 1];
    for (int i = 0; i + 1 < from->ndim; i++) size[i] = from->dim[i].size;
    size[from->ndim - 1] = H;
    size[from->ndim] = D;
    return ls_reshape(g, x, from->ndim + 1, size);
}

ls_tensor ls_merge_last(ls_graph *g, ls_tensor x) {
    if (!ls_graph_usable(g, x, "ls_merge_last")) return LS_NO_TENSOR;
    const ls_shape *from = &ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS] = {0};
    for (int i = 0; i < from->ndim; i++) size[i] = from->dim[i].size;
    if (from->ndim >= 2) size[from->ndim - 2] *= size[from->ndim - 1];
    return ls_reshape(g, x, from->ndim - 1, size);
}
