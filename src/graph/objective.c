/* What a graph with a loss needs so that steps can be made of it: the sum of losses over micro-batches, and the gradient's factor. */
#include "graph/graph.h"

static const ls_shape one_number = {1, {{1, LS_FACTOR_NONE}}};

/* The sum is beside the gradient's way, so that each micro-batch is differentiated alone. */
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
