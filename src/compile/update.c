/*
 * The end of a step, when the gradients are reduced: the scalars of the step (loss, squared norm, the wish to stop) are
 * added over the ranks. Then each rank updates what it has of the optimiser's state, piece by piece, as that says.
 * Where that is a shard and parameters are whole, a group's new parameters go to everyone while the next group is
 * updated; where it is all, each rank gets the sums of all gradients before.
 */
#include "compile/redistribute/redistribute.h"

#include <string.h>

static ls_operand bound(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    LS_ASSERT(binding != NULL);
    return binding->operand;
}

/* --- groups over the ranks ---------------------------------------------------------------------------------------- */

/*
 * Of what has all elements of the flat space, each group. A group has channels of its own: it travels once in a run,
 * and nothing holds up the next one. Nothing here reads what lies in `all`, so all buckets of a group travel at once.
 */
static ls_all_gather *expect_groups(ls_builder *b, const char *label, ls_operand all) {
    ls_all_gather *gathers = LS_NEW_ARRAY(b->image->arena, ls_all_gather, b->n_groups + 1);
    for (int g = 0; g < b->n_groups; g++)
        gathers[g] = ls_all_gather_expect(
            b, ls_arena_printf(b->image->arena, "%s.%d", label, g), b->stages,
            ls_group_buckets(b, g, ls_operand_slice(all, 0, b->groups[g].start, b->groups[g].count)), 1);
    return gathers;
}

/* The sums of all gradients: this rank's shard of them, and those of the others, which are on their way. */
static ls_all_gather *gather_sums(ls_builder *b, ls_operand *sums) {
    const int64_t n = b->image->flat_elements;
    *sums = ls_build_symmetric(b, LS_BUFFER_GRADIENT, "sums of gradients", n, b->image->accumulator, 1, &n);
    ls_all_gather *gathers = expect_groups(b, "sums", *sums);
    for (int g = 0; g < b->n_groups; g++)
        ls_all_gather_begin(b, &gathers[g], ls_group_pieces(b, g, bound(b, LS_BIND_SHARD)));
    return gathers;
}

/* --- the step ----------------------------------------------------------------------------------------------------- */

static void exact_sum(ls_builder *b, ls_operand of, bool squares, ls_operand words) {
    const ls_exact_params params = {squares};
    ls_build_kernel(b, &(ls_kernel_build){.op = "exact_sum",
                                          .kernel = LS_KERNEL_EXACT_SUM,
                                          .dtype = b->image->accumulator,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .n_in = 1,
                                          .in = {of},
                                          .n_out = 1,
                                          .out = {words}});
}

void ls_totals_add_loss(ls_builder *b, ls_operand addend) {
    if (ls_program_reduces(b, b->row)) exact_sum(b, addend, false, bound(b, LS_BIND_EXACT_LOSS));
}

/* Loss and squared norm once more, where sums are canonical, in place of those whose bits depend on the ranks. */
static void reduce_exactly(ls_builder *b, ls_operand shard) {
    const int64_t size[] = {2, LS_EXACT_WORDS};
    const ls_operand mine = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand all = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand squares = ls_operand_elements(mine, LS_TOTAL_SQUARES * LS_EXACT_WORDS, LS_EXACT_WORDS);
    ls_build_copy(b, bound(b, LS_BIND_EXACT_LOSS),
                  ls_operand_elements(mine, LS_TOTAL_LOSS * LS_EXACT_WORDS, LS_EXACT_WORDS));
    ls_build_fill(b, squares);
    if (shard.buffer >= 0) exact_sum(b, shard, true, squares);
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), mine, all);
    ls_all_reduce_finish(b, &sum);
    ls_build_kernel(b, &(ls_kernel_build){.op = "exact_value",
                                          .kernel = LS_KERNEL_EXACT_VALUE,
                                          .dtype = b->image->accumulator,
                                          .n_in = 1,
                                          .in = {all},
                                          .n_out = 1,
                                          .out = {ls_operand_elements(bound(b, LS_BIND_RESULT), LS_TOTAL_LOSS, 2)}});
}

/* This rank's scalars to the sum over all ranks. */
static void reduce_totals(ls_builder *b, ls_operand shard) {
    const ls_operand totals = bound(b, LS_BIND_TOTALS), result = bound(b, LS_BIND_RESULT);
    const ls_operand squares = ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1);
    ls_build_fill(b, squares);
    if (shard.buffer >= 0)
        ls_build_kernel(b, &(ls_kernel_build){.op = "sum_squares",
                                              .kernel = LS_KERNEL_SUM_SQUARES,
                                              .dtype = b->image->accumulator,
                                              .n_in = 1,
                                              .in = {shard},
                                              .n_out = 1,
                                              .out = {squares}});
    ls_build_cast(b, bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), totals, result);
    ls_all_reduce_finish(b, &sum);
    if (b->target->canonical) reduce_exactly(b, shard);
}

static void step_control(ls_builder *b) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "step_control",
                                          .kernel = LS_KERNEL_STEP_CONTROL,
                                          .dtype = b->image->accumulator,
                                          .n_in = 2,
                                          .in = {bound(b, LS_BIND_RESULT), bound(b, LS_BIND_HYPER)},
                                          .n_out = 1,
                                          .out = {bound(b, LS_BIND_CONTROL)}});
}

int ls_update_group(ls_builder *b, const ls_tensor_info *parameter, int number) {
    ls_image *image = b->image;
    if (parameter->frozen || !ls_job_updates(b->job, LS_UPDATE_APPLY)) return -1;
    ls_update_settings wanted = {.rate = 1, .weight_decay = b->job->hyper.weight_decay};
    if (parameter->shape.ndim < 2) wanted.weight_decay = 0;
    if (b->job->own != NULL) wanted = b->job->own[number].update;
    for (int i = 0; i < image->n_settings; i++) {
        const ls_update_settings *known = &image->settings[i];
        if (known->rate == wanted.rate && known->weight_decay == wanted.weight_decay) return i;
    }
    image->settings[image->n_settings] = wanted;
    return image->n_settings++;
}

/* What this rank updates of a bucket: of a tensor of the flat space, those elements. */
static ls_operand updated(ls_builder *b, const char *name, int bucket) {
    const ls_binding *t = ls_image_find(b->image, name);
    LS_ASSERT(t != NULL);
    const ls_flat_piece held = ls_image_held(b->image, t, bucket, 0); /* `at` and `count` are the same on each rank */
    const ls_operand part = ls_operand_slice(t->operand, 0, held.at, held.count);
    return b->cut->state && !t->sharded ? ls_stages_piece(b, b->stages, part, 0) : part;
}

/* A piece, whatever parameters it holds: the table of groups says what becomes of each unit. */
ls_update_piece ls_update_piece_of(ls_builder *b, int bucket, ls_operand sums) {
    const ls_image *image = b->image;
    const ls_bucket *whole = &b->buckets[bucket];
    const ls_flat *first = &image->flats[b->groups[whole->group].first];
    const ls_binding *groups = ls_image_find(image, LS_BIND_GROUPS);
    const ls_flat_piece units = ls_image_held(image, groups, bucket, 0);
    const bool apart = image->dtype != image->accumulator; /* else parameters are their own masters */
    const ls_operand parameters = updated(b, LS_BIND_PARAMETERS, bucket);
    ls_update_piece update = {
        .count = units.count,
        .gradients =
            b->cut->state ? updated(b, LS_BIND_SHARD, bucket) : ls_operand_slice(sums, 0, whole->start, whole->count),
        .masters = apart ? updated(b, LS_BIND_MASTER, bucket) : parameters,
        .parameters = parameters,
        .control = bound(b, LS_BIND_CONTROL),
        .groups = ls_operand_slice(groups->operand, 0, units.at / LS_FLAT_UNIT, units.count / LS_FLAT_UNIT),
        .settings = bound(b, LS_BIND_SETTINGS)};
    LS_ASSERT(image->n_states <= LS_KERNEL_OUTPUTS);
    for (int i = 0; i < LS_KERNEL_OUTPUTS; i++) {
        update.state[i].buffer = -1;
        if (i < image->n_states && ls_flat_has(first, &image->states[i]))
            update.state[i] = updated(b, image->states[i].binding, bucket);
    }
    return update;
}

/* Elements of it. */
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

/* Where the state waits in memory of the host, only a part of it is here at a time: long enough to be copied fast. */
static void update_piece(ls_builder *b, const ls_optimizer *optimizer, const ls_update_piece *piece) {
    enum { MOST = 1 << 24, PARTS = 8 };
    int64_t each = piece->count;
    if (b->target->saving.offload_state)
        each = ls_min(MOST, (int64_t)ls_round_up((size_t)ls_ceil_div(piece->count, PARTS), LS_FLAT_UNIT));
    for (int64_t start = 0; start < piece->count; start += each) {
        const ls_update_piece part = part_of(piece, start, ls_min(each, piece->count - start));
        optimizer->update(b, &part);
    }
}

/* The groups from this one on that are updated with it: whole matrices of its shape, at most one for each rank. */
static int count_together(const ls_builder *b, int group) {
    const int ranks = b->cut->state ? ls_mesh_ranks(&b->image->mesh) : 1; /* that have pieces */
    const int most = (int)ls_min(ranks, b->n_groups - group);
    const ls_dim *size = b->image->flats[b->groups[group].first].shape.dim;
    int n = 1;
    for (; n < most; n++) {
        const ls_dim *next = b->image->flats[b->groups[group + n].first].shape.dim;
        if (next[0].size != size[0].size || next[1].size != size[1].size) break;
    }
    return n;
}

/* Updates the group, and those that are updated with it; returns the group behind them. */
static int update_group(ls_builder *b, int group, ls_operand sums) {
    const ls_optimizer *optimizer = ls_job_optimizer(b->job);
    const ls_group *g = &b->groups[group];
    if (b->image->flats[g->first].matrix) {
        const int n = count_together(b, group);
        optimizer->update_matrices(b, group, n, sums);
        return group + n;
    }
    if (optimizer->others != NULL) optimizer = optimizer->others;
    for (int i = 0; i < g->n_buckets; i++) {
        const ls_update_piece piece = ls_update_piece_of(b, g->first_bucket + i, sums);
        update_piece(b, optimizer, &piece);
    }
    return group + 1;
}

/* Each rank updates its shard. While one group is updated, those before it go on by a stage each. */
static void update_and_gather(ls_builder *b, ls_all_gather *gathers) {
    const ls_operand none = {.buffer = -1};
    int next = 0; /* group to be updated */
    for (int now = 0; now < b->n_groups + b->stages->n - 1; now++) {
        for (int group = now; group >= 0 && group > now - b->stages->n; group--) {
            if (group >= b->n_groups) continue;
            if (group == now) {
                if (group == next) next = update_group(b, group, none);
                ls_all_gather_begin(b, &gathers[group], ls_all_gather_piece(b, &gathers[group]));
            } else {
                ls_all_gather_advance(b, &gathers[group]);
            }
        }
    }
    for (int group = 0; group < b->n_groups; group++) ls_all_gather_finish(b, &gathers[group]);
}

/* Each rank updates what it has, and keeps it; sums: on their way where gathers is not NULL. */
static void update_own(ls_builder *b, ls_operand sums, ls_all_gather *gathers) {
    for (int group = 0, next = 0; group < b->n_groups; group++) {
        if (gathers != NULL) ls_all_gather_finish(b, &gathers[group]);
        if (group == next) next = update_group(b, group, sums);
    }
}

static void apply(ls_builder *b) {
    const ls_operand shard = bound(b, LS_BIND_SHARD);
    ls_operand sums = shard; /* of one rank: all of them */
    ls_all_gather *gathers = NULL;
    const bool spreads = b->cut->state && !b->cut->parameters;
    if (spreads) gathers = expect_groups(b, "parameters", bound(b, LS_BIND_PARAMETERS));
    if (!b->cut->state && ls_mesh_ranks(&b->image->mesh) > 1) gathers = gather_sums(b, &sums);
    reduce_totals(b, shard);
    step_control(b);
    if (spreads)
        update_and_gather(b, gathers);
    else
        update_own(b, sums, gathers);
    if (b->row->sums == LS_SUMS_CLEARED) ls_build_fill(b, bound(b, LS_BIND_GRADIENTS));
}

void ls_lower_update(ls_builder *b) {
    const bool gradients = b->image->n_flats > 0;
    if (b->row->update == LS_UPDATE_APPLY && gradients)
        apply(b);
    else
        reduce_totals(b, gradients ? bound(b, LS_BIND_SHARD) : (ls_operand){.buffer = -1});
    if (b->row->update != LS_UPDATE_APPLY) return;
    ls_build_fill(b, bound(b, LS_BIND_LOSS));
    if (b->target->canonical) ls_build_fill(b, bound(b, LS_BIND_EXACT_LOSS));
}
