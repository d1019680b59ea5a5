/*
 * A graph is rewritten node by node, with some nodes inserted or left out. Nodes get new numbers, which are also
 * changed in the job's programs and in the references of gradient nodes to the nodes that they differentiate. The
 * caller copies the tensors.
 */
#include "compile/compile_impl.h"

ls_rewriting ls_rewriting_begin(const ls_graph *from, ls_arena *arena) {
    return (ls_rewriting){.from = from,
                          .to = ls_graph_bare(from, arena),
                          .arena = arena,
                          .moved = LS_NEW_ARRAY(arena, int, from->n_nodes + 1),
                          .begins = LS_NEW_ARRAY(arena, int, from->n_nodes + 1)};
}

void ls_rewriting_reach(ls_rewriting *r, int n) {
    r->begins[n] = r->to->n_nodes;
    if (n == r->from->forward_nodes) r->to->forward_nodes = r->to->n_nodes;
}

void ls_rewriting_add(ls_rewriting *r, const ls_node *node) {
    ls_graph_own_outputs(r->to, node);
    *LS_PUSH(r->arena, r->to->nodes, r->to->n_nodes, r->to->node_capacity) = *node;
}

void ls_rewriting_copy(ls_rewriting *r, int n, ls_node node) {
    if (node.forward >= 0) node.forward = r->moved[node.forward];
    r->moved[n] = r->to->n_nodes;
    ls_rewriting_add(r, &node);
}

static ls_job_programs moved_programs(const ls_job_programs *old, int n_nodes, const int *begins, ls_arena *arena) {
    ls_job_programs programs = *old;
    ls_job_program *list = ls_arena_copy(arena, old->list, sizeof *list * (size_t)old->n);
    for (int i = 0; i < old->n; i++) {
        list[i].first_node = begins[old->list[i].first_node];
        if (old->list[i].end_node <= n_nodes) list[i].end_node = begins[old->list[i].end_node];
    }
    programs.list = list;
    return programs;
}

void ls_rewriting_end(ls_rewriting *r, ls_job *job) {
    ls_rewriting_reach(r, r->from->n_nodes);
    job->programs = moved_programs(&job->programs, r->from->n_nodes, r->begins, r->arena);
    job->graph = r->to;
}
