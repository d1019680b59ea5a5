/*
 * Turns a model's graph into one that continues a sequence. The result has two parts: the nodes that compute what must
 * be kept of all tokens, such as keys and values, for all given tokens at once (the prefill); then all nodes for a
 * single new token. An op's row says what the op keeps, and what takes its place in the second part (for attention:
 * attention over a cache, to which the new token's key and value are added). An op without such a rule is repeated, and
 * must work token by token. An op with a state keeps only the state behind the given tokens.
 */
#include "graph/graph_impl.h"

#include <string.h>

struct ls_next {
    const ls_graph *from;
    ls_graph *to;
    bool one;              /* the part for the new token is being built; otherwise the prefill */
    ls_tensor *whole;      /* by tensor of `from`: its copy in the prefill; LS_NO_TENSOR: none */
    ls_tensor *map;        /* by tensor of `from`: its copy in the part that is being built */
    ls_tensor place;       /* the input with the new token's position */
    ls_tensor behind;      /* the input LS_NEXT_BEHIND; LS_NO_TENSOR: not needed so far */
    ls_tensor *spans;      /* by index in out->mask: the input with its spans */
    ls_tensor *state;      /* by node of `from`: its state; LS_NO_TENSOR: it has none */
    int node;              /* the node of `from` whose rule is running */
    const bool *continued; /* by node of `from`: whether the part for the new token has the node */
    ls_decoding *out;
};

static bool has_factor(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    return ls_shape_has_factor(s, LS_FACTOR_BATCH) || ls_shape_has_factor(s, LS_FACTOR_SEQUENCE);
}

/* --- what rules ask ----------------------------------------------------------------------------------------------- */

ls_graph *ls_next_graph(ls_next *n) { return n->to; }

ls_tensor ls_next_tensor(const ls_next *n, ls_tensor t) { return n->map[t.id]; }

ls_tensor ls_next_cache(ls_next *n, ls_tensor t) {
    const ls_tensor cache = n->whole[t.id];
    for (int i = 0; i < n->out->n_kept; i++)
        if (n->out->kept[i].id == cache.id) return cache;
    return n->out->kept[n->out->n_kept++] = cache;
}

ls_shape ls_next_shape(const ls_next *n, ls_tensor t) {
    ls_shape one = ls_graph_tensor(n->from, t)->shape;
    for (int d = 0; d < one.ndim; d++)
        if (one.dim[d].factor != LS_FACTOR_NONE) one.dim[d] = (ls_dim){1, LS_FACTOR_NONE};
    return one;
}

ls_tensor ls_next_state(const ls_next *n) { return n->state[n->node]; }

ls_tensor ls_next_place(const ls_next *n) { return n->place; }

/* It has the shape of the first input of tokens. */
ls_tensor ls_next_behind(ls_next *n) {
    const ls_graph *from = n->from;
    for (int t = 1; t < from->n_tensors && n->behind.id == 0; t++) {
        const ls_tensor_info *info = &from->tensors[t];
        if (info->role == LS_ROLE_INPUT && info->shape.ndim == 2 && has_factor(from, ls_graph_at(from, t)))
            n->behind = ls_graph_leaf(n->to, LS_ROLE_INPUT, LS_NEXT_BEHIND, LS_I32, &info->shape);
    }
    LS_ASSERT(n->behind.id != 0);
    return n->behind;
}

/* Nodes with equal masks share one input. */
ls_tensor ls_next_spans(ls_next *n, const ls_mask *mask) {
    ls_decoding *out = n->out;
    int m = 0;
    while (m < out->n_masks && !ls_mask_equal(&out->mask[m], mask)) m++;
    if (m < out->n_masks) return n->spans[m];
    const ls_shape shape = {3, {{1, LS_FACTOR_NONE}, {1, LS_FACTOR_NONE}, {2 * ls_mask_width(mask), LS_FACTOR_NONE}}};
    const char *name = ls_arena_printf(n->to->arena, LS_NEXT "spans.%d", m);
    out->mask[m] = *mask;
    out->n_masks++;
    return n->spans[m] = ls_graph_leaf(n->to, LS_ROLE_INPUT, name, LS_I32, &shape);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void copy_name(const ls_next *n, ls_tensor clone, ls_tensor original) {
    (void)ls_named(n->to, clone, n->one ? LS_NEXT "%s" : "%s", ls_graph_tensor(n->from, original)->name);
}

static ls_tensor clone_leaf(ls_next *n, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(n->from, t);
    if (info->role == LS_ROLE_PARAMETER && n->whole[t.id].id != 0) return n->whole[t.id];
    if (!n->one || !has_factor(n->from, t)) return ls_graph_leaf_like(n->to, info);
    const ls_shape shape = ls_next_shape(n, t);
    const char *name = ls_arena_printf(n->to->arena, LS_NEXT "%s", info->name);
    return ls_graph_leaf(n->to, info->role, name, info->dtype, &shape);
}

/* Whether no tensor of the node has tokens. */
static bool is_whole(const ls_graph *g, const ls_node *node) {
    bool whole = true;
    for (int i = 0; i < node->n_in; i++) whole &= !has_factor(g, node->in[i]);
    for (int o = 0; o < node->n_out; o++) whole &= !has_factor(g, node->out[o]);
    return whole;
}

static ls_status refuse(const ls_graph *g, const ls_node *node) {
    return ls_error(LS_UNSUPPORTED,
                    "op %s (\"%s\") needs %s and has no rule for one token more: a model with it cannot "
                    "continue a sequence token by token",
                    node->op->name, ls_graph_tensor(g, node->out[0])->name, ls_reach_name(node->op->reach));
}

static void keep_state(ls_next *n, ls_tensor state) {
    const ls_node *node = &n->from->nodes[n->node];
    n->state[n->node] = ls_named(n->to, state, "state of %s", ls_graph_tensor(n->from, node->out[0])->name);
    n->out->kept[n->out->n_kept++] = n->state[n->node];
}

static ls_tensor prefill(ls_next *n, const ls_node *node) {
    ls_tensor state = LS_NO_TENSOR;
    const ls_tensor first = node->op->prefill(n, node, &state);
    keep_state(n, state);
    return first;
}

static void clone_node(ls_next *n, const ls_node *node) {
    ls_tensor in[LS_NODE_INPUTS] = {{0}}, first;
    for (int i = 0; i < node->n_in; i++) {
        ls_tensor *mapped = &n->map[node->in[i].id];
        if (mapped->id == 0 && ls_graph_tensor(n->from, node->in[i])->producer < 0)
            *mapped = clone_leaf(n, node->in[i]);
        in[i] = *mapped;
    }
    const bool by_rule =
        n->one ? node->op->next != NULL : node->op->prefill != NULL && n->continued[node - n->from->nodes];
    if (n->one && !by_rule && node->op->reach != LS_REACH_OWN && !is_whole(n->from, node))
        ls_graph_fail(n->to, refuse(n->from, node));
    if (by_rule && n->one)
        first = node->op->next(n, node);
    else if (by_rule)
        first = prefill(n, node);
    else
        first = ls_graph_add(n->to, node->op, node->params, node->params_bytes, in, node->n_in, -1);
    for (int o = 0; o < (by_rule ? 1 : node->n_out) && first.id != 0; o++) {
        n->map[node->out[o].id] = ls_graph_output(n->to, first, o);
        copy_name(n, n->map[node->out[o].id], node->out[o]);
    }
}

/* --- the two parts ------------------------------------------------------------------------------------------------ */

/*
 * Marks the nodes that the wanted tensors depend on in one of the two parts; the inputs of these nodes become wanted
 * too.
 */
static void find_needed(const ls_graph *g, bool one, bool *wanted, bool *needed) {
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const unsigned unread = one ? g->nodes[n].op->unread : 0;
        for (int o = 0; o < g->nodes[n].n_out; o++) needed[n] |= wanted[g->nodes[n].out[o].id];
        for (int i = 0; i < g->nodes[n].n_in && needed[n]; i++)
            if ((unread >> i & 1) == 0) wanted[g->nodes[n].in[i].id] = true;
    }
}

static void clone_needed(ls_next *n, const bool *needed) {
    for (n->node = 0; n->node < n->from->n_nodes && n->to->status.code == LS_OK; n->node++)
        if (needed[n->node]) clone_node(n, &n->from->nodes[n->node]);
}

/* Marks the inputs that a node keeps for later tokens. */
static void find_caches(const ls_node *node, bool *kept) {
    for (int i = 0; i < node->n_in; i++)
        if ((node->op->cache >> i & 1) != 0) kept[node->in[i].id] = true;
}

/* The prefill: the tensors that are kept of all tokens, the nodes with states, and all nodes that these depend on. */
static void build_prefill(ls_next *n, const bool *needed, const bool *kept) {
    const ls_graph *from = n->from;
    bool *wanted = LS_NEW_ARRAY(n->to->arena, bool, from->n_tensors),
         *before = LS_NEW_ARRAY(n->to->arena, bool, from->n_nodes);
    for (int t = 1; t < from->n_tensors; t++) wanted[t] = kept[t];
    for (int i = 0; i < from->n_nodes; i++)
        if (needed[i] && from->nodes[i].op->prefill != NULL) wanted[from->nodes[i].out[0].id] = true;
    find_needed(from, false, wanted, before);
    clone_needed(n, before);
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
    ls_decoding result = {.kept = LS_NEW_ARRAY(arena, ls_tensor, from->n_tensors + from->n_nodes + 1),
                          .mask = LS_NEW_ARRAY(arena, ls_mask, from->n_nodes + 1)};
    bool *wanted = LS_NEW_ARRAY(arena, bool, from->n_tensors), *needed = LS_NEW_ARRAY(arena, bool, from->n_nodes);
    bool *kept = LS_NEW_ARRAY(arena, bool, from->n_tensors);
    ls_next next = {.from = from, .to = to, .whole = LS_NEW_ARRAY(arena, ls_tensor, from->n_tensors), .out = &result};
    next.spans = LS_NEW_ARRAY(arena, ls_tensor, from->n_nodes + 1);
    next.continued = needed;
    next.state = LS_NEW_ARRAY(arena, ls_tensor, from->n_nodes + 1);
    wanted[logits.id] = true;
    find_needed(from, true, wanted, needed);
    for (int n = 0; n < from->n_nodes; n++)
        if (needed[n]) find_caches(&from->nodes[n], kept);
    next.map = next.whole;
    build_prefill(&next, needed, kept);
    result.forward_nodes = to->n_nodes;
    const ls_shape one = {2, {{1, LS_FACTOR_NONE}, {1, LS_FACTOR_NONE}}};
    next.map = LS_NEW_ARRAY(arena, ls_tensor, from->n_tensors);
    next.one = true;
    next.place = ls_graph_leaf(to, LS_ROLE_INPUT, LS_NEXT_PLACE, LS_I32, &one);
    clone_needed(&next, needed);
    LS_TRY(ls_graph_status(to));
    result.logits = next.map[logits.id];
    result.kept[result.n_kept++] = result.logits;
    *out = result;
    return ls_ok();
}
