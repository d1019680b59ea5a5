/*
 * map: expressions of single elements (longspan/map.h), with inputs broadcast as in NumPy. Its gradient is also a map
 * (map_gradient.c), whose results are summed over the broadcast dimensions.
 */
#include "graph/ops/map_impl.h"

#include <stdio.h>
#include <string.h>

static int results_of(const void *params) { return ((const ls_map_params *)params)->n_results; }

/* The input's dimension that corresponds to dimension d of the results; negative: the input lacks it. */
static int aligned(const ls_shape *in, int ndim, int d) { return d - (ndim - in->ndim); }

static ls_status widen(const ls_graph *g, const ls_node *node, int i, ls_shape *out) {
    const ls_shape *in = &ls_graph_tensor(g, node->in[i])->shape;
    for (int back = 1; back <= in->ndim; back++) {
        ls_dim *is = &out->dim[out->ndim - back];
        const ls_dim by = in->dim[in->ndim - back];
        if (is->size == 1 && is->factor == LS_FACTOR_NONE) *is = by;
        const bool repeated = by.size == 1 && by.factor == LS_FACTOR_NONE;
        if (!repeated && (by.size != is->size || by.factor != is->factor)) {
            char shape[80];
            ls_shape_print(out, shape, sizeof shape);
            return ls_op_input_error(g, node, i, "a shape that broadcasts with %s: its dimension %d is %lld, not %lld",
                                     shape, in->ndim - back, (long long)by.size, (long long)is->size);
        }
    }
    return ls_ok();
}

/* Whether the shape has a dimension of the batch, or of the sequence. */
static bool has(const ls_shape *shape, ls_factor factor) { return ls_shape_dim_of(shape, factor) >= 0; }

static ls_status map_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_map_params *params = node->params;
    LS_TRY(ls_map_check(params));
    ls_shape shape = {0};
    for (int i = 0; i < node->n_in; i++) {
        const ls_tensor_info *x = ls_graph_tensor(g, node->in[i]);
        if (x->dtype != g->dtype && x->dtype != g->accumulator && x->dtype != LS_I32)
            return ls_op_input_error(g, node, i, "elements of type %s, %s or i32", ls_dtype_name(g->dtype),
                                     ls_dtype_name(g->accumulator));
        shape.ndim = x->shape.ndim > shape.ndim ? x->shape.ndim : shape.ndim;
    }
    for (int d = 0; d < shape.ndim; d++) shape.dim[d].size = 1;
    for (int i = 0; i < node->n_in; i++) LS_TRY(widen(g, node, i, &shape));
    for (int i = 0; i < node->n_in; i++) {
        const ls_shape *in = &ls_graph_tensor(g, node->in[i])->shape;
        if (has(in, LS_FACTOR_BATCH) != has(in, LS_FACTOR_SEQUENCE))
            return ls_op_input_error(g, node, i, "both the batch and the sequence, or neither");
    }
    for (int o = 0; o < node->n_out; o++) {
        out[o].dtype = params->wide >> o & 1 ? g->accumulator : g->dtype;
        out[o].shape = shape;
    }
    return ls_ok();
}

/* Writes "abc,Oc>abc": a letter for each dimension of the results, and O for a dimension that is broadcast. */
static void map_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_shape *all = &ls_graph_tensor(g, node->out[0])->shape;
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_shape *shape = &ls_graph_tensor(g, ls_node_tensor(node, i))->shape;
        if (i > 0) *text++ = i == node->n_in ? '>' : ',';
        for (int d = 0; d < all->ndim; d++) {
            const int of = aligned(shape, all->ndim, d);
            if (of >= 0) *text++ = shape->dim[of].size == all->dim[d].size ? (char)('a' + d) : 'O';
        }
    }
    *text = 0;
}

static bool expression(const ls_graph *g, const ls_node *node, ls_map_params *out) {
    (void)g;
    memcpy(out, node->params, node->params_bytes);
    return true;
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in;
    return (double)((const ls_map_params *)params)->n_steps * (double)ls_view_elements(out);
}

/*
 * Sums the gradient of input i, which has the shape of the results, over the broadcast dimensions. It sums within each
 * token first; what remains is a sum over tokens, for which canonical sums have an order.
 */
static void add_gradient(ls_gradient *d, const ls_node *node, int i, ls_tensor gradient) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[i]);
    const ls_shape all = ls_graph_tensor(g, node->out[0])->shape, in = x->shape;
    const ls_dtype dtype = x->dtype;
    unsigned repeated = 0; /* bits of the input's dimensions that are broadcast */
    for (int k = 0; k < in.ndim; k++)
        if (in.dim[k].size != all.dim[all.ndim - in.ndim + k].size) repeated |= 1U << k;
    /* bits of the results' dimensions that the input lacks */
    const unsigned lacking = (1U << (all.ndim - in.ndim)) - 1;
    if (lacking != 0 && repeated != 0) gradient = ls_reduce_sum(g, gradient, repeated << (all.ndim - in.ndim), true);
    if (lacking != 0 || repeated != 0) {
        const unsigned over = lacking != 0 ? lacking : repeated;
        ls_gradient_summed(d, i, ls_reduce_into(g, gradient, over, ls_gradient_sum(d, i)));
        return;
    }
    if (ls_graph_tensor(g, gradient)->dtype != dtype) gradient = ls_cast(g, gradient, dtype);
    ls_gradient_add(d, i, gradient);
}

static void map_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    ls_map_derivative what = {.of = node->params};
    ls_tensor in[LS_MAP_TENSORS + LS_MAP_RESULTS];
    for (int i = 0; i < node->n_in; i++) {
        in[i] = node->in[i];
        if (ls_graph_tensor(g, in[i])->dtype == LS_I32 || !ls_gradient_wanted(d, i)) continue;
        what.wanted |= 1U << i;
        if (ls_graph_tensor(g, in[i])->dtype == g->accumulator) what.wide |= 1U << i;
    }
    for (int o = 0; o < node->n_out; o++) {
        in[node->n_in + o] = ls_gradient_out(d, o);
        if (in[node->n_in + o].id != 0) what.given |= 1U << o;
    }
    ls_map_gradient map;
    const ls_status status = ls_map_differentiate(&what, &map);
    if (status.code != LS_OK) {
        ls_graph_fail(g, status);
        return;
    }
    ls_tensor used[LS_MAP_TENSORS], first = LS_NO_TENSOR;
    for (int i = 0; i < map.params.n_in; i++) used[i] = in[map.input[i]];
    if (map.params.n_results > 0)
        first = ls_graph_add(g, &ls_op_map, &map.params, ls_map_bytes(&map.params), used, map.params.n_in, -1);
    for (int i = 0; i < node->n_in; i++) {
        if (map.gradient[i] == LS_MAP_NONE) continue;
        const int is = map.gradient[i];
        add_gradient(d, node, i, is >= LS_MAP_INPUT ? in[is - LS_MAP_INPUT] : ls_graph_output(g, first, is));
    }
}

const ls_op ls_op_map = {.name = "map",
                         .reach = LS_REACH_OWN,
                         .kernel = LS_KERNEL_MAP,
                         .least_in = 1,
                         .most_in = LS_MAP_TENSORS - 1,
                         .n_out = LS_MAP_RESULTS,
                         .outputs = results_of,
                         .shape = map_shape,
                         .gradient = map_gradient,
                         .of_all = true,
                         .dims_of = map_dims,
                         .flops = flops,
                         .expression = expression,
                         .fuses = true};

void ls_node_become_map(ls_node *node, const ls_map_params *params, ls_arena *arena) {
    node->op = &ls_op_map;
    node->params_bytes = ls_map_bytes(params);
    node->params = ls_arena_copy(arena, params, node->params_bytes);
}

static ls_status read_expression(int n_in, const ls_expression *e, ls_map_params *out) {
    if (e == NULL || (e->step == NULL && e->n_steps > 0))
        return ls_error(LS_INVALID, "op map: its %s NULL", e == NULL ? "expression is" : "steps are");
    if (e->n_steps < 0 || e->n_steps > LS_MAP_STEPS)
        return ls_error(LS_INVALID, "op map: %d steps, expected 0 to %d", e->n_steps, LS_MAP_STEPS);
    const int n_results = e->result != NULL ? e->n_results : 1;
    if (n_results < 1 || n_results > LS_MAP_RESULTS)
        return ls_error(LS_INVALID, "op map: %d results, expected 1 to %d", n_results, LS_MAP_RESULTS);
    *out = (ls_map_params){.n_in = n_in, .n_steps = e->n_steps, .n_results = n_results, .wide = e->wide};
    for (int i = 0; i < e->n_steps; i++) out->step[i] = e->step[i];
    for (int o = 0; o < n_results; o++) out->result[o] = e->result != NULL ? e->result[o] : n_in + e->n_steps - 1;
    return ls_map_check(out);
}

ls_tensor ls_map(ls_graph *g, const ls_tensor *in, int n_in, const ls_expression *e) {
    ls_map_params params;
    ls_status status = read_expression(n_in, e, &params);
    if (status.code == LS_OK && in == NULL) status = ls_error(LS_INVALID, "op map: its inputs are NULL");
    if (status.code != LS_OK) return ls_graph_fail(g, status);
    return ls_graph_add(g, &ls_op_map, &params, ls_map_bytes(&params), in, n_in, -1);
}

ls_tensor ls_map_result(ls_graph *g, ls_tensor map, int i) {
    if (!ls_graph_usable(g, map, "ls_map_result")) return LS_NO_TENSOR;
    const ls_tensor result = i >= 0 ? ls_graph_output(g, map, i) : LS_NO_TENSOR;
    return result.id != 0 ? result : ls_graph_fail(g, ls_error(LS_INVALID, "op map: there is no result %d", i));
}
