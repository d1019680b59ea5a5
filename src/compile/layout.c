/* The layout of a job's sequence: made from the target and the masks of all attention nodes, or taken over. */
#include "compile/compile.h"

/* B and S are those of the token input: the first tensor that has both factors. */
static ls_status find_sequence(const ls_graph *g, const ls_mesh *mesh, int64_t *S) {
    int64_t B = 1;
    *S = 1;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_INPUT) continue;
        for (int i = 0; i < info->shape.ndim; i++) {
            if (info->shape.dim[i].factor == LS_FACTOR_BATCH) B = info->shape.dim[i].size;
            if (info->shape.dim[i].factor == LS_FACTOR_SEQUENCE) *S = info->shape.dim[i].size;
        }
    }
    if (B % mesh->size[LS_AXIS_DP] != 0)
        return ls_error(LS_USAGE, "a micro-batch of %lld sequences does not divide by dp=%d", (long long)B,
                        mesh->size[LS_AXIS_DP]);
    if (*S < ls_mesh_sequence_ranks(mesh))
        return ls_error(LS_USAGE,
                        "a sequence of %lld tokens cannot be shared by %d ranks; expected a token each at least",
                        (long long)*S, ls_mesh_sequence_ranks(mesh));
    return ls_ok();
}

/* The masks that differ, each with its number of nodes; a gradient's node has its own, which changes no proportion. */
static int find_masks(const ls_graph *g, ls_layout_mask *out) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_mask *mask = ls_node_mask(&g->nodes[i]);
        if (mask == NULL) continue;
        int m = 0;
        while (m < n && !ls_mask_equal(out[m].mask, mask)) m++;
        if (m == n) out[n++] = (ls_layout_mask){mask, 0};
        out[m].weight++;
    }
    return n;
}

ls_status ls_compile_layout(const ls_job *job, const ls_target *target, ls_arena *arena, ls_layout *out) {
    const int P = ls_mesh_sequence_ranks(&target->mesh);
    int64_t S;
    LS_TRY(find_sequence(job->graph, &target->mesh, &S));
    const ls_layout *made = target->made;
    const int members = target->mesh.size[LS_AXIS_ULYSSES];
    if (made != NULL && made->kind == target->layout && made->S == S && made->P == P && made->members == members) {
        *out = ls_layout_copy(made, arena);
        return ls_ok();
    }
    ls_layout_mask *masks = LS_NEW_ARRAY(arena, ls_layout_mask, job->graph->n_nodes + 1);
    const ls_layout_need need = {.kind = target->layout,
                                 .S = S,
                                 .P = P,
                                 .members = members,
                                 .masks = masks,
                                 .n_masks = find_masks(job->graph, masks)};
    *out = ls_layout_make(&need, arena);
    return ls_ok();
}
