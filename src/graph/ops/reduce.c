/*
 * reduce: sums over some dimensions, added to a tensor of the accumulator's type. If ranks have parts of a dimension
 * that is summed over, the result is a partial sum. The gradient is a broadcast.
 */
#include "graph/graph_impl.h"

typedef struct reduce_params {
    unsigned over; /* bit d: dimension d of x */
} reduce_params;

static ls_status reduce_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *sum = ls_graph_tensor(g, node->in[1]);
    const unsigned over = ((const reduce_params *)node->params)->over;
    LS_TRY(ls_rule_numbers(g, node));
    const int batch = ls_shape_dim_of(&x->shape, LS_FACTOR_BATCH);
    const int sequence = ls_shape_dim_of(&x->shape, LS_FACTOR_SEQUENCE);
    if (batch >= 0 && sequence >= 0 && (over >> batch & 1) != (over >> sequence & 1))
        return ls_op_input_error(g, node, 0, "a sum over both the batch and the sequence, or neither");
    const unsigned from_first = over >> __builtin_ctz(over | 1U << 31);
    if ((from_first & (from_first + 1)) != 0)
        return ls_op_input_error(g, node, 0, "a sum over neighbouring dimensions, not over 0x%x", over);
    if (!ls_shape_leaves(&x->shape, over, &sum->shape) || sum->dtype != g->accumulator)
        return ls_op_input_error(g, node, 1,
                                 "%s, with what \"%s\" has but for the dimensions that are summed over (0x%x)",
                                 ls_dtype_name(g->accumulator), x->name, over);
    return ls_rule_sum_shape(g, node, out);
}

/* "abc,ab>ab", or "abc,abO>abO". */
static void reduce_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_shape *x = &ls_graph_tensor(g, node->in[0])->shape, *sum = &ls_graph_tensor(g, node->in[1])->shape;
    const unsigned over = ((const reduce_params *)node->params)->over;
    text = ls_write_all(text, x);
    *text++ = ',';
    text = ls_write_left(text, x, over, sum);
    *text++ = '>';
    *ls_write_left(text, x, over, sum) = 0;
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return (double)ls_view_elements(&in[0]);
}

/* Each element of x gets the gradient of its sum. */
static void reduce_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_shape to = ls_graph_tensor(g, node->in[0])->shape;
    const ls_dtype dtype = ls_graph_tensor(g, node->in[0])->dtype;
    ls_gradient_add(d, 0,
                    ls_broadcast_to(g, ls_gradient_out(d, 0), ((const reduce_params *)node->params)->over, &to, dtype));
}

const ls_op ls_op_reduce = {.name = "reduce",
                            .reach = LS_REACH_OWN,
                            .kernel = LS_KERNEL_REDUCE,
                            .least_in = 2,
                            .most_in = 2,
                            .n_out = 1,
                            .in_place = {2},
                            .shape = reduce_shape,
                            .gradient = reduce_gradient,
                            .dims_of = reduce_dims,
                            .addends = 1U << 0,
                            .flops = flops};

static ls_tensor reduce(ls_graph *g, ls_tensor x, unsigned over, ls_tensor sum) {
    const reduce_params params = {over};
    const ls_tensor in[] = {x, sum};
    return ls_graph_add(g, &ls_op_reduce, &params, sizeof params, in, 2, -1);
}

/* The last group of consecutive dimensions in `over`. */
static unsigned last_neighbours(unsigned over) {
    unsigned last = 0;
    for (int d = 31 - __builtin_clz(over); d >= 0 && (over >> d & 1); d--) last |= 1U << d;
    return last;
}

ls_tensor ls_reduce_into(ls_graph *g, ls_tensor x, unsigned over, ls_tensor sum) {
    if (g->status.code != LS_OK) return LS_NO_TENSOR;
    const bool keep = ls_graph_tensor(g, sum)->shape.ndim == ls_graph_tensor(g, x)->shape.ndim;
    for (unsigned last; over != 0 && (last = last_neighbours(over)) != over; over &= ~last)
        x = ls_reduce_sum(g, x, last, keep);
    return reduce(g, x, over, sum);
}

ls_tensor ls_reduce_sum(ls_graph *g, ls_tensor x, unsigned over, bool keep) {
    if (!ls_graph_usable(g, x, "ls_reduce_sum")) return LS_NO_TENSOR;
    const ls_shape from = ls_graph_tensor(g, x)->shape;
    ls_shape left = {0};
    for (int d = 0; d < from.ndim; d++) {
        if (!(over >> d & 1))
            left.dim[left.ndim++] = from.dim[d];
        else if (keep)
            left.dim[left.ndim++] = (ls_dim){1, LS_FACTOR_NONE};
    }
    if (left.ndim == 0)
        return ls_sum(g, ls_graph_tensor(g, x)->dtype == g->accumulator ? x : ls_cast(g, x, g->accumulator));
    return ls_reduce_into(g, x, over, ls_zeros(g, &left));
}
