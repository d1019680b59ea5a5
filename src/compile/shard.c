/*
 * A placement of each tensor along each axis of the mesh. Of the options in an op's row the pass takes the one for
 * which fewest bytes are redistributed. Where a tensor is something else than an option asks, a node that redistributes
 * it is put between (redistribution.c). What no option covers is an error.
 */
#include "compile/compile_impl.h"

ls_ask ls_ask_of_input(const ls_op *op, const ls_placement_option *option, int i) {
    return ls_op_adds_to(op, i) ? option->sum : option->in[i];
}

ls_ask ls_ask_of_output(const ls_op *op, const ls_placement_option *option, int o) {
    const int from = op->in_place[o] - 1;
    return from >= 0 && ls_op_adds_to(op, from) ? option->sum : option->out[o];
}

/* Of a tensor along an axis: a dimension, along which it is cut, or one of these. */
enum {
    WHOLE = -1,
    PARTIAL = -2,
    OPEN = -3 /* its node reads nothing and makes it as its first reader asks */
};
typedef int placement;

/* A node along an axis, whose factor is cut; placements of all tensors along it. */
typedef struct question {
    const ls_graph *graph;
    const ls_node *node;
    const ls_axis *axis;
    const placement *at;
} question;

static const ls_tensor_info *info_of(const question *q, ls_tensor t) { return ls_graph_tensor(q->graph, t); }

static int dim_of(const question *q, ls_tensor t) {
    return ls_shape_dim_of(&info_of(q, t)->shape, ls_axis_factor(q->axis));
}

static placement answer_of(const question *q, ls_ask ask, ls_tensor t) {
    if (ask == LS_ASK_PARTIAL) return PARTIAL;
    return ask == LS_ASK_CUT || ask == LS_ASK_ROWS ? dim_of(q, t) : WHOLE;
}

static bool is_for(const question *q, const ls_placement_option *option) {
    bool fits = true;
    for (int i = 0; i < q->node->n_in; i++)
        fits &= ls_ask_of_input(q->node->op, option, i) != LS_ASK_CUT || dim_of(q, q->node->in[i]) >= 0;
    for (int o = 0; o < q->node->n_out; o++)
        fits &= ls_ask_of_output(q->node->op, option, o) != LS_ASK_CUT || dim_of(q, q->node->out[o]) >= 0;
    return fits;
}

static placement wanted_input(const question *q, const ls_placement_option *option, int i) {
    return answer_of(q, ls_ask_of_input(q->node->op, option, i), q->node->in[i]);
}

/* --- redistributing ----------------------------------------------------------------------------------------------- */

typedef enum state { IS_WHOLE, IS_CUT, IS_PARTIAL, STATES } state;

static state state_of(placement p) { return p >= 0 ? IS_CUT : p == PARTIAL ? IS_PARTIAL : IS_WHOLE; }

/*
 * How often a tensor's bytes travel when one placement becomes another, about; -1: nothing makes it so. Of what is
 * whole each rank takes its part. An axis cuts a tensor along one dimension only.
 */
static const double travels[STATES][STATES] = {
    [IS_WHOLE] = {[IS_WHOLE] = 0, [IS_CUT] = 0, [IS_PARTIAL] = -1},
    [IS_CUT] = {[IS_WHOLE] = 1, [IS_CUT] = 0, [IS_PARTIAL] = -1},
    [IS_PARTIAL] = {[IS_WHOLE] = 2, [IS_CUT] = 1, [IS_PARTIAL] = 0},
};

/* Whether the node that makes the open tensor can make it so. */
static bool can_make(const question *q, ls_tensor t, placement wanted) {
    const question maker = {.graph = q->graph, .node = ls_graph_producer(q->graph, t), .axis = q->axis, .at = q->at};
    const int o = info_of(q, t)->output;
    const ls_placement_option *const *options = maker.node->op->options;
    for (; *options != NULL; options++)
        if (is_for(&maker, *options) && answer_of(&maker, (*options)->out[o], t) == wanted) return true;
    return false;
}

static double times_of(const question *q, int i, placement wanted) {
    const ls_tensor t = q->node->in[i];
    const placement is = q->at[t.id];
    if (is == wanted) return 0;
    if (is == OPEN) return can_make(q, t, wanted) ? 0 : -1;
    if (ls_op_adds_to(q->node->op, i)) return -1; /* the sum itself is added to, not a copy */
    return travels[state_of(is)][state_of(wanted)];
}

/* The bytes that are redistributed for an option; -1: input *misfit cannot become what it asks. */
static double cost_of(const question *q, const ls_placement_option *option, int *misfit) {
    double cost = 0;
    for (int i = 0; i < q->node->n_in; i++) {
        const ls_tensor_info *info = info_of(q, q->node->in[i]);
        const double times = times_of(q, i, wanted_input(q, option, i));
        *misfit = i;
        if (times < 0) return -1;
        cost += times * (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
    }
    return cost;
}

/* --- choosing ----------------------------------------------------------------------------------------------------- */

/* No option will do: the input at which the one that goes furthest ends, and what that asks of it. */
static ls_status refuse(const question *q, const ls_placement_option *nearest, int i) {
    static const char *const names[STATES] = {"whole", "cut", "a partial sum"};
    const ls_tensor t = q->node->in[i];
    return ls_error(LS_UNSUPPORTED, "op %s: input %d \"%s\" is %s along %s, expected %s", q->node->op->name, i,
                    info_of(q, t)->name, names[state_of(q->at[t.id])], q->axis->name,
                    names[state_of(wanted_input(q, nearest, i))]);
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
                           info_of(q, q->node->out[0])->name, q->axis->name);
    return best;
}

/* --- along one axis ----------------------------------------------------------------------------------------------- */

/* What holds along axis `a` of the mesh. */
typedef struct along {
    const ls_graph *graph;
    const ls_mesh *mesh;
    int a;
    placement *at; /* of all tensors */
    ls_sharding *out;
} along;

static void note(ls_placements *spread, placement p, int a) {
    if (p >= 0) spread->cut[p] |= ls_axis_bit(a);
    if (p == PARTIAL) spread->partial |= ls_axis_bit(a);
}

static placement leaf_placement(const along *l, const ls_tensor_info *t) {
    if (t->role == LS_ROLE_ACCUMULATOR) return PARTIAL;
    const int dim = ls_shape_dim_of(&t->shape, ls_axis_factor(l->mesh->along[l->a].axis));
    return dim >= 0 ? dim : WHOLE;
}

static ls_status shard_node(along *l, int n) {
    const ls_node *node = &l->graph->nodes[n];
    const question q = {.graph = l->graph, .node = node, .axis = l->mesh->along[l->a].axis, .at = l->at};
    for (int o = 0; o < node->n_out && node->n_in == 0; o++) l->at[node->out[o].id] = OPEN;
    if (node->n_in == 0) return ls_ok();
    ls_status status = ls_ok();
    const ls_placement_option *option = choose_option(&q, &status);
    if (option == NULL) return status;
    for (int i = 0; i < node->n_in; i++) {
        const placement wanted = wanted_input(&q, option, i);
        if (l->at[node->in[i].id] == OPEN) l->at[node->in[i].id] = wanted;
        note(&l->out->wanted[n * LS_NODE_INPUTS + i], wanted, l->a);
    }
    for (int o = 0; o < node->n_out; o++)
        l->at[node->out[o].id] = answer_of(&q, ls_ask_of_output(q.node->op, option, o), node->out[o]);
    if (option->first_only) l->out->first_only[n] |= ls_axis_bit(l->a);
    return ls_ok();
}

static ls_status shard_along(along *l, int n_nodes) {
    const ls_graph *g = l->graph;
    for (int t = 1; t < g->n_tensors; t++)
        l->at[t] = g->tensors[t].role == LS_ROLE_VALUE ? WHOLE : leaf_placement(l, &g->tensors[t]);
    for (int n = 0; n < n_nodes; n++) LS_TRY(shard_node(l, n));
    for (int t = 1; t < g->n_tensors; t++) note(&l->out->tensor[t], l->at[t], l->a);
    return ls_ok();
}

ls_status ls_shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_sharding *out) {
    ls_sharding s = {.tensor = LS_NEW_ARRAY(arena, ls_placements, g->n_tensors),
                     .wanted = LS_NEW_ARRAY(arena, ls_placements, n_nodes * LS_NODE_INPUTS + 1),
                     .first_only = LS_NEW_ARRAY(arena, ls_axes, n_nodes + 1)};
    along l = {.graph = g, .mesh = mesh, .at = LS_NEW_ARRAY(arena, placement, g->n_tensors), .out = &s};
    for (l.a = 0; l.a < mesh->n; l.a++) {
        if (mesh->along[l.a].size > 1) LS_TRY(shard_along(&l, n_nodes));
    }
    *out = s;
    return ls_ok();
}
