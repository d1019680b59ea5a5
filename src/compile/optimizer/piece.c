/* What a rank updates at once: its piece of a bucket, as operands. */
#include "compile/optimizer/optimizer.h"
#include "compile/redistribute/redistribute.h"

/* The elements of a bucket that this rank updates, in a tensor of the flat space. */
static ls_operand updated(ls_builder *b, const char *name, int bucket) {
    const ls_binding *t = ls_image_find(b->image, name);
    LS_ASSERT(t != NULL);
    const ls_flat_piece held = ls_image_held(b->image, t, bucket, 0); /* `at` and `count` are the same on every rank */
    const ls_operand part = ls_operand_slice(t->operand, 0, held.at, held.count);
    return b->packing->cut->state && !t->sharded ? ls_stages_piece(b, b->packing->stages, part, 0) : part;
}

/* The piece may hold any parameters: the table of groups gives the settings of each unit. */
ls_update_piece ls_update_piece_of(ls_builder *b, int bucket, ls_operand sums) {
    const ls_image *image = b->image;
    const ls_bucket *whole = &b->packing->buckets[bucket];
    const ls_flat *first = &image->flats[b->packing->groups[whole->group].first];
    const ls_binding *groups = ls_image_find(image, LS_BIND_GROUPS);
    const ls_flat_piece units = ls_image_held(image, groups, bucket, 0);
    const bool apart = image->dtype != image->accumulator; /* else the parameters are the masters */
    const ls_operand parameters = updated(b, LS_BIND_PARAMETERS, bucket);
    ls_update_piece update = {
        .count = units.count,
        .gradients = b->packing->cut->state ? updated(b, LS_BIND_SHARD, bucket)
                                            : ls_operand_slice(sums, 0, whole->start, whole->count),
        .masters = apart ? updated(b, LS_BIND_MASTER, bucket) : parameters,
        .parameters = parameters,
        .control = ls_bound(b, LS_BIND_CONTROL),
        .groups = ls_operand_slice(groups->operand, 0, units.at / LS_FLAT_UNIT, units.count / LS_FLAT_UNIT),
        .settings = ls_bound(b, LS_BIND_SETTINGS)};
    LS_ASSERT(image->n_states <= LS_KERNEL_OUTPUTS);
    for (int i = 0; i < LS_KERNEL_OUTPUTS; i++) {
        update.state[i].buffer = -1;
        if (i < image->n_states && ls_flat_has(first, &image->states[i]))
            update.state[i] = updated(b, image->states[i].binding, bucket);
    }
    return update;
}
