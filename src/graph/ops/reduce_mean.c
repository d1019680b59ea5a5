/* The mean over dimensions: the sum, divided by the number of elements in it. */
#include "graph/graph_impl.h"

ls_tensor ls_reduce_mean(ls_graph *g, ls_tensor x, unsigned over, bool keep) {
    if (!ls_graph_usable(g, x, "ls_reduce_mean")) return LS_NO_TENSOR;
    const ls_shape *from = &ls_graph_tensor(g, x)->shape;
    double count = 1;
    for (int d = 0; d < from->ndim; d++) count *= over >> d & 1 ? (double)from->dim[d].size : 1;
    return ls_scale(g, ls_reduce_sum(g, x, over, keep), 1 / count);
}
