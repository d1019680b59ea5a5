/* The layout of a job's sequence: found from the target and the masks of all attention nodes, or reused. */
#include "compile/compile_impl.h"

/* The size of the dimensions that stand for the factor; 1: there are none. */
static int64_t size_of_factor(const ls_graph *g, ls_factor factor) {
    int64_t size = 1;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        for (int i = 0; i < info->shape.ndim; i++) {
            if (info->shape.dim[i].factor == factor) size = info->shape.dim[i].size;
        }
    }
    return size;
}

static bool has_heads(const ls_graph *g) {
    for (int n = 0; n < g->n_nodes; n++) {
        if (ls_lowering_of(g->nodes[n].op)->has_heads) return true;
    }
    return false;
}

/* Whether some tensor has heads or features that can be cut: no node needs all of them at once. */
static bool has_features(const ls_graph *g) {
    ls_arena *arena = ls_arena_create();
    ls_factors factors;
    ls_factors_find(g, arena, &factors);
    bool has = false;
    for (int t = 1; t < g->n_tensors; t++) {
        for (int d = 0; d < g->tensors[t].shape.ndim; d++) {
            const ls_graph_factor *outer = &factors.list[factors.dim[t * LS_MAX_DIMS + d].segment[0].factor[0]];
            has |= outer->is == LS_FACTOR_NONE && !outer->whole && !outer->inner && outer->size > 1;
        }
    }
    ls_arena_destroy(arena);
    return has;
}

bool ls_axis_is_usable(const ls_graph *g, const ls_axis *axis) {
    if (axis->kind == LS_AXIS_FEATURE) return has_features(g);
    if (axis->kind == LS_AXIS_STAGE) return g->n_nodes > 1; /* the compiler says where the graph is cut */
    return size_of_factor(g, ls_axis_factor(axis)) > 1 && (!axis->exchanges_heads || has_heads(g));
}

/* Checks that the ranks of a block are next to each other along the sequence. */
static ls_status check_axes(const ls_mesh *mesh) {
    const char *exchanging = NULL; /* the innermost axis so far that exchanges heads */
    for (int i = 0; i < mesh->n; i++) {
        const ls_axis *axis = mesh->along[i].axis;
        if (mesh->along[i].size == 1) continue;
        if (axis->exchanges_heads) exchanging = axis->name;
        if (axis->kind == LS_AXIS_SEQUENCE && !axis->exchanges_heads && exchanging != NULL)
            return ls_error(
                LS_UNSUPPORTED,
                "mesh axis %s exchanges heads, and %s inside of it does not; expected all that do innermost",
                exchanging, axis->name);
    }
    return ls_ok();
}

/* Finds S, the tokens of a sequence or of a slice, and checks the mesh. */
static ls_status find_sequence(const ls_graph *g, const ls_target *target, int64_t *S) {
    const ls_mesh *mesh = &target->mesh;
    const int64_t B = size_of_factor(g, LS_FACTOR_BATCH);
    *S = size_of_factor(g, LS_FACTOR_SEQUENCE);
    LS_TRY(ls_slices_check(target, *S));
    *S /= ls_target_slices(target);
    LS_TRY(check_axes(mesh));
    if (B % ls_mesh_replicas(mesh) != 0) {
        char axes[64];
        ls_mesh_text(mesh, ls_mesh_axes(mesh, LS_AXIS_BATCH), axes, sizeof axes);
        return ls_error(LS_USAGE, "a micro-batch of %lld sequences does not divide by %s", (long long)B, axes);
    }
    if (*S < ls_mesh_sequence_ranks(mesh))
        return ls_error(LS_USAGE,
                        "a sequence of %lld tokens cannot be shared by %d ranks; expected a token each at least",
                        (long long)*S, ls_mesh_sequence_ranks(mesh));
    return ls_ok();
}

/*
 * Lists the different masks, each with its number of nodes. Gradient nodes count too, which does not change the
 * proportions.
 */
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

static ls_status check_canonical(const ls_job *job, const ls_target *target, const ls_layout *layout) {
    return ls_canonical_check(target, layout,
                              size_of_factor(job->graph, LS_FACTOR_BATCH) / ls_mesh_replicas(&target->mesh));
}

ls_status ls_compile_layout(const ls_job *job, const ls_target *target, ls_arena *arena, ls_layout *out) {
    const int P = ls_mesh_sequence_ranks(&target->mesh);
    int64_t S;
    LS_TRY(find_sequence(job->graph, target, &S));
    const ls_layout *made = target->made;
    const int members = ls_mesh_size(&target->mesh, ls_mesh_head_axes(&target->mesh));
    if (made != NULL && made->kind == target->layout && made->S == S && made->P == P && made->members == members) {
        *out = ls_layout_copy(made, arena);
        return check_canonical(job, target, out);
    }
    ls_layout_mask *masks = LS_NEW_ARRAY(arena, ls_layout_mask, job->graph->n_nodes + 1);
    const ls_layout_need need = {.kind = target->layout,
                                 .S = S,
                                 .P = P,
                                 .members = members,
                                 .masks = masks,
                                 .n_masks = find_masks(job->graph, masks)};
    *out = ls_layout_make(&need, arena);
    return check_canonical(job, target, out);
}
