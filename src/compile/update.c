/*
 * The end of a step, after the gradients are reduced. The scalars of the step are added over the ranks (totals.c). Then
 * each rank updates the part of the parameters for which it has the optimiser's state, piece by piece, as the optimiser
 * says. If this is a shard and parameters are whole, a group's new parameters are gathered while the next group is
 * updated. If it is all of them, each rank first gets the sums of all gradients.
 */
#include "compile/optimizer/optimizer.h"
#include "compile/pass.h"
#include "compile/redistribute/redistribute.h"

/* --- the nodes ---------------------------------------------------------------------------------------------------- */

/* Groups that are updated together. */
typedef struct update {
    int first, n;
    const ls_operand *sums; /* of all gradients, if each rank updates all parameters; NULL: it updates its shard */
} update;

/* Elements start .. start + count - 1 of the piece. */
static ls_update_piece part_of(const ls_update_piece *piece, int64_t start, int64_t count) {
    ls_update_piece part = *piece;
    part.count = count;
    part.gradients = ls_operand_slice(piece->gradients, 0, start, count);
    part.masters = ls_operand_slice(piece->masters, 0, start, count);
    part.parameters = ls_operand_slice(piece->parameters, 0, start, count);
    part.groups = ls_operand_slice(piece->groups, 0, start / LS_FLAT_UNIT, count / LS_FLAT_UNIT);
    for (int i = 0; i < LS_KERNEL_OUTPUTS; i++)
        if (piece->state[i].buffer >= 0) part.state[i] = ls_operand_slice(piece->state[i], 0, start, count);
    return part;
}

/*
 * Acts on a piece. If the state waits in memory of the host, this is done part by part, so that only a part of the
 * state is on the device at a time. Parts are long enough to be copied fast.
 */
static void in_parts(ls_builder *b, void (*act)(ls_builder *b, const ls_update_piece *piece),
                     const ls_update_piece *piece) {
    enum { MOST = 1 << 24, PARTS = 8 };
    int64_t each = piece->count;
    if (b->target->saving.offload_state)
        each = ls_min(MOST, (int64_t)ls_round_up((size_t)ls_ceil_div(piece->count, PARTS), LS_FLAT_UNIT));
    for (int64_t start = 0; start < piece->count; start += each) {
        const ls_update_piece part = part_of(piece, start, ls_min(each, piece->count - start));
        act(b, &part);
    }
}

/* The summed gradients that the update reads. */
static ls_operand sums_of(const ls_builder *b, const update *u) {
    return u->sums != NULL ? *u->sums : ls_bound(b, LS_BIND_SHARD);
}

/* Acts on all pieces that are updated together. */
static void on_pieces(ls_builder *b, const update *u, void (*act)(ls_builder *b, const ls_update_piece *piece)) {
    const ls_operand sums = sums_of(b, u);
    const ls_group *g = &b->packing->groups[u->first], *last = &b->packing->groups[u->first + u->n - 1];
    for (int i = g->first_bucket; i < last->first_bucket + last->n_buckets; i++) {
        const ls_update_piece piece = ls_update_piece_of(b, i, sums);
        in_parts(b, act, &piece);
    }
}

static void lower_update(ls_builder *b, const ls_program_node *node) {
    const update *u = node->params;
    const ls_optimizer *optimizer = ls_job_optimizer(b->job), *others = optimizer->others;
    if (b->image->flats[b->packing->groups[u->first].first].matrix)
        optimizer->update_matrices(b, u->first, u->n, sums_of(b, u));
    else
        on_pieces(b, u, others != NULL ? others->update : optimizer->update);
    if (b->job->average > 0) on_pieces(b, u, ls_build_average);
}

static void lower_exchange(ls_builder *b, const ls_program_node *node) {
    on_pieces(b, node->params, ls_build_exchange);
}

/* Allocates the sums of all gradients. */
static void lower_room(ls_builder *b, const ls_program_node *node) {
    ls_operand *sums = node->params;
    const int64_t n = ls_image_find(b->image, LS_BIND_SHARD)->shape.dim[0].size;
    *sums = ls_build_symmetric(b, LS_BUFFER_GRADIENT, "sums of gradients", n, b->image->accumulator, 1, &n);
}

static void lower_clear(ls_builder *b, const ls_program_node *node) {
    const ls_operand *cleared = node->params;
    ls_build_fill(b, *cleared);
}

static const ls_lowering update_groups = {.name = "update", .lower = lower_update},
                         exchange_groups = {.name = "exchange", .lower = lower_exchange},
                         room = {.name = "room for sums", .lower = lower_room},
                         clear = {.name = "clear", .lower = lower_clear};

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/*
 * The number of groups from this one on that are updated together: whole matrices of its shape, at most one for each
 * rank.
 */
static int count_together(const ls_builder *b, int group) {
    const int ranks = b->packing->cut->state ? ls_team_size(&b->image->owners) : 1; /* ranks that have pieces */
    const int most = (int)ls_min(ranks, b->packing->n_trained - group);
    const ls_dim *size = b->image->flats[b->packing->groups[group].first].shape.dim;
    int n = 1;
    for (; n < most; n++) {
        const ls_dim *next = b->image->flats[b->packing->groups[group + n].first].shape.dim;
        if (next[0].size != size[0].size || next[1].size != size[1].size) break;
    }
    return n;
}

/* Appends nodes after all others. */
typedef struct ending {
    const ls_builder *b;
    ls_program_nodes *nodes;
    int together;
} ending;

static void put(const ending *e, const ls_lowering *lowering, void *params) {
    ls_nodes_put(e->b, e->nodes, lowering, e->together, params);
}

static void put_clear(const ending *e, const char *name) {
    const ls_operand cleared = ls_bound(e->b, name);
    put(e, &clear, ls_arena_copy(e->b->image->arena, &cleared, sizeof cleared));
}

/*
 * Makes the gather of each group and appends the node that grants its slots. Each group has its own channels: it
 * travels once in a run of the program, and no group waits for another. No node between reads `all`, so all buckets of
 * a group travel at once.
 */
static ls_group_gather **expect_groups(const ending *e, const char *label, const char *from, const ls_operand *all) {
    const int n = e->b->packing->n_trained;
    ls_arena *arena = e->b->image->arena;
    ls_group_gather **gathers = LS_NEW_ARRAY(arena, ls_group_gather *, n + 1);
    for (int g = 0; g < n; g++) {
        gathers[g] = ls_group_gather_make(e->b, ls_arena_printf(arena, "%s.%d", label, g), g, from, all);
        put(e, &ls_lowering_gather_expect, gathers[g]);
    }
    return gathers;
}

/*
 * Appends the update (or the exchange) of the group and of those that are updated with it; returns the group after
 * them.
 */
static int put_update(const ending *e, int group, const ls_operand *sums) {
    const ls_builder *b = e->b;
    const bool matrix = b->image->flats[b->packing->groups[group].first].matrix;
    const update u = {group, matrix ? count_together(b, group) : 1, sums};
    put(e, b->row->exchanges ? &exchange_groups : &update_groups, ls_arena_copy(b->image->arena, &u, sizeof u));
    return group + u.n;
}

/*
 * Each rank updates its shard. While one group is updated, the gathers of the groups before it advance by a stage each.
 */
static void update_and_gather(const ending *e, ls_group_gather **gathers) {
    const int n = e->b->packing->n_trained, stages = e->b->packing->stages->n;
    int next = 0; /* the next group to be updated */
    for (int now = 0; now < n + stages - 1; now++) {
        for (int group = now; group >= 0 && group > now - stages; group--) {
            if (group >= n) continue;
            if (group == next) next = put_update(e, group, NULL);
            put(e, group == now ? &ls_lowering_gather : &ls_lowering_gather_stage, gathers[group]);
        }
    }
    for (int group = 0; group < n; group++) put(e, &ls_lowering_gathered, gathers[group]);
}

/*
 * Each rank updates the parameters that it has, and sends them to no other rank here. sums: being gathered if gathers
 * is not NULL.
 */
static void update_own(const ending *e, const ls_operand *sums, ls_group_gather **gathers) {
    for (int group = 0, next = 0; group < e->b->packing->n_trained; group++) {
        if (gathers != NULL) put(e, &ls_lowering_gathered, gathers[group]);
        if (group == next) next = put_update(e, group, sums);
    }
}

/* Gathers the sums of all gradients, for ranks that each update all parameters. NULL: a rank updates its shard. */
static const ls_operand *gather_sums(const ending *e, ls_group_gather ***gathers) {
    const ls_builder *b = e->b;
    if (b->packing->cut->state || ls_team_size(&b->image->owners) == 1) return NULL;
    ls_operand *sums = LS_NEW(b->image->arena, ls_operand);
    put(e, &room, sums);
    *gathers = expect_groups(e, "sums", LS_BIND_SHARD, sums);
    for (int g = 0; g < b->packing->n_trained; g++) put(e, &ls_lowering_gather, (*gathers)[g]);
    return sums;
}

/* If ranks have all parameters and each updates a shard: the gathers of the updated groups. NULL: there are none. */
static ls_group_gather **expect_parameters(const ending *e) {
    const ls_builder *b = e->b;
    if (!b->packing->cut->state || b->packing->cut->parameters) return NULL;
    const ls_operand all = ls_bound(b, LS_BIND_PARAMETERS);
    return expect_groups(e, "parameters", NULL, ls_arena_copy(b->image->arena, &all, sizeof all));
}

static void put_exchange(const ending *e) {
    ls_group_gather **gathers = expect_parameters(e);
    if (gathers != NULL)
        update_and_gather(e, gathers);
    else
        update_own(e, NULL, NULL);
}

static void put_step(const ending *e) {
    const ls_builder *b = e->b;
    ls_group_gather **gathers = expect_parameters(e);
    const bool spreads = gathers != NULL;
    const ls_operand *sums = gather_sums(e, &gathers);
    put(e, &ls_lowering_totals, NULL);
    put(e, &ls_lowering_control, NULL);
    if (spreads)
        update_and_gather(e, gathers);
    else
        update_own(e, sums, gathers);
    if (b->row->sums == LS_SUMS_CLEARED) put_clear(e, LS_BIND_GRADIENTS);
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    const ending e = {b, nodes, b->row->end_node};
    if (b->row->exchanges && b->packing->n_trained > 0) put_exchange(&e);
    if (b->row->update == LS_UPDATE_NONE) return ls_ok();
    if (ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE) != 0 && b->packing->n_trained > 0)
        put(&e, &ls_lowering_features, NULL);
    const bool applies = b->row->update == LS_UPDATE_APPLY;
    if (applies && b->packing->n_trained > 0)
        put_step(&e);
    else
        put(&e, &ls_lowering_totals, NULL);
    /* A stage without trained parameters must also know whether those of other stages are updated. */
    if (applies && b->packing->n_trained == 0 && b->packing->trains) put(&e, &ls_lowering_control, NULL);
    if (!applies) return ls_ok();
    put_clear(&e, LS_BIND_LOSS);
    if (b->target->canonical) put_clear(&e, LS_BIND_EXACT_LOSS);
    return ls_ok();
}

const ls_pass ls_pass_update = {
    .name = "update", .about = "the end of a step: its scalars, and the optimiser", .run = run};
