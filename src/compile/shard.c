/*
 * The sequence pass: a placement of each tensor along each mesh axis, by each op's own rule. Partial sums run on
 * through linear ops and are marked to be summed over the ranks where an op needs the whole. What no rule covers is an
 * error.
 */
#include "compile/compile_impl.h"

static ls_placement leaf_placement(const ls_tensor_info *t, ls_factor factor) {
    if (t->role == LS_ROLE_ACCUMULATOR) return LS_PARTIAL;
    return ls_shape_has_factor(&t->shape, factor) ? LS_CUT : LS_WHOLE;
}

static ls_status ask(ls_shard_query *q, const ls_placement *placements, bool allow_partial, bool *resolve,
                     ls_shard_answer *answer) {
    ls_placement in[LS_NODE_INPUTS];
    bool resolved[LS_NODE_INPUTS] = {false};
    for (int i = 0; i < q->node->n_in; i++) {
        in[i] = placements[q->node->in[i].id];
        /* The sum that an op adds into stays partial: that is what it is for. */
        const bool is_sum = q->node->op->kernel != LS_KERNEL_NONE && ls_op_writes_input(q->node->op, i);
        if (in[i] == LS_PARTIAL && !allow_partial && !is_sum) {
            in[i] = LS_WHOLE;
            resolved[i] = true;
        }
    }
    q->in = in;
    *answer = (ls_shard_answer){0};
    LS_TRY(q->node->op->shard(q, answer));
    for (int i = 0; i < q->node->n_in; i++) resolve[i] |= resolved[i];
    return ls_ok();
}

/* placement: of all tensors, along the axis. first_only: as in ls_shard_answer. */
static ls_status shard_node(const ls_graph *g, int n, const ls_axis *axis, ls_placement *placement, ls_sharding *s,
                            bool *first_only) {
    const ls_node *node = &g->nodes[n];
    ls_shard_query q = {.graph = g, .node = node, .axis = axis, .factor = ls_axis_factor(axis)};
    bool *resolve = &s->resolve[n * LS_NODE_INPUTS];
    ls_shard_answer answer = {0};
    if (node->op->shard == NULL)
        return ls_error(LS_UNSUPPORTED, "op %s (\"%s\") has no sharding rule", node->op->name,
                        ls_graph_tensor(g, node->out[0])->name);
    ls_status status = ls_error(LS_UNSUPPORTED, "not linear");
    if (node->op->linear) status = ask(&q, placement, true, resolve, &answer);
    if (status.code != LS_OK) status = ask(&q, placement, false, resolve, &answer);
    LS_TRY(status);
    for (int i = 0; i < node->n_out; i++) placement[node->out[i].id] = answer.out[i];
    *first_only = answer.first_only;
    return ls_ok();
}

/* Adds what holds along axis `a` of the mesh, which has more than one rank. */
static ls_status shard_along(const ls_graph *g, int n_nodes, const ls_mesh *mesh, int a, ls_placement *placement,
                             ls_sharding *s) {
    const ls_axis *axis = mesh->along[a].axis;
    for (int t = 1; t < g->n_tensors; t++) {
        placement[t] =
            g->tensors[t].role == LS_ROLE_VALUE ? LS_WHOLE : leaf_placement(&g->tensors[t], ls_axis_factor(axis));
    }
    for (int n = 0; n < n_nodes; n++) {
        bool first_only = false;
        LS_TRY(shard_node(g, n, axis, placement, s, &first_only));
        if (first_only) s->first_only[n] |= ls_axis_bit(a);
    }
    for (int t = 1; t < g->n_tensors; t++) {
        if (placement[t] == LS_CUT) s->cut[t] |= ls_axis_bit(a);
        if (placement[t] == LS_PARTIAL) s->partial[t] |= ls_axis_bit(a);
    }
    return ls_ok();
}

ls_status ls_shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_sharding *out) {
    ls_sharding s = {.cut = LS_NEW_ARRAY(arena, ls_axes, g->n_tensors),
                     .partial = LS_NEW_ARRAY(arena, ls_axes, g->n_tensors),
                     .first_only = LS_NEW_ARRAY(arena, ls_axes, n_nodes + 1),
                     .resolve = LS_NEW_ARRAY(arena, bool, n_nodes *LS_NODE_INPUTS + 1)};
    ls_placement *placement = LS_NEW_ARRAY(arena, ls_placement, g->n_tensors); /* along one axis */
    for (int a = 0; a < mesh->n; a++) {
        if (mesh->along[a].size > 1) LS_TRY(shard_along(g, n_nodes, mesh, a, placement, &s));
    }
    *out = s;
    return ls_ok();
}
