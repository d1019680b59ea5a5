/*
 * Reverse-mode differentiation (Griewank, Walther: Evaluating Derivatives, ch. 3): walks the nodes backwards; each op's
 * rule adds the nodes that compute the gradients of its inputs. Nothing here depends on ranks.
 */
#include "graph/graph_impl.h"

#include <string.h>

struct ls_gradient {
    ls_graph *graph;
    int n_tensors;       /* tensors of the forward graph */
    ls_tensor *gradient; /* by forward tensor: its gradient so far */
    ls_tensor *sum;      /* by parameter: its accumulator after the nodes that were added so far */
    bool *active;        /* by forward tensor: it is wanted, or depends on a wanted tensor */
    /*
     * By forward tensor: its elements are those of trained parameters in other places. Its gradient has type G, like
     * the sums of the parameters, to which the gradient is added later. So a sum over tokens is not rounded, and ranks
     * need not add up their terms first.
     */
    bool *moved;
    const ls_node *node; /* the node whose rule is running */
};

ls_graph *ls_gradient_graph(ls_gradient *d) { return d->graph; }

ls_tensor ls_gradient_out(const ls_gradient *d, int i) { return d->gradient[d->node->out[i].id]; }

bool ls_gradient_wanted(const ls_gradient *d, int i) { return d->active[d->node->in[i].id]; }

static ls_tensor accumulator_of(ls_gradient *d, ls_tensor parameter) {
    if (d->sum[parameter.id].id == 0) {
        ls_graph *g = d->graph;
        const ls_shape shape = ls_graph_tensor(g, parameter)->shape;
        const char *name = ls_arena_printf(g->arena, "grad %s", ls_graph_tensor(g, parameter)->name);
        const ls_tensor sum = ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, name, g->accumulator, &shape);
        if (sum.id != 0) g->tensors[sum.id].of = parameter;
        d->sum[parameter.id] = sum;
    }
    return d->sum[parameter.id];
}

static bool is_trained(const ls_gradient *d, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(d->graph, t);
    return info->role == LS_ROLE_PARAMETER && !info->frozen;
}

/* Names a gradient after the tensor that it belongs to; a tensor of the forward graph keeps its name. */
static void name_after(ls_gradient *d, ls_tensor grad, ls_tensor target) {
    if (grad.id >= d->n_tensors && strncmp(ls_graph_tensor(d->graph, grad)->name, "d ", 2) != 0)
        (void)ls_named(d->graph, grad, "d %s", ls_graph_tensor(d->graph, target)->name);
}

static void add_to(ls_gradient *d, ls_tensor target, ls_tensor grad) {
    if (is_trained(d, target)) {
        d->sum[target.id] = ls_accumulate(d->graph, grad, accumulator_of(d, target));
        return;
    }
    ls_tensor *sum = &d->gradient[target.id];
    const ls_dtype G = d->graph->accumulator;
    if (d->moved[target.id] && ls_graph_tensor(d->graph, grad)->dtype != G) grad = ls_cast(d->graph, grad, G);
    *sum = sum->id == 0 ? grad : ls_add(d->graph, *sum, grad);
    name_after(d, *sum, target);
}

void ls_gradient_add(ls_gradient *d, int i, ls_tensor grad) { add_to(d, d->node->in[i], grad); }

ls_tensor ls_gradient_sum(ls_gradient *d, int i) {
    const ls_tensor target = d->node->in[i];
    if (is_trained(d, target)) return accumulator_of(d, target);
    const ls_shape shape = ls_graph_tensor(d->graph, target)->shape;
    return ls_zeros(d->graph, &shape);
}

void ls_gradient_summed(ls_gradient *d, int i, ls_tensor sum) {
    const ls_tensor target = d->node->in[i];
    if (is_trained(d, target)) {
        d->sum[target.id] = sum;
    } else if (d->active[target.id]) {
        const ls_dtype T = ls_graph_tensor(d->graph, target)->dtype;
        add_to(d, target, d->moved[target.id] || T == d->graph->accumulator ? sum : ls_cast(d->graph, sum, T));
    }
}

static void mark_active(ls_gradient *d, const ls_derivative *what, int n_nodes) {
    for (int t = 1; t < d->n_tensors; t++) d->active[t] = is_trained(d, ls_graph_at(d->graph, t));
    for (int i = 0; i < what->n_wanted; i++) d->active[what->wanted[i].id] = true;
    for (int n = 0; n < n_nodes; n++) {
        const ls_node *node = &d->graph->nodes[n];
        bool any = false;
        for (int i = 0; i < node->n_in; i++) any |= d->active[node->in[i].id];
        for (int i = 0; i < node->n_out; i++)
            d->active[node->out[i].id] |= any && !ls_graph_tensor(d->graph, node->out[i])->constant;
    }
}

/* Whether each input that has a gradient is a trained parameter, or consists of elements of one in other places. */
static bool reads_parameters(const ls_gradient *d, const ls_node *node) {
    bool all = d->active[node->out[0].id];
    for (int i = 0; i < node->n_in; i++)
        all &= !d->active[node->in[i].id] || is_trained(d, node->in[i]) || d->moved[node->in[i].id];
    return all;
}

static bool is_wanted(const ls_derivative *what, ls_tensor t) {
    bool is = false;
    for (int i = 0; i < what->n_wanted; i++) is |= what->wanted[i].id == t.id;
    return is;
}

/*
 * Sets d->moved, for all results of a node alike: their gradients have one type. It is false for wanted tensors,
 * because the gradient of such a tensor has the tensor's type.
 */
static void mark_moved(ls_gradient *d, const ls_derivative *what, int n_nodes) {
    for (int n = 0; n < n_nodes; n++) {
        const ls_node *node = &d->graph->nodes[n];
        bool moved = node->op->moves && reads_parameters(d, node);
        for (int o = 0; o < node->n_out; o++) moved &= !is_wanted(what, node->out[o]);
        for (int o = 0; o < node->n_out; o++) d->moved[node->out[o].id] = moved;
    }
}

/* Runs the rule of the node if the roots depend on it and it depends on a wanted tensor. */
static ls_status differentiate_node(ls_gradient *d, const ls_node *node) {
    if (!d->active[node->out[0].id]) return ls_ok();
    bool used = d->gradient[node->out[0].id].id != 0;
    for (int i = 1; i < node->n_out; i++) {
        if (d->gradient[node->out[i].id].id == 0) continue;
        used = true;
        if (!node->op->of_all)
            return ls_error(LS_UNSUPPORTED,
                            "op %s has no gradient rule for its output %d (\"%s\"), which the loss uses",
                            node->op->name, i, ls_graph_tensor(d->graph, node->out[i])->name);
    }
    if (!used) return ls_ok();
    if (node->op->gradient == NULL)
        return ls_error(LS_UNSUPPORTED, "op %s has no gradient rule, and the loss depends on its output \"%s\"",
                        node->op->name, ls_graph_tensor(d->graph, node->out[0])->name);
    d->node = node;
    node->op->gradient(d, node);
    return d->graph->status;
}

ls_status ls_differentiate(ls_graph *g, ls_derivative *what) {
    LS_TRY(g->status);
    const int n_nodes = g->n_nodes;
    if (g->forward_nodes == 0) g->forward_nodes = n_nodes;
    ls_gradient d = {.graph = g, .n_tensors = g->n_tensors};
    d.gradient = LS_NEW_ARRAY(g->arena, ls_tensor, d.n_tensors);
    d.sum = LS_NEW_ARRAY(g->arena, ls_tensor, d.n_tensors);
    d.active = LS_NEW_ARRAY(g->arena, bool, d.n_tensors);
    d.moved = LS_NEW_ARRAY(g->arena, bool, d.n_tensors);
    mark_active(&d, what, n_nodes);
    mark_moved(&d, what, n_nodes);
    for (int i = 0; i < what->n_roots; i++) add_to(&d, what->root[i], what->seed[i]);
    for (int n = n_nodes - 1; n >= 0; n--) {
        const ls_node node = g->nodes[n]; /* a copy: the rule adds nodes, which may move the array */
        const ls_status status = differentiate_node(&d, &node);
        if (status.code != LS_OK) ls_graph_fail(g, status);
        LS_TRY(g->status);
    }
    for (int i = 0; i < what->n_wanted; i++) what->gradient[i] = d.gradient[what->wanted[i].id];
    return ls_ok();
}

/* --- the loss of a training step ---------------------------------------------------------------------------------- */

static const ls_shape one_number = {1, {{1, LS_FACTOR_NONE}}};

/* The gradient does not pass through this sum, so each micro-batch is differentiated alone. */
ls_status ls_graph_accumulate_loss(ls_graph *g, ls_tensor loss) {
    const ls_tensor total = ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, LS_BIND_LOSS, g->accumulator, &one_number);
    (void)ls_named(g, ls_accumulate(g, loss, total), "loss total");
    return ls_graph_status(g);
}

ls_status ls_graph_differentiate_loss(ls_graph *g, ls_tensor loss) {
    const ls_tensor scale = ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, g->accumulator, &one_number);
    ls_derivative derivative = {.n_roots = 1, .root = {loss}, .seed = {scale}};
    return ls_differentiate(g, &derivative);
}
