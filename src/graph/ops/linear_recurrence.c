/*
 * linear_recurrence: each head has a state that goes from token to token (kernel/contracts.c), as in linear attention,
 * state space models and delta rules. Optional inputs follow after q, k and v in the order decay, beta, places; in the
 * gradient they follow after the gradient of the result. Over ranks: compile/linear_recurrence.
 */
#include "graph/graph_impl.h"

#include <stdio.h>

enum { SHARED = 48 }; /* tokens that are computed together (kernel/cpu/linear_recurrence.h), for operation counts */

static const ls_linear_recurrence_node *params_of(const ls_node *node) { return node->params; }

/* The indices of the optional inputs. */
typedef struct options {
    int decay, beta, places; /* -1: the node has none */
    int n;                   /* number of all inputs */
} options;

static options options_of(const ls_linear_recurrence_node *p, int behind) {
    options o = {.decay = p->has_decay ? behind : -1};
    o.beta = p->has_beta ? behind + p->has_decay : -1;
    o.places = p->has_places ? behind + p->has_decay + p->has_beta : -1;
    o.n = behind + p->has_decay + p->has_beta + p->has_places;
    return o;
}

static const ls_shape *shape_of(const ls_graph *g, const ls_node *node, int i) {
    return &ls_graph_tensor(g, node->in[i])->shape;
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static void state_of(const ls_graph *g, const ls_node *node, ls_shape *shape, ls_dtype *dtype) {
    const ls_shape *k = shape_of(g, node, LS_LINEAR_K), *v = shape_of(g, node, LS_LINEAR_V);
    *shape = (ls_shape){4, {{1, LS_FACTOR_NONE}, v->dim[2], k->dim[3], v->dim[3]}};
    *dtype = g->accumulator;
}

static ls_status check_heads(const ls_graph *g, const ls_node *node, int i) {
    const ls_shape *s = shape_of(g, node, i);
    if (ls_graph_tensor(g, node->in[i])->dtype != g->dtype || s->ndim != 4 || s->dim[0].factor != LS_FACTOR_BATCH ||
        s->dim[1].factor != LS_FACTOR_SEQUENCE || s->dim[2].factor != LS_FACTOR_NONE ||
        s->dim[3].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, i, "%s[B,S,heads,elements] with the batch and the sequence first",
                                 ls_dtype_name(g->dtype));
    for (int d = 0; d < 2; d++)
        if (s->dim[d].size != shape_of(g, node, LS_LINEAR_K)->dim[d].size)
            return ls_op_input_error(g, node, i, "the batch and the sequence of the keys");
    return ls_ok();
}

/*
 * Checks an optional input: its type, and its dimensions: the tokens of v, the heads, and elements of a key if it has
 * them.
 */
static ls_status check_option(const ls_graph *g, const ls_node *node, int i, ls_dtype dtype, int heads, int elements) {
    if (i < 0) return ls_ok();
    const ls_shape *s = shape_of(g, node, i), *v = shape_of(g, node, LS_LINEAR_V);
    const int64_t D = shape_of(g, node, LS_LINEAR_K)->dim[3].size;
    bool fits =
        ls_graph_tensor(g, node->in[i])->dtype == dtype && (s->ndim == 2 + heads || s->ndim == 2 + heads + elements);
    for (int d = 0; fits && d < s->ndim; d++)
        fits = s->dim[d].size == (d < 3 ? v->dim[d].size : D) && s->dim[d].factor == (d < 3 ? v->dim[d].factor : 0);
    if (fits) return ls_ok();
    return ls_op_input_error(g, node, i, "%s[%lld,%lld%s] as the values have them%s", ls_dtype_name(dtype),
                             (long long)v->dim[0].size, (long long)v->dim[1].size, heads > 0 ? ",heads" : "",
                             elements > 0 ? ", or the same for each element of a key" : "");
}

static ls_status recurrence_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_linear_recurrence_node *p = params_of(node);
    const options o = options_of(p, LS_LINEAR_OPTIONS);
    for (int i = 0; i < LS_LINEAR_OPTIONS; i++) LS_TRY(check_heads(g, node, i));
    if (!ls_shape_equal(shape_of(g, node, LS_LINEAR_Q), shape_of(g, node, LS_LINEAR_K)))
        return ls_op_input_error(g, node, LS_LINEAR_Q, "the shape of the keys");
    if (shape_of(g, node, LS_LINEAR_V)->dim[2].size % shape_of(g, node, LS_LINEAR_K)->dim[2].size != 0)
        return ls_op_input_error(g, node, LS_LINEAR_V, "a number of heads that is a multiple of the %lld of the keys",
                                 (long long)shape_of(g, node, LS_LINEAR_K)->dim[2].size);
    LS_TRY(check_option(g, node, o.decay, g->accumulator, 1, 1));
    LS_TRY(check_option(g, node, o.beta, g->accumulator, 1, 0));
    LS_TRY(check_option(g, node, o.places, LS_I32, 0, 0));
    if (p->kernel.delta && !p->kernel.unmasked && !p->has_beta)
        return ls_error(LS_INVALID, "op linear_recurrence: a delta rule without beta, expected one");
    if (p->kernel.unmasked && (p->kernel.delta || p->has_decay || p->has_places))
        return ls_error(LS_INVALID, "op linear_recurrence: unmasked with %s, expected values that are added, %s",
                        p->kernel.delta ? "a delta rule"
                        : p->has_decay  ? "a decay"
                                        : "places of documents",
                        "no decay and no documents");
    out->dtype = g->dtype;
    out->shape = *shape_of(g, node, LS_LINEAR_V);
    if (p->has_last) state_of(g, node, &out[LS_LINEAR_LAST].shape, &out[LS_LINEAR_LAST].dtype);
    return ls_ok();
}

static int outputs(const void *params) {
    return ((const ls_linear_recurrence_node *)params)->has_last ? LS_LINEAR_LAST + 1 : 1;
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const options o = options_of(params_of(node), LS_LINEAR_GRAD_OPTIONS);
    const int of[] = {LS_LINEAR_Q, LS_LINEAR_K, LS_LINEAR_V, o.decay >= 0 ? o.decay : o.beta, o.beta};
    for (int i = 0; i < node->n_out; i++) {
        out[i].dtype = ls_graph_tensor(g, node->in[of[i]])->dtype;
        out[i].shape = *shape_of(g, node, of[i]);
    }
    return ls_ok();
}

static int grad_outputs(const void *params) {
    const ls_linear_recurrence_node *p = params;
    return LS_LINEAR_D_OPTIONS + p->has_decay + p->has_beta;
}

/* --- dimensions --------------------------------------------------------------------------------------------------- */

/*
 * A cut is along the key heads, together with the value heads that use them. If all value heads use one key head, the
 * cut is along the value heads, and every rank has q and k.
 */
static void write_dims(const ls_graph *g, const ls_node *node, bool grad, char *text) {
    const bool one = shape_of(g, node, LS_LINEAR_K)->dim[2].size == 1;
    const char *keys = one ? "bsKD" : "bskD", *heads = one ? "g" : "(kg)";
    const options o = options_of(params_of(node), grad ? LS_LINEAR_GRAD_OPTIONS : LS_LINEAR_OPTIONS);
    const bool has_last = params_of(node)->has_last;
    const bool by_element = o.decay >= 0 && shape_of(g, node, o.decay)->ndim == 4;
    char *at = text, decay[16] = "", beta[16] = "";
    if (o.decay >= 0) sprintf(decay, ",bs%s%s", heads, by_element ? "D" : "");
    if (o.beta >= 0) sprintf(beta, ",bs%s", heads);
    at += sprintf(at, "%s,%s,bs%sE", keys, keys, heads);
    if (grad) at += sprintf(at, ",bs%sE", heads);
    at += sprintf(at, "%s%s%s>", decay, beta, o.places >= 0 ? ",bs" : "");
    if (grad)
        sprintf(at, "%s,%s,bs%sE%s%s", keys, keys, heads, decay, beta);
    else
        sprintf(at, "bs%sE%s%s%s", heads, has_last ? ",A" : "", has_last ? heads : "", has_last ? "DE" : "");
}

static void forward_dims(const ls_graph *g, const ls_node *node, char *text) { write_dims(g, node, false, text); }
static void grad_dims(const ls_graph *g, const ls_node *node, char *text) { write_dims(g, node, true, text); }

/* --- work --------------------------------------------------------------------------------------------------------- */

double ls_linear_recurrence_flops(const ls_linear_recurrence_params *p, double D, double E) {
    const double state = 2 * D * E, scores = SHARED * D, values = SHARED * E;
    return p->unmasked ? state : 2 * state + scores + values + (p->delta ? state + scores + values : 0);
}

static double forward_flops(const ls_view *in, const ls_view *out, const void *params) {
    const double E = (double)out->size[3];
    return (double)ls_view_elements(out) / E * ls_linear_recurrence_flops(params, (double)in[LS_LINEAR_K].size[3], E);
}

static double grad_flops(const ls_view *in, const ls_view *out, const void *params) {
    return (void)out, 3 * forward_flops(in, &in[LS_LINEAR_V], params);
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

static void recurrence_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_linear_recurrence_node *p = params_of(node);
    ls_tensor in[LS_NODE_INPUTS];
    for (int i = 0; i < LS_LINEAR_OPTIONS; i++) in[i] = node->in[i];
    in[LS_LINEAR_GRAD_DO] = ls_gradient_out(d, 0);
    for (int i = LS_LINEAR_OPTIONS; i < node->n_in; i++) in[i + 1] = node->in[i];
    const int forward = ls_graph_tensor(g, node->out[0])->producer;
    const ls_tensor first = ls_graph_add(g, &ls_op_linear_recurrence_grad, p, sizeof *p, in, node->n_in + 1, forward);
    for (int i = 0; i < grad_outputs(p); i++)
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, ls_graph_output(g, first, i));
}

/* --- generation --------------------------------------------------------------------------------------------------- */

/* G: 1 for given tokens and 0 for others; as beta if the values are only added. */
static ls_tensor given(ls_next *n, const ls_shape *values) {
    static const ls_map_step step[] = {{LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 0, 1, 0, 0}};
    ls_graph *g = ls_next_graph(n);
    const ls_tensor behind = ls_prefill_behind(n, 3);
    const ls_tensor is = ls_map(g, &behind, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = 1});
    const ls_shape shape = {3, {values->dim[0], values->dim[1], values->dim[2]}};
    return shape.dim[2].size == 1 ? is : ls_broadcast_to(g, is, 1U << 2, &shape, g->accumulator);
}

/* With no decay and a beta of 0, the tokens after the given ones do not change the state. */
static ls_tensor recurrence_prefill(ls_next *n, const ls_node *node, ls_tensor *state) {
    ls_graph *g = ls_next_graph(n);
    ls_linear_recurrence_node params = *params_of(node);
    const options o = options_of(&params, LS_LINEAR_OPTIONS);
    ls_tensor in[LS_NODE_INPUTS];
    int n_in = LS_LINEAR_OPTIONS;
    for (int i = 0; i < LS_LINEAR_OPTIONS; i++) in[i] = ls_next_tensor(n, node->in[i]);
    if (o.decay >= 0) in[n_in++] = ls_prefill_given(n, ls_next_tensor(n, node->in[o.decay]));
    in[n_in++] = o.beta >= 0 ? ls_prefill_given(n, ls_next_tensor(n, node->in[o.beta]))
                             : given(n, &ls_graph_tensor(g, in[LS_LINEAR_V])->shape);
    if (o.places >= 0) in[n_in++] = ls_next_tensor(n, node->in[o.places]);
    params.has_beta = params.has_last = true;
    const ls_tensor first = ls_graph_add(g, node->op, &params, sizeof params, in, n_in, -1);
    *state = ls_prefill_kept(g, ls_graph_output(g, first, LS_LINEAR_LAST), g->accumulator);
    return first;
}

static ls_tensor recurrence_next(ls_next *n, const ls_node *node) {
    ls_linear_recurrence_node params = *params_of(node);
    const int given = LS_LINEAR_OPTIONS + params.has_decay + params.has_beta;
    ls_tensor in[LS_NODE_INPUTS] = {[LS_LINEAR_NEXT_STATE] = ls_next_state(n)};
    for (int i = 0; i < given; i++) in[LS_LINEAR_NEXT_INPUTS + i] = ls_next_tensor(n, node->in[i]);
    params.has_places = false;
    return ls_graph_add(ls_next_graph(n), &ls_op_linear_recurrence_next, &params, sizeof params, in,
                        LS_LINEAR_NEXT_INPUTS + given, -1);
}

static ls_status next_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const int of[] = {LS_LINEAR_NEXT_INPUTS + LS_LINEAR_V, LS_LINEAR_NEXT_STATE};
    for (int o = 0; o < 2; o++) {
        out[o].dtype = ls_graph_tensor(g, node->in[of[o]])->dtype;
        out[o].shape = *shape_of(g, node, of[o]);
    }
    return ls_ok();
}

static void next_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_linear_recurrence_node *p = params_of(node);
    const int first = LS_LINEAR_NEXT_INPUTS;
    const bool one = shape_of(g, node, first + LS_LINEAR_K)->dim[2].size == 1;
    const bool by_element = p->has_decay && shape_of(g, node, first + LS_LINEAR_OPTIONS)->ndim == 4;
    const char *keys = one ? "ABKD" : "ABkD", *heads = one ? "g" : "(kg)";
    text += sprintf(text, "A%sDE,%s,%s,AB%sE", heads, keys, keys, heads);
    if (p->has_decay) text += sprintf(text, ",AB%s%s", heads, by_element ? "D" : "");
    if (p->has_beta) text += sprintf(text, ",AB%s", heads);
    sprintf(text, ">AB%sE,A%sDE", heads, heads);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

const ls_op ls_op_linear_recurrence = {.name = "linear_recurrence",
                                       .reach = LS_REACH_PREFIX,
                                       .least_in = LS_LINEAR_OPTIONS,
                                       .most_in = LS_LINEAR_OPTIONS + 3,
                                       .n_out = LS_LINEAR_LAST + 1,
                                       .outputs = outputs,
                                       .shape = recurrence_shape,
                                       .gradient = recurrence_gradient,
                                       .dims_of = forward_dims,
                                       .flops = forward_flops,
                                       .next = recurrence_next,
                                       .prefill = recurrence_prefill};

/* For one token: its result, and the state behind it. */
const ls_op ls_op_linear_recurrence_next = {.name = "linear_recurrence_next",
                                            .reach = LS_REACH_ALL,
                                            .least_in = LS_LINEAR_NEXT_INPUTS + LS_LINEAR_OPTIONS,
                                            .most_in = LS_LINEAR_NEXT_INPUTS + LS_LINEAR_OPTIONS + 2,
                                            .n_out = 2,
                                            .in_place = {0, 1 + LS_LINEAR_NEXT_STATE},
                                            .shape = next_shape,
                                            .dims_of = next_dims};

const ls_op ls_op_linear_recurrence_unmasked = {.name = "linear_recurrence_unmasked",
                                                .reach = LS_REACH_ALL,
                                                .least_in = LS_LINEAR_OPTIONS,
                                                .most_in = LS_LINEAR_OPTIONS + 3,
                                                .n_out = 1,
                                                .shape = recurrence_shape,
                                                .gradient = recurrence_gradient,
                                                .dims_of = forward_dims,
                                                .flops = forward_flops};

const ls_op ls_op_linear_recurrence_grad = {.name = "linear_recurrence_grad",
                                            .reach = LS_REACH_ALL,
                                            .least_in = LS_LINEAR_GRAD_OPTIONS,
                                            .most_in = LS_LINEAR_GRAD_OPTIONS + 3,
                                            .n_out = LS_LINEAR_D_OPTIONS + 2,
                                            .outputs = grad_outputs,
                                            .shape = grad_shape,
                                            .dims_of = grad_dims,
                                            .flops = grad_flops};

ls_tensor ls_linear_recurrence(ls_graph *g, ls_tensor q, ls_tensor k, ls_tensor v, const ls_linear_state *rule) {
    if (rule == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op linear_recurrence: its rule is NULL"));
    const ls_linear_recurrence_node params = {.kernel = {.delta = rule->delta, .unmasked = rule->unmasked},
                                              .has_decay = rule->decay.id != 0,
                                              .has_beta = rule->beta.id != 0,
                                              .has_places = rule->places.id != 0};
    const ls_tensor given[] = {rule->decay, rule->beta, rule->places};
    ls_tensor in[LS_NODE_INPUTS] = {q, k, v};
    int n = LS_LINEAR_OPTIONS;
    for (size_t i = 0; i < LS_COUNT(given); i++)
        if (given[i].id != 0) in[n++] = given[i];
    return ls_graph_add(g, rule->unmasked ? &ls_op_linear_recurrence_unmasked : &ls_op_linear_recurrence, &params,
                        sizeof params, in, n, -1);
}
