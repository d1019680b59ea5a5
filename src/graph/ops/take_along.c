/*
 * take_along: y[..,j] = x[..,ids[..,j]], within each token; its gradient adds to the same elements, in the order of j.
 * topk: the largest elements of the last dimension, and their indices; the gradient of the values goes to these
 * elements.
 */
#include "graph/graph_impl.h"

static bool same_rows(const ls_shape *a, const ls_shape *b) {
    bool same = a->ndim == b->ndim && a->ndim >= 1;
    for (int d = 0; same && d + 1 < a->ndim; d++)
        same = a->dim[d].size == b->dim[d].size && a->dim[d].factor == b->dim[d].factor;
    return same;
}

static ls_status take_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    LS_TRY(ls_rule_numbers(g, node));
    LS_TRY(ls_rule_last(g, node, 0));
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *ids = ls_graph_tensor(g, node->in[1]);
    if (ids->dtype != LS_I32 || !same_rows(&x->shape, &ids->shape))
        return ls_op_input_error(g, node, 1, "i32 with the dimensions of \"%s\" except the last one", x->name);
    LS_TRY(ls_rule_last(g, node, 1));
    out->dtype = x->dtype;
    out->shape = ids->shape;
    return ls_ok();
}

static void add_at(ls_gradient *d, ls_tensor ids, ls_tensor dy) {
    const ls_tensor in[] = {ids, dy, ls_gradient_sum(d, 0)};
    ls_gradient_summed(d, 0, ls_graph_add(ls_gradient_graph(d), &ls_op_take_along_grad, NULL, 0, in, 3, -1));
}

static void take_gradient(ls_gradient *d, const ls_node *node) {
    if (ls_gradient_wanted(d, 0)) add_at(d, node->in[1], ls_gradient_out(d, 0));
}

const ls_op ls_op_take_along = {.name = "take_along",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_TAKE_ALONG,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 1,
                                .shape = take_shape,
                                .gradient = take_gradient,
                                .dims = "*K,*J>*J",
                                .addends = 1U << 0};

const ls_op ls_op_take_along_grad = {.name = "take_along_grad",
                                     .reach = LS_REACH_OWN,
                                     .kernel = LS_KERNEL_TAKE_ALONG_GRAD,
                                     .least_in = 3,
                                     .most_in = 3,
                                     .n_out = 1,
                                     .in_place = {3},
                                     .shape = ls_rule_sum_shape,
                                     .dims = "*J,*J,*K>*K",
                                     .addends = 1U << 1};

ls_tensor ls_take_along(ls_graph *g, ls_tensor x, ls_tensor ids) {
    const ls_tensor in[] = {x, ids};
    return ls_graph_add(g, &ls_op_take_along, NULL, 0, in, 2, -1);
}

/* --- topk --------------------------------------------------------------------------------------------------------- */

typedef struct topk_params {
    int64_t k;
} topk_params;

enum { TOPK_VALUES, TOPK_IDS, TOPK_RESULTS };

static ls_status topk_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    LS_TRY(ls_rule_numbers(g, node));
    LS_TRY(ls_rule_last(g, node, 0));
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    const int64_t k = ((const topk_params *)node->params)->k;
    const int last = x->shape.ndim - 1;
    if (k < 1 || k > x->shape.dim[last].size)
        return ls_op_input_error(g, node, 0, "a last dimension of at least %lld, and k of at least 1", (long long)k);
    for (int o = 0; o < TOPK_RESULTS; o++) {
        out[o].shape = x->shape;
        out[o].shape.dim[last].size = k;
    }
    out[TOPK_VALUES].dtype = x->dtype;
    out[TOPK_IDS].dtype = LS_I32;
    return ls_ok();
}

static void topk_gradient(ls_gradient *d, const ls_node *node) {
    if (ls_gradient_wanted(d, 0)) add_at(d, node->out[TOPK_IDS], ls_gradient_out(d, TOPK_VALUES));
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return (double)ls_view_elements(&in[0]) * (double)out[0].size[out[0].ndim - 1];
}

const ls_op ls_op_topk = {.name = "topk",
                          .reach = LS_REACH_OWN,
                          .kernel = LS_KERNEL_TOPK,
                          .least_in = 1,
                          .most_in = 1,
                          .n_out = TOPK_RESULTS,
                          .shape = topk_shape,
                          .gradient = topk_gradient,
                          .dims = "*K>*J,*J",
                          .flops = flops};

ls_tensor ls_topk(ls_graph *g, ls_tensor x, int64_t k, ls_tensor *ids) {
    const topk_params params = {k};
    const ls_tensor values = ls_graph_add(g, &ls_op_topk, &params, sizeof params, &x, 1, -1);
    if (ids != NULL) *ids = values.id != 0 ? ls_graph_output(g, values, TOPK_IDS) : LS_NO_TENSOR;
    return values;
}
