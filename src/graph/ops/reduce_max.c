/*
 * reduce_max: the largest element over consecutive dimensions, which a rank needs whole. The gradient goes to the first
 * of the largest elements, or to all of them in equal parts.
 */
#include "graph/graph_impl.h"

typedef struct reduce_max_params {
    ls_reduce_max_params kernel; /* for the gradient */
    unsigned over;               /* bit d: dimension d of x */
    bool keep;
} reduce_max_params;

static ls_shape left_of(const ls_shape *x, const reduce_max_params *params) {
    ls_shape left = {0};
    for (int d = 0; d < x->ndim; d++) {
        if (!(params->over >> d & 1))
            left.dim[left.ndim++] = x->dim[d];
        else if (params->keep)
            left.dim[left.ndim++] = (ls_dim){1, LS_FACTOR_NONE};
    }
    if (left.ndim == 0) left.dim[left.ndim++] = (ls_dim){1, LS_FACTOR_NONE};
    return left;
}

static ls_status reduce_max_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    const reduce_max_params *params = node->params;
    LS_TRY(ls_rule_numbers(g, node));
    if (params->over == 0 || params->over >> x->shape.ndim != 0)
        return ls_op_input_error(g, node, 0, "some of its dimensions, not 0x%x", params->over);
    for (int d = 0; d < x->shape.ndim; d++)
        if ((params->over >> d & 1) && x->shape.dim[d].factor != LS_FACTOR_NONE)
            return ls_op_input_error(g, node, 0, "no maximum over the batch or the sequence (dimension %d)", d);
    out->dtype = g->accumulator;
    out->shape = left_of(&x->shape, params);
    return ls_ok();
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* Writes the letters of x, capital ones for the reduced dimensions. */
static char *write_x(char *text, const ls_shape *x, unsigned over) {
    for (int d = 0; d < x->ndim; d++) *text++ = (char)((over >> d & 1 ? 'A' : 'a') + d);
    return text;
}

/* "abC>ab", or "abC>abO". */
static void reduce_max_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_shape *x = &ls_graph_tensor(g, node->in[0])->shape;
    const unsigned over = ((const reduce_max_params *)node->params)->over;
    text = write_x(text, x, over);
    *text++ = '>';
    *ls_write_left(text, x, over, &ls_graph_tensor(g, node->out[0])->shape) = 0;
}

static void grad_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_shape *x = &ls_graph_tensor(g, node->in[0])->shape;
    const unsigned over = ((const reduce_max_params *)node->params)->over;
    text = write_x(text, x, over);
    *text++ = ',';
    text = ls_write_left(text, x, over, &ls_graph_tensor(g, node->in[1])->shape);
    *text++ = '>';
    *write_x(text, x, over) = 0;
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return (double)ls_view_elements(&in[0]);
}

static void reduce_max_gradient(ls_gradient *d, const ls_node *node) {
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_tensor in[] = {node->in[0], ls_gradient_out(d, 0)};
    ls_gradient_add(
        d, 0, ls_graph_add(ls_gradient_graph(d), &ls_op_reduce_max_grad, node->params, node->params_bytes, in, 2, -1));
}

const ls_op ls_op_reduce_max = {.name = "reduce_max",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_REDUCE_MAX,
                                .least_in = 1,
                                .most_in = 1,
                                .n_out = 1,
                                .shape = reduce_max_shape,
                                .gradient = reduce_max_gradient,
                                .dims_of = reduce_max_dims,
                                .flops = flops};

const ls_op ls_op_reduce_max_grad = {.name = "reduce_max_grad",
                                     .reach = LS_REACH_OWN,
                                     .kernel = LS_KERNEL_REDUCE_MAX_GRAD,
                                     .least_in = 2,
                                     .most_in = 2,
                                     .n_out = 1,
                                     .shape = grad_shape,
                                     .dims_of = grad_dims,
                                     .addends = 1U << 1,
                                     .flops = flops};

/*
 * If the reduced dimensions are not consecutive, x is permuted so that they come last: elements that share a gradient
 * must be found together.
 */
ls_tensor ls_reduce_max(ls_graph *g, ls_tensor x, unsigned over, bool keep, bool shared) {
    if (!ls_graph_usable(g, x, "ls_reduce_max")) return LS_NO_TENSOR;
    const ls_shape from = ls_graph_tensor(g, x)->shape;
    reduce_max_params params = {{shared}, over, keep};
    const unsigned from_first = over >> __builtin_ctz(over | 1U << 31);
    if ((from_first & (from_first + 1)) == 0 || over >> from.ndim != 0)
        return ls_graph_add(g, &ls_op_reduce_max, &params, sizeof params, &x, 1, -1);
    int order[LS_MAX_DIMS] = {0}, n = 0;
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < from.ndim; d++)
            if ((int)(over >> d & 1) == last) order[n++] = d;
    params.keep = false;
    params.over = ((1U << __builtin_popcount(over)) - 1) << (from.ndim - __builtin_popcount(over));
    x = ls_permute_dims(g, x, order);
    x = ls_graph_add(g, &ls_op_reduce_max, &params, sizeof params, &x, 1, -1);
    if (!keep) return x;
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < from.ndim; d++) size[d] = over >> d & 1 ? 1 : from.dim[d].size;
    return ls_reshape(g, x, from.ndim, size);
}
