/*
 * Tables of which each rank along axes of features has some rows: those of the vocabulary, of positions. Ids become
 * those among a rank's own rows; of the others an embedding is 0, so that it is a partial sum.
 */
#include "compile/redistribute/redistribute.h"

ls_axes ls_cut_rows(const ls_builder *b, int n, int *d) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_lookup *lookup = &node->op->lookup;
    if (lookup->ids == 0) return 0;
    const int ndim = ls_graph_tensor(b->job->graph, node->in[lookup->among])->shape.ndim;
    *d = lookup->dim < 0 ? ndim - 1 : lookup->dim;
    return b->sharding->wanted[n * LS_NODE_INPUTS + lookup->among].cut[*d] &
           ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
}

static const ls_rows_binding *find_rows(const ls_builder *b, const ls_dim_units *units, ls_axes axes) {
    for (int i = 0; i < b->image->n_rows; i++) {
        const ls_rows_binding *rows = &b->image->rows[i];
        if (rows->axes == axes && rows->units.segment[0].units == units->segment[0].units) return rows;
    }
    return NULL;
}

void ls_place_rows(ls_builder *b, int n) {
    int d;
    const ls_axes axes = ls_cut_rows(b, n, &d);
    if (axes == 0) return;
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_dim_units *units = &b->sharding->units[node->in[node->op->lookup.among].id * LS_MAX_DIMS + d];
    LS_ASSERT(units->n == 1 && units->segment[0].elements == 1);
    if (find_rows(b, units, axes) != NULL) return;
    ls_image *image = b->image;
    *LS_PUSH(image->arena, image->rows, image->n_rows, image->row_capacity) = (ls_rows_binding){
        *units, axes, ls_build_private(b, LS_BUFFER_TABLE, "rows of a table", LS_I32, 1, (int64_t[]){2})};
}

bool ls_is_local_id(const ls_builder *b, int n, int i) {
    int d;
    return b->job->graph->nodes[n].op->lookup.ids == i + 1 && ls_cut_rows(b, n, &d) != 0;
}

ls_operand ls_local_ids(ls_builder *b, int n, ls_operand ids) {
    static const ls_embedding_params none = {.padding = -1};
    int d;
    const ls_axes axes = ls_cut_rows(b, n, &d);
    LS_ASSERT(axes != 0);
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_dim_units *units = &b->sharding->units[node->in[node->op->lookup.among].id * LS_MAX_DIMS + d];
    const ls_operand local =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "local ids", LS_I32, ids.view.ndim, ids.view.size);
    ls_build_kernel(b, &(ls_kernel_build){.op = "local_ids",
                                          .kernel = LS_KERNEL_LOCAL_IDS,
                                          .dtype = b->image->dtype,
                                          .params = node->op->lookup.padded ? node->params : &none,
                                          .params_bytes = sizeof none,
                                          .n_in = 2,
                                          .in = {ids, find_rows(b, units, axes)->rows},
                                          .n_out = 1,
                                          .out = {local}});
    return local;
}
