/*
 * Redistribution nodes: where a tensor is spread over the ranks otherwise than a node needs it, a node stands between
 * that brings it from the one to the other. One pass puts them into the graph, so that no lowering knows of them; their
 * own lowering calls the collectives.
 */
#include "compile/redistribute/redistribute.h"

#include <string.h>

/* --- putting nodes into the graph --------------------------------------------------------------------------------- */

/* A tensor as some nodes need it. */
typedef struct brought {
    ls_placements spread;
    ls_tensor tensor;
    const struct brought *next;
} brought;

typedef struct insertion {
    const ls_graph *from;
    const ls_sharding *sharding; /* of that graph */
    ls_arena *arena;
    ls_graph *to;
    ls_sharding out;
    const brought **as; /* by tensor: what has been brought since a program last began */
    int *moved;         /* by node: its new number */
    size_t tensor_capacity, wanted_capacity, node_capacity;
    int n_tensors, n_wanted, n_nodes;
} insertion;

static bool differs(const ls_graph *g, const ls_sharding *s, int n, int i) {
    return !ls_placements_equal(&s->wanted[n * LS_NODE_INPUTS + i], &s->tensor[g->nodes[n].in[i].id]);
}

bool ls_is_redistributed(const ls_graph *g, const ls_sharding *s) {
    bool is = false;
    for (int n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_placements *have = &s->tensor[g->nodes[n].in[i].id], *want = &s->wanted[n * LS_NODE_INPUTS + i];
            for (int d = 0; d < LS_MAX_DIMS; d++) is |= have->cut[d] != want->cut[d];
        }
    }
    return is;
}

static ls_tensor push_tensor(insertion *p, const ls_tensor_info *info, const ls_placements *spread) {
    *LS_PUSH(p->arena, p->to->tensors, p->to->n_tensors, p->to->tensor_capacity) = *info;
    *LS_PUSH(p->arena, p->out.tensor, p->n_tensors, p->tensor_capacity) = *spread;
    return ls_graph_at(p->to, p->to->n_tensors - 1);
}

static void push_node(insertion *p, const ls_node *node, const ls_placements *wanted, ls_axes first_only) {
    *LS_PUSH(p->arena, p->to->nodes, p->to->n_nodes, p->to->node_capacity) = *node;
    *LS_PUSH(p->arena, p->out.first_only, p->n_nodes, p->node_capacity) = first_only;
    for (int i = 0; i < LS_NODE_INPUTS; i++)
        *LS_PUSH(p->arena, p->out.wanted, p->n_wanted, p->wanted_capacity) = wanted[i];
}

/* Adds the node that makes of tensor t one that is spread so. */
static ls_tensor add_redistribute(insertion *p, ls_tensor t, const ls_placements *want) {
    ls_tensor_info info = *ls_graph_tensor(p->from, t);
    info.role = LS_ROLE_VALUE;
    info.of = LS_NO_TENSOR;
    info.name = ls_arena_printf(p->arena, "%s redistributed", info.name);
    info.producer = p->to->n_nodes;
    info.output = 0;
    const ls_tensor made = push_tensor(p, &info, want);
    p->to->tensors[made.id].storage = made;
    const ls_node node = {.op = &ls_op_redistribute, .n_in = 1, .in = {t}, .n_out = 1, .out = {made}, .forward = -1};
    const ls_placements wanted[LS_NODE_INPUTS] = {p->sharding->tensor[t.id]};
    push_node(p, &node, wanted, 0);
    return made;
}

/* The tensor that is t, spread so. */
static ls_tensor bring(insertion *p, ls_tensor t, const ls_placements *want) {
    const brought *as = p->as[t.id];
    while (as != NULL && !ls_placements_equal(&as->spread, want)) as = as->next;
    if (as != NULL) return as->tensor;
    brought *made = LS_NEW(p->arena, brought);
    *made = (brought){*want, add_redistribute(p, t, want), p->as[t.id]};
    p->as[t.id] = made;
    return made->tensor;
}

static void copy_node(insertion *p, int n) {
    ls_node node = p->from->nodes[n];
    for (int i = 0; i < node.n_in; i++)
        if (differs(p->from, p->sharding, n, i))
            node.in[i] = bring(p, node.in[i], &p->sharding->wanted[n * LS_NODE_INPUTS + i]);
    if (node.forward >= 0) node.forward = p->moved[node.forward];
    p->moved[n] = p->to->n_nodes;
    ls_graph_own_outputs(p->to, &node);
    push_node(p, &node, &p->sharding->wanted[n * LS_NODE_INPUTS], p->sharding->first_only[n]);
}

static bool begins_program(const ls_job_programs *programs, int n) {
    bool begins = false;
    for (int i = 0; i < programs->n; i++) begins |= programs->list[i].first_node == n;
    return begins;
}

/* Where nodes of the old graph begin and end, in the new one. */
static ls_job_programs moved_programs(const insertion *p, const ls_job_programs *old, const int *begins) {
    ls_job_programs programs = *old;
    ls_job_program *list = ls_arena_copy(p->arena, old->list, sizeof *list * (size_t)old->n);
    for (int i = 0; i < old->n; i++) {
        list[i].first_node = begins[old->list[i].first_node];
        if (old->list[i].end_node <= p->from->n_nodes) list[i].end_node = begins[old->list[i].end_node];
    }
    programs.list = list;
    return programs;
}

void ls_redistribute(ls_job *job, ls_arena *arena, ls_sharding *sharding) {
    const ls_graph *g = job->graph;
    bool any = false;
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++) any |= differs(g, sharding, n, i);
    if (!any) return;
    ls_graph *to = ls_graph_bare(g, arena);
    insertion p = {.from = g,
                   .sharding = sharding,
                   .arena = arena,
                   .to = to,
                   .as = LS_NEW_ARRAY(arena, const brought *, g->n_tensors),
                   .moved = LS_NEW_ARRAY(arena, int, g->n_nodes + 1)};
    int *begins = LS_NEW_ARRAY(arena, int, g->n_nodes + 1); /* by node: where it, and what is brought for it, begins */
    for (int t = 0; t < g->n_tensors; t++) (void)push_tensor(&p, &g->tensors[t], &sharding->tensor[t]);
    for (int n = 0; n < g->n_nodes; n++) {
        if (begins_program(&job->programs, n)) memset(p.as, 0, sizeof *p.as * (size_t)g->n_tensors);
        begins[n] = to->n_nodes;
        if (n == g->forward_nodes) to->forward_nodes = to->n_nodes;
        copy_node(&p, n);
    }
    begins[g->n_nodes] = to->n_nodes;
    if (g->forward_nodes == g->n_nodes) to->forward_nodes = to->n_nodes;
    job->programs = moved_programs(&p, &job->programs, begins);
    job->graph = to;
    *sharding = p.out;
}

/* --- one node: step by step from one spread to another ------------------------------------------------------------ */

typedef struct change {
    ls_builder *b;
    const ls_shape *shape; /* global */
    ls_placements now;
    ls_operand at; /* dense */
} change;

static ls_operand room(const change *c, ls_dtype dtype, int ndim, const int64_t *size) {
    return ls_build_private(c->b, LS_BUFFER_ACTIVATION, "redistributed", dtype, ndim, size);
}

/* The tensor lies there now, spread so; its elements follow each other in whatever form. */
static void now_at(change *c, ls_operand at, const ls_placements *spread) {
    int64_t size[LS_MAX_DIMS];
    ls_placements_size(c->b, c->shape, spread, size);
    c->at = ls_operand_dense(at.buffer, at.offset, at.view.dtype, c->shape->ndim, size);
    c->now = *spread;
}

/* Dimension d between the dimensions outside and inside of it: [outer, size, inner]. */
static ls_operand around(ls_operand o, int d) {
    int64_t size[3] = {1, o.view.size[d], 1};
    for (int i = 0; i < o.view.ndim; i++)
        if (i != d) size[i < d ? 0 : 2] *= o.view.size[i];
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 3, size);
}

/* The largest size of each dimension on any rank. */
static void most_sizes(const change *c, const ls_placements *spread, int64_t most[LS_MAX_DIMS]) {
    for (int d = 0; d < c->shape->ndim; d++) {
        most[d] = 0;
        for (int r = 0; r < ls_mesh_ranks(&c->b->target->mesh); r++)
            most[d] = ls_max(most[d], ls_indices_of(c->b, &c->shape->dim[d], spread->cut[d], r).count);
    }
}

/* The product of the sizes from dimension `first` to before `past`. */
static int64_t product(const int64_t *size, int first, int past) {
    int64_t n = 1;
    for (int d = first; d < past; d++) n *= size[d];
    return n;
}

/*
 * How the members of a team share dimension d. Axes of one factor are asked the same of and take the same options, so
 * all of them cut it or none does.
 */
static ls_parts parts_of(const change *c, int d, ls_axes axes) {
    ls_builder *b = c->b;
    const ls_mesh *mesh = &b->target->mesh;
    const ls_dim *dim = &c->shape->dim[d];
    const ls_team team = ls_mesh_team(mesh, axes);
    const int size = ls_team_size(&team), me = b->target->rank, place = ls_team_place(&team, me);
    ls_parts parts = {.total = dim->size,
                      .most_total = dim->size,
                      .even = true,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, size),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, size)};
    for (int p = 0; p < size; p++) {
        const ls_indices part = ls_indices_of(b, dim, axes, ls_team_member(&team, me, p - place));
        parts.start[p] = part.start;
        parts.count[p] = part.count;
        parts.most = ls_max(parts.most, part.count);
    }
    for (int p = 0; p < size; p++) parts.even &= parts.count[p] == parts.most && parts.start[p] == p * parts.most;
    return parts;
}

/* All members have all of it. */
static ls_parts shared(const change *c, int64_t total, int64_t most, int members) {
    ls_parts parts = {.total = total,
                      .most = most,
                      .most_total = most,
                      .start = LS_NEW_ARRAY(c->b->image->arena, int64_t, members),
                      .count = LS_NEW_ARRAY(c->b->image->arena, int64_t, members)};
    for (int p = 0; p < members; p++) parts.count[p] = total;
    return parts;
}

/* Each member has a row of its own. */
static ls_parts rows(const change *c, int members) {
    ls_parts parts = shared(c, 1, 1, members);
    for (int p = 0; p < members; p++) parts.start[p] = p;
    parts.total = parts.most_total = members;
    parts.even = true;
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

/* --- the order of the sequence ------------------------------------------------------------------------------------ */

/* Whether dimension d, whole, has the tokens in another order than the ranks together. */
static bool is_permuted(const change *c, int d) {
    return c->shape->dim[d].factor == LS_FACTOR_SEQUENCE && c->b->image->layout.kind != LS_LAYOUT_CONTIGUOUS;
}

/* The positions of a run, of [outer, all positions, inner]. */
static ls_operand positions_of(ls_operand natural, const ls_layout_run *run) {
    ls_operand out = ls_operand_slice(natural, 1, run->first, (run->count - 1) * run->step + 1);
    out.view.size[1] = run->count;
    out.view.stride[1] *= run->step;
    return out;
}

/* Copies the tokens of ranks first .. past - 1 of the layout, one after the other, from or to where they stand. */
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

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* whole -> cut: this rank's part of what it has. */
static void slice(change *c, int d, ls_axes axes) {
    LS_ASSERT(c->now.cut[d] == 0);
    ls_placements then = c->now;
    then.cut[d] = axes;
    const int team = ls_build_team_of(c->b, axes), place = ls_build_team_place(c->b, team);
    const ls_parts parts = parts_of(c, d, axes);
    const ls_operand from = around(c->at, d);
    const int64_t size[] = {from.view.size[0], parts.count[place], from.view.size[2]};
    const ls_operand to = room(c, from.view.dtype, 3, size);
    if (is_permuted(c, d))
        copy_tokens(c, place, place + 1, from, to, true);
    else
        ls_build_copy(c->b, ls_part_at(c->b, team, from, 1, &parts, 0), to);
    now_at(c, to, &then);
}

/* cut -> whole */
static void gather(change *c, int d, ls_axes axes) {
    LS_ASSERT(c->now.cut[d] == axes);
    ls_placements then = c->now;
    then.cut[d] = 0;
    const int ndim = c->shape->ndim, team = ls_build_team_of(c->b, axes), members = ls_build_team_size(c->b, team);
    const ls_operand mine = around(c->at, d);
    int64_t most[LS_MAX_DIMS];
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
    if (is_permuted(c, d)) {
        const ls_operand natural = room(c, all.view.dtype, 3, all.view.size);
        copy_tokens(c, 0, members, natural, all, false);
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

/* partial -> whole */
static void reduce(change *c, ls_axes axes) {
    ls_builder *b = c->b;
    ls_placements then = c->now;
    then.partial &= ~axes;
    const ls_view *v = &c->at.view;
    const ls_dtype T = v->dtype, G = b->image->accumulator;
    const ls_operand part = in_type(c, c->at, G, "part");
    const ls_operand sum = ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over ranks", G, v->ndim, v->size);
    ls_all_reduce reduction = ls_all_reduce_begin(b, ls_build_team_of(b, axes), part, sum);
    ls_all_reduce_finish(b, &reduction);
    now_at(c, in_type(c, sum, T, "sum over ranks"), &then);
}

/* partial -> cut: each part of the addends goes to the rank that needs it, which adds them in the order of places. */
static void scatter(change *c, int d, ls_axes axes) {
    LS_ASSERT(c->now.cut[d] == 0);
    ls_builder *b = c->b;
    ls_placements then = c->now;
    then.partial &= ~axes;
    then.cut[d] = axes;
    const ls_dtype T = c->at.view.dtype, G = b->image->accumulator;
    ls_operand mine = in_type(c, around(c->at, d), G, "part");
    if (is_permuted(c, d)) {
        const ls_operand in_order = room(c, G, 3, mine.view.size);
        copy_tokens(c, 0, b->image->layout.P, mine, in_order, true);
        mine = in_order;
    }
    const int ndim = c->shape->ndim, team = ls_build_team_of(b, axes), members = ls_build_team_size(b, team);
    int64_t most[LS_MAX_DIMS];
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
    const ls_operand addends =
        exchange(c, &recut, ls_operand_dense(mine.buffer, mine.offset, mine.view.dtype, 4, size));
    const int64_t n = ls_view_elements(&addends.view) / members;
    const ls_operand sum = ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over ranks", G, 1, &n);
    ls_build_add_rows(b, addends, members, sum);
    now_at(c, in_type(c, sum, T, "sum over ranks"), &then);
}

static void lower(ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_placements *to = &b->sharding->tensor[node->out[0].id];
    change c = {.b = b,
                .shape = &ls_graph_tensor(b->job->graph, node->in[0])->shape,
                .now = b->sharding->tensor[node->in[0].id],
                .at = ls_lower_tensor(b, node->in[0])};
    const int ndim = c.shape->ndim;
    ls_axes cut = c.now.partial; /* where the tensor is not whole */
    for (int d = 0; d < ndim; d++) cut |= c.now.cut[d];
    /* First what makes it smaller, last what makes it larger. */
    for (int d = 0; d < ndim; d++)
        if (to->cut[d] & ~cut) slice(&c, d, to->cut[d] & ~cut);
    for (int d = 0; d < ndim; d++)
        if (to->cut[d] & c.now.partial) scatter(&c, d, to->cut[d] & c.now.partial);
    if (c.now.partial & ~to->partial) reduce(&c, c.now.partial & ~to->partial);
    for (int d = 0; d < ndim; d++)
        if (c.now.cut[d] & ~to->cut[d]) gather(&c, d, c.now.cut[d] & ~to->cut[d]);
    ls_lower_bind(b, node->out[0], c.at);
}

const ls_lowering ls_lowering_redistribute = {.lower = lower};
