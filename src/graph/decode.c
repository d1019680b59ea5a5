/*
 * Turns a model's graph into one that continues a sequence. It has two parts: the nodes that compute keys and values, for all tokens
 * at once (the prefill), and then a copy of all nodes for a single new token. The attention of that copy reads the keys and values of
 * the prefill as a cache, and adds those of the new token to it. All ops of the model except attention must work token by token.
 */
#include "graph/graph_impl.h"

#include <string.h>

typedef struct cloning {
    const ls_graph *from;
    ls_graph *to;
    bool next;        /* the part for the new token is being built; otherwise the prefill */
    ls_tensor *whole; /* by tensor of `from`: its clone in the prefill; LS_NO_TENSOR: none */
    ls_tensor *map;   /* by tensor of `from`: its clone in the part that is being built */
    ls_tensor place;  /* the input with the new token's position */
    ls_tensor *spans; /* by mask of out->mask: the input with its spans */
    ls_decoding *out;
} cloning;

static bool has_factor(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    return ls_shape_has_factor(s, LS_FACTOR_BATCH) || ls_shape_has_factor(s, LS_FACTOR_SEQUENCE);
}

/* The shape for one token: batch and sequence have size 1 and are ordinary dimensions, so that nothing is cut. */
static ls_shape shape_of_next(const ls_shape *shape) {
    ls_shape one = *shape;
    for (int d = 0; d < one.ndim; d++)
        if (one.dim[d].factor != LS_FACTOR_NONE) one.dim[d] = (ls_dim){1, LS_FACTOR_NONE};
    return one;
}

/* --- nodes ------------------------------------------------------------------------------------------------------------------ */

static void copy_name(const cloning *c, ls_tensor clone, ls_tensor original) {
    (void)ls_named(c->to, clone, c->next ? LS_NEXT "%s" : "%s", ls_graph_tensor(c->from, original)->name);
}

static ls_tensor clone_leaf(cloning *c, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(c->from, t);
    if (info->role == LS_ROLE_PARAMETER && c->whole[t.id].id != 0) return c->whole[t.id];
    if (!c->next || !has_factor(c->from, t))
        return ls_graph_leaf(c->to, info->role, info->name, info->dtype, &info->shape);
    const ls_shape shape = shape_of_next(&info->shape);
    const char *name = ls_arena_printf(c->to->arena, LS_NEXT "%s", info->name);
    return ls_graph_leaf(c->to, info->role, name, info->dtype, &shape);
}

/* The input that holds what the new token sees under the mask. Layers with equal masks share one. */
static ls_tensor spans_of(cloning *c, const ls_mask *mask) {
    ls_decoding *out = c->out;
    int m = 0;
    while (m < out->n_masks && !ls_mask_equal(&out->mask[m], mask)) m++;
    if (m < out->n_masks) return c->spans[m];
    const ls_shape shape = {
        3, {{1, LS_FACTOR_NONE}, {1, LS_FACTOR_NONE}, {2 * ls_mask_width(mask), LS_FACTOR_NONE}}};
    const char *name = ls_arena_printf(c->to->arena, LS_NEXT "spans.%d", m);
    out->mask[m] = *mask;
    out->n_masks++;
    return c->spans[m] = ls_graph_leaf(c->to, LS_ROLE_INPUT, name, LS_I32, &shape);
}

static void keep_once(cloning *c, ls_tensor t) {
    for (int i = 0; i < c->out->n_kept; i++)
        if (c->out->kept[i].id == t.id) return;
    c->out->kept[c->out->n_kept++] = t;
}

static ls_tensor clone_attention(cloning *c, const ls_node *node) {
    const ls_attention_node *params = node->params;
    const ls_tensor keys = c->whole[node->in[1].id], values = c->whole[node->in[2].id];
    const ls_tensor in[] = {c->map[node->in[0].id],
                            c->map[node->in[1].id],
                            c->map[node->in[2].id],
                            keys,
                            values,
                            c->place,
                            spans_of(c, &params->mask),
                            c->map[node->in[LS_ATTENTION_SINK].id]};
    keep_once(c, keys);
    keep_once(c, values);
    const int n = node->n_in > LS_ATTENTION_SINK ? LS_CACHED_SINK + 1 : LS_CACHED_SINK;
    return ls_graph_add(c->to, &ls_op_attention_cached, params, sizeof *params, in, n, -1);
}

static ls_tensor clone_reshape(cloning *c, const ls_node *node) {
    const ls_shape shape = shape_of_next(&ls_graph_tensor(c->from, node->out[0])->shape);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < shape.ndim; d++) size[d] = shape.dim[d].size;
    return ls_reshape(c->to, c->map[node->in[0].id], shape.ndim, size);
}

/* Whether the node computes a token's results from that token and from tensors without batch and sequence; attention counts as such. */
static bool is_by_token(const ls_graph *g, const ls_node *node) {
    bool whole = true;
    for (int i = 0; i < node->n_in; i++) whole &= !has_factor(g, node->in[i]);
    for (int o = 0; o < node->n_out; o++) whole &= !has_factor(g, node->out[o]);
    return whole || node->op->by_rows || node->op == &ls_op_attention;
}

static void clone_node(cloning *c, const ls_node *node) {
    ls_tensor in[LS_NODE_INPUTS] = {{0}}, first;
    for (int i = 0; i < node->n_in; i++) {
        ls_tensor *mapped = &c->map[node->in[i].id];
        if (mapped->id == 0 && ls_graph_tensor(c->from, node->in[i])->producer < 0)
            *mapped = clone_leaf(c, node->in[i]);
        in[i] = *mapped;
    }
    if (c->next && !is_by_token(c->from, node))
        ls_graph_fail(
            c->to, ls_error(LS_UNSUPPORTED,
                            "op %s (\"%s\") mixes tokens: a model with it cannot continue a sequence token "
                            "by token",
                            node->op->name, ls_graph_tensor(c->from, node->out[0])->name));
    const bool attends = c->next && node->op == &ls_op_attention;
    if (attends)
        first = clone_attention(c, node);
    else if (c->next && node->op == &ls_op_reshape)
        first = clone_reshape(c, node);
    else
        first = ls_graph_add(c->to, node->op, node->params, node->params_bytes, in, node->n_in, -1);
    for (int o = 0; o < (attends ? 1 : node->n_out) && first.id != 0; o++) {
        c->map[node->out[o].id] = ls_graph_output(c->to, first, o);
        copy_name(c, c->map[node->out[o].id], node->out[o]);
    }
}

/* --- the two parts ------------------------------------------------------------------------------------------------------------ */

/* Marks the nodes that the wanted tensors depend on; their inputs become wanted too. */
static void find_needed(const ls_graph *g, bool *wanted, bool *needed) {
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        for (int o = 0; o < g->nodes[n].n_out; o++) needed[n] |= wanted[g->nodes[n].out[o].id];
        for (int i = 0; i < g->nodes[n].n_in && needed[n]; i++) wanted[g->nodes[n].in[i].id] = true;
    }
}

static void clone_needed(cloning *c, const bool *needed) {
    for (int n = 0; n < c->from->n_nodes && c->to->status.code == LS_OK; n++)
        if (needed[n]) clone_node(c, &c->from->nodes[n]);
}

static ls_status check_batch(const ls_graph *g) {
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_shape *s = &g->tensors[t].shape;
        for (int d = 0; d < s->ndim; d++)
            if (s->dim[d].factor == LS_FACTOR_BATCH && s->dim[d].size != 1)
                return ls_error(LS_INVALID, "\"%s\" holds %lld sequences, expected 1 for generation",
                                g->tensors[t].name, (long long)s->dim[d].size);
    }
    return ls_ok();
}

ls_status ls_graph_decode(const ls_graph *from, ls_tensor logits, ls_graph *to, ls_decoding *out) {
    LS_TRY(ls_graph_status(from));
    LS_TRY(check_batch(from));
    ls_arena *arena = to->arena;
    ls_decoding result = {.kept = LS_NEW_ARRAY(arena, ls_tensor, 2 * from->n_nodes + 1),
                          .mask = LS_NEW_ARRAY(arena, ls_mask, from->n_nodes + 1)};
    bool *wanted = LS_NEW_ARRAY(arena, bool, from->n_tensors),
         *needed = LS_NEW_ARRAY(arena, bool, from->n_nodes);
    bool *kept = LS_NEW_ARRAY(arena, bool, from->n_tensors),
         *before = LS_NEW_ARRAY(arena, bool, from->n_nodes);
    cloning c = {
        .from = from, .to = to, .whole = LS_NEW_ARRAY(arena, ls_tensor, from->n_tensors), .out = &result};
    c.spans = LS_NEW_ARRAY(arena, ls_tensor, from->n_nodes + 1);
    wanted[logits.id] = true;
    find_needed(from, wanted, needed);
    for (int n = 0; n < from->n_nodes; n++)
        if (needed[n] && from->nodes[n].op == &ls_op_attention)
            kept[from->nodes[n].in[1].id] = kept[from->nodes[n].in[2].id] = true;
    find_needed(from, kept, before);
    c.map = c.whole;
    clone_needed(&c, before);
    result.forward_nodes = to->n_nodes;
    const ls_shape one = {2, {{1, LS_FACTOR_NONE}, {1, LS_FACTOR_NONE}}};
    c.map = LS_NEW_ARRAY(arena, ls_tensor, from->n_tensors);
    c.next = true;
    c.place = ls_graph_leaf(to, LS_ROLE_INPUT, LS_NEXT_PLACE, LS_I32, &one);
    clone_needed(&c, needed);
    LS_TRY(ls_graph_status(to));
    result.logits = c.map[logits.id];
    result.kept[result.n_kept++] = result.logits;
    *out = result;
    return ls_ok();
}
