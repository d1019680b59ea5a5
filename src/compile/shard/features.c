/* What ranks along feature axes share: heads, hidden features and words, by the factors of the graph. */
#include "compile/shard/shard.h"

/*
 * Finds the factors that have fewer elements than there are ranks, such as KV heads, and stand in front of another
 * factor in some product; ranks then share the product (query heads) instead. A factor of one element always counts as
 * too small.
 */
static void find_too_few(const ls_graph *g, ls_arena *arena, ls_shared_features *f) {
    const ls_graph_factor *list = f->factors.list;
    f->too_few = LS_NEW_ARRAY(arena, bool, f->factors.n);
    for (int i = 0; i < f->factors.n; i++) f->too_few[i] = list[i].size == 1;
    for (int i = 0; i < g->n_tensors * LS_MAX_DIMS; i++) {
        const ls_factored_dim *dim = &f->factors.dim[i];
        for (int s = 0; s < dim->n; s++) {
            const ls_segment *segment = &dim->segment[s];
            if (segment->n < 2) continue;
            f->too_few[segment->factor[0]] |=
                list[segment->factor[0]].size < f->ranks && !list[segment->factor[1]].whole;
        }
    }
}

/* Whether in any layout each rank has at least as many tokens as there are ranks along feature axes. */
static bool has_tokens(const ls_graph *g, const ls_mesh *mesh, int ranks) {
    int64_t fewest = 0;
    for (int t = 1; t < g->n_tensors; t++) {
        const int d = ls_shape_dim_of(&g->tensors[t].shape, LS_FACTOR_SEQUENCE);
        const int64_t size = d >= 0 ? g->tensors[t].shape.dim[d].size : 0;
        if (size > 0 && (fewest == 0 || size < fewest)) fewest = size;
    }
    return fewest / ls_mesh_sequence_ranks(mesh) >= ranks;
}

static void find_kept(const ls_graph *g, ls_arena *arena, ls_shared_features *f) {
    f->kept = LS_NEW_ARRAY(arena, bool, g->n_tensors);
    for (int n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in && ls_is_backward(g, n); i++) {
            const int made = ls_graph_tensor(g, g->nodes[n].in[i])->producer;
            f->kept[g->nodes[n].in[i].id] |= made >= 0 && !ls_is_backward(g, made);
        }
    }
}

/*
 * Whether some node changes a tensor of all tokens in place, as a cache is changed; then no rank may have a copy of it
 * that is spread in another way.
 */
static bool changes_tokens(const ls_graph *g) {
    bool changes = false;
    for (int n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_op *op = g->nodes[n].op;
            const ls_tensor_info *info = ls_graph_tensor(g, ls_graph_tensor(g, g->nodes[n].in[i])->storage);
            changes |= op->reach != LS_REACH_OWN && ls_op_writes_input(op, i) && info->role == LS_ROLE_VALUE &&
                       ls_shape_has_factor(&info->shape, LS_FACTOR_SEQUENCE);
        }
    }
    return changes;
}

void ls_shared_find(const ls_graph *g, const ls_mesh *mesh, ls_arena *arena, ls_shared_features *out) {
    *out = (ls_shared_features){.ranks = ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_FEATURE))};
    if (out->ranks == 1) return;
    ls_factors_find(g, arena, &out->factors);
    find_too_few(g, arena, out);
    find_kept(g, arena, out);
    out->tokens = has_tokens(g, mesh, out->ranks) && !changes_tokens(g);
}

/* How many of a segment's outermost factors the ranks share: 1, or 2 if the first has too few elements; 0: none. */
static int shared_factors(const ls_shared_features *f, const ls_segment *segment) {
    const ls_graph_factor *outer = &f->factors.list[segment->factor[0]];
    if (outer->is != LS_FACTOR_NONE || outer->whole || outer->inner) return 0;
    if (!f->too_few[segment->factor[0]]) return 1;
    return segment->n > 1 && !f->factors.list[segment->factor[1]].whole ? 2 : 0;
}

static const ls_factored_dim *dim_of(const ls_shared_features *f, ls_tensor t, int d) {
    return &f->factors.dim[t.id * LS_MAX_DIMS + d];
}

bool ls_is_shared(const ls_shared_features *f, ls_tensor t, int d) {
    const ls_factored_dim *dim = dim_of(f, t, d);
    bool is = true;
    for (int s = 0; s < dim->n; s++) is &= shared_factors(f, &dim->segment[s]) > 0;
    return is;
}

/* Whether the dimension is the sequence, where each token is a unit. */
static bool is_tokens(const ls_shared_features *f, const ls_factored_dim *dim) {
    return dim->n == 1 && dim->segment[0].n == 1 && f->factors.list[dim->segment[0].factor[0]].is == LS_FACTOR_SEQUENCE;
}

/* The units of each dimension: the factors that ranks share count units, all others stay together within a unit. */
ls_dim_units *ls_shared_units(const ls_graph *g, const ls_shared_features *f, ls_arena *arena) {
    const int n = g->n_tensors * LS_MAX_DIMS;
    ls_dim_units *units = LS_NEW_ARRAY(arena, ls_dim_units, n);
    for (int i = 0; i < n; i++) {
        const ls_factored_dim *dim = &f->factors.dim[i];
        units[i].n = dim->n;
        for (int s = 0; s < dim->n; s++) {
            const int shared = is_tokens(f, dim) ? 1 : shared_factors(f, &dim->segment[s]);
            units[i].segment[s].units = units[i].segment[s].elements = 1;
            for (int k = 0; k < dim->segment[s].n; k++) {
                const int64_t size = f->factors.list[dim->segment[s].factor[k]].size;
                *(k < shared ? &units[i].segment[s].units : &units[i].segment[s].elements) *= size;
            }
        }
    }
    return units;
}

ls_status ls_shared_check(const ls_graph *g, const ls_mesh *mesh, const ls_sharding *s) {
    for (int t = 1; t < g->n_tensors; t++) {
        for (int d = 0; d < g->tensors[t].shape.ndim; d++) {
            const ls_axes cut = s->tensor[t].cut[d] & ls_mesh_axes(mesh, LS_AXIS_FEATURE);
            const int64_t fewest = ls_units_fewest(&s->units[t * LS_MAX_DIMS + d]);
            if (ls_mesh_size(mesh, cut) <= fewest || cut == 0) continue;
            char axes[64];
            ls_mesh_text(mesh, cut, axes, sizeof axes);
            return ls_error(LS_USAGE,
                            "--mesh %s: \"%s\" has %lld heads or features that ranks can share; expected at "
                            "most that many ranks",
                            axes, g->tensors[t].name, (long long)fewest);
        }
    }
    return ls_ok();
}
