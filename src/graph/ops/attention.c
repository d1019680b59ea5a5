/*
 * attention: softmax(scale·q·kᵀ)·v under a mask, for grouped query heads, as one op. Heads of v, and so of the result,
 * may have another size than those of q and k. An optional sink is an additional logit per query head that takes part
 * in the softmax but has no value. Queries need all keys and values, so the compiler lowers it by a strategy
 * (compile/attention/). The gradient op names its forward node, because the strategy keeps data for the backward pass.
 */
#include "graph/graph_impl.h"

#include <math.h>

static ls_status check_heads(const ls_graph *g, const ls_node *node, int i) {
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
    const ls_shape *s = &t->shape;
    if (t->dtype != g->dtype || s->ndim != 4 || s->dim[0].factor != LS_FACTOR_BATCH ||
        s->dim[1].factor != LS_FACTOR_SEQUENCE || s->dim[2].factor != LS_FACTOR_NONE ||
        s->dim[3].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, i, "%s[B,S,H,D] with the batch and the sequence first",
                                 ls_dtype_name(g->dtype));
    return ls_ok();
}

static ls_status check_sink(const ls_graph *g, const ls_node *node, int64_t Hq) {
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[LS_ATTENTION_SINK]);
    if (t->dtype != g->dtype || t->shape.ndim != 1 || t->shape.dim[0].factor != LS_FACTOR_NONE ||
        t->shape.dim[0].size != Hq)
        return ls_op_input_error(g, node, LS_ATTENTION_SINK, "a logit for each query head, %s[%lld]",
                                 ls_dtype_name(g->dtype), (long long)Hq);
    return ls_ok();
}

static ls_status attention_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_attention_node *params = node->params;
    for (int i = 0; i < 3; i++) LS_TRY(check_heads(g, node, i));
    const ls_shape *q = &ls_graph_tensor(g, node->in[0])->shape, *k = &ls_graph_tensor(g, node->in[1])->shape,
                   *v = &ls_graph_tensor(g, node->in[2])->shape;
    for (int i = 0; i < LS_MAX_DIMS; i++) {
        if (i != 2 && k->dim[i].size != q->dim[i].size)
            return ls_op_input_error(g, node, 1, "the batch, sequence and head size of \"%s\"",
                                     ls_graph_tensor(g, node->in[0])->name);
        if (i != 3 && v->dim[i].size != k->dim[i].size)
            return ls_op_input_error(g, node, 2, "the batch, sequence and heads of the keys");
    }
    if (q->dim[2].size % k->dim[2].size != 0)
        return ls_op_input_error(g, node, 0, "a number of query heads that is a multiple of the %lld KV heads",
                                 (long long)k->dim[2].size);
    const double scale = params->kernel.scale, softcap = params->kernel.softcap;
    if (!(scale > 0) || !isfinite(scale))
        return ls_error(LS_INVALID, "op attention: scale is %g, expected a positive number", scale);
    if (!(softcap >= 0) || !isfinite(softcap))
        return ls_error(LS_INVALID, "op attention: softcap is %g, expected a positive number, or 0 for none", softcap);
    if (node->n_in > LS_ATTENTION_SINK) LS_TRY(check_sink(g, node, q->dim[2].size));
    LS_TRY(ls_mask_check(&params->mask, q->dim[1].size));
    out[0].dtype = g->dtype;
    out[0].shape = *q;
    out[0].shape.dim[3] = v->dim[3];
    out[1].dtype = g->accumulator;
    out[1].shape = (ls_shape){3, {q->dim[0], q->dim[2], q->dim[1]}};
    return ls_ok();
}

/* For all pairs of a query and a key: 2 operations per element of a query's head, and 2 per element of its result. */
static double dense_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)(ls_view_elements(&in[0]) + ls_view_elements(&out[0])) * (double)in[1].size[1];
}

static void attention_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    ls_tensor in[LS_NODE_INPUTS] = {[LS_ATTENTION_GRAD_Q] = node->in[LS_ATTENTION_Q],
                                    [LS_ATTENTION_GRAD_K] = node->in[LS_ATTENTION_K],
                                    [LS_ATTENTION_GRAD_V] = node->in[LS_ATTENTION_V],
                                    [LS_ATTENTION_GRAD_O] = node->out[LS_ATTENTION_O],
                                    [LS_ATTENTION_GRAD_LSE] = node->out[LS_ATTENTION_LSE],
                                    [LS_ATTENTION_GRAD_DO] = ls_gradient_out(d, LS_ATTENTION_O)};
    const int forward = ls_graph_tensor(g, node->out[0])->producer;
    const bool sink = node->n_in > LS_ATTENTION_SINK && ls_gradient_wanted(d, LS_ATTENTION_SINK);
    const ls_op *op = sink ? &ls_op_attention_sink_grad : &ls_op_attention_grad;
    if (sink) {
        in[LS_ATTENTION_GRAD_SINK] = node->in[LS_ATTENTION_SINK];
        in[LS_ATTENTION_GRAD_SINK_SUM] = ls_gradient_sum(d, LS_ATTENTION_SINK);
    }
    const ls_tensor dq = ls_graph_add(g, op, node->params, sizeof(ls_attention_node), in, op->least_in, forward);
    for (int i = 0; i < 3; i++) {
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, ls_graph_output(g, dq, i));
    }
    if (sink) ls_gradient_summed(d, LS_ATTENTION_SINK, ls_graph_output(g, dq, LS_ATTENTION_DSINK));
}

static ls_status grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    for (int i = 0; i < 3; i++) {
        out[i].dtype = g->dtype;
        out[i].shape = ls_graph_tensor(g, node->in[i])->shape;
    }
    return ls_ok();
}

static ls_status sink_grad_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    LS_TRY(grad_shape(g, node, out));
    return ls_rule_sum_shape(g, node, &out[3]);
}

static const ls_mask *attention_mask(const ls_node *node) { return &((const ls_attention_node *)node->params)->mask; }

/* The new token attends to a cache: the keys and values of the earlier tokens, to which it adds its own. */
static ls_tensor attention_next(ls_next *n, const ls_node *node) {
    const ls_tensor k = node->in[LS_ATTENTION_K], v = node->in[LS_ATTENTION_V];
    const bool sink = node->n_in > LS_ATTENTION_SINK;
    ls_tensor in[] = {[LS_CACHED_Q] = ls_next_tensor(n, node->in[LS_ATTENTION_Q]),
                      [LS_CACHED_K] = ls_next_tensor(n, k),
                      [LS_CACHED_V] = ls_next_tensor(n, v),
                      [LS_CACHED_KEYS] = ls_next_cache(n, k),
                      [LS_CACHED_VALUES] = ls_next_cache(n, v),
                      [LS_CACHED_PLACE] = ls_next_place(n),
                      [LS_CACHED_SPANS] = ls_next_spans(n, attention_mask(node)),
                      [LS_CACHED_SINK] = LS_NO_TENSOR};
    if (sink) in[LS_CACHED_SINK] = ls_next_tensor(n, node->in[LS_ATTENTION_SINK]);
    return ls_graph_add(ls_next_graph(n), &ls_op_attention_cached, node->params, node->params_bytes, in,
                        sink ? LS_CACHED_SINK + 1 : LS_CACHED_SINK, -1);
}

const ls_op ls_op_attention = {.name = "attention",
                               .reach = LS_REACH_ALL,
                               .least_in = 3,
                               .most_in = 4,
                               .n_out = 2,
                               .shape = attention_shape,
                               .gradient = attention_gradient,
                               .flops = dense_flops,
                               .dims = "bs(kg)D,bskD,bskE,(kg)>bs(kg)E,b(kg)s",
                               .mask = attention_mask,
                               .earlier = 1U << LS_ATTENTION_K | 1U << LS_ATTENTION_V,
                               .cache = 1U << LS_ATTENTION_K | 1U << LS_ATTENTION_V,
                               .next = attention_next};

const ls_op ls_op_attention_grad = {.name = "attention_grad",
                                    .reach = LS_REACH_ALL,
                                    .least_in = 6,
                                    .most_in = 6,
                                    .n_out = 3,
                                    .earlier = 1U << LS_ATTENTION_GRAD_K | 1U << LS_ATTENTION_GRAD_V,
                                    .shape = grad_shape,
                                    .dims = "bs(kg)D,bskD,bskE,bs(kg)E,b(kg)s,bs(kg)E>bs(kg)D,bskD,bskE"};

/*
 * The same with the gradient of the sink, a sum over all queries: a rank adds the terms of its own queries and heads.
 */
const ls_op ls_op_attention_sink_grad = {
    .name = "attention_sink_grad",
    .kernel = LS_KERNEL_ATTENTION_SINK_GRAD,
    .reach = LS_REACH_ALL,
    .least_in = 8,
    .most_in = 8,
    .n_out = 4,
    .earlier = 1U << LS_ATTENTION_GRAD_K | 1U << LS_ATTENTION_GRAD_V,
    .in_place = {0, 0, 0, 1 + LS_ATTENTION_GRAD_SINK_SUM},
    .shape = sink_grad_shape,
    .dims = "bs(kg)D,bskD,bskE,bs(kg)E,b(kg)s,bs(kg)E,(kg),(kg)>bs(kg)D,bskD,bskE,(kg)"};

ls_tensor ls_attention(ls_graph *g, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask, double scale) {
    return ls_attention_capped(g, q, k, v, mask, scale, 0);
}

ls_tensor ls_attention_capped(ls_graph *g, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask, double scale,
                              double softcap) {
    return ls_attention_with_sink(g, q, k, v, LS_NO_TENSOR, mask, scale, softcap);
}

ls_tensor ls_attention_with_sink(ls_graph *g, ls_tensor q, ls_tensor k, ls_tensor v, ls_tensor sink,
                                 const ls_mask *mask, double scale, double softcap) {
    if (mask == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op attention: its mask is NULL"));
    const ls_attention_node params = {.kernel = {.scale = scale, .softcap = softcap}, .mask = *mask};
    const ls_tensor in[] = {q, k, v, sink};
    return ls_graph_add(g, &ls_op_attention, &params, sizeof params, in, sink.id != 0 ? 4 : 3, -1);
}

ls_tensor ls_attention_lse(ls_graph *g, ls_tensor attention) {
    if (!ls_graph_usable(g, attention, "ls_attention_lse")) return LS_NO_TENSOR;
    const ls_node *node = ls_graph_producer(g, attention);
    if (node != NULL && node->op == &ls_op_attention && node->out[0].id == attention.id) return node->out[1];
    return ls_graph_fail(g, ls_error(LS_INVALID, "ls_attention_lse: \"%s\" is no result of ls_attention",
                                     ls_graph_tensor(g, attention)->name));
}
