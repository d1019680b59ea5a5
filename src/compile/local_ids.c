/*
 * Tables whose rows (of the vocabulary, of positions) are cut over ranks along axes of features. Ids become indices of
 * the rank's own rows; the embedding of any other id is 0, so that embeddings are partial sums.
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

ls_axes ls_exchanged(const ls_builder *b, int n) {
    int d;
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_axes rows = ls_cut_rows(b, n, &d);
    if (rows == 0 || !node->op->exchanges) return 0;
    const int ids = node->op->lookup.ids - 1,
              tokens = ls_shape_dim_of(&ls_graph_tensor(b->job->graph, node->in[ids])->shape, LS_FACTOR_SEQUENCE);
    return tokens < 0 ? 0 : rows & b->sharding->wanted[n * LS_NODE_INPUTS + ids].cut[tokens];
}

/* The binding that says which rows ranks along the axes have of the table in which node n looks up. */
static ls_rows_binding binding_of(const ls_builder *b, int n, ls_axes axes, int d) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_dim_units *units = &b->sharding->units[node->in[node->op->lookup.among].id * LS_MAX_DIMS + d];
    LS_ASSERT(units->n == 1 && units->segment[0].elements == 1);
    return (ls_rows_binding){.units = *units, .axes = axes, .all = ls_exchanged(b, n) != 0};
}

static const ls_rows_binding *find_rows(const ls_builder *b, const ls_rows_binding *like) {
    for (int i = 0; i < b->image->n_rows; i++) {
        const ls_rows_binding *rows = &b->image->rows[i];
        if (rows->axes == like->axes && rows->all == like->all &&
            rows->units.segment[0].units == like->units.segment[0].units)
            return rows;
    }
    return NULL;
}

void ls_place_rows(ls_builder *b, int n) {
    int d;
    const ls_axes axes = ls_cut_rows(b, n, &d);
    if (axes == 0) return;
    ls_rows_binding rows = binding_of(b, n, axes, d);
    if (find_rows(b, &rows) != NULL) return;
    ls_image *image = b->image;
    const int64_t size[] = {rows.all ? ls_mesh_size(&b->target->mesh, axes) : 2, 2};
    rows.rows = ls_build_private(b, LS_BUFFER_TABLE, "rows of a table", LS_I32, rows.all ? 2 : 1, size);
    *LS_PUSH(image->arena, image->rows, image->n_rows, image->row_capacity) = rows;
}

bool ls_is_local_id(const ls_builder *b, int n, int i) {
    int d;
    return b->job->graph->nodes[n].op->lookup.ids == i + 1 && ls_cut_rows(b, n, &d) != 0;
}

/* Which rows the member `shift` places further has: i32[2]. */
static ls_operand rows_at(ls_builder *b, int n, int shift) {
    int d = 0;
    const ls_axes axes = ls_cut_rows(b, n, &d);
    LS_ASSERT(axes != 0);
    const ls_rows_binding like = binding_of(b, n, axes, d), *rows = find_rows(b, &like);
    if (!rows->all) return rows->rows;
    return ls_operand_elements(ls_build_share(b, rows->rows, 0, 1, ls_build_team_of(b, axes), shift), 0, 2);
}

ls_operand ls_local_ids_at(ls_builder *b, int n, ls_operand ids, int shift) {
    static const ls_embedding_params none = {.padding = -1};
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_operand local =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "local ids", LS_I32, ids.view.ndim, ids.view.size);
    ls_build_kernel(b, &(ls_kernel_build){.op = "local_ids",
                                          .kernel = LS_KERNEL_LOCAL_IDS,
                                          .dtype = b->image->dtype,
                                          .params = node->op->lookup.padded ? node->params : &none,
                                          .params_bytes = sizeof none,
                                          .n_in = 2,
                                          .in = {ids, rows_at(b, n, shift)},
                                          .n_out = 1,
                                          .out = {local}});
    return local;
}

ls_operand ls_local_ids(ls_builder *b, int n, ls_operand ids) { return ls_local_ids_at(b, n, ids, 0); }
