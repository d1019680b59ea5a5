/*
 * The sequence pass: a placement of each tensor along each mesh axis, by each op's own rule. Partial sums run on
 * through linear ops and are marked to be summed over the ranks where an op needs the whole. What no rule covers is an
 * error.
 */
#include "compile/compile_impl.h"

static ls_factor factor_of(ls_axis axis) { return axis == LS_AXIS_DP ? LS_FACTOR_BATCH : LS_FACTOR_SEQUENCE; }

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

static ls_status shard_node(const ls_graph *g, int n, ls_axis axis, ls_sharding *s) {
    const ls_node *node = &g->nodes[n];
    ls_shard_query q = {.graph = g, .node = node, .axis = axis, .factor = factor_of(axis)};
    bool *resolve = &s->resolve[n * LS_NODE_INPUTS];
    ls_shard_answer answer = {0};
    if (node->op->shard == NULL)
        return ls_error(LS_UNSUPPORTED, "op %s (\"%s\") has no sharding rule", node->op->name,
                        ls_graph_tensor(g, node->out[0])->name);
    ls_status status = ls_error(LS_UNSUPPORTED, "not linear");
    if (node->op->linear) status = ask(&q, s->placement[axis], true, resolve, &answer);
    if (status.code != LS_OK) status = ask(&q, s->placement[axis], false, resolve, &answer);
    LS_TRY(status);
    for (int i = 0; i < node->n_out; i++) s->placement[axis][node->out[i].id] = answer.out[i];
    s->first_axis[axis][n] = answer.first_only;
    s->first_only[n] |= answer.first_only;
    return ls_ok();
}

ls_status ls_shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_sharding *out) {
    ls_sharding s = {.first_only = LS_NEW_ARRAY(arena, bool, n_nodes + 1),
                     .resolve = LS_NEW_ARRAY(arena, bool, n_nodes *LS_NODE_INPUTS + 1)};
    for (int a = 0; a < LS_AXES; a++) {
        s.placement[a] = LS_NEW_ARRAY(arena, ls_placement, g->n_tensors);
        s.first_axis[a] = LS_NEW_ARRAY(arena, bool, n_nodes + 1);
        if (mesh->size[a] == 1) continue; /* one rank: everything is whole */
        for (int t = 1; t < g->n_tensors; t++) {
            if (g->tensors[t].role != LS_ROLE_VALUE)
                s.placement[a][t] = leaf_placement(&g->tensors[t], factor_of((ls_axis)a));
        }
        for (int n = 0; n < n_nodes; n++) LS_TRY(shard_node(g, n, (ls_axis)a, &s));
    }
    *out = s;
    return ls_ok();
}
