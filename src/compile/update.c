/*
 * The end of a step, when the gradients are reduced: the scalars of the step (loss, squared norm, the wish to stop) are
 * added over the ranks; each rank updates its shard, piece by piece, as the job's optimiser says, and puts the new
 * parameters of a group into everyone's while it goes on with the next group.
 */
#include "compile/redistribute/redistribute.h"

#include <string.h>

static ls_operand bound(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    LS_ASSERT(binding != NULL);
    return binding->operand;
}

/* --- parameters over the ranks ------------------------------------------------------------------------------------ */

/*
 * A group has channels of its own: it travels once in a run, and nothing holds up the next one. It goes as [its
 * buckets, elements of a bucket], of each of which a rank has a piece, straight to where parameters lie, which nothing
 * here reads any more; so all its buckets travel at once.
 */
static ls_all_gather expect(ls_builder *b, int group) {
    const ls_group *g = &b->groups[group];
    const ls_operand all = ls_operand_slice(bound(b, LS_BIND_PARAMETERS), 0, g->start, g->count);
    return ls_all_gather_expect(
        b, ls_arena_printf(b->image->arena, "parameters.%d", group), b->stages,
        ls_operand_dense(all.buffer, all.offset, all.view.dtype, 2, (int64_t[]){g->n_buckets, g->count / g->n_buckets}),
        1);
}

/* --- the step ----------------------------------------------------------------------------------------------------- */

/* This rank's scalars to the sum over all ranks. */
static void reduce_totals(ls_builder *b, ls_operand shard) {
    const ls_operand totals = bound(b, LS_BIND_TOTALS), result = bound(b, LS_BIND_RESULT);
    const ls_operand squares = ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1);
    ls_build_fill(b, squares);
    if (shard.buffer >= 0)
        ls_build_kernel(b, &(ls_kernel_build){.op = "sum_squares",
                                              .kernel = LS_KERNEL_SUM_SQUARES,
                                              .dtype = b->image->accumulator,
                                              .flops = 2.0 * (double)ls_view_elements(&shard.view),
                                              .n_in = 1,
                                              .in = {shard},
                                              .n_out = 1,
                                              .out = {squares}});
    ls_build_cast(b, bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), totals, result);
    ls_all_reduce_finish(b, &sum);
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

const ls_optimizer *ls_job_optimizer(const ls_job *job) {
    return job->optimizer != NULL ? job->optimizer : &ls_optimizer_adamw;
}

int ls_update_group(ls_builder *b, const ls_tensor_info *parameter, int number) {
    ls_image *image = b->image;
    if (parameter->frozen || !ls_job_updates(b->job, LS_UPDATE_APPLY)) return -1;
    ls_update_settings wanted = {.rate = 1, .weight_decay = b->job->hyper.weight_decay};
    if (parameter->shape.ndim < 2) wanted.weight_decay = 0;
    if (b->job->own != NULL) wanted = b->job->own[number];
    for (int i = 0; i < image->n_settings; i++) {
        const ls_update_settings *known = &image->settings[i];
        if (known->rate == wanted.rate && known->weight_decay == wanted.weight_decay) return i;
    }
    image->settings[image->n_settings] = wanted;
    return image->n_settings++;
}

/* A piece of the shard, whatever parameters it holds: the table of groups says what becomes of each unit. */
static void update_piece(ls_builder *b, int bucket) {
    const ls_image *image = b->image;
    const ls_flat_piece *piece = &image->pieces[bucket];
    const ls_bucket *whole = &b->buckets[bucket];
    const ls_operand parameters =
        ls_stages_piece(b, b->stages, ls_operand_slice(bound(b, LS_BIND_PARAMETERS), 0, whole->start, whole->count), 0);
    const bool apart = image->dtype != image->accumulator; /* else parameters are their own masters */
    ls_update_piece update = {
        .count = piece->count,
        .gradients = ls_operand_slice(bound(b, LS_BIND_SHARD), 0, piece->at, piece->count),
        .masters = apart ? ls_operand_slice(bound(b, LS_BIND_MASTER), 0, piece->at, piece->count) : parameters,
        .parameters = parameters,
        .control = bound(b, LS_BIND_CONTROL),
        .groups = ls_operand_slice(bound(b, LS_BIND_GROUPS), 0, piece->at / LS_FLAT_UNIT, piece->count / LS_FLAT_UNIT),
        .settings = bound(b, LS_BIND_SETTINGS)};
    LS_ASSERT(image->n_states <= LS_KERNEL_OUTPUTS);
    for (int i = 0; i < image->n_states; i++)
        update.state[i] = ls_operand_slice(bound(b, image->states[i].binding), 0, piece->at, piece->count);
    ls_job_optimizer(b->job)->update(b, &update);
}

static void update_group(ls_builder *b, int group) {
    const ls_group *g = &b->groups[group];
    for (int i = 0; i < g->n_buckets; i++) update_piece(b, g->first_bucket + i);
}

/* While one group is updated, those before it go on by a stage each. */
static void update_groups(ls_builder *b, ls_all_gather *gathers) {
    for (int now = 0; now < b->n_groups + b->stages->n - 1; now++) {
        for (int group = now; group >= 0 && group > now - b->stages->n; group--) {
            if (group >= b->n_groups) continue;
            if (group == now) {
                update_group(b, group);
                ls_all_gather_begin(b, &gathers[group], ls_all_gather_piece(b, &gathers[group]));
            } else {
                ls_all_gather_advance(b, &gathers[group]);
            }
        }
    }
    for (int group = 0; group < b->n_groups; group++) ls_all_gather_finish(b, &gathers[group]);
}

void ls_lower_update(ls_builder *b) {
    const bool gradients = b->image->n_flats > 0;
    const bool applies = b->row->update == LS_UPDATE_APPLY && gradients;
    ls_operand shard = {.buffer = -1};
    if (gradients) shard = bound(b, LS_BIND_SHARD);
    ls_all_gather *gathers = LS_NEW_ARRAY(b->image->arena, ls_all_gather, b->n_groups + 1);
    for (int group = 0; applies && group < b->n_groups; group++) gathers[group] = expect(b, group);
    reduce_totals(b, shard);
    if (applies) {
        step_control(b);
        update_groups(b, gathers);
        if (b->row->sums == LS_SUMS_CLEARED) ls_build_fill(b, bound(b, LS_BIND_GRADIENTS));
    }
    if (b->row->update == LS_UPDATE_APPLY) ls_build_fill(b, bound(b, LS_BIND_LOSS));
}
