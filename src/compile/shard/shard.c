/*
 * The placement of each tensor along each axis of the mesh, by the options that were chosen (search.c). Where an option
 * needs a tensor in another placement, a redistribution node is added (redistribution.c).
 */
#include "compile/shard/shard.h"

static void note(ls_placements *spread, ls_along_placement p, int a) {
    if (p >= 0) spread->cut[p] |= ls_axis_bit(a);
    if (p == LS_PARTIAL) spread->partial |= ls_axis_bit(a);
}

static void note_node(const ls_along *l, int n, ls_spread_option option, ls_decided *decided, ls_sharding *out) {
    const ls_node *node = &l->graph->nodes[n];
    ls_decided_meet(l, n, decided);
    if (node->n_in == 0) return;
    ls_question q;
    ls_question_ask(l, node, &q);
    for (int i = 0; i < node->n_in; i++)
        note(&out->wanted[n * LS_NODE_INPUTS + i], ls_option_input(&q, option, i), l->a);
    ls_decided_note(&q, option, decided);
    if (option.way == LS_ADD_ON_FIRST) out->first_only[n] |= ls_axis_bit(l->a);
}

static ls_status shard_along(const ls_along *l, ls_arena *scratch, ls_sharding *out) {
    ls_decided decided = ls_decided_begin(l, scratch);
    ls_spread_option *option = LS_NEW_ARRAY(scratch, ls_spread_option, l->n_nodes + 1);
    double price;
    LS_TRY((l->axis->kind == LS_AXIS_FEATURE ? ls_spread_search : ls_spread_node_by_node)(l, &decided, scratch, option,
                                                                                          &price));
    for (int n = 0; n < l->n_nodes; n++) note_node(l, n, option[n], &decided, out);
    for (int t = 1; t < l->graph->n_tensors; t++) note(&out->tensor[t], decided.at[t], l->a);
    return ls_ok();
}

static ls_status shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_arena *scratch,
                       ls_sharding *out) {
    ls_shared_features features;
    ls_shared_find(g, mesh, scratch, &features);
    *out = (ls_sharding){.tensor = LS_NEW_ARRAY(arena, ls_placements, g->n_tensors),
                         .wanted = LS_NEW_ARRAY(arena, ls_placements, n_nodes * LS_NODE_INPUTS + 1),
                         .first_only = LS_NEW_ARRAY(arena, ls_axes, n_nodes + 1)};
    for (int a = 0; a < mesh->n; a++) {
        const ls_along along = {
            .graph = g, .n_nodes = n_nodes, .a = a, .axis = mesh->along[a].axis, .features = &features};
        const bool cuts = mesh->along[a].size > 1 && mesh->along[a].axis->kind != LS_AXIS_STAGE;
        if (cuts) LS_TRY(shard_along(&along, scratch, out));
    }
    if (features.factors.dim == NULL) return ls_ok();
    out->units = ls_shared_units(g, &features, arena);
    return ls_shared_check(g, mesh, out);
}

ls_status ls_shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_sharding *out) {
    ls_arena *scratch = ls_arena_create();
    const ls_status status = shard(g, n_nodes, mesh, arena, scratch, out);
    ls_arena_destroy(scratch);
    return status;
}
