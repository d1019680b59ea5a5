/*
 * gated_norm: a norm over the last dimension and a gate in one pass: x·rstd·weight·silu(gate) with rstd = 1 /
 * sqrt(mean(x²) + epsilon), as after a gated delta rule (arXiv 2412.06464); or, with the gate before the norm,
 * a·rstd·weight with a = x·silu(gate), as after the state space of Mamba-2 (arXiv 2405.21060). Only the inputs are
 * kept: the gradient computes rstd again, from tensors that it reads anyway. A weight [G,E] has a row for each of G
 * groups, which are the second last dimension.
 */
#include "graph/graph_impl.h"

#include <math.h>
#include <string.h>

enum { X, WEIGHT, GATE, DY, SUM };

static ls_status gated_norm_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[X]), *w = ls_graph_tensor(g, node->in[WEIGHT]),
                         *gate = ls_graph_tensor(g, node->in[GATE]);
    const ls_shape *shape = &x->shape;
    const double epsilon = ((const ls_gated_norm_params *)node->params)->epsilon;
    if (x->dtype != g->dtype || shape->ndim < 1) return ls_op_input_error(g, node, X, "activations [..,E]");
    const ls_dim *E = &shape->dim[shape->ndim - 1];
    if (E->factor != LS_FACTOR_NONE) return ls_op_input_error(g, node, X, "a last dimension that is not the sequence");
    if (gate->dtype != g->dtype || !ls_shape_equal(&gate->shape, shape))
        return ls_op_input_error(g, node, GATE, "a gate of the type and shape of \"%s\"", x->name);
    bool fits = w->dtype == g->dtype && w->shape.ndim >= 1 && w->shape.ndim <= 2 && w->shape.ndim <= shape->ndim;
    for (int d = 1; fits && d <= w->shape.ndim; d++) {
        const ls_dim *of = &shape->dim[shape->ndim - d];
        fits = of->factor == LS_FACTOR_NONE && w->shape.dim[w->shape.ndim - d].size == of->size;
    }
    if (!fits)
        return ls_op_input_error(g, node, WEIGHT, "a weight of the last dimension of \"%s\", or of the last two",
                                 x->name);
    if (!(epsilon >= 0 && isfinite(epsilon)))
        return ls_error(LS_INVALID, "op gated_norm: epsilon %g; expected a finite number that is not negative",
                        epsilon);
    out->dtype = x->dtype;
    out->shape = *shape;
    return ls_ok();
}

static void gated_norm_gradient(ls_gradient *d, const ls_node *node) {
    const ls_tensor in[] = {[X] = node->in[X],
                            [WEIGHT] = node->in[WEIGHT],
                            [GATE] = node->in[GATE],
                            [DY] = ls_gradient_out(d, 0),
                            [SUM] = ls_gradient_sum(d, WEIGHT)};
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor dx =
        ls_graph_add(g, &ls_op_gated_norm_grad, node->params, node->params_bytes, in, LS_COUNT(in), -1);
    if (ls_gradient_wanted(d, X)) ls_gradient_add(d, X, dx);
    ls_gradient_summed(d, WEIGHT, ls_graph_output(g, dx, 1));
    if (ls_gradient_wanted(d, GATE)) ls_gradient_add(d, GATE, ls_graph_output(g, dx, 2));
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    static const int of[] = {X, SUM, GATE};
    for (int o = 0; o < 3; o++) {
        out[o].dtype = ls_graph_tensor(g, node->in[of[o]])->dtype;
        out[o].shape = ls_graph_tensor(g, node->in[of[o]])->shape;
    }
    return ls_ok();
}

static bool has_groups(const ls_graph *g, const ls_node *node) {
    return ls_graph_tensor(g, node->in[WEIGHT])->shape.ndim == 2;
}

static void norm_dims(const ls_graph *g, const ls_node *node, char *text) {
    strcpy(text, has_groups(g, node) ? "*gE,gE,*gE>*gE" : "*E,E,*E>*E");
}

static void grad_dims(const ls_graph *g, const ls_node *node, char *text) {
    strcpy(text, has_groups(g, node) ? "*gE,gE,*gE,*gE,gE>*gE,gE,*gE" : "*E,E,*E,*E,E>*E,E,*E");
}

/* As for rmsnorm and swiglu. */
static double norm_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 16.0 * (double)ls_view_elements(&in[X]);
}

static double grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 24.0 * (double)ls_view_elements(&in[X]);
}

const ls_op ls_op_gated_norm = {.name = "gated_norm",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_GATED_NORM,
                                .least_in = 3,
                                .most_in = 3,
                                .n_out = 1,
                                .shape = gated_norm_shape,
                                .gradient = gated_norm_gradient,
                                .dims_of = norm_dims,
                                .flops = norm_flops};

const ls_op ls_op_gated_norm_grad = {.name = "gated_norm_grad",
                                     .reach = LS_REACH_OWN,
                                     .kernel = LS_KERNEL_GATED_NORM_GRAD,
                                     .least_in = 5,
                                     .most_in = 5,
                                     .n_out = 3,
                                     .in_place = {0, 1 + SUM},
                                     .shape = grad_shape,
                                     .dims_of = grad_dims,
                                     .flops = grad_flops};

ls_tensor ls_gated_norm(ls_graph *g, ls_tensor x, ls_tensor weight, ls_tensor gate, double epsilon, bool gate_first) {
    const ls_gated_norm_params params = {.epsilon = epsilon, .gate_first = gate_first};
    const ls_tensor in[] = {[X] = x, [WEIGHT] = weight, [GATE] = gate};
    return ls_graph_add(g, &ls_op_gated_norm, &params, sizeof params, in, LS_COUNT(in), -1);
}
