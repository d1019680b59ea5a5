/*
 * Slices: each sequence is cut into parts of equal length, which go through the stages one after the other as
 * micro-batches do (Sun et al., "Seq1F1B", arXiv 2406.03488). This file turns the graph of whole sequences into that of
 * one slice: the size of every dimension of the sequence is divided by the number of slices. The lowering of attention
 * adds the earlier slices (attention/slices.c). In all other ops a token may need only itself, and a sum over tokens
 * may only be added to a sum over micro-batches.
 */
#include "compile/pipeline/pipeline.h"

typedef struct slicing {
    const ls_graph *g;
    ls_arena *arena;
    int slices;
    int64_t S;
    ls_factors factors;
    ls_graph *to;
    bool *partial;          /* by tensor: a sum over the tokens of one slice only */
    const ls_mask *fitting; /* the last mask that passed the check; most layers have the same mask */
} slicing;

int ls_target_slices(const ls_target *target) { return (int)ls_max(1, target->slices); }

ls_status ls_slices_check(const ls_target *target, int64_t S) {
    const int slices = ls_target_slices(target);
    if (slices == 1) return ls_ok();
    if (ls_mesh_stages(&target->mesh) == 1)
        return ls_error(LS_USAGE, "--slices %d: the mesh has one stage; expected a mesh with pp", slices);
    if (S % slices != 0 || S / slices < ls_mesh_sequence_ranks(&target->mesh))
        return ls_error(
            LS_USAGE,
            "--slices %d: a sequence of %lld tokens; expected a multiple of %d, with a token for each of the "
            "%d ranks that share a slice",
            slices, (long long)S, slices, ls_mesh_sequence_ranks(&target->mesh));
    if (target->layout == LS_LAYOUT_DOCUMENTS || target->layout == LS_LAYOUT_BALANCED)
        return ls_error(LS_USAGE,
                        "--slices %d: layout %s follows the masks of a whole sequence; expected contiguous, zigzag or "
                        "striped",
                        slices, ls_layout_name(target->layout));
    return ls_ok();
}

/* --- dimensions --------------------------------------------------------------------------------------------------- */

static bool is_sequence(const slicing *s, const ls_segment *segment) {
    bool is = false;
    for (int i = 0; i < segment->n; i++) is |= s->factors.list[segment->factor[i]].is == LS_FACTOR_SEQUENCE;
    return is;
}

/* Whether the sequence is the dimension or a factor of it. */
static bool has_sequence_in(const slicing *s, int tensor, int d) {
    const ls_factored_dim *dim = &s->factors.dim[tensor * LS_MAX_DIMS + d];
    bool has = false;
    for (int i = 0; i < dim->n; i++) has |= is_sequence(s, &dim->segment[i]);
    return has;
}

static bool has_sequence(const slicing *s, ls_tensor t) {
    bool has = false;
    for (int d = 0; d < ls_graph_tensor(s->g, t)->shape.ndim; d++) has |= has_sequence_in(s, t.id, d);
    return has;
}

/* Changes the tensor's shape to that in the graph of a slice. */
static ls_status cut_shape(const slicing *s, int t) {
    ls_tensor_info *info = &s->to->tensors[t];
    for (int d = 0; d < info->shape.ndim; d++) {
        if (!has_sequence_in(s, t, d)) continue;
        if (s->factors.dim[t * LS_MAX_DIMS + d].n > 1 || info->shape.dim[d].size % s->S != 0)
            return ls_error(
                LS_UNSUPPORTED,
                "--slices %d: dimension %d of \"%s\" has %lld elements, of which the sequence of %lld tokens "
                "is a part; expected the sequence, or a product with it",
                s->slices, d, info->name, (long long)info->shape.dim[d].size, (long long)s->S);
        info->shape.dim[d].size /= s->slices;
    }
    if (info->role == LS_ROLE_INPUT && has_sequence(s, ls_graph_at(s->g, t)) &&
        !ls_shape_has_factor(&info->shape, LS_FACTOR_BATCH))
        return ls_error(LS_UNSUPPORTED,
                        "--slices %d: the input \"%s\" has the sequence and not the batch; expected both", s->slices,
                        info->name);
    return ls_ok();
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool touches_sequence(const slicing *s, const ls_node *node) {
    bool touches = false;
    for (int i = 0; i < ls_node_tensors(node); i++) touches |= has_sequence(s, ls_node_tensor(node, i));
    return touches;
}

/* A token may not see any slice after its own. */
static ls_status check_mask(slicing *s, const ls_node *node, const ls_mask *mask) {
    const int64_t each = s->S / s->slices;
    if (s->fitting != NULL && ls_mask_equal(mask, s->fitting)) return ls_ok();
    for (int64_t i = 0; i < s->S; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int n = ls_mask_spans(mask, s->S, i, seen);
        for (int k = 0; k < n; k++) {
            if (seen[k].lo == seen[k].hi || seen[k].hi <= (i / each + 1) * each) continue;
            return ls_error(LS_UNSUPPORTED,
                            "--slices %d: by the mask of op %s (\"%s\") token %lld sees token %lld, of a later slice; "
                            "expected a causal mask",
                            s->slices, node->op->name, ls_graph_tensor(s->g, node->out[0])->name, (long long)i,
                            (long long)seen[k].hi - 1);
        }
    }
    s->fitting = mask;
    return ls_ok();
}

static ls_status check_reach(slicing *s, const ls_node *node) {
    const ls_mask *mask = ls_node_mask(node);
    if (!touches_sequence(s, node)) return ls_ok();
    if (node->op->reach != LS_REACH_OWN && node->op->earlier == 0)
        return ls_error(
            LS_UNSUPPORTED,
            "--slices %d: op %s (\"%s\") needs %s of a sequence; expected attention, or ops in which a token "
            "needs only itself",
            s->slices, node->op->name, ls_graph_tensor(s->g, node->out[0])->name, ls_reach_name(node->op->reach));
    return mask != NULL ? check_mask(s, node, mask) : ls_ok();
}

/* For the forward pass only; nodes of the backward pass are linear in what they add. */
static ls_status check_sums(const slicing *s, const ls_node *node) {
    bool sums = touches_sequence(s, node);
    for (int i = 0; i < node->n_in; i++) {
        if (!s->partial[node->in[i].id]) continue;
        if ((node->op->addends >> i & 1) == 0)
            return ls_error(
                LS_UNSUPPORTED,
                "--slices %d: op %s reads \"%s\", a sum over tokens; expected an op that adds it to the loss",
                s->slices, node->op->name, ls_graph_tensor(s->g, node->in[i])->name);
        sums = true;
    }
    for (int o = 0; o < node->n_out && sums; o++) {
        const ls_tensor_info *storage = ls_graph_tensor(s->g, ls_graph_tensor(s->g, node->out[o])->storage);
        s->partial[node->out[o].id] = storage->role != LS_ROLE_ACCUMULATOR && !has_sequence(s, node->out[o]);
    }
    return ls_ok();
}

static void stay(const slicing *s, ls_tensor t) {
    s->to->tensors[t.id].stays = s->to->tensors[ls_graph_tensor(s->g, t)->storage.id].stays = true;
}

/*
 * The inputs that later slices read must stay until then. So must results of a node that reads earlier slices: to
 * recompute them, the carried tensors of all earlier slices would be needed.
 */
static void keep_earlier(const slicing *s, const ls_node *node) {
    for (int i = 0; i < node->n_in; i++)
        if ((node->op->earlier >> i & 1) != 0) stay(s, node->in[i]);
    for (int o = 0; o < node->n_out && node->op->earlier != 0; o++) stay(s, node->out[o]);
}

static int64_t sequence_of(const ls_factors *factors) {
    int64_t S = 1;
    for (int i = 0; i < factors->n; i++)
        if (factors->list[i].is == LS_FACTOR_SEQUENCE) S = factors->list[i].size;
    return S;
}

ls_status ls_slice_graph(const ls_graph *g, const ls_target *target, ls_arena *arena, const ls_graph **out) {
    slicing s = {.g = g, .arena = arena, .slices = ls_target_slices(target)};
    *out = g;
    if (s.slices == 1) return ls_ok();
    ls_factors_find(g, arena, &s.factors);
    s.S = sequence_of(&s.factors);
    s.partial = LS_NEW_ARRAY(arena, bool, g->n_tensors);
    s.to = ls_arena_copy(arena, g, sizeof *g);
    s.to->tensors = ls_arena_copy(arena, g->tensors, sizeof *g->tensors * (size_t)g->n_tensors);
    for (int n = 0; n < g->n_nodes; n++) {
        LS_TRY(check_reach(&s, &g->nodes[n]));
        if (n < ls_forward_nodes(g)) LS_TRY(check_sums(&s, &g->nodes[n]));
        keep_earlier(&s, &g->nodes[n]);
    }
    for (int t = 1; t < g->n_tensors; t++) LS_TRY(cut_shape(&s, t));
    *out = s.to;
    return ls_ok();
}
