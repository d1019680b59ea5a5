/*
 * rnn: recurrent cells, whose state goes from token to token by a function that is not linear (longspan/rnn.h,
 * kernel/contracts.c). The optional bias and places follow after x and the weight. Over ranks: compile/rnn.
 */
#include "graph/graph_impl.h"

#include <stdio.h>

static const ls_rnn_node *params_of(const ls_node *node) { return node->params; }

static const ls_shape *shape_of(const ls_graph *g, const ls_node *node, int i) {
    return &ls_graph_tensor(g, node->in[i])->shape;
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static ls_status check_x(const ls_graph *g, const ls_node *node, int64_t gates) {
    const ls_shape *x = shape_of(g, node, LS_RNN_X);
    if (ls_graph_tensor(g, node->in[LS_RNN_X])->dtype == g->dtype && x->ndim == 4 &&
        x->dim[0].factor == LS_FACTOR_BATCH && x->dim[1].factor == LS_FACTOR_SEQUENCE &&
        x->dim[2].factor == LS_FACTOR_NONE && x->dim[3].factor == LS_FACTOR_NONE && x->dim[3].size % gates == 0)
        return ls_ok();
    return ls_op_input_error(g, node, LS_RNN_X, "%s[B,S,heads,%lld gates of each element], batch and sequence first",
                             ls_dtype_name(g->dtype), (long long)gates);
}

static bool is_parameter_of_heads(const ls_graph *g, const ls_node *node, int i, int ndim, const int64_t *size) {
    const ls_shape *s = shape_of(g, node, i);
    bool fits = ls_graph_tensor(g, node->in[i])->dtype == g->dtype && s->ndim == ndim;
    for (int d = 0; fits && d < ndim; d++) fits = s->dim[d].size == size[d] && s->dim[d].factor == LS_FACTOR_NONE;
    return fits;
}

static bool is_of_tokens(const ls_graph *g, const ls_node *node, int i) {
    const ls_shape *s = shape_of(g, node, i), *x = shape_of(g, node, LS_RNN_X);
    bool fits = ls_graph_tensor(g, node->in[i])->dtype == LS_I32 && s->ndim == 2;
    for (int d = 0; fits && d < 2; d++) fits = s->dim[d].size == x->dim[d].size && s->dim[d].factor == x->dim[d].factor;
    return fits;
}

static ls_status rnn_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_rnn_node *p = params_of(node);
    const ls_rnn_sizes s = ls_rnn_sizes_of(p->kernel.kind);
    LS_TRY(check_x(g, node, s.gates));
    const ls_shape *x = shape_of(g, node, LS_RNN_X);
    const int64_t H = x->dim[2].size, D = x->dim[3].size / s.gates, rows = s.numbers > 0 ? s.numbers : s.gates * D;
    const int64_t size[] = {H, rows, D};
    if (!is_parameter_of_heads(g, node, LS_RNN_WEIGHT, 3, size))
        return ls_op_input_error(g, node, LS_RNN_WEIGHT, "%s[%lld,%lld,%lld]", ls_dtype_name(g->dtype), (long long)H,
                                 (long long)rows, (long long)D);
    if (p->has_bias && s.numbers > 0) return ls_error(LS_INVALID, "op rnn: a bias of a diagonal cell, which has none");
    if (p->has_bias && !is_parameter_of_heads(g, node, LS_RNN_OPTIONS, 2, size))
        return ls_op_input_error(g, node, LS_RNN_OPTIONS, "%s[%lld,%lld]", ls_dtype_name(g->dtype), (long long)H,
                                 (long long)rows);
    if (p->has_places && !is_of_tokens(g, node, LS_RNN_OPTIONS + p->has_bias))
        return ls_op_input_error(g, node, LS_RNN_OPTIONS + p->has_bias, "i32[%lld,%lld], the tokens of x",
                                 (long long)x->dim[0].size, (long long)x->dim[1].size);
    out->dtype = g->dtype;
    out->shape = *x;
    out->shape.dim[3].size = D;
    if (!p->has_last) return ls_ok();
    out[LS_RNN_LAST].dtype = g->accumulator;
    out[LS_RNN_LAST].shape = (ls_shape){3, {{1, LS_FACTOR_NONE}, x->dim[2], {s.states * D, LS_FACTOR_NONE}}};
    return ls_ok();
}

static int outputs(const void *params) { return ((const ls_rnn_node *)params)->has_last ? LS_RNN_LAST + 1 : 1; }

/* The outputs have the shapes of x and of the sums. */
static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    static const int of[] = {LS_RNN_X, LS_RNN_GRAD_SUM, LS_RNN_GRAD_BIAS_SUM};
    for (int i = 0; i < ls_min(node->n_out, (int)LS_COUNT(of)); i++) {
        out[i].dtype = ls_graph_tensor(g, node->in[of[i]])->dtype;
        out[i].shape = *shape_of(g, node, of[i]);
    }
    return ls_ok();
}

/* --- dimensions and work ------------------------------------------------------------------------------------------ */

static void rnn_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const ls_rnn_node *p = params_of(node);
    sprintf(text, "bshX,hWD%s%s>bshD%s", p->has_bias ? ",hW" : "", p->has_places ? ",bs" : "",
            p->has_last ? ",AhZ" : "");
}

static void grad_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const ls_rnn_node *p = params_of(node);
    sprintf(text, "bshX,hWD,bshD,bshD,hWD%s%s>bshX,hWD%s", p->has_bias ? ",hW,hW" : "", p->has_places ? ",bs" : "",
            p->has_bias ? ",hW" : "");
}

/* For one token and head. */
double ls_rnn_flops(ls_rnn_kind kind, double D) {
    enum { OF_A_GATE = 20 };
    const ls_rnn_sizes s = ls_rnn_sizes_of(kind);
    return s.gates * D * (OF_A_GATE + (s.numbers > 0 ? 0 : 2 * D));
}

static double rnn_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in;
    const double D = (double)out->size[3];
    return (double)ls_view_elements(out) / D * ls_rnn_flops(((const ls_rnn_params *)params)->kind, D);
}

static double grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out;
    return 3 * rnn_flops(in, &in[LS_RNN_GRAD_Y], params);
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

static void rnn_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_rnn_node *p = params_of(node);
    ls_tensor in[LS_NODE_INPUTS] = {[LS_RNN_X] = node->in[LS_RNN_X],
                                    [LS_RNN_WEIGHT] = node->in[LS_RNN_WEIGHT],
                                    [LS_RNN_GRAD_Y] = node->out[0],
                                    [LS_RNN_GRAD_DY] = ls_gradient_out(d, 0),
                                    [LS_RNN_GRAD_SUM] = ls_gradient_sum(d, LS_RNN_WEIGHT)};
    int n = LS_RNN_GRAD_SUM + 1;
    if (p->has_bias) {
        in[n++] = node->in[LS_RNN_OPTIONS];
        in[n++] = ls_gradient_sum(d, LS_RNN_OPTIONS);
    }
    if (p->has_places) in[n++] = node->in[LS_RNN_OPTIONS + p->has_bias];
    const ls_tensor dx = ls_graph_add(g, p->has_bias ? &ls_op_rnn_biased_grad : &ls_op_rnn_grad, p, sizeof *p, in, n,
                                      ls_graph_tensor(g, node->out[0])->producer);
    if (ls_gradient_wanted(d, LS_RNN_X)) ls_gradient_add(d, LS_RNN_X, dx);
    ls_gradient_summed(d, LS_RNN_WEIGHT, ls_graph_output(g, dx, 1));
    if (p->has_bias) ls_gradient_summed(d, LS_RNN_OPTIONS, ls_graph_output(g, dx, 2));
}

/* --- generation --------------------------------------------------------------------------------------------------- */

/* The tokens after the given ones do not change the state; all tokens are of one document. */
static ls_tensor rnn_prefill(ls_next *n, const ls_node *node, ls_tensor *state) {
    ls_graph *g = ls_next_graph(n);
    ls_rnn_node params = *params_of(node);
    ls_tensor in[LS_NODE_INPUTS];
    int n_in = 0;
    for (; n_in < LS_RNN_OPTIONS + params.has_bias; n_in++) in[n_in] = ls_next_tensor(n, node->in[n_in]);
    in[n_in++] = ls_next_behind(n);
    params.has_places = params.has_last = params.kernel.ends = true;
    const ls_tensor first = ls_graph_add(g, node->op, &params, sizeof params, in, n_in, -1);
    *state = ls_prefill_kept(g, ls_graph_output(g, first, LS_RNN_LAST), g->accumulator);
    return first;
}

static ls_tensor rnn_next(ls_next *n, const ls_node *node) {
    ls_rnn_node params = *params_of(node);
    ls_tensor in[LS_NODE_INPUTS] = {[LS_RNN_NEXT_STATE] = ls_next_state(n)};
    const int given = LS_RNN_OPTIONS + params.has_bias;
    for (int i = 0; i < given; i++) in[LS_RNN_NEXT_INPUTS + i] = ls_next_tensor(n, node->in[i]);
    params.has_places = false;
    return ls_graph_add(ls_next_graph(n), &ls_op_rnn_next, &params, sizeof params, in, LS_RNN_NEXT_INPUTS + given, -1);
}

static ls_status next_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_shape *x = shape_of(g, node, LS_RNN_NEXT_INPUTS + LS_RNN_X);
    out[0].dtype = g->dtype;
    out[0].shape = *x;
    out[0].shape.dim[3].size = x->dim[3].size / ls_rnn_sizes_of(params_of(node)->kernel.kind).gates;
    out[1].dtype = ls_graph_tensor(g, node->in[LS_RNN_NEXT_STATE])->dtype;
    out[1].shape = *shape_of(g, node, LS_RNN_NEXT_STATE);
    return ls_ok();
}

static void next_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    sprintf(text, "AhZ,ABhX,hWD%s>ABhD,AhZ", params_of(node)->has_bias ? ",hW" : "");
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

const ls_op ls_op_rnn = {.name = "rnn",
                         .reach = LS_REACH_PREFIX,
                         .least_in = LS_RNN_OPTIONS,
                         .most_in = LS_RNN_OPTIONS + 2,
                         .n_out = LS_RNN_LAST + 1,
                         .outputs = outputs,
                         .shape = rnn_shape,
                         .gradient = rnn_gradient,
                         .dims_of = rnn_dims,
                         .flops = rnn_flops,
                         .next = rnn_next,
                         .prefill = rnn_prefill};

/* For one token: its result, and the state behind it. */
const ls_op ls_op_rnn_next = {.name = "rnn_next",
                              .reach = LS_REACH_ALL,
                              .least_in = LS_RNN_NEXT_INPUTS + LS_RNN_OPTIONS,
                              .most_in = LS_RNN_NEXT_INPUTS + LS_RNN_OPTIONS + 1,
                              .n_out = 2,
                              .in_place = {0, 1 + LS_RNN_NEXT_STATE},
                              .shape = next_shape,
                              .dims_of = next_dims};

/* The rows name a kernel, so that the outputs of the sums are known; the lowering gives this kernel more operands. */
const ls_op ls_op_rnn_grad = {.name = "rnn_grad",
                              .kernel = LS_KERNEL_RNN_GRAD,
                              .reach = LS_REACH_ALL,
                              .least_in = LS_RNN_GRAD_SUM + 1,
                              .most_in = LS_RNN_GRAD_SUM + 2,
                              .n_out = 2,
                              .in_place = {0, 1 + LS_RNN_GRAD_SUM},
                              .shape = grad_shape,
                              .dims_of = grad_dims,
                              .flops = grad_flops};

const ls_op ls_op_rnn_biased_grad = {.name = "rnn_biased_grad",
                                     .kernel = LS_KERNEL_RNN_GRAD,
                                     .reach = LS_REACH_ALL,
                                     .least_in = LS_RNN_GRAD_BIAS_SUM + 1,
                                     .most_in = LS_RNN_GRAD_BIAS_SUM + 2,
                                     .n_out = 3,
                                     .in_place = {0, 1 + LS_RNN_GRAD_SUM, 1 + LS_RNN_GRAD_BIAS_SUM},
                                     .shape = grad_shape,
                                     .dims_of = grad_dims,
                                     .flops = grad_flops};

ls_tensor ls_rnn(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_rnn_form *form) {
    if (form == NULL || (unsigned)form->kind >= LS_RNN_KINDS)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op rnn: its form is %s", form == NULL ? "NULL" : "of no kind"));
    const ls_rnn_node params = {
        .kernel = {.kind = form->kind}, .has_bias = form->bias.id != 0, .has_places = form->places.id != 0};
    ls_tensor in[LS_NODE_INPUTS] = {x, weight};
    int n = LS_RNN_OPTIONS;
    if (params.has_bias) in[n++] = form->bias;
    if (params.has_places) in[n++] = form->places;
    return ls_graph_add(g, &ls_op_rnn, &params, sizeof params, in, n, -1);
}
