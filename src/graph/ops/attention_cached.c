/*
 * attention_cached: attention of one new token over a cache of keys and values, to which its own key and value are
 * added. The host writes the positions that the token sees to an input (spans), so that one program serves any number
 * of tokens and any mask. If the cache is cut along the sequence, each rank attends to its own part, and the compiler
 * merges the partial results (compile/attention/cached.c). Such nodes are made from attention nodes (attention.c).
 */
#include "graph/graph_impl.h"

static ls_status expect_shape(const ls_graph *g, const ls_node *node, int i, ls_dtype dtype, ls_shape expected) {
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
    bool fits = t->dtype == dtype && t->shape.ndim == expected.ndim;
    for (int d = 0; fits && d < expected.ndim; d++) fits = t->shape.dim[d].size == expected.dim[d].size;
    if (fits) return ls_ok();
    return ls_op_input_error(g, node, i, "%s[%lld,%lld,..], which follows from the other inputs", ls_dtype_name(dtype),
                             (long long)expected.dim[0].size, (long long)expected.dim[1].size);
}

static ls_shape shape_of(int ndim, const int64_t *size) {
    ls_shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++) shape.dim[d].size = size[d];
    return shape;
}

static ls_status cached_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_attention_node *params = node->params;
    const ls_tensor_info *q = ls_graph_tensor(g, node->in[LS_CACHED_Q]),
                         *keys = ls_graph_tensor(g, node->in[LS_CACHED_KEYS]),
                         *values = ls_graph_tensor(g, node->in[LS_CACHED_VALUES]);
    if (q->shape.ndim != 4 || q->dtype != g->dtype || q->shape.dim[0].size != 1 || q->shape.dim[1].size != 1)
        return ls_op_input_error(g, node, LS_CACHED_Q, "the queries of one token, %s[1,1,Hq,D]",
                                 ls_dtype_name(g->dtype));
    if (keys->shape.ndim != 4 || keys->dtype != g->dtype || keys->shape.dim[0].size != 1)
        return ls_op_input_error(g, node, LS_CACHED_KEYS, "a cache, %s[1,S,Hkv,D]", ls_dtype_name(g->dtype));
    const int64_t D = q->shape.dim[3].size, Hq = q->shape.dim[2].size, Hkv = keys->shape.dim[2].size;
    if (Hq % Hkv != 0 || keys->shape.dim[3].size != D)
        return ls_op_input_error(g, node, LS_CACHED_KEYS, "heads of size %lld, and a number of heads that divides %lld",
                                 (long long)D, (long long)Hq);
    const int64_t E = values->shape.dim[3].size, S = keys->shape.dim[1].size;
    const ls_shape key = shape_of(4, (int64_t[]){1, 1, Hkv, D}), value = shape_of(4, (int64_t[]){1, 1, Hkv, E}),
                   all = shape_of(4, (int64_t[]){1, S, Hkv, E}), one = shape_of(2, (int64_t[]){1, 1}),
                   spans = shape_of(3, (int64_t[]){1, 1, 2 * ls_mask_width(&params->mask)});
    LS_TRY(expect_shape(g, node, LS_CACHED_K, g->dtype, key));
    LS_TRY(expect_shape(g, node, LS_CACHED_V, g->dtype, value));
    LS_TRY(expect_shape(g, node, LS_CACHED_VALUES, g->dtype, all));
    LS_TRY(expect_shape(g, node, LS_CACHED_PLACE, LS_I32, one));
    LS_TRY(expect_shape(g, node, LS_CACHED_SPANS, LS_I32, spans));
    if (node->n_in > LS_CACHED_SINK) LS_TRY(expect_shape(g, node, LS_CACHED_SINK, g->dtype, shape_of(1, &Hq)));
    const ls_tensor_info *like[] = {q, keys, values};
    for (int i = 0; i < 3; i++) {
        out[i].dtype = g->dtype;
        out[i].shape = like[i]->shape;
    }
    out[0].shape.dim[3].size = E;
    return ls_ok();
}

/* Only the caches are cut along the sequence: every rank computes everything else. */
const ls_op ls_op_attention_cached = {.name = "attention_cached",
                                      .reach = LS_REACH_ALL,
                                      .least_in = LS_CACHED_SINK,
                                      .most_in = LS_CACHED_SINK + 1,
                                      .n_out = 3,
                                      .in_place = {0, 1 + LS_CACHED_KEYS, 1 + LS_CACHED_VALUES},
                                      .shape = cached_shape,
                                      .dims = "AB(kg)D,ABkD,ABkE,AskD,AskE,AB,ABW,(kg)>=AB(kg)E,AskD,AskE"};
