/*
 * The end of a step, when the gradients are reduced: the scalars of the step (loss, squared norm, the wish to stop) are
 * added over the ranks; each rank updates its shard, piece by piece, as the job's optimiser says, and puts the new
 * parameters of a group into everyone's while it goes on with the next group.
 */
#include "compile/compile_impl.h"

#include <string.h>

static ls_operand bound(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    LS_ASSERT(binding != NULL);
    return binding->operand;
}

/* --- parameters over the ranks ------------------------------------------------------------------------------------ */

/* A group has channels of its own: it travels once in a run, and nothing holds up the next one. */
static int channel_of(ls_builder *b, int group, int stage, int j) {
    return ls_build_channel(b, "parameters.%d.%d", group, ls_stage_channel(b, stage, j));
}

/* A group's parameters, [its buckets, elements of a bucket]. They need no slots, so all its buckets travel at once. */
static ls_operand group_of(const ls_builder *b, int group) {
    const ls_group *g = &b->groups[group];
    const ls_operand all = ls_operand_slice(bound(b, LS_BIND_PARAMETERS), 0, g->start, g->count);
    return ls_operand_dense(all.buffer, all.offset, all.view.dtype, 2,
                            (int64_t[]){g->n_buckets, g->count / g->n_buckets});
}

/*
 * Of a group's parameters those that the rank `shift` places further in the stage has to give to others in it, when the
 * later stages are done: a part of each bucket.
 */
static ls_operand part_of(ls_builder *b, int group, int stage, int shift) {
    return ls_stage_part(b, group_of(b, group), stage, shift);
}

/* Parameters that other ranks update: nothing here reads the old ones any more. */
static void hand_over(ls_builder *b, int group, int stage) {
    for (int j = 1; j < b->stage[stage].ranks; j++)
        ls_build_grant(b, channel_of(b, group, stage, j), ls_build_peer(b, b->stage[stage].team, -j),
                       part_of(b, group, stage, -j));
}

static void send(ls_builder *b, int group, int stage) {
    const ls_operand mine = part_of(b, group, stage, 0);
    for (int j = 1; j < b->stage[stage].ranks; j++)
        ls_build_send(b, channel_of(b, group, stage, j), ls_build_peer(b, b->stage[stage].team, j), mine, mine);
}

static void receive(ls_builder *b, int group, int stage) {
    for (int j = 1; j < b->stage[stage].ranks; j++)
        ls_build_receive(b, channel_of(b, group, stage, j), ls_build_peer(b, b->stage[stage].team, -j),
                         part_of(b, group, stage, -j));
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
    const bool all[LS_AXES] = {true, true, true};
    const int team = ls_build_team_of(b, all);
    if (ls_build_team_size(b, team) == 1)
        ls_build_copy(b, totals, result);
    else
        ls_build_all_reduce(b, team, totals, result);
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
    const ls_operand parameters = ls_stage_part(
        b, ls_operand_slice(bound(b, LS_BIND_PARAMETERS), 0, whole->start, whole->count), b->n_stages - 1, 0);
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

/* While one group is updated, the one before is on its way through a stage, back from the last to the first. */
static void update_groups(ls_builder *b) {
    const int last = b->n_stages - 1;
    for (int order = 0; order < b->n_groups + last; order++) {
        for (int stage = last; stage >= 0; stage--) {
            const int g = order - (last - stage);
            if (g < 0 || g >= b->n_groups) continue;
            if (stage == last)
                update_group(b, g);
            else
                receive(b, g, stage + 1);
            send(b, g, stage);
        }
    }
    for (int g = 0; g < b->n_groups; g++) receive(b, g, 0);
}

void ls_lower_update(ls_builder *b) {
    const bool gradients = b->image->n_flats > 0;
    const bool applies = b->row->update == LS_UPDATE_APPLY && gradients;
    ls_operand shard = {.buffer = -1};
    if (gradients) shard = bound(b, LS_BIND_SHARD);
    for (int g = 0; applies && g < b->n_groups; g++) {
        for (int stage = 0; stage < b->n_stages; stage++) hand_over(b, g, stage);
    }
    reduce_totals(b, shard);
    if (applies) {
        step_control(b);
        update_groups(b);
        if (b->row->sums == LS_SUMS_CLEARED) ls_build_fill(b, bound(b, LS_BIND_GRADIENTS));
    }
    if (b->row->update == LS_UPDATE_APPLY) ls_build_fill(b, bound(b, LS_BIND_LOSS));
}
