/*
 * recurrence: a linear recurrence along the sequence with a gate for each element, h[i] = gate[i]*h[i-1] + x[i], or
 * with a matrix for each element, whose state is then a few numbers. What a rank's tokens do to the state in front of
 * them is an affine map, and ranks compose their maps (compile/recurrence.c). Its gradient is the same recurrence from
 * the last token to the first, with the gates of the next tokens, turned: dx[i] = dh[i] + gate[i+1]^T*dx[i+1], dgate[i]
 * = dx[i]*h[i-1]^T.
 */
#include "graph/graph_impl.h"

#include <stdio.h>

enum { OF_NUMBERS = 3, OF_STATES = 4 }; /* dimensions of x */

static bool is_of_tokens(const ls_shape *s) {
    return s->dim[0].factor == LS_FACTOR_BATCH && s->dim[1].factor == LS_FACTOR_SEQUENCE &&
           s->dim[2].factor == LS_FACTOR_NONE && (s->ndim == OF_NUMBERS || s->dim[3].factor == LS_FACTOR_NONE);
}

static ls_status recurrence_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *gate = ls_graph_tensor(g, node->in[0]), *x = ls_graph_tensor(g, node->in[1]);
    const ls_shape *s = &x->shape;
    if (x->dtype != g->dtype || (s->ndim != OF_NUMBERS && s->ndim != OF_STATES) || !is_of_tokens(s) ||
        (s->ndim == OF_STATES && (s->dim[2].size < 1 || s->dim[2].size > LS_RECURRENCE_STATES)))
        return ls_op_input_error(g, node, 1, "%s[B,S,E] or [B,S,K,E] with the batch and the sequence first, K 1 to %d",
                                 ls_dtype_name(g->dtype), LS_RECURRENCE_STATES);
    ls_shape wanted = *s;
    if (s->ndim == OF_STATES) wanted = (ls_shape){5, {s->dim[0], s->dim[1], s->dim[2], s->dim[2], s->dim[3]}};
    if (gate->dtype != g->dtype || !ls_shape_equal(&gate->shape, &wanted))
        return ls_op_input_error(g, node, 0, "the type of \"%s\" and %s", x->name,
                                 s->ndim == OF_STATES ? "a matrix for each of its states" : "its shape");
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* Rows and columns of a matrix are each needed whole. */
static void recurrence_dims(const ls_graph *g, const ls_node *node, char *text) {
    const bool of_states = ls_graph_tensor(g, node->in[1])->shape.ndim == OF_STATES;
    sprintf(text, "%s", of_states ? "bsKLe,bsKe>bsKe" : "*,*>*");
}

static ls_tensor add_node(ls_graph *g, const ls_op *op, bool backwards, ls_tensor gate, ls_tensor x) {
    const ls_recurrence_params params = {.backwards = backwards};
    const ls_tensor in[] = {gate, x};
    return ls_graph_add(g, op, &params, sizeof params, in, 2, -1);
}

/* Of each element the product of d, as a column, and h, as a row. */
static ls_tensor outer(ls_graph *g, ls_tensor d, ls_tensor h) {
    static const ls_map_step mul = {LS_MAP_MUL, 0, 1, 0, 0};
    const ls_shape *s = &ls_graph_tensor(g, d)->shape;
    if (s->ndim == OF_NUMBERS) return ls_mul(g, d, h);
    const int64_t B = s->dim[0].size, S = s->dim[1].size, K = s->dim[2].size, E = s->dim[3].size;
    const ls_tensor in[] = {ls_reshape(g, d, 5, (int64_t[]){B, S, K, 1, E}),
                            ls_reshape(g, h, 5, (int64_t[]){B, S, 1, K, E})};
    return ls_map(g, in, 2, &(ls_expression){.step = &mul, .n_steps = 1});
}

static void recurrence_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0) && !ls_gradient_wanted(d, 1)) return;
    const ls_tensor next_gate = ls_shift(g, node->in[0], -1);
    const ls_tensor dx = add_node(g, &ls_op_recurrence_back, true, next_gate, ls_gradient_out(d, 0));
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, outer(g, dx, ls_shift(g, node->out[0], 1)));
    if (ls_gradient_wanted(d, 1)) ls_gradient_add(d, 1, dx);
}

/* One product and one sum per element of the gate. */
static double recurrence_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 2.0 * (double)ls_view_elements(&in[0]);
}

const ls_op ls_op_recurrence = {.name = "recurrence",
                                .kernel = LS_KERNEL_RECURRENCE,
                                .reach = LS_REACH_PREFIX,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 1,
                                .shape = recurrence_shape,
                                .gradient = recurrence_gradient,
                                .dims_of = recurrence_dims,
                                .flops = recurrence_flops};

/* From the last token to the first. */
const ls_op ls_op_recurrence_back = {.name = "recurrence_back",
                                     .kernel = LS_KERNEL_RECURRENCE,
                                     .reach = LS_REACH_ALL,
                                     .least_in = 2,
                                     .most_in = 2,
                                     .n_out = 1,
                                     .shape = recurrence_shape,
                                     .dims_of = recurrence_dims,
                                     .flops = recurrence_flops};

ls_tensor ls_recurrence(ls_graph *g, ls_tensor gate, ls_tensor x) {
    return add_node(g, &ls_op_recurrence, false, gate, x);
}
