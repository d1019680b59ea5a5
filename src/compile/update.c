/*
 * The update: gradients are partial sums over all ranks. Each rank receives the parts of its shard, adds them in rank order,
 * updates its shard with AdamW, and puts the new parameters into everyone's. The scalars of the step (loss, squared norm, the
 * wish to stop) are added over the ranks in between.
 */
#include "compile/compile_impl.h"

#include <string.h>

static ls_operand bound(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    LS_ASSERT(binding != NULL);
    return binding->operand;
}

static ls_operand shard_slice(const ls_builder *b, ls_operand flat, int rank) {
    int64_t start, count;
    ls_shard_range(b, rank, &start, &count);
    return ls_operand_slice(flat, 0, start, count);
}

static int64_t largest_shard(const ls_builder *b) {
    int64_t most = 0;
    for (int r = 0; r < ls_mesh_ranks(&b->target->mesh); r++) {
        int64_t start, count;
        ls_shard_range(b, r, &start, &count);
        most = ls_max(most, count);
    }
    return most;
}

/* Everyone's part of my shard comes into my slots; their sum, in rank order, is the shard. */
static void reduce_scatter(ls_builder *b, ls_operand gradients, ls_operand shard) {
    const int P = ls_mesh_ranks(&b->target->mesh), me = b->target->rank;
    if (P == 1) return; /* the shard is the gradients */
    const int64_t most = largest_shard(b), n = b->image->shard_count;
    ls_operand *slot = LS_NEW_ARRAY(b->image->arena, ls_operand, P);
    const ls_operand slots = ls_build_symmetric(b, LS_BUFFER_SLOT, "gradient slots", (P - 1) * most,
                                                gradients.view.dtype, 2, (int64_t[]){P - 1, most});
    for (int j = 1; j < P; j++) {
        const int from = (me - j + P) % P;
        slot[from] =
            ls_operand_dense(slots.buffer, (size_t)((j - 1) * most) * ls_dtype_bytes(slots.view.dtype),
                             slots.view.dtype, 1, &n);
        ls_build_ready(b, ls_build_channel(b, "gradients.%d", j), from, slot[from]);
    }
    for (int j = 1; j < P; j++) {
        const int to = (me + j) % P;
        const ls_operand part = shard_slice(b, gradients, to);
        const ls_operand there =
            ls_operand_dense(slots.buffer, (size_t)((j - 1) * most) * ls_dtype_bytes(slots.view.dtype),
                             slots.view.dtype, 1, part.view.size);
        ls_build_send(b, ls_build_channel(b, "gradients.%d", j), to, part, there);
    }
    for (int j = 1; j < P; j++) {
        const int from = (me - j + P) % P;
        ls_build_receive(b, ls_build_channel(b, "gradients.%d", j), from, slot[from]);
    }
    ls_build_quiet(b);
    slot[me] = shard_slice(b, gradients, me);
    ls_build_fill(b, shard);
    for (int r = 0; r < P; r++) ls_build_accumulate(b, slot[r], shard);
}

/* Every rank's shard of the parameters to everyone. */
static void all_gather(ls_builder *b, ls_operand parameters) {
    const int P = ls_mesh_ranks(&b->target->mesh), me = b->target->rank;
    for (int j = 1; j < P; j++) {
        const int from = (me - j + P) % P;
        ls_build_ready(b, ls_build_channel(b, "parameters.%d", j), from, shard_slice(b, parameters, from));
    }
    const ls_operand mine = shard_slice(b, parameters, me);
    for (int j = 1; j < P; j++)
        ls_build_send(b, ls_build_channel(b, "parameters.%d", j), (me + j) % P, mine, mine);
    for (int j = 1; j < P; j++) {
        const int from = (me - j + P) % P;
        ls_build_receive(b, ls_build_channel(b, "parameters.%d", j), from, shard_slice(b, parameters, from));
    }
    if (P > 1) ls_build_quiet(b);
}

/* This rank's scalars to the sum over all ranks. */
static void reduce_totals(ls_builder *b, ls_operand shard) {
    const ls_operand totals = bound(b, LS_BIND_TOTALS), result = bound(b, LS_BIND_RESULT);
    const ls_operand squares = ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1);
    ls_build_fill(b, squares);
    if (shard.buffer >= 0)
        ls_build_kernel(b, &(ls_kernel_build){.op = "sum_squares",
                                              .kernel = "sum_squares",
                                              .dtype = b->image->accumulator,
                                              .flops = 2.0 * (double)ls_view_elements(&shard.view),
                                              .n_in = 1,
                                              .in = {shard},
                                              .n_out = 1,
                                              .out = {squares}});
    ls_build_cast(b, bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    const bool all[LS_AXES] = {true, true, true};
    const ls_team team = ls_build_team(b, all);
    if (team.n == 1)
        ls_build_copy(b, totals, result);
    else
        ls_build_all_reduce(b, &team, totals, result);
}

/* AdamW on the part of each parameter that lies in this rank's shard; decay on matrices only. */
static void adamw(ls_builder *b, ls_operand shard) {
    const ls_image *image = b->image;
    const ls_operand control = bound(b, LS_BIND_CONTROL);
    ls_build_kernel(b, &(ls_kernel_build){.op = "step_control",
                                          .kernel = "step_control",
                                          .dtype = image->accumulator,
                                          .n_in = 2,
                                          .in = {bound(b, LS_BIND_RESULT), bound(b, LS_BIND_HYPER)},
                                          .n_out = 1,
                                          .out = {control}});
    for (int f = 0; f < image->n_flats; f++) {
        const ls_flat *flat = &image->flats[f];
        const int64_t start = ls_max(flat->start, image->shard_start);
        const int64_t end = ls_min(flat->start + flat->count, image->shard_start + image->shard_count);
        const int64_t at = start - image->shard_start, n = ls_max(end - start, 0);
        if (n == 0) continue;
        ls_adamw_params params = b->job->adamw;
        if (flat->shape.ndim < 2) params.weight_decay = 0;
        ls_build_kernel(
            b, &(ls_kernel_build){.op = "adamw",
                                  .kernel = "adamw",
                                  .dtype = image->dtype,
                                  .params = &params,
                                  .params_bytes = sizeof params,
                                  .flops = 15.0 * (double)n,
                                  .n_in = 2,
                                  .in = {ls_operand_slice(shard, 0, at, n), control},
                                  .n_out = 4,
                                  .out = {ls_operand_slice(bound(b, LS_BIND_MASTER), 0, at, n),
                                          ls_operand_slice(bound(b, LS_BIND_M), 0, at, n),
                                          ls_operand_slice(bound(b, LS_BIND_V), 0, at, n),
                                          ls_operand_slice(bound(b, LS_BIND_PARAMETERS), 0, start, n)}});
    }
}

void ls_lower_update(ls_builder *b) {
    ls_operand shard = {.buffer = -1};
    const bool gradients = ls_image_find(b->image, LS_BIND_GRADIENTS) != NULL;
    if (gradients) {
        shard = bound(b, LS_BIND_SHARD);
        reduce_scatter(b, bound(b, LS_BIND_GRADIENTS), shard);
    }
    reduce_totals(b, shard);
    if (b->job->update != LS_UPDATE_ADAMW || !gradients) return;
    adamw(b, shard);
    all_gather(b, bound(b, LS_BIND_PARAMETERS));
    ls_build_fill(b, bound(b, LS_BIND_GRADIENTS));
    ls_build_fill(b, bound(b, LS_BIND_LOSS));
}
