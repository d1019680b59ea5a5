/* Which integers an input may hold, from the lookups that it ends in; so that no kernel ever sees another. */
#include "graph/graph.h"

static int64_t choices(const ls_graph *g, const ls_node *node) {
    const ls_lookup *lookup = &node->op->lookup;
    const ls_shape *shape = &ls_graph_tensor(g, node->in[lookup->among])->shape;
    return shape->dim[lookup->dim < 0 ? shape->ndim - 1 : lookup->dim].size;
}

static void narrow(ls_id_range *range, ls_id_range by) {
    range->count = ls_min(range->count, by.count);
    range->may_ignore = range->may_ignore && by.may_ignore;
}

ls_id_range ls_graph_id_range(const ls_graph *g, ls_tensor ids) {
    ls_id_range range = {INT64_MAX, true};
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i].id != ids.id) continue;
            if (node->op->lookup.ids == i + 1)
                narrow(&range, (ls_id_range){choices(g, node), node->op->lookup.may_ignore});
            else if (ls_graph_tensor(g, node->out[0])->dtype == LS_I32) /* integers moved, as by a shift */
                narrow(&range, ls_graph_id_range(g, node->out[0]));
        }
    }
    return range;
}

bool ls_id_within(const ls_id_range *range, int32_t id) {
    if (range->count == INT64_MAX) return true;
    return (id >= 0 && id < range->count) || (range->may_ignore && id == LS_LABEL_IGNORED);
}
