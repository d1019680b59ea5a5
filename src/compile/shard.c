/*
 * A placement of each tensor along each axis of the mesh. Of the options in an op's row the pass takes the one for
 * which fewest bytes are redistributed. Where an input is something else than the option asks, it is marked to be
 * redistributed: partial sums are summed over the ranks. What no option covers is an error.
 */
#include "compile/compile_impl.h"

static ls_placement leaf_placement(const ls_tensor_info *t, ls_factor factor) {
    if (t->role == LS_ROLE_ACCUMULATOR) return LS_PARTIAL;
    return ls_shape_has_factor(&t->shape, factor) ? LS_CUT : LS_WHOLE;
}

/*
 * How often a tensor's bytes travel when one placement becomes another, about; -1: no node redistributes it so. A
 * partial sum becomes whole by an all-reduce.
 */
static const double travels[LS_PLACEMENTS][LS_PLACEMENTS] = {
    [LS_WHOLE] = {[LS_WHOLE] = 0, [LS_CUT] = -1, [LS_PARTIAL] = -1},
    [LS_CUT] = {[LS_WHOLE] = -1, [LS_CUT] = 0, [LS_PARTIAL] = -1},
    [LS_PARTIAL] = {[LS_WHOLE] = 2, [LS_CUT] = -1, [LS_PARTIAL] = 0},
};

/* A node along an axis, whose factor is cut; placements of all tensors along it. */
typedef struct question {
    const ls_graph *graph;
    const ls_node *node;
    const ls_axis *axis;
    const ls_placement *placement;
} question;

static bool has_factor(const question *q, ls_tensor t) {
    return ls_shape_has_factor(&ls_graph_tensor(q->graph, t)->shape, ls_axis_factor(q->axis));
}

static ls_placement answer_of(const question *q, ls_ask ask, ls_tensor t) {
    if (ask == LS_ASK_PARTIAL) return LS_PARTIAL;
    return ask == LS_ASK_CUT || (ask == LS_ASK_ROWS && has_factor(q, t)) ? LS_CUT : LS_WHOLE;
}

static ls_ask ask_of_input(const question *q, const ls_placement_option *option, int i) {
    return ls_op_adds_to(q->node->op, i) ? option->sum : option->in[i];
}

static ls_ask ask_of_output(const question *q, const ls_placement_option *option, int o) {
    const int from = q->node->op->in_place[o] - 1;
    return from >= 0 && ls_op_adds_to(q->node->op, from) ? option->sum : option->out[o];
}

static bool is_for(const question *q, const ls_placement_option *option) {
    bool fits = true;
    for (int i = 0; i < q->node->n_in; i++)
        fits &= ask_of_input(q, option, i) != LS_ASK_CUT || has_factor(q, q->node->in[i]);
    for (int o = 0; o < q->node->n_out; o++)
        fits &= ask_of_output(q, option, o) != LS_ASK_CUT || has_factor(q, q->node->out[o]);
    return fits;
}

static ls_placement wanted_input(const question *q, const ls_placement_option *option, int i) {
    return answer_of(q, ask_of_input(q, option, i), q->node->in[i]);
}

/* The bytes that are redistributed for an option; -1: input *misfit cannot become what it asks. */
static double cost_of(const question *q, const ls_placement_option *option, int *misfit) {
    double cost = 0;
    for (int i = 0; i < q->node->n_in; i++) {
        const ls_tensor_info *info = ls_graph_tensor(q->graph, q->node->in[i]);
        const double times = travels[q->placement[q->node->in[i].id]][wanted_input(q, option, i)];
        *misfit = i;
        if (times < 0) return -1;
        cost += times * (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
    }
    return cost;
}

/* No option will do: the input at which the one that goes furthest ends, and what that asks of it. */
static ls_status refuse(const question *q, const ls_placement_option *nearest, int i) {
    static const char *const names[] = {"whole", "cut", "a partial sum"};
    const ls_tensor t = q->node->in[i];
    return ls_error(LS_UNSUPPORTED, "op %s: input %d \"%s\" is %s along %s, expected %s", q->node->op->name, i,
                    ls_graph_tensor(q->graph, t)->name, names[q->placement[t.id]], q->axis->name,
                    names[wanted_input(q, nearest, i)]);
}

/* NULL, with an error in *status, if no option will do. */
static const ls_placement_option *choose_option(const question *q, ls_status *status) {
    const ls_op *op = q->node->op;
    const ls_placement_option *best = NULL, *nearest = NULL;
    double least = 0;
    int furthest = -1;
    for (int k = 0; op->options != NULL && op->options[k] != NULL; k++) {
        int misfit = 0;
        if (!is_for(q, op->options[k])) continue;
        const double cost = cost_of(q, op->options[k], &misfit);
        if (cost < 0 && misfit > furthest) {
            furthest = misfit;
            nearest = op->options[k];
        }
        if (cost < 0 || (best != NULL && cost >= least)) continue;
        best = op->options[k];
        least = cost;
    }
    if (best == NULL && nearest != NULL)
        *status = refuse(q, nearest, furthest);
    else if (best == NULL)
        *status = ls_error(LS_UNSUPPORTED, "op %s (\"%s\") has no option along %s", op->name,
                           ls_graph_tensor(q->graph, q->node->out[0])->name, q->axis->name);
    return best;
}

/* placement: of all tensors, along axis `a` of the mesh. */
static ls_status shard_node(const ls_graph *g, int n, const ls_mesh *mesh, int a, ls_placement *placement,
                            ls_sharding *s) {
    const ls_node *node = &g->nodes[n];
    const question q = {.graph = g, .node = node, .axis = mesh->along[a].axis, .placement = placement};
    ls_status status = ls_ok();
    const ls_placement_option *option = choose_option(&q, &status);
    if (option == NULL) return status;
    for (int i = 0; i < node->n_in; i++)
        s->resolve[n * LS_NODE_INPUTS + i] |= placement[node->in[i].id] != wanted_input(&q, option, i);
    for (int o = 0; o < node->n_out; o++)
        placement[node->out[o].id] = answer_of(&q, ask_of_output(&q, option, o), node->out[o]);
    if (option->first_only) s->first_only[n] |= ls_axis_bit(a);
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
    for (int n = 0; n < n_nodes; n++) LS_TRY(shard_node(g, n, mesh, a, placement, s));
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
