/*
 * The lowering of a redistribution node: from one placement of a tensor to another, step by step. A tensor that is
 * whole becomes cut, or the first term of a partial sum, by a copy. A tensor that is cut or partial goes to other ranks
 * by the all-to-all and the all-reduce.
 */
#include "compile/redistribute/redistribute.h"

typedef struct change {
    ls_builder *b;
    ls_tensor tensor;
    const ls_shape *shape; /* global shape of the tensor */
    ls_placements now;
    ls_operand at; /* where the tensor is now; dense */
} change;

static ls_operand room(const change *c, ls_dtype dtype, int ndim, const int64_t *size) {
    return ls_build_private(c->b, LS_BUFFER_ACTIVATION, "redistributed", dtype, ndim, size);
}

/*
 * The tensor lies in `at` now, with the placements `spread`. The elements are dense; the shape of `at` may be another
 * one.
 */
static void now_at(change *c, ls_operand at, const ls_placements *spread) {
    int64_t size[LS_MAX_DIMS];
    ls_placements_size(c->b, c->tensor, spread, size);
    c->at = ls_operand_dense(at.buffer, at.offset, at.view.dtype, c->shape->ndim, size);
    c->now = *spread;
}

/* The operand with three dimensions: those before d merged, d, and those after d merged. */
static ls_operand around(ls_operand o, int d) {
    int64_t size[3] = {1, o.view.size[d], 1};
    for (int i = 0; i < o.view.ndim; i++)
        if (i != d) size[i < d ? 0 : 2] *= o.view.size[i];
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 3, size);
}

/* The largest size of each dimension on any rank. */
static void most_sizes(const change *c, const ls_placements *spread, int64_t most[LS_MAX_DIMS]) {
    for (int d = 0; d < c->shape->ndim; d++) most[d] = ls_sizes_of(c->b, c->tensor, d, spread->cut[d]).most;
}

/* The product of the sizes of dimensions first .. past - 1. */
static int64_t product(const int64_t *size, int first, int past) {
    int64_t n = 1;
    for (int d = first; d < past; d++) n *= size[d];
    return n;
}

/* The segments of dimension d; NULL: it is one segment, of which each rank has one part, in the order of the ranks. */
static const ls_dim_units *segments_of(const change *c, int d) {
    const ls_dim_units *units = c->b->sharding->units;
    if (units == NULL) return NULL;
    units += c->tensor.id * LS_MAX_DIMS + d;
    return units->n > 1 ? units : NULL;
}

/*
 * How the ranks along `axes` share dimension d, with their parts one after the other: all of it, or, along feature
 * axes, only the indices that the other axes that cut d leave to these ranks. Axes of one factor get the same requests
 * and have the same options, so either all of them cut d or none does.
 */
static ls_parts parts_of(const change *c, int d, ls_axes axes) {
    ls_builder *b = c->b;
    const ls_axes outer = c->now.cut[d] & ~axes;
    const ls_team team = ls_mesh_team(&b->target->mesh, axes);
    const int size = ls_team_size(&team), me = b->target->rank, place = ls_team_place(&team, me);
    const ls_indices all = ls_indices_of(b, c->tensor, d, outer, me);
    ls_parts parts = {.total = all.count,
                      .most = ls_sizes_of(b, c->tensor, d, outer | axes).most,
                      .most_total = ls_sizes_of(b, c->tensor, d, outer).most,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, size),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, size)};
    for (int p = 0; p < size; p++) {
        const ls_indices part = ls_indices_of(b, c->tensor, d, outer | axes, ls_team_member(&team, me, p - place));
        parts.start[p] = segments_of(c, d) == NULL ? part.start - all.start
                         : p > 0                   ? parts.start[p - 1] + parts.count[p - 1]
                                                   : 0;
        parts.count[p] = part.count;
    }
    ls_parts_find_sharers(&parts, &team);
    return parts;
}

/* Every member has the whole. */
static ls_parts shared(const change *c, int64_t total, int64_t most, int members) {
    ls_parts parts = {.total = total,
                      .most = most,
                      .most_total = most,
                      .sharers = members,
                      .start = LS_NEW_ARRAY(c->b->image->arena, int64_t, members),
                      .count = LS_NEW_ARRAY(c->b->image->arena, int64_t, members)};
    for (int p = 0; p < members; p++) parts.count[p] = total;
    return parts;
}

/* Each member has one row of its own. */
static ls_parts rows(const change *c, int members) {
    ls_parts parts = shared(c, 1, 1, members);
    for (int p = 0; p < members; p++) parts.start[p] = p;
    parts.total = parts.most_total = members;
    parts.sharers = 1;
    return parts;
}

static const char *label_of(const change *c, const char *what, int team) {
    return ls_arena_printf(c->b->image->arena, "%s.%d", what, team);
}

static ls_operand exchange(const change *c, const ls_recut *recut, ls_operand mine) {
    const ls_all_to_all x = ls_all_to_all_begin(c->b, recut, mine);
    const ls_operand result = ls_all_to_all_finish(c->b, &x);
    ls_all_to_all_settle(c->b, &x);
    return result;
}

/* --- the order of what ranks share -------------------------------------------------------------------------------- */

/*
 * Whether the whole dimension d has its tokens or features in another order than the parts of the ranks, one after the
 * other, have.
 */
static bool is_permuted(const change *c, int d, ls_axes axes) {
    if (segments_of(c, d) != NULL) return true;
    return c->shape->dim[d].factor == LS_FACTOR_SEQUENCE && c->b->image->layout.kind != LS_LAYOUT_CONTIGUOUS &&
           (axes & ls_mesh_axes(&c->b->target->mesh, LS_AXIS_SEQUENCE)) != 0;
}

/* The positions of a run, as a view of [outer, all positions, inner]. */
static ls_operand positions_of(ls_operand natural, const ls_layout_run *run) {
    ls_operand out = ls_operand_slice(natural, 1, run->first, (run->count - 1) * run->step + 1);
    out.view.size[1] = run->count;
    out.view.stride[1] *= run->step;
    return out;
}

/*
 * Copies the tokens of ranks first .. past - 1 between `natural`, where they are at their positions, and `in_order`,
 * where they lie rank by rank. to_order: from `natural` to `in_order`.
 */
static void copy_tokens(const change *c, int first, int past, ls_operand natural, ls_operand in_order, bool to_order) {
    int64_t at = 0;
    for (int p = first; p < past; p++) {
        const ls_layout_run *run;
        const int n = ls_layout_runs(&c->b->image->layout, p, &run);
        for (int i = 0; i < n; at += run[i++].count) {
            const ls_operand tokens = positions_of(natural, &run[i]),
                             held = ls_operand_slice(in_order, 1, at, run[i].count);
            ls_build_copy(c->b, to_order ? tokens : held, to_order ? held : tokens);
        }
    }
}

/* The same as copy_tokens, for a dimension in segments, of each of which every rank has a part. */
static void copy_features(const change *c, int d, int parts, ls_operand natural, ls_operand in_order, bool to_order) {
    const ls_dim_units *units = segments_of(c, d);
    int64_t at = 0;
    for (int p = 0; p < parts; p++) {
        const int64_t count = ls_units_count(units, parts, p);
        for (int64_t i = 0, follow; i < count; i += follow, at += follow) {
            const int64_t place = ls_units_place(units, parts, p, i, &follow);
            const ls_operand whole = ls_operand_slice(natural, 1, place, follow),
                             held = ls_operand_slice(in_order, 1, at, follow);
            ls_build_copy(c->b, to_order ? whole : held, to_order ? held : whole);
        }
    }
}

/* Copies the parts of all ranks of dimension d between the two orders. */
static void copy_parts(const change *c, int d, int parts, ls_operand natural, ls_operand in_order, bool to_order) {
    if (segments_of(c, d) != NULL)
        copy_features(c, d, parts, natural, in_order, to_order);
    else
        copy_tokens(c, 0, parts, natural, in_order, to_order);
}

/* Copies this rank's part of each segment of dimension d to `own`, one after the other. */
static void copy_own_features(const change *c, int d, int team, ls_operand natural, ls_operand own) {
    const ls_dim_units *units = segments_of(c, d);
    const int members = ls_build_team_size(c->b, team), place = ls_build_team_place(c->b, team);
    int64_t first = 0, at = 0;
    for (int s = 0; s < units->n; s++) {
        const int64_t n = units->segment[s].units, elements = units->segment[s].elements;
        ls_parts parts = {.total = n * elements,
                          .start = LS_NEW_ARRAY(c->b->image->arena, int64_t, members),
                          .count = LS_NEW_ARRAY(c->b->image->arena, int64_t, members)};
        for (int p = 0; p < members; p++) {
            parts.start[p] = ls_part_start(n, members, p) * elements;
            parts.count[p] = ls_part_start(n, members, p + 1) * elements - parts.start[p];
        }
        ls_parts_find_sharers(&parts, &c->b->image->teams[team]);
        const ls_operand segment = ls_operand_slice(natural, 1, first, parts.total);
        ls_build_copy(c->b, ls_part_at(c->b, team, segment, 1, &parts, 0),
                      ls_operand_slice(own, 1, at, parts.count[place]));
        first += parts.total;
        at += parts.count[place];
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* whole -> cut: keeps this rank's part. */
static void slice(change *c, int d, ls_axes axes) {
    ls_placements then = c->now;
    then.cut[d] |= axes;
    const int team = ls_build_team_of(c->b, axes), place = ls_build_team_place(c->b, team);
    const ls_parts parts = parts_of(c, d, axes);
    const ls_operand from = around(c->at, d);
    const int64_t size[] = {from.view.size[0], parts.count[place], from.view.size[2]};
    const ls_operand to = room(c, from.view.dtype, 3, size);
    if (segments_of(c, d) != NULL)
        copy_own_features(c, d, team, from, to);
    else if (is_permuted(c, d, axes))
        copy_tokens(c, place, place + 1, from, to, true);
    else
        ls_build_copy(c->b, ls_part_at(c->b, team, from, 1, &parts, 0), to);
    now_at(c, to, &then);
}

/* cut -> whole */
static void gather(change *c, int d, ls_axes axes) {
    ls_placements then = c->now;
    then.cut[d] &= ~axes;
    const int ndim = c->shape->ndim, team = ls_build_team_of(c->b, axes), members = ls_build_team_size(c->b, team);
    const ls_operand mine = around(c->at, d);
    int64_t most[LS_MAX_DIMS] = {0};
    most_sizes(c, &c->now, most);
    const ls_parts from = parts_of(c, d, axes), to = shared(c, mine.view.size[2], product(most, d + 1, ndim), members);
    const ls_recut recut = {.label = label_of(c, "gather", team),
                            .team = team,
                            .from_dim = 1,
                            .to_dim = 2,
                            .from = &from,
                            .to = &to,
                            .rest = product(most, 0, d)};
    ls_operand all = exchange(c, &recut, mine);
    if (is_permuted(c, d, axes)) {
        const ls_operand natural = room(c, all.view.dtype, 3, all.view.size);
        copy_parts(c, d, members, natural, all, false);
        all = natural;
    }
    now_at(c, all, &then);
}

static ls_operand in_type(const change *c, ls_operand from, ls_dtype dtype, const char *name) {
    if (from.view.dtype == dtype) return from;
    const ls_operand to = ls_build_private(c->b, LS_BUFFER_ACTIVATION, name, dtype, from.view.ndim, from.view.size);
    ls_build_cast(c->b, from, to);
    return to;
}

/* Shares of equal size for all members of a team. n: elements in this team; most: elements in the largest team. */
static ls_parts shares_of(const change *c, int64_t n, int64_t most, int members) {
    const int64_t count = ls_ceil_div(n, members);
    ls_parts parts = shared(c, count, ls_ceil_div(most, members), members);
    parts.total = count * members;
    parts.most_total = parts.most * members;
    parts.sharers = 1;
    for (int p = 0; p < members; p++) parts.start[p] = p * count;
    return parts;
}

/* The operand's elements as a list, followed by zeros up to `total` elements. */
static ls_operand padded(const change *c, ls_operand part, int64_t total) {
    const int64_t n = ls_view_elements(&part.view);
    const ls_operand flat = ls_operand_elements(part, 0, n);
    if (n == total) return flat;
    const ls_operand to = room(c, part.view.dtype, 1, &total);
    ls_build_copy(c->b, flat, ls_operand_slice(to, 0, 0, n));
    ls_build_fill(c->b, ls_operand_slice(to, 0, n, total - n));
    return to;
}

/* Adds one addend of each member (they lie one after the other), in the accumulator's type. */
static ls_operand add_up(const change *c, ls_operand addends, int members) {
    const ls_dtype G = c->b->image->accumulator;
    const int64_t n = ls_view_elements(&addends.view) / members;
    const ls_operand sum = ls_build_private(c->b, LS_BUFFER_ACTIVATION, "sum over ranks", G, 1, &n);
    ls_build_add_rows(c->b, in_type(c, addends, G, "addends"), members, sum);
    return sum;
}

/* This rank's share of the sum: each member gets all addends of its share, and adds them in the order of places. */
static ls_operand add_share(const change *c, int team, ls_operand part, const ls_parts *shares) {
    ls_builder *b = c->b;
    const int members = ls_build_team_size(b, team);
    const ls_parts from = rows(c, members);
    const ls_recut recut = {.label = label_of(c, "sum", team),
                            .team = team,
                            .from_dim = 0,
                            .to_dim = 1,
                            .from = &from,
                            .to = shares,
                            .rest = 1};
    const int64_t size[] = {1, shares->total};
    part = padded(c, part, shares->total);
    return add_up(c, exchange(c, &recut, ls_operand_dense(part.buffer, part.offset, part.view.dtype, 2, size)),
                  members);
}

/* Each rank adds its share of a large sum, then sends it to the others. */
static ls_operand reduce_shares(const change *c, int team, ls_operand part, int64_t most, ls_dtype T) {
    const int members = ls_build_team_size(c->b, team);
    const ls_parts shares = shares_of(c, ls_view_elements(&part.view), most, members), all = shared(c, 1, 1, members);
    const ls_operand mine = in_type(c, add_share(c, team, part, &shares), T, "sum over ranks");
    const ls_recut recut = {.label = label_of(c, "gather", team),
                            .team = team,
                            .from_dim = 0,
                            .to_dim = 1,
                            .from = &shares,
                            .to = &all,
                            .rest = 1};
    const int64_t size[] = {mine.view.size[0], 1};
    return exchange(c, &recut, ls_operand_dense(mine.buffer, mine.offset, T, 2, size));
}

/* partial -> whole */
static void reduce(change *c, ls_axes axes) {
    enum { LARGE = 1 << 13 }; /* bytes; smaller sums take one exchange, for lower latency */
    ls_builder *b = c->b;
    ls_placements then = c->now;
    then.partial &= ~axes;
    const ls_view *v = &c->at.view;
    const ls_dtype T = v->dtype, G = b->image->accumulator;
    const int team = ls_build_team_of(b, axes);
    int64_t sizes[LS_MAX_DIMS] = {0};
    most_sizes(c, &c->now, sizes);
    const int64_t most = product(sizes, 0, c->shape->ndim);
    if (most * (int64_t)ls_dtype_bytes(G) >= LARGE) {
        now_at(c, reduce_shares(c, team, c->at, most, T), &then);
        return;
    }
    const ls_operand part = in_type(c, c->at, G, "part");
    const ls_operand sum = ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over ranks", G, v->ndim, v->size);
    ls_all_reduce reduction = ls_all_reduce_begin(b, team, part, sum, most);
    ls_all_reduce_finish(b, &reduction);
    now_at(c, in_type(c, sum, T, "sum over ranks"), &then);
}

/* partial -> cut: each part of the addends goes to the rank that needs it, which adds them in the order of places. */
static void scatter(change *c, int d, ls_axes axes) {
    ls_builder *b = c->b;
    ls_placements then = c->now;
    then.partial &= ~axes;
    then.cut[d] |= axes;
    const ls_dtype T = c->at.view.dtype;
    ls_operand mine = around(c->at, d);
    if (is_permuted(c, d, axes)) {
        const ls_operand in_order = room(c, T, 3, mine.view.size);
        copy_parts(c, d, ls_mesh_size(&b->target->mesh, axes), mine, in_order, true);
        mine = in_order;
    }
    const int ndim = c->shape->ndim, team = ls_build_team_of(b, axes), members = ls_build_team_size(b, team);
    int64_t most[LS_MAX_DIMS] = {0};
    most_sizes(c, &c->now, most);
    const ls_parts from = rows(c, members), to = parts_of(c, d, axes);
    const ls_recut recut = {.label = label_of(c, "scatter", team),
                            .team = team,
                            .from_dim = 0,
                            .to_dim = 2,
                            .from = &from,
                            .to = &to,
                            .rest = product(most, 0, d) * product(most, d + 1, ndim)};
    const int64_t size[] = {1, mine.view.size[0], mine.view.size[1], mine.view.size[2]};
    const ls_operand sum =
        add_up(c, exchange(c, &recut, ls_operand_dense(mine.buffer, mine.offset, T, 4, size)), members);
    now_at(c, in_type(c, sum, T, "sum over ranks"), &then);
}

/* whole -> partial: the first rank's term is the tensor, the other ranks' terms are zeros. */
static void spread_terms(change *c, ls_axes axes) {
    ls_builder *b = c->b;
    const ls_view *v = &c->at.view;
    const int team = ls_build_team_of(b, axes);
    const int64_t size[] = {ls_build_team_size(b, team), ls_view_elements(v)};
    const ls_operand terms = room(c, v->dtype, 2, size);
    ls_build_fill(b, ls_operand_slice(terms, 0, 1, size[0] - 1));
    ls_build_copy(b, ls_operand_elements(c->at, 0, size[1]), ls_operand_elements(terms, 0, size[1]));
    ls_placements then = c->now;
    then.partial |= axes;
    const int64_t one[] = {1, size[1]};
    const ls_operand mine = room(c, v->dtype, 2, one);
    ls_build_copy(b, ls_build_share(b, terms, 0, 1, team, 0), mine);
    now_at(c, mine, &then);
}

/* The axes that cut d now and are to cut another dimension: the tensor becomes whole along them in between. */
static ls_axes cut_elsewhere(const change *c, const ls_placements *to, int d) {
    ls_axes elsewhere = 0;
    for (int other = 0; other < c->shape->ndim; other++)
        if (other != d) elsewhere |= c->now.cut[d] & to->cut[other];
    return elsewhere;
}

/*
 * Makes dimension d whole along some axes before any other step. Ranks along feature axes share what the other axes
 * leave to them. So where the cut along the other axes changes, the cut along feature axes is undone first and made
 * again later.
 */
static void clear(change *c, const ls_placements *to, int d, ls_axes features) {
    const ls_axes elsewhere = cut_elsewhere(c, to, d), others = ~features & (c->now.cut[d] ^ to->cut[d]);
    const ls_axes inner = features & c->now.cut[d], outer = ~features & c->now.cut[d];
    const ls_axes leaves = outer & (features & (inner | to->cut[d]) ? others | elsewhere : elsewhere);
    if (inner & elsewhere || (inner && others)) gather(c, d, inner);
    if (leaves) gather(c, d, leaves);
}

/*
 * Cuts the tensor along `axes`, where it is whole or partial. No axis of `axes` divides what another one of them
 * leaves.
 */
static void cut(change *c, const ls_placements *to, ls_axes axes) {
    ls_axes is_cut = 0;
    for (int d = 0; d < c->shape->ndim; d++) is_cut |= c->now.cut[d];
    const ls_axes whole = axes & ~is_cut & ~c->now.partial;
    for (int d = 0; d < c->shape->ndim; d++)
        if (to->cut[d] & whole) slice(c, d, to->cut[d] & whole);
    for (int d = 0; d < c->shape->ndim; d++)
        if (to->cut[d] & axes & c->now.partial) scatter(c, d, to->cut[d] & axes & c->now.partial);
}

/* Gathers what is cut along some of the axes and is to be whole. */
static void uncut(change *c, const ls_placements *to, ls_axes axes) {
    for (int d = 0; d < c->shape->ndim; d++)
        if (c->now.cut[d] & ~to->cut[d] & axes) gather(c, d, c->now.cut[d] & ~to->cut[d] & axes);
}

static void lower(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_placements *to = &b->sharding->tensor[node->out[0].id];
    change c = {.b = b,
                .tensor = node->in[0],
                .shape = &ls_graph_tensor(b->job->graph, node->in[0])->shape,
                .now = b->sharding->tensor[node->in[0].id],
                .at = ls_lower_tensor(b, node->in[0])};
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
    /*
     * First the steps that make the tensor smaller, last those that make it larger. The steps of feature axes stand
     * between those of the other axes, as feature axes share what the others leave.
     */
    for (int d = 0; d < c.shape->ndim; d++) clear(&c, to, d, features);
    cut(&c, to, ~features);
    cut(&c, to, features);
    if (c.now.partial & ~to->partial) reduce(&c, c.now.partial & ~to->partial);
    if (to->partial & ~c.now.partial) spread_terms(&c, to->partial & ~c.now.partial);
    uncut(&c, to, features);
    uncut(&c, to, ~features);
    LS_ASSERT(ls_placements_equal(&c.now, to));
    ls_lower_bind(b, node->out[0], c.at);
}

const ls_lowering ls_lowering_redistribute = {.lower = lower};
