/*
 * Fusion: two neighbouring elementwise nodes become one map, so that the values between them stay in the kernel and are
 * not written to memory. The row of an op gives the expression of a node. One of the two must already be a map, so
 * graphs with named ops only stay as they are. The earlier node moves to the place of the later one, whose results then
 * include those of the earlier one that other nodes still read.
 *
 * The search is greedy: it tries to fuse each node with the nodes whose results it reads. The inputs of a node that
 * moves live longer: there must be no more such inputs than results that disappear, unless only elementwise nodes are
 * between the two.
 */
#include "compile/compile_impl.h"

typedef struct fusion {
    const ls_job *job;
    const ls_graph *g;
    ls_arena *arena;
    ls_node *node;   /* the nodes as fused so far */
    int *into;       /* by node: the node into which it has been fused; else itself */
    int *readers;    /* nodes that read a tensor; those of tensor t are begin[t] .. begin[t + 1] - 1 */
    int *begin;      /* by tensor, and one more entry */
    int *last_added; /* by tensor of which others are views: the last node that adds to its bytes; -1: none */
    int *others;     /* by node: the number of nodes before it that are not elementwise */
} fusion;

static int place_of(const fusion *f, int n) {
    while (f->into[n] != n) n = f->into[n];
    return n;
}

static void count_readers(fusion *f) {
    const ls_graph *g = f->g;
    f->begin = LS_NEW_ARRAY(f->arena, int, g->n_tensors + 1);
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++) f->begin[g->nodes[n].in[i].id + 1]++;
    for (int t = 0; t < g->n_tensors; t++) f->begin[t + 1] += f->begin[t];
    int *next = LS_NEW_ARRAY(f->arena, int, g->n_tensors + 1);
    f->readers = LS_NEW_ARRAY(f->arena, int, f->begin[g->n_tensors] + 1);
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const int t = g->nodes[n].in[i].id;
            f->readers[f->begin[t] + next[t]++] = n;
        }
}

static fusion begin_fusion(const ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    fusion f = {.job = job,
                .g = g,
                .arena = arena,
                .node = LS_NEW_ARRAY(arena, ls_node, g->n_nodes + 1),
                .into = LS_NEW_ARRAY(arena, int, g->n_nodes + 1),
                .last_added = LS_NEW_ARRAY(arena, int, g->n_tensors),
                .others = LS_NEW_ARRAY(arena, int, g->n_nodes + 1)};
    for (int t = 0; t < g->n_tensors; t++) f.last_added[t] = -1;
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        f.node[n] = *node;
        f.into[n] = n;
        f.others[n + 1] = f.others[n] + (node->op->expression == NULL);
        for (int i = 0; i < node->n_in; i++)
            if (ls_op_adds_to(node->op, i)) f.last_added[ls_graph_tensor(g, node->in[i])->storage.id] = n;
    }
    count_readers(&f);
    return f;
}

/* --- whether two nodes can become one ----------------------------------------------------------------------------- */

/* Whether every program that runs one of the two nodes runs both. */
static bool run_together(const ls_job *job, int p, int c) {
    for (int r = 0; r < job->programs.n; r++) {
        const ls_job_program *row = &job->programs.list[r];
        if ((p >= row->first_node && p < row->end_node) != (c >= row->first_node && c < row->end_node)) return false;
    }
    return true;
}

static bool is_fetched(const ls_job *job, ls_tensor t) {
    for (int i = 0; i < job->n_fetch; i++)
        if (job->fetch[i].id == t.id) return true;
    return false;
}

/* Whether a node at one of the places low .. high - 1 reads the tensor. */
static bool is_read(const fusion *f, ls_tensor t, int low, int high) {
    for (int i = f->begin[t.id]; i < f->begin[t.id + 1]; i++) {
        const int at = place_of(f, f->readers[i]);
        if (at >= low && at < high) return true;
    }
    return false;
}

static bool stays(const fusion *f, ls_tensor t, int after) {
    return is_read(f, t, after + 1, f->g->n_nodes) || is_fetched(f->job, t);
}

/* Whether node p can be computed at the place of node c. */
static bool may_move(const fusion *f, int p, int c) {
    const ls_graph *g = f->g;
    const ls_node *from = &f->node[p];
    const ls_shape *shape = &ls_graph_tensor(g, from->out[0])->shape;
    int longer = 0, gone = 0;
    if (!run_together(f->job, p, c) || !ls_shape_equal(shape, &ls_graph_tensor(g, f->node[c].out[0])->shape))
        return false;
    for (int o = 0; o < from->n_out; o++) {
        if (is_read(f, from->out[o], p + 1, c) || ls_graph_tensor(g, from->out[o])->boundary) return false;
        gone += !stays(f, from->out[o], c);
    }
    for (int i = 0; i < from->n_in; i++) {
        const ls_tensor_info *x = ls_graph_tensor(g, from->in[i]);
        if (f->last_added[x->storage.id] > p) return false;
        longer +=
            x->role == LS_ROLE_VALUE && ls_shape_equal(&x->shape, shape) && !is_read(f, from->in[i], c, g->n_nodes);
    }
    return longer <= gone || f->others[c] == f->others[p + 1];
}

/* --- the expression of both nodes --------------------------------------------------------------------------------- */

/* The index of the map's input that is the tensor; a new input if there is none yet; -1: the map has no room for it. */
static int input_of(ls_node *map, ls_tensor t) {
    for (int i = 0; i < map->n_in; i++)
        if (map->in[i].id == t.id) return i;
    if (map->n_in == LS_MAP_TENSORS - 1) return -1;
    map->in[map->n_in] = t;
    return map->n_in++;
}

/* One of the two expressions in the fused one: its inputs as inputs of the map, and the index of its first step. */
typedef struct part {
    int input[LS_NODE_INPUTS], n_in, first;
} part;

static int operand_of(const part *of, int operand) {
    return operand < of->n_in ? of->input[operand] : of->first + operand - of->n_in;
}

static void add_steps(ls_map_params *to, const ls_map_params *from, const part *of) {
    for (int k = 0; k < from->n_steps; k++) {
        ls_map_step step = from->step[k];
        const int operands = ls_map_operands(step.code);
        if (operands > 0) step.a = operand_of(of, step.a);
        if (operands > 1) step.b = operand_of(of, step.b);
        if (operands > 2) step.c = operand_of(of, step.c);
        to->step[to->n_steps++] = step;
    }
}

static bool add_result(ls_map_params *to, ls_node *map, int operand, bool wide, ls_tensor t) {
    if (map->n_out == LS_MAP_RESULTS) return false;
    to->result[map->n_out] = operand;
    to->wide |= (unsigned)wide << map->n_out;
    map->out[map->n_out++] = t;
    return true;
}

/*
 * Finds the tensors and the expression of a map that computes what both nodes do. false: it would have more steps or
 * tensors than a map may have.
 */
static bool fuse_expressions(const fusion *f, int p, int c, ls_node *map, ls_map_params *out) {
    const ls_node *from = &f->node[p], *to = &f->node[c];
    ls_map_params first, second;
    part of_first = {.n_in = from->n_in}, of_second = {.n_in = to->n_in};
    if (!from->op->expression(f->g, from, &first) || !to->op->expression(f->g, to, &second)) return false;
    if (first.n_steps + second.n_steps > LS_MAP_STEPS) return false;
    *map = (ls_node){.forward = to->forward};
    *out = (ls_map_params){0};
    for (int i = 0; i < from->n_in; i++)
        if ((of_first.input[i] = input_of(map, from->in[i])) < 0) return false;
    int made[LS_NODE_INPUTS]; /* by input of the second: 1 + the index of the first's result that it is; 0: none */
    for (int i = 0; i < to->n_in; i++) {
        made[i] = 0;
        for (int o = 0; o < from->n_out; o++)
            if (from->out[o].id == to->in[i].id) made[i] = 1 + o;
        if (made[i] == 0 && (of_second.input[i] = input_of(map, to->in[i])) < 0) return false;
    }
    of_first.first = map->n_in;
    of_second.first = map->n_in + first.n_steps;
    for (int i = 0; i < to->n_in; i++)
        if (made[i] > 0) of_second.input[i] = operand_of(&of_first, first.result[made[i] - 1]);
    out->n_in = map->n_in;
    add_steps(out, &first, &of_first);
    add_steps(out, &second, &of_second);
    for (int o = 0; o < to->n_out; o++)
        if (!add_result(out, map, operand_of(&of_second, second.result[o]), second.wide >> o & 1, to->out[o]))
            return false;
    for (int o = 0; o < from->n_out; o++)
        if (stays(f, from->out[o], c) &&
            !add_result(out, map, operand_of(&of_first, first.result[o]), first.wide >> o & 1, from->out[o]))
            return false;
    out->n_results = map->n_out;
    return true;
}

static bool fuse(fusion *f, int p, int c) {
    const ls_op *const first = f->node[p].op, *const second = f->node[c].op;
    ls_map_params params;
    ls_node map;
    if (first->expression == NULL || !(first->fuses || second->fuses)) return false;
    if (!may_move(f, p, c) || !fuse_expressions(f, p, c, &map, &params)) return false;
    ls_node_become_map(&map, &params, f->arena);
    f->node[c] = map;
    f->into[p] = c;
    return true;
}

/* Fuses node c with all nodes that it reads from, then with those that these read from. */
static bool fuse_with_inputs(fusion *f, int c) {
    bool any = false;
    for (int i = 0; i < f->node[c].n_in; i++) {
        const int made = ls_graph_tensor(f->g, f->node[c].in[i])->producer;
        const int p = made >= 0 ? place_of(f, made) : -1;
        if (p < 0 || p >= c || !fuse(f, p, c)) continue;
        any = true;
        i = -1; /* its inputs have changed */
    }
    return any;
}

/* --- the graph rewritten ------------------------------------------------------------------------------------------ */

static void rewrite(const fusion *f, ls_job *job) {
    const ls_graph *g = f->g;
    ls_rewriting r = ls_rewriting_begin(g, f->arena);
    for (int t = 0; t < g->n_tensors; t++) {
        ls_tensor_info *info = LS_PUSH(f->arena, r.to->tensors, r.to->n_tensors, r.to->tensor_capacity);
        *info = g->tensors[t];
        if (info->producer >= 0) info->producer = -2; /* until a node of the new graph owns it */
    }
    for (int n = 0; n < g->n_nodes; n++) {
        ls_node node = f->node[n];
        ls_rewriting_reach(&r, n);
        if (f->into[n] != n) continue;
        if (node.forward >= 0) node.forward = place_of(f, node.forward);
        ls_rewriting_copy(&r, n, node);
    }
    for (int t = 0; t < r.to->n_tensors; t++) {
        ls_tensor_info *info = &r.to->tensors[t];
        if (info->producer != -2) continue;
        info->producer = -1; /* no node makes or reads it; without dimensions nothing can cut it */
        info->shape = (ls_shape){0};
    }
    ls_rewriting_end(&r, job);
}

void ls_fuse(ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    bool maps = false, any = false;
    for (int n = 0; n < g->n_nodes; n++) maps |= g->nodes[n].op->fuses;
    if (!maps) return;
    fusion f = begin_fusion(job, arena);
    for (int c = 0; c < g->n_nodes; c++)
        if (f.node[c].op->expression != NULL) any |= fuse_with_inputs(&f, c);
    if (any) rewrite(&f, job);
}
