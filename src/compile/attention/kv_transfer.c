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

const char *ls_transfers_of(const ls_image *image) {
    int reads = 0, puts = 0;
    for (int axis = LS_AXIS_RING; axis < LS_AXES; axis++) {
        reads += image->in_place[axis];
        puts += image->mesh.size[axis] > 1 && !image->in_place[axis];
    }
    return reads == 0 ? "put" : puts == 0 ? "in-place" : "in-place+put";
}

/* Two ranks can read each other's heaps. */
static bool are_near(const ls_target *target, int a, int b) {
    return target->host_ranks > 0 && a / target->host_ranks == b / target->host_ranks;
}

/* All ranks that differ only along this axis. The choice is one for an axis, so that ranks of a class remain alike. */
static bool is_near(const ls_target *target, ls_axis axis) {
    for (int rank = 0; rank < ls_mesh_ranks(&target->mesh); rank++) {
        if (!are_near(target, rank, ls_mesh_neighbour(&target->mesh, rank, axis, 0))) return false;
    }
    return true;
}

/*
 * Of two ways with the same bits the ring in place copies nothing and has no slots; an all-to-all copies once either
 * way, and takes more memory in place (docs/performance.md), so blocks are put on a mesh with one unless in place is
 * asked for.
 */
ls_status ls_choose_transfers(const ls_target *target, bool in_place[LS_AXES]) {
    static const ls_axis axes[] = {LS_AXIS_RING, LS_AXIS_ULYSSES};
    const ls_mesh *mesh = &target->mesh;
    bool supported[LS_AXES] = {[LS_AXIS_ULYSSES] = true};
    LS_TRY(ls_strategy_reads_in_place(target->strategy, &supported[LS_AXIS_RING]));
    const bool asked = target->transfers == LS_TRANSFERS_IN_PLACE;
    const bool wanted = asked || (target->transfers == LS_TRANSFERS_AUTO && mesh->size[LS_AXIS_ULYSSES] == 1);
    bool any_near = false, any = false;
    for (int axis = 0; axis < LS_AXES; axis++) in_place[axis] = false;
    for (size_t i = 0; i < LS_COUNT(axes); i++) {
        const ls_axis axis = axes[i];
        if (mesh->size[axis] == 1) continue;
        const bool near = is_near(target, axis);
        in_place[axis] = wanted && near && supported[axis];
        any_near |= near;
        any |= in_place[axis];
    }
    if (!asked || any || ls_mesh_sequence_ranks(mesh) == 1) return ls_ok();
    if (!any_near)
        return ls_error(
            LS_USAGE,
            "--transfers in-place: the transport does not let a rank read the memory of those that share its sequence");
    return ls_error(LS_USAGE, "--transfers in-place: strategy %s has no such lowering; expected put", target->strategy);
}

const ls_kv_transfer *ls_kv_transfer_along(const ls_builder *b, ls_axis axis) {
    return ways[b->image->in_place[axis] ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT].transfer;
}

ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity) {
    if (b->image->in_place[LS_AXIS_ULYSSES])
        return ls_build_symmetric(b, LS_BUFFER_ACTIVATION, name, capacity, dtype, ndim, size);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, dtype, ndim, size);
}
