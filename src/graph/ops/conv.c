/*
 * conv: a causal depth-wise convolution along the sequence, y[i,e] = sum over t of weight[t,e]·x[i-t,e]. The first
 * tokens of a rank need the last tokens of its neighbour (compile/redistribute/halo.c). The gradient with respect to x
 * is the same convolution in the other direction. A bias is an additional row of the weight. Silu may be applied in the
 * same pass; its input is then not kept, but recomputed for the gradient (conv_silu_grad).
 *
 * If a node has the reach of its tokens (ls_conv_reach), documents of a sequence do not see each other. The reach of a
 * token is how many tokens of its document come before it and, for the gradient, after it.
 */
#include "graph/graph_impl.h"

static ls_status check_reach(const ls_graph *g, const ls_node *node, int i) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *r = ls_graph_tensor(g, node->in[i]);
    bool fits = r->dtype == g->dtype && r->shape.ndim == 3 && r->shape.dim[2].size == 2;
    for (int d = 0; d < 2 && fits; d++) fits = r->shape.dim[d].size == x->shape.dim[d].size;
    if (fits) return ls_ok();
    return ls_op_input_error(g, node, i, "the reach of each token of \"%s\", %s[B,S,2]", x->name,
                             ls_dtype_name(g->dtype));
}

static ls_status conv_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *w = ls_graph_tensor(g, node->in[1]);
    const ls_dim *dim = x->shape.dim;
    if (x->dtype != g->dtype || x->shape.ndim != 3 || dim[0].factor != LS_FACTOR_BATCH ||
        dim[1].factor != LS_FACTOR_SEQUENCE || dim[2].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, 0, "%s[B,S,E] with the batch and the sequence first",
                                 ls_dtype_name(g->dtype));
    const bool biased = ((const ls_conv_params *)node->params)->biased;
    if (w->dtype != g->dtype || w->shape.ndim != 2 || w->shape.dim[0].size <= biased ||
        w->shape.dim[1].size != dim[2].size)
        return ls_op_input_error(g, node, 1, "a weight [width,%lld]", (long long)dim[2].size);
    if (node->n_in > 2) LS_TRY(check_reach(g, node, 2));
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* The shape of x, which conv has accepted; the reach may follow. */
static ls_status silu_grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* The shape of the weight's gradient sum; the reach may follow. */
static ls_status dw_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *sum = ls_graph_tensor(g, node->in[2]);
    out->dtype = sum->dtype;
    out->shape = sum->shape;
    return ls_ok();
}

static int64_t width_of(const ls_graph *g, const ls_node *node, ls_tensor weight) {
    return ls_conv_taps(node->params, ls_graph_tensor(g, weight)->shape.dim[0].size);
}

static ls_neighbours neighbours(const ls_node *node, int64_t width) {
    const ls_conv_params *params = node->params;
    return params->ahead ? (ls_neighbours){.after = width - 1} : (ls_neighbours){.before = width - 1};
}

static ls_neighbours conv_neighbours(const ls_graph *g, const ls_node *node) {
    return neighbours(node, width_of(g, node, node->in[1]));
}

/* The gradient of the weight reads the same tokens of x; input 2 is the sum that it adds to. */
static ls_neighbours dw_neighbours(const ls_graph *g, const ls_node *node) {
    return neighbours(node, width_of(g, node, node->in[2]));
}

static void conv_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_conv_params *params = node->params;
    ls_conv_params back = *params;
    back.ahead = !params->ahead;
    back.silu = false;
    ls_tensor dy = ls_gradient_out(d, 0);
    if (!ls_gradient_wanted(d, 0) && !ls_gradient_wanted(d, 1)) return;
    if (params->silu) {
        const ls_tensor in[] = {node->in[0], node->in[1], dy, node->in[2]};
        dy = ls_graph_add(g, &ls_op_conv_silu_grad, params, sizeof *params, in, node->n_in + 1, -1);
    }
    if (ls_gradient_wanted(d, 0)) {
        const ls_tensor in[] = {dy, node->in[1], node->in[2]};
        ls_gradient_add(d, 0, ls_graph_add(g, &ls_op_conv, &back, sizeof back, in, node->n_in, -1));
    }
    if (ls_gradient_wanted(d, 1)) {
        const ls_tensor in[] = {node->in[0], dy, ls_gradient_sum(d, 1), node->in[2]};
        ls_gradient_summed(d, 1, ls_graph_add(g, &ls_op_conv_dw, params, sizeof *params, in, node->n_in + 1, -1));
    }
}

/*
 * One product and one sum per element and tap. in[1] of the kernel conv is the weight [width,E], in[1] of conv_dw is
 * dy.
 */
static double conv_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)in[1].size[0] * (double)ls_view_elements(out);
}

static double dw_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)out->size[0] * (double)ls_view_elements(&in[1]);
}

static double silu_grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    enum { SLOPE = 12 }; /* as for an activation */
    return conv_flops(in, out, params) + SLOPE * (double)ls_view_elements(out);
}

static ls_tensor conv_prefill(ls_next *n, const ls_node *node, ls_tensor *state) {
    ls_graph *g = ls_next_graph(n);
    ls_tensor in[LS_NODE_INPUTS] = {{0}};
    for (int i = 0; i < node->n_in; i++) in[i] = ls_next_tensor(n, node->in[i]);
    *state = ls_prefill_rows(n, in[0], width_of(g, node, in[1]));
    return ls_graph_add(g, node->op, node->params, node->params_bytes, in, node->n_in, -1);
}

static ls_tensor conv_next(ls_next *n, const ls_node *node) {
    const ls_tensor in[] = {[LS_CONV_NEXT_ROWS] = ls_next_state(n),
                            [LS_CONV_NEXT_X] = ls_next_tensor(n, node->in[0]),
                            [LS_CONV_NEXT_WEIGHT] = ls_next_tensor(n, node->in[1])};
    return ls_graph_add(ls_next_graph(n), &ls_op_conv_next, node->params, node->params_bytes, in, LS_COUNT(in), -1);
}

static ls_status next_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    static const int of[] = {LS_CONV_NEXT_X, LS_CONV_NEXT_ROWS};
    for (int o = 0; o < 2; o++) {
        out[o].dtype = ls_graph_tensor(g, node->in[of[o]])->dtype;
        out[o].shape = ls_graph_tensor(g, node->in[of[o]])->shape;
    }
    return ls_ok();
}

const ls_op ls_op_conv = {.name = "conv",
                          .kernel = LS_KERNEL_CONV,
                          .reach = LS_REACH_NEIGHBOURS,
                          .neighbours = conv_neighbours,
                          .least_in = 2,
                          .most_in = 3,
                          .n_out = 1,
                          .shape = conv_shape,
                          .gradient = conv_gradient,
                          .dims = "bsc,Tc,bsR>bsc",
                          .flops = conv_flops,
                          .next = conv_next,
                          .unread = 1U << 2,
                          .prefill = conv_prefill};

/* For one token. */
const ls_op ls_op_conv_next = {.name = "conv_next",
                               .kernel = LS_KERNEL_CONV,
                               .reach = LS_REACH_ALL,
                               .least_in = 3,
                               .most_in = 3,
                               .n_out = 2,
                               .in_place = {0, 1 + LS_CONV_NEXT_ROWS},
                               .shape = next_shape,
                               .dims = "ATc,ABc,Uc>ABc,ATc"};

/* Inputs: x, the weight and the gradient of the result; the output is the gradient of silu's input. */
const ls_op ls_op_conv_silu_grad = {.name = "conv_silu_grad",
                                    .kernel = LS_KERNEL_CONV_SILU_GRAD,
                                    .reach = LS_REACH_NEIGHBOURS,
                                    .neighbours = conv_neighbours,
                                    .least_in = 3,
                                    .most_in = 4,
                                    .n_out = 1,
                                    .shape = silu_grad_shape,
                                    .dims = "bsc,Tc,bsc,bsR>bsc",
                                    .flops = silu_grad_flops};

const ls_op ls_op_conv_dw = {.name = "conv_dw",
                             .kernel = LS_KERNEL_CONV_DW,
                             .reach = LS_REACH_NEIGHBOURS,
                             .neighbours = dw_neighbours,
                             .least_in = 3,
                             .most_in = 4,
                             .n_out = 1,
                             .in_place = {3},
                             .shape = dw_shape,
                             .dims = "bsc,bsc,Tc,bsR>Tc",
                             .flops = dw_flops};

ls_tensor ls_conv(ls_graph *g, ls_tensor x, ls_tensor weight) {
    return ls_conv_within(g, x, weight, &(ls_conv_form){.reach = LS_NO_TENSOR});
}

/* Whether the weight has one row, so that no token needs another one. */
static bool is_product(const ls_graph *g, ls_tensor x, ls_tensor weight) {
    if (g == NULL || !ls_graph_has(g, x) || !ls_graph_has(g, weight)) return false; /* the op refuses them */
    const ls_tensor_info *of = ls_graph_tensor(g, x), *w = ls_graph_tensor(g, weight);
    return w->dtype == g->dtype && of->dtype == g->dtype && w->shape.ndim == 2 && of->shape.ndim == 3 &&
           w->shape.dim[0].size == 1 && w->shape.dim[1].size == of->shape.dim[2].size;
}

/* A convolution with one row, as a map of each token. */
static ls_tensor product(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_conv_form *form) {
    const ls_tensor in[] = {x, ls_reshape(g, weight, 1, &ls_graph_tensor(g, weight)->shape.dim[1].size), form->bias};
    const bool biased = form->bias.id != 0;
    const int n_in = biased ? 3 : 2, at = n_in + biased; /* at: the input of silu */
    ls_map_step step[4] = {{LS_MAP_MUL, 0, 1, 0, 0}};
    int n = 1;
    if (biased) step[n++] = (ls_map_step){LS_MAP_ADD, 2, n_in, 0, 0};
    if (form->silu) {
        step[n++] = (ls_map_step){LS_MAP_SIGMOID, at, 0, 0, 0};
        step[n++] = (ls_map_step){LS_MAP_MUL, at, at + 1, 0, 0};
    }
    return ls_map(g, in, n_in, &(ls_expression){.step = step, .n_steps = n});
}

static ls_status check_bias(const ls_graph *g, ls_tensor x, ls_tensor bias) {
    const ls_shape *of = &ls_graph_tensor(g, x)->shape, *s = &ls_graph_tensor(g, bias)->shape;
    if (of->ndim == 3 && s->ndim == 1 && s->dim[0].size == of->dim[2].size) return ls_ok();
    return ls_error(LS_INVALID, "op conv: its bias \"%s\" has not one number for each channel of \"%s\"",
                    ls_graph_tensor(g, bias)->name, ls_graph_tensor(g, x)->name);
}

/* The node that makes the first input of node n, if node n is of this op; -1: it is not. */
static int maker_before(const ls_graph *g, int n, const ls_op *op) {
    return n >= 0 && g->nodes[n].op == op ? ls_graph_tensor(g, g->nodes[n].in[0])->producer : -1;
}

/* The width for which ls_conv_reach has made the tensor; 0: something else has made it. */
static int width_of_reach(const ls_graph *g, ls_tensor reach) {
    const int part = maker_before(g, ls_graph_tensor(g, reach)->producer, &ls_op_join),
              map = maker_before(g, part, &ls_op_reshape);
    return map >= 0 && g->nodes[map].op == &ls_op_map ? g->nodes[map].n_in : 0;
}

/* With the reach of another width the convolution would leave out taps, or add those of another document. */
static ls_status check_width(const ls_graph *g, ls_tensor weight, ls_tensor reach) {
    const ls_shape *shape = &ls_graph_tensor(g, weight)->shape;
    if (shape->ndim != 2 || shape->dim[0].size == width_of_reach(g, reach)) return ls_ok();
    return ls_error(LS_INVALID,
                    "op conv: its reach \"%s\" is not from ls_conv_reach with a width of %lld, as \"%s\" has",
                    ls_graph_tensor(g, reach)->name, (long long)shape->dim[0].size, ls_graph_tensor(g, weight)->name);
}

ls_tensor ls_conv_within(ls_graph *g, ls_tensor x, ls_tensor weight, const ls_conv_form *form) {
    if (form == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op conv: its form is NULL"));
    if (form->reach.id != 0) {
        if (!ls_graph_usable(g, weight, "ls_conv_within") || !ls_graph_usable(g, form->reach, "ls_conv_within"))
            return LS_NO_TENSOR;
        const ls_status fits = check_width(g, weight, form->reach);
        if (fits.code != LS_OK) return ls_graph_fail(g, fits);
    }
    const bool biased = form->bias.id != 0;
    if (biased) {
        if (!ls_graph_usable(g, x, "ls_conv_within") || !ls_graph_usable(g, form->bias, "ls_conv_within"))
            return LS_NO_TENSOR;
        const ls_status fits = check_bias(g, x, form->bias);
        if (fits.code != LS_OK) return ls_graph_fail(g, fits);
    }
    if (is_product(g, x, weight)) return product(g, x, weight, form);
    if (biased) {
        const int64_t row[] = {1, ls_graph_tensor(g, x)->shape.dim[2].size};
        weight = ls_concat(g, 0, 2, (ls_tensor[]){weight, ls_reshape(g, form->bias, 2, row)});
    }
    const ls_conv_params params = {.last_first = form->last_first, .biased = biased, .silu = form->silu};
    const ls_tensor in[] = {x, weight, form->reach};
    return ls_graph_add(g, &ls_op_conv, &params, sizeof params, in, form->reach.id != 0 ? 3 : 2, -1);
}

/*
 * The inputs of the map are the positions of a token and of the next width - 1 tokens. Results: min(position, width -
 * 1); and how many of the next tokens belong to the same document, which their positions show.
 */
static ls_expression reach_of(int width, ls_map_step *step, int *result) {
    int n = 0;
    step[n++] = (ls_map_step){.code = LS_MAP_NUMBER, .number = width - 1};
    step[n++] = (ls_map_step){.code = LS_MAP_MIN, .a = 0, .b = width};
    result[0] = width + n - 1;
    step[n++] = (ls_map_step){.code = LS_MAP_NUMBER, .number = 0};
    for (int t = 1; t < width; t++) {
        const int sum = width + n - 1;
        step[n++] = (ls_map_step){.code = LS_MAP_NUMBER, .number = t};
        step[n] = (ls_map_step){.code = LS_MAP_LE, .a = width + n - 1, .b = t};
        n++;
        step[n] = (ls_map_step){.code = LS_MAP_ADD, .a = sum, .b = width + n - 1};
        n++;
    }
    result[1] = width + n - 1;
    return (ls_expression){.step = step, .n_steps = n, .result = result, .n_results = 2};
}

ls_tensor ls_conv_reach(ls_graph *g, ls_tensor positions, int width) {
    if (!ls_graph_usable(g, positions, "ls_conv_reach")) return LS_NO_TENSOR;
    if (width < 1 || width > LS_CONV_WIDTH)
        return ls_graph_fail(
            g, ls_error(LS_INVALID, "ls_conv_reach: a width of %d, expected 1 to %d", width, LS_CONV_WIDTH));
    ls_tensor in[LS_CONV_WIDTH] = {positions}, part[2];
    ls_map_step step[LS_MAP_STEPS];
    int result[2];
    for (int t = 1; t < width; t++) in[t] = ls_shift(g, positions, -t);
    const ls_expression expression = reach_of(width, step, result);
    const ls_tensor map = ls_map(g, in, width, &expression);
    const ls_shape shape = ls_graph_tensor(g, positions)->shape;
    for (int i = 0; i < 2; i++)
        part[i] = ls_reshape(g, ls_map_result(g, map, i), 3, (int64_t[]){shape.dim[0].size, shape.dim[1].size, 1});
    return ls_join(g, 2, part);
}
