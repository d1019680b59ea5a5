/*
 * Frozen parameters that are kept in another type than the graph's (bf16 under f32 training): each node that reads one
 * gets a cast of its own in front of it. The result is there for that node; after a reshape, for the nodes that read
 * what was reshaped; and where the node runs in tiles, for all of its tiles.
 */
#include "compile/compile_impl.h"

typedef struct casting {
    const ls_graph *from;
    ls_graph *to;
    ls_arena *arena;
} casting;

static bool is_kept(const ls_graph *g, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(g, t);
    return info->role == LS_ROLE_PARAMETER && info->kept != g->dtype;
}

static ls_tensor add_cast(casting *c, ls_tensor t) {
    ls_tensor_info info = *ls_graph_tensor(c->from, t);
    info.role = LS_ROLE_VALUE;
    info.name = ls_arena_printf(c->arena, "%s cast", info.name);
    info.producer = c->to->n_nodes;
    const ls_tensor made = ls_graph_at(c->to, c->to->n_tensors);
    info.storage = made;
    *LS_PUSH(c->arena, c->to->tensors, c->to->n_tensors, c->to->tensor_capacity) = info;
    *LS_PUSH(c->arena, c->to->nodes, c->to->n_nodes, c->to->node_capacity) =
        ls_cast_node(c->arena, t, made, c->from->dtype);
    return made;
}

static void copy_node(casting *c, int n, int *moved) {
    ls_node node = c->from->nodes[n];
    for (int i = 0; i < node.n_in; i++)
        if (is_kept(c->from, node.in[i])) node.in[i] = add_cast(c, node.in[i]);
    for (int o = 0; o < node.n_out; o++) { /* a reshape lies where the cast lies */
        ls_tensor *storage = &c->to->tensors[node.out[o].id].storage;
        if (is_kept(c->from, *storage)) *storage = c->to->tensors[node.in[0].id].storage;
    }
    if (node.forward >= 0) node.forward = moved[node.forward];
    moved[n] = c->to->n_nodes;
    ls_graph_own_outputs(c->to, &node);
    *LS_PUSH(c->arena, c->to->nodes, c->to->n_nodes, c->to->node_capacity) = node;
}

void ls_cast_kept(ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    bool any = false;
    for (int t = 1; t < g->n_tensors; t++) any |= is_kept(g, ls_graph_at(g, t));
    if (!any) return;
    casting c = {.from = g, .to = ls_graph_bare(g, arena), .arena = arena};
    int *moved = LS_NEW_ARRAY(arena, int, g->n_nodes + 1), *begins = LS_NEW_ARRAY(arena, int, g->n_nodes + 1);
    for (int t = 0; t < g->n_tensors; t++) {
        ls_tensor_info *info = LS_PUSH(arena, c.to->tensors, c.to->n_tensors, c.to->tensor_capacity);
        *info = g->tensors[t];
        if (info->role == LS_ROLE_PARAMETER) info->dtype = info->kept;
    }
    for (int n = 0; n < g->n_nodes; n++) {
        begins[n] = c.to->n_nodes;
        if (n == g->forward_nodes) c.to->forward_nodes = c.to->n_nodes;
        copy_node(&c, n, moved);
    }
    begins[g->n_nodes] = c.to->n_nodes;
    if (g->forward_nodes == g->n_nodes) c.to->forward_nodes = c.to->n_nodes;
    job->programs = ls_programs_moved(&job->programs, g->n_nodes, begins, arena);
    job->graph = c.to;
}
