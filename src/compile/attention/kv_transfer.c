/* How other ranks' blocks arrive: the ways by name, which one is taken, and where what others read must lie. */
#include "compile/attention/attention.h"

#include <string.h>

/* The visible table. auto leaves it to the mesh. */
static const struct way {
    const char *name;
    const ls_kv_transfer *transfer;
} ways[] = {[LS_TRANSFERS_AUTO] = {"auto", NULL},
            [LS_TRANSFERS_PUT] = {"put", &ls_kv_transfer_put},
            [LS_TRANSFERS_IN_PLACE] = {"in-place", &ls_kv_transfer_in_place}};

const char *ls_transfers_name(ls_transfers transfers) { return ways[transfers].name; }

ls_status ls_transfers_parse(const char *name, ls_transfers *out) {
    for (size_t i = 0; i < LS_COUNT(ways); i++) {
        if (name != NULL && strcmp(name, ways[i].name) != 0) continue;
        *out = (ls_transfers)i;
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--transfers %s; expected auto, put or in-place", name);
}

/*
 * One rank has nobody to read from. Of two lowerings with the same bits the ring in place copies nothing and has no slots; an all-to-all
 * copies once either way, and takes more memory in place (docs/performance.md), so its blocks are put unless it is asked for.
 */
ls_status ls_choose_transfers(const ls_target *target, bool *in_place) {
    if (target->transfers == LS_TRANSFERS_IN_PLACE && !target->addressable)
        return ls_error(LS_USAGE,
                        "--transfers in-place: the transport does not let a rank read the others' memory");
    bool can;
    LS_TRY(ls_strategy_reads_in_place(target->strategy, &can));
    if (target->transfers == LS_TRANSFERS_IN_PLACE && !can)
        return ls_error(LS_USAGE, "--transfers in-place: strategy %s has no such lowering; expected put",
                        target->strategy);
    const bool wanted = target->transfers == LS_TRANSFERS_IN_PLACE ||
                        (target->transfers == LS_TRANSFERS_AUTO && target->mesh.size[LS_AXIS_ULYSSES] == 1);
    *in_place = wanted && can && target->addressable && ls_mesh_sequence_ranks(&target->mesh) > 1;
    return ls_ok();
}

const ls_kv_transfer *ls_kv_transfer_of(const ls_builder *b) {
    return ways[b->image->in_place ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT].transfer;
}

ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity) {
    if (b->image->in_place && b->target->mesh.size[LS_AXIS_ULYSSES] > 1)
        return ls_build_symmetric(b, LS_BUFFER_ACTIVATION, name, capacity, dtype, ndim, size);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, dtype, ndim, size);
}

ls_operand ls_leasable(ls_builder *b, ls_operand operand, int64_t capacity) {
    const ls_buffer *buffer = &b->image->buffers[operand.buffer];
    if (!b->image->in_place || buffer->space == LS_SYMMETRIC) return operand;
    const ls_view *v = &operand.view;
    const ls_operand copy =
        ls_build_symmetric(b, LS_BUFFER_ACTIVATION, buffer->name, capacity, v->dtype, v->ndim, v->size);
    ls_build_copy(b, operand, copy);
    return copy;
}
