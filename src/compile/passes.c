/* From the nodes of the graph to the nodes of a program: the passes in the order of their table. */
#include "compile/pass.h"

#define ROW(name) &ls_pass_##name
static const ls_pass *const table[] = {LS_PASSES(ROW)};

/* The program's nodes of the graph, before any pass. */
static ls_program_nodes nodes_of_graph(const ls_builder *b) {
    ls_program_nodes nodes = {0};
    for (int n = b->row->first_node; n < b->row->end_node; n++) {
        const ls_program_node node = {.lowering = ls_lowering_of(b->job->graph->nodes[n].op), .of = n, .together = n};
        ls_nodes_copy(b, &nodes, &node, 1);
    }
    return nodes;
}

ls_status ls_passes_run(const ls_builder *b, ls_program_nodes *out) {
    ls_program_nodes nodes = nodes_of_graph(b);
    ls_program *p = b->program;
    p->passes = LS_NEW_ARRAY(b->image->arena, ls_program_pass, LS_COUNT(table));
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        const int before = nodes.n;
        LS_TRY(table[i]->run(b, &nodes));
        p->passes[p->n_passes++] = (ls_program_pass){table[i]->name, table[i]->about, nodes.n - before};
    }
    *out = nodes;
    return ls_ok();
}
