/*
 * A placement of each tensor along each axis of the mesh. What a node's dimensions stand for (ls_op.dims) says how the
 * node can be spread over the ranks of an axis; of these options the pass takes the one for which fewest bytes are
 * redistributed. Where a tensor is something else than an option asks, a node that redistributes it is put between
 * (redistribution.c).
 */
#include "compile/compile_impl.h"

#include <string.h>

/* Of a tensor along an axis: a dimension, along which it is cut, or one of these. */
enum {
    WHOLE = -1,
    PARTIAL = -2,
    OPEN = -3,    /* it becomes what its first reader asks: its node reads nothing, or it is a parameter to be cut */
    OPEN_SUM = -4 /* it becomes whole or partial, as its first reader asks: gradients of what is not cut */
};
typedef int placement;

/* What holds along `axis`, number `a` of the mesh. */
typedef struct along {
    const ls_graph *graph;
    int a;
    const ls_axis *axis;
    placement *at;    /* of all tensors */
    bool *made_whole; /* by tensor: along an axis of features it is a partial sum, which a reader has had made whole */
    ls_factors features; /* for axes of kind feature; empty where there is none */
    int ranks;           /* along all axes of kind feature */
    bool *covered;       /* by factor: fewer than these ranks, and shared with what stands behind it in a product */
    ls_sharding *out;
} along;

/* A node along an axis. */
typedef struct question {
    const along *along;
    const ls_graph *graph;
    const ls_node *node;
    ls_node_dims dims;
} question;

static question ask(const along *l, const ls_node *node) {
    question q = {.along = l, .graph = l->graph, .node = node};
    ls_node_dims_find(l->graph, node, &q.dims);
    return q;
}

static const ls_tensor_info *info_of(const question *q, ls_tensor t) { return ls_graph_tensor(q->graph, t); }

/* --- the options of a node ---------------------------------------------------------------------------------------- */

/* One way to spread a node over the ranks of an axis: of equally good ones, the first is taken. */
typedef enum way {
    CUT,          /* along what a letter stands for */
    CUT_COVERED,  /* along products that begin with the letter; what has it alone is whole, of results a term */
    ADD_UP,       /* the op's addends are partial sums, and so are its results */
    ADD_ON_FIRST, /* everything is whole, but for a partial sum, to which the first rank of the axis alone adds */
    ALL_WHOLE
} way;

typedef struct option {
    way way;
    int letter; /* of CUT, CUT_COVERED */
} option;

static placement of_tensor(const question *q, const ls_tensor_dims *dims, int letter, placement without) {
    const int dim = ls_letter_dim(&q->dims, dims, letter);
    return dim >= 0 ? dim : without;
}

/* The dimension of a product that begins with the letter; -1: there is none. */
static int product_dim(const question *q, const ls_tensor_dims *dims, int letter) {
    const int dim = ls_letter_dim(&q->dims, dims, letter);
    return dim >= 0 && dims->dim[dim].n > 1 && !dims->dim[dim].segments ? dim : -1;
}

static placement of_output(const question *q, option choice, int o) {
    const ls_op *op = q->node->op;
    const ls_tensor_dims *dims = &q->dims.out[o];
    const bool is_sum = op->in_place[o] > 0 && ls_op_adds_to(op, op->in_place[o] - 1);
    switch (choice.way) {
    case CUT:
        return of_tensor(q, dims, choice.letter, dims->same ? WHOLE : PARTIAL);
    case CUT_COVERED: {
        const int dim = product_dim(q, dims, choice.letter);
        return dim >= 0 ? dim : dims->same ? WHOLE : PARTIAL;
    }
    case ADD_UP:
        return PARTIAL;
    case ADD_ON_FIRST:
        return is_sum ? PARTIAL : WHOLE;
    default:
        return WHOLE;
    }
}

/* Whether the node adds up along the letter, so that each rank has a term of its results. */
static bool sums_over(const question *q, int letter) {
    bool sums = false;
    for (int o = 0; o < q->node->n_out; o++) sums |= of_output(q, (option){CUT, letter}, o) == PARTIAL;
    return sums;
}

/*
 * A sum that is added to is what it becomes. Where the rest of a sum is cut, an addend that is not (a bias) is a
 * partial sum too, so that it is not added once by each rank.
 */
static placement of_input(const question *q, option choice, int i) {
    const ls_op *op = q->node->op;
    const bool is_addend = (op->addends & 1U << i) != 0;
    for (int o = 0; o < q->node->n_out; o++)
        if (op->in_place[o] == i + 1 && ls_op_adds_to(op, i)) return of_output(q, choice, o);
    if (choice.way == ADD_UP) return is_addend ? PARTIAL : WHOLE;
    if (choice.way == CUT_COVERED) {
        const int dim = product_dim(q, &q->dims.in[i], choice.letter);
        return dim >= 0 ? dim : WHOLE;
    }
    if (choice.way != CUT) return WHOLE;
    return of_tensor(q, &q->dims.in[i], choice.letter, is_addend && sums_over(q, choice.letter) ? PARTIAL : WHOLE);
}

static bool adds_to_sum(const ls_node *node) {
    bool adds = false;
    for (int i = 0; i < node->n_in; i++) adds |= ls_op_adds_to(node->op, i);
    return adds;
}

enum { MOST_OPTIONS = 2 * LS_NODE_LETTERS + 3 };

/*
 * Of a segment, how many of the outermost factors ranks along axes of kind feature share: one, or where that is covered
 * the second too. 0: they do not share it.
 */
static int shared_factors(const along *l, const ls_segment *segment) {
    const ls_graph_factor *outer = &l->features.list[segment->factor[0]];
    if (outer->is != LS_FACTOR_NONE || outer->whole || outer->inner) return 0;
    if (!l->covered[segment->factor[0]]) return 1;
    return segment->n > 1 && !l->features.list[segment->factor[1]].whole ? 2 : 0;
}

/* Whether an axis of kind feature cuts what each segment of a dimension begins with. */
static bool is_feature(const question *q, ls_tensor t, int d) {
    const ls_factored_dim *dim = &q->along->features.dim[t.id * LS_MAX_DIMS + d];
    bool is = true;
    for (int s = 0; s < dim->n; s++) is &= shared_factors(q->along, &dim->segment[s]) > 0;
    return is;
}

/* Whether the letter stands for what the node looks up ids in: of that, ranks can have parts along axes of features. */
static bool is_looked_up(const question *q, int letter) {
    const ls_lookup *lookup = &q->node->op->lookup;
    if (lookup->ids == 0) return false;
    const int ndim = info_of(q, q->node->in[lookup->among])->shape.ndim;
    const int d = lookup->dim < 0 ? ndim - 1 : lookup->dim;
    return ls_letter_dim(&q->dims, &q->dims.in[lookup->among], letter) == d;
}

/* Whether the axis cuts what the letter stands for, wherever the node has it. */
static bool is_cut(const question *q, int letter) {
    const ls_node *node = q->node;
    if (q->along->axis->kind != LS_AXIS_FEATURE)
        return !is_looked_up(q, letter) &&
               ls_letter_is(q->graph, node, &q->dims, letter, ls_axis_factor(q->along->axis));
    bool is = q->dims.may_cut[letter];
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const int d = ls_letter_dim(&q->dims, ls_node_tensor_dims(&q->dims, node, i), letter);
        is &= d < 0 || is_feature(q, ls_node_tensor(node, i), d);
    }
    return is;
}

/* The same of products that begin with the letter, where it stands for too few to be cut by itself (KV heads). */
static bool is_cut_covered(const question *q, int letter) {
    const ls_node *node = q->node;
    bool is = q->along->axis->kind == LS_AXIS_FEATURE && q->dims.may_cut[letter], has[2] = {false, false};
    for (int i = 0; i < ls_node_tensors(node) && is; i++) {
        const ls_tensor_dims *dims = ls_node_tensor_dims(&q->dims, node, i);
        const int d = ls_letter_dim(&q->dims, dims, letter);
        if (d < 0) continue;
        const bool product = product_dim(q, dims, letter) == d;
        has[product] = true;
        is = is_feature(q, ls_node_tensor(node, i), d) == product;
    }
    return is && has[false] && has[true];
}

static int list_options(const question *q, option list[MOST_OPTIONS]) {
    int n = 0;
    for (int letter = 0; letter < q->dims.n; letter++) {
        if (is_cut(q, letter)) list[n++] = (option){CUT, letter};
        if (is_cut_covered(q, letter)) list[n++] = (option){CUT_COVERED, letter};
    }
    if (q->node->op->addends != 0) list[n++] = (option){ADD_UP, -1};
    if (adds_to_sum(q->node) && q->along->axis->kind != LS_AXIS_FEATURE) list[n++] = (option){ADD_ON_FIRST, -1};
    list[n++] = (option){ALL_WHOLE, -1};
    return n;
}

/* --- redistributing ----------------------------------------------------------------------------------------------- */

typedef enum state { IS_WHOLE, IS_CUT, IS_PARTIAL, STATES } state;

static state state_of(placement p) { return p >= 0 ? IS_CUT : p == PARTIAL ? IS_PARTIAL : IS_WHOLE; }

/*
 * How often a tensor's bytes travel when one placement becomes another one, about; -1: nothing makes it so. Of what is
 * whole each rank takes its part.
 */
static const double travels[STATES][STATES] = {
    [IS_WHOLE] = {[IS_WHOLE] = 0, [IS_CUT] = 0, [IS_PARTIAL] = -1},
    [IS_CUT] = {[IS_WHOLE] = 1, [IS_CUT] = 1, [IS_PARTIAL] = -1},
    [IS_PARTIAL] = {[IS_WHOLE] = 2, [IS_CUT] = 1, [IS_PARTIAL] = 0},
};

/* Whether the node that makes the open tensor can make it so. */
static bool can_make(const question *q, ls_tensor t, placement wanted) {
    if (info_of(q, t)->producer < 0) return true; /* a parameter */
    const question maker = ask(q->along, ls_graph_producer(q->graph, t));
    option list[MOST_OPTIONS];
    bool can = false;
    for (int n = list_options(&maker, list), k = 0; k < n; k++)
        can |= of_output(&maker, list[k], info_of(q, t)->output) == wanted;
    return can;
}

/* Segments are not brought together: each rank's part of them would be a run of each. */
static bool is_segmented(const question *q, ls_tensor t, placement p) {
    const ls_factors *f = &q->along->features;
    return p >= 0 && f->dim != NULL && f->dim[t.id * LS_MAX_DIMS + p].n > 1;
}

static double times_of(const question *q, int i, placement wanted) {
    const ls_tensor t = q->node->in[i];
    const placement is = q->along->made_whole[t.id] ? WHOLE : q->along->at[t.id];
    if (is == wanted) return 0;
    if (is == OPEN) return can_make(q, t, wanted) ? 0 : -1;
    if (is == OPEN_SUM) return wanted < 0 ? 0 : -1;
    if (ls_op_adds_to(q->node->op, i)) return -1; /* the sum itself is added to, not a copy */
    if (is_segmented(q, t, is) || is_segmented(q, t, wanted)) return -1;
    const bool leaf = q->along->axis->kind == LS_AXIS_FEATURE && info_of(q, t)->role == LS_ROLE_PARAMETER;
    if (leaf && is == WHOLE && wanted == PARTIAL) return 0; /* a bias: it becomes the first rank's term */
    return travels[state_of(is)][state_of(wanted)];
}

/* The bytes that are redistributed for an option; -1: input *misfit cannot become what it asks. */
static double cost_of(const question *q, option choice, int *misfit) {
    double cost = 0;
    for (int i = 0; i < q->node->n_in; i++) {
        const ls_tensor_info *info = info_of(q, q->node->in[i]);
        const double times = times_of(q, i, of_input(q, choice, i));
        *misfit = i;
        if (times < 0) return -1;
        cost += times * (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
    }
    return cost;
}

/* --- choosing ----------------------------------------------------------------------------------------------------- */

/* No option will do: the input at which the one that goes furthest ends, and what that asks of it. */
static ls_status refuse(const question *q, option nearest, int i) {
    static const char *const names[STATES] = {"whole", "cut", "a partial sum"};
    const ls_tensor t = q->node->in[i];
    return ls_error(LS_UNSUPPORTED, "op %s: input %d \"%s\" is %s along %s, expected %s", q->node->op->name, i,
                    info_of(q, t)->name, names[state_of(q->along->at[t.id])], q->along->axis->name,
                    names[state_of(of_input(q, nearest, i))]);
}

static ls_status choose_option(const question *q, option *out) {
    option list[MOST_OPTIONS], nearest = {.way = ALL_WHOLE};
    double least = -1;
    int furthest = -1;
    for (int n = list_options(q, list), k = 0; k < n; k++) {
        int misfit = 0;
        const double cost = cost_of(q, list[k], &misfit);
        if (cost < 0 && misfit > furthest) {
            furthest = misfit;
            nearest = list[k];
        }
        if (cost < 0 || (least >= 0 && cost >= least)) continue;
        *out = list[k];
        least = cost;
    }
    return least >= 0 ? ls_ok() : refuse(q, nearest, furthest);
}

/* --- along one axis ----------------------------------------------------------------------------------------------- */

static void note(ls_placements *spread, placement p, int a) {
    if (p >= 0) spread->cut[p] |= ls_axis_bit(a);
    if (p == PARTIAL) spread->partial |= ls_axis_bit(a);
}

/*
 * Sums of gradients are added up over the ranks at the end; but where parameters are cut, gradients are spread as they.
 * A parameter is cut as its first reader asks. Of one that is not, ranks along axes of features may have different
 * terms of the gradient, or all of it.
 */
static placement leaf_placement(const along *l, const ls_tensor_info *t) {
    if (l->axis->kind == LS_AXIS_FEATURE) return t->role == LS_ROLE_PARAMETER || t->of.id != 0 ? OPEN : WHOLE;
    if (t->role == LS_ROLE_ACCUMULATOR) return PARTIAL;
    const int dim = ls_shape_dim_of(&t->shape, ls_axis_factor(l->axis));
    return dim >= 0 ? dim : WHOLE;
}

/* A gradient that has not been met before is spread as its parameter, where that is cut. */
static void meet_inputs(along *l, const ls_node *node) {
    for (int i = 0; i < node->n_in; i++) {
        const ls_tensor of = ls_graph_tensor(l->graph, node->in[i])->of;
        if (of.id != 0 && l->at[node->in[i].id] == OPEN)
            l->at[node->in[i].id] = l->at[of.id] >= 0 ? l->at[of.id] : OPEN_SUM;
    }
}

static ls_status shard_node(along *l, int n) {
    const ls_node *node = &l->graph->nodes[n];
    for (int o = 0; o < node->n_out && node->n_in == 0; o++) l->at[node->out[o].id] = OPEN;
    if (node->n_in == 0) return ls_ok();
    meet_inputs(l, node);
    const question q = ask(l, node);
    option choice;
    LS_TRY(choose_option(&q, &choice));
    for (int i = 0; i < node->n_in; i++) {
        const placement wanted = of_input(&q, choice, i);
        placement *is = &l->at[node->in[i].id];
        if (*is == OPEN_SUM) *is = wanted;
        if (*is == OPEN) *is = wanted == PARTIAL && l->graph->tensors[node->in[i].id].producer < 0 ? WHOLE : wanted;
        if (l->axis->kind == LS_AXIS_FEATURE && *is == PARTIAL && wanted == WHOLE) l->made_whole[node->in[i].id] = true;
        note(&l->out->wanted[n * LS_NODE_INPUTS + i], wanted, l->a);
    }
    for (int o = 0; o < node->n_out; o++) l->at[node->out[o].id] = of_output(&q, choice, o);
    if (choice.way == ADD_ON_FIRST) l->out->first_only[n] |= ls_axis_bit(l->a);
    return ls_ok();
}

static ls_status shard_along(along *l, int n_nodes) {
    const ls_graph *g = l->graph;
    memset(l->made_whole, 0, sizeof *l->made_whole * (size_t)g->n_tensors);
    for (int t = 1; t < g->n_tensors; t++)
        l->at[t] = g->tensors[t].role == LS_ROLE_VALUE ? WHOLE : leaf_placement(l, &g->tensors[t]);
    for (int n = 0; n < n_nodes; n++) LS_TRY(shard_node(l, n));
    for (int t = 1; t < g->n_tensors; t++) note(&l->out->tensor[t], l->at[t], l->a);
    return ls_ok();
}

/* --- heads and features ------------------------------------------------------------------------------------------- */

/*
 * Factors of which there are fewer than ranks, as of KV heads, and behind which another one stands in a product: the
 * product, query heads, is shared instead. What has one element is left out of products.
 */
static void find_covered(along *l, ls_arena *arena) {
    const ls_graph_factor *list = l->features.list;
    l->covered = LS_NEW_ARRAY(arena, bool, l->features.n);
    for (int i = 0; i < l->features.n; i++) l->covered[i] = list[i].size == 1;
    for (int i = 0; i < l->graph->n_tensors * LS_MAX_DIMS; i++) {
        const ls_factored_dim *dim = &l->features.dim[i];
        for (int s = 0; s < dim->n; s++) {
            const ls_segment *segment = &dim->segment[s];
            if (segment->n < 2) continue;
            l->covered[segment->factor[0]] |=
                list[segment->factor[0]].size < l->ranks && !list[segment->factor[1]].whole;
        }
    }
}

/* What of each tensor stays together: of a product of factors, all but those that ranks share. */
static ls_dim_units *find_units(const along *l, ls_arena *arena) {
    const int n = l->graph->n_tensors * LS_MAX_DIMS;
    ls_dim_units *units = LS_NEW_ARRAY(arena, ls_dim_units, n);
    for (int i = 0; i < n; i++) {
        const ls_factored_dim *dim = &l->features.dim[i];
        units[i].n = dim->n;
        for (int s = 0; s < dim->n; s++) {
            const int shared = shared_factors(l, &dim->segment[s]);
            units[i].segment[s].units = units[i].segment[s].elements = 1;
            for (int k = 0; k < dim->segment[s].n; k++) {
                const int64_t size = l->features.list[dim->segment[s].factor[k]].size;
                *(k < shared ? &units[i].segment[s].units : &units[i].segment[s].elements) *= size;
            }
        }
    }
    return units;
}

/* Of each tensor that is cut there must be a part for each rank. */
static ls_status check_parts(const ls_graph *g, const ls_mesh *mesh, const ls_sharding *s) {
    for (int t = 1; t < g->n_tensors; t++) {
        for (int d = 0; d < g->tensors[t].shape.ndim; d++) {
            const ls_axes cut = s->tensor[t].cut[d] & ls_mesh_axes(mesh, LS_AXIS_FEATURE);
            const int64_t fewest = ls_units_fewest(&s->units[t * LS_MAX_DIMS + d]);
            if (ls_mesh_size(mesh, cut) <= fewest || cut == 0) continue;
            char axes[64];
            ls_mesh_text(mesh, cut, axes, sizeof axes);
            return ls_error(LS_USAGE,
                            "--mesh %s: \"%s\" has %lld heads or features that ranks can share; expected at "
                            "most so many ranks",
                            axes, g->tensors[t].name, (long long)fewest);
        }
    }
    return ls_ok();
}

ls_status ls_shard(const ls_graph *g, int n_nodes, const ls_mesh *mesh, ls_arena *arena, ls_sharding *out) {
    ls_sharding s = {.tensor = LS_NEW_ARRAY(arena, ls_placements, g->n_tensors),
                     .wanted = LS_NEW_ARRAY(arena, ls_placements, n_nodes * LS_NODE_INPUTS + 1),
                     .first_only = LS_NEW_ARRAY(arena, ls_axes, n_nodes + 1)};
    along l = {.graph = g,
               .at = LS_NEW_ARRAY(arena, placement, g->n_tensors),
               .made_whole = LS_NEW_ARRAY(arena, bool, g->n_tensors),
               .out = &s};
    l.ranks = ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_FEATURE));
    if (l.ranks > 1) {
        ls_factors_find(g, arena, &l.features);
        find_covered(&l, arena);
    }
    for (l.a = 0; l.a < mesh->n; l.a++) {
        l.axis = mesh->along[l.a].axis;
        if (mesh->along[l.a].size > 1) LS_TRY(shard_along(&l, n_nodes));
    }
    if (l.features.dim != NULL) {
        s.units = find_units(&l, arena);
        LS_TRY(check_parts(g, mesh, &s));
    }
    *out = s;
    return ls_ok();
}
