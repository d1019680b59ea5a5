/*
 * recurrence: a linear recurrence along the sequence, h[i] = gate[i]*h[i-1] + x[i], with a gate for each element, or
 * with a matrix for each element, whose state then has several numbers. The effect of a rank's tokens on the state in
 * front of them is an affine map, and ranks compose their maps (compile/recurrence.c). The gradient is the same
 * recurrence from the last token to the first, with the transposed gates of the next tokens: dx[i] = dh[i] +
 * gate[i+1]^T*dx[i+1], dgate[i] = dx[i]*h[i-1]^T.
 */
#include "graph/graph_impl.h"

#include <stdio.h>

enum { OF_NUMBERS = 3, OF_STATES = 4 }; /* numbers of dimensions of x */

static const ls_recurrence_node *params_of(const ls_node *node) { return node->params; }

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
    if (!params_of(node)->has_last) return ls_ok();
    const ls_dim one = {1, LS_FACTOR_NONE};
    out[LS_RECURRENCE_LAST].dtype = g->accumulator;
    out[LS_RECURRENCE_LAST].shape = (ls_shape){3, {one, s->ndim == OF_STATES ? s->dim[2] : one, s->dim[s->ndim - 1]}};
    return ls_ok();
}

static int outputs(const void *params) {
    return ((const ls_recurrence_node *)params)->has_last ? LS_RECURRENCE_LAST + 1 : 1;
}

/* The rows and columns of a matrix are needed whole. */
static void recurrence_dims(const ls_graph *g, const ls_node *node, char *text) {
    const bool of_states = ls_graph_tensor(g, node->in[1])->shape.ndim == OF_STATES, last = params_of(node)->has_last;
    sprintf(text, "%s%s", of_states ? "bsKLe,bsKe>bsKe" : "bse,bse>bse", !last ? "" : of_states ? ",AKe" : ",ABe");
}

static ls_tensor add_node(ls_graph *g, const ls_op *op, bool backwards, ls_tensor gate, ls_tensor x) {
    const ls_recurrence_node params = {.kernel = {.backwards = backwards}};
    const ls_tensor in[] = {gate, x};
    return ls_graph_add(g, op, &params, sizeof params, in, 2, -1);
}

/* For each element, the outer product of d (column) and h (row). */
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

/* --- generation --------------------------------------------------------------------------------------------------- */

/* A gate that does not change the state: 1, or a unit matrix for each element, G[1] or G[K,K,1]. */
static ls_tensor keep_all(ls_graph *g, int64_t K) {
    static const ls_map_step one = {LS_MAP_NUMBER, 0, 0, 0, 1};
    enum { MOST = LS_RECURRENCE_STATES * LS_RECURRENCE_STATES };
    const ls_shape shape = {1, {{1, LS_FACTOR_NONE}}};
    ls_tensor part[MOST];
    for (int64_t i = 0; i < K * K; i++) {
        part[i] = ls_zeros(g, &shape);
        if (i % (K + 1) == 0) part[i] = ls_map(g, &part[i], 1, &(ls_expression){.step = &one, .n_steps = 1, .wide = 1});
    }
    return K == 1 ? part[0] : ls_reshape(g, ls_concat(g, 0, (int)(K * K), part), 3, (int64_t[]){K, K, 1});
}

/* The tokens after the given ones do not change the state. */
static ls_tensor recurrence_prefill(ls_next *n, const ls_node *node, ls_tensor *state) {
    static const ls_map_step step[] = {
        {LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 0, 3, 0, 0}, {LS_MAP_WHERE, 4, 1, 2, 0}};
    ls_graph *g = ls_next_graph(n);
    const ls_tensor gate = ls_next_tensor(n, node->in[0]), x = ls_next_tensor(n, node->in[1]);
    const ls_shape *s = &ls_graph_tensor(g, x)->shape;
    const int64_t K = s->ndim == OF_STATES ? s->dim[2].size : 1;
    const ls_tensor gates[] = {ls_prefill_behind(n, ls_graph_tensor(g, gate)->shape.ndim), gate, keep_all(g, K)};
    const ls_tensor in[] = {ls_map(g, gates, 3, &(ls_expression){.step = step, .n_steps = LS_COUNT(step)}),
                            ls_prefill_given(n, x)};
    ls_recurrence_node params = *params_of(node);
    params.has_last = true;
    const ls_tensor first = ls_graph_add(g, node->op, &params, sizeof params, in, 2, -1);
    *state = ls_prefill_kept(g, ls_graph_output(g, first, LS_RECURRENCE_LAST), g->accumulator);
    return first;
}

static ls_tensor recurrence_next(ls_next *n, const ls_node *node) {
    const ls_tensor in[] = {[LS_RECURRENCE_NEXT_STATE] = ls_next_state(n),
                            [LS_RECURRENCE_NEXT_GATE] = ls_next_tensor(n, node->in[0]),
                            [LS_RECURRENCE_NEXT_X] = ls_next_tensor(n, node->in[1])};
    return ls_graph_add(ls_next_graph(n), &ls_op_recurrence_next, node->params, node->params_bytes, in, LS_COUNT(in),
                        -1);
}

static ls_status next_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    static const int of[] = {LS_RECURRENCE_NEXT_X, LS_RECURRENCE_NEXT_STATE};
    for (int o = 0; o < 2; o++) {
        out[o].dtype = ls_graph_tensor(g, node->in[of[o]])->dtype;
        out[o].shape = ls_graph_tensor(g, node->in[of[o]])->shape;
    }
    return ls_ok();
}

static void next_dims(const ls_graph *g, const ls_node *node, char *text) {
    const bool of_states = ls_graph_tensor(g, node->in[LS_RECURRENCE_NEXT_X])->shape.ndim == OF_STATES;
    sprintf(text, "%s", of_states ? "AKe,BCKLe,BCKe>BCKe,AKe" : "ADe,BCe,BCe>BCe,ADe");
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

const ls_op ls_op_recurrence = {.name = "recurrence",
                                .kernel = LS_KERNEL_RECURRENCE,
                                .reach = LS_REACH_PREFIX,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = LS_RECURRENCE_LAST + 1,
                                .outputs = outputs,
                                .shape = recurrence_shape,
                                .gradient = recurrence_gradient,
                                .dims_of = recurrence_dims,
                                .flops = recurrence_flops,
                                .next = recurrence_next,
                                .prefill = recurrence_prefill};

/* For one token: its result, and the state behind it. */
const ls_op ls_op_recurrence_next = {.name = "recurrence_next",
                                     .reach = LS_REACH_ALL,
                                     .least_in = 3,
                                     .most_in = 3,
                                     .n_out = 2,
                                     .in_place = {0, 1 + LS_RECURRENCE_NEXT_STATE},
                                     .shape = next_shape,
                                     .dims_of = next_dims};

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
