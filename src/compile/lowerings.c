/*
 * The table of the ops that have a lowering of their own; and the tensors that these lowerings share with other ranks.
 */
#include "compile/compile_impl.h"

typedef struct lowered_op {
    const ls_op *op;
    const ls_lowering *lowering;
} lowered_op;

#define ROW(op) \
    { &ls_op_##op, &ls_lowering_##op }
static const lowered_op table[] = {LS_LOWERED_OPS(ROW)};

const ls_lowering *ls_lowering_of(const ls_op *op) {
    for (size_t i = 0; i < LS_COUNT(table); i++)
        if (table[i].op == op) return table[i].lowering;
    return &ls_lowering_called;
}

void ls_lower_share(ls_builder *b, int n_nodes) {
    const ls_graph *g = b->job->graph;
    b->shared = LS_NEW_ARRAY(b->image->arena, bool, g->n_tensors);
    for (int n = 0; n < n_nodes; n++) {
        const ls_lowering *lowering = ls_lowering_of(g->nodes[n].op);
        if (lowering->share != NULL) lowering->share(b, n);
    }
}
