/* Lists of a program's nodes, as passes write them. */
#include "compile/pass.h"

void ls_nodes_copy(const ls_builder *b, ls_program_nodes *to, const ls_program_node *nodes, int n) {
    for (int i = 0; i < n; i++) *LS_PUSH(b->image->arena, to->list, to->n, to->capacity) = nodes[i];
}

void ls_nodes_put(const ls_builder *b, ls_program_nodes *to, const ls_lowering *lowering, int together, void *params) {
    *LS_PUSH(b->image->arena, to->list, to->n, to->capacity) =
        (ls_program_node){.lowering = lowering, .of = -1, .together = together, .params = params};
}

int ls_nodes_past(const ls_program_nodes *nodes, int first) {
    int past = first;
    while (past < nodes->n && nodes->list[past].together == nodes->list[first].together) past++;
    return past;
}

int ls_nodes_end(const ls_program_nodes *nodes, int first, int past) {
    int end = 0;
    for (int i = first; i < past; i++) end = (int)ls_max(end, nodes->list[i].of + 1);
    return end;
}
