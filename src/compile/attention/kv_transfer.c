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
    const ls_axes puts = ls_mesh_axes(&image->mesh, LS_AXIS_SEQUENCE) & ~image->in_place;
    return image->in_place == 0 ? "put" : puts == 0 ? "in-place" : "in-place+put";
}

/* Two ranks can read each other's heaps. */
static bool are_near(const ls_target *target, int a, int b) {
    return target->host_ranks > 0 && a / target->host_ranks == b / target->host_ranks;
}

/* All members of a team. The choice is one for all such teams of the mesh, so that ranks of a class remain alike. */
static bool is_near(const ls_target *target, const ls_team *team) {
    for (int rank = 0; rank < ls_mesh_ranks(&target->mesh); rank++) {
        if (!are_near(target, rank, ls_team_member(team, rank, -ls_team_place(team, rank)))) return false;
    }
    return true;
}

/*
 * Of two ways with the same bits the ring in place copies nothing and has no slots; an all-to-all copies once either
 * way, and takes more memory in place (docs/performance.md), so blocks are put on a mesh with one unless in place is
 * asked for.
 */
ls_status ls_choose_transfers(const ls_target *target, ls_axes *in_place) {
    const ls_mesh *mesh = &target->mesh;
    struct {
        ls_axes axes;
        bool supported;
    } exchanges[] = {{ls_mesh_block_axes(mesh), false}, {ls_mesh_head_axes(mesh), true}};
    LS_TRY(ls_strategy_reads_in_place(target->strategy, &exchanges[0].supported));
    const bool asked = target->transfers == LS_TRANSFERS_IN_PLACE;
    const bool wanted = asked || (target->transfers == LS_TRANSFERS_AUTO && ls_mesh_head_axes(mesh) == 0);
    bool any_near = false;
    *in_place = 0;
    for (size_t i = 0; i < LS_COUNT(exchanges); i++) {
        const ls_team team = ls_mesh_team(mesh, exchanges[i].axes);
        const bool near = exchanges[i].axes != 0 && is_near(target, &team);
        if (wanted && near && exchanges[i].supported) *in_place |= exchanges[i].axes;
        any_near |= near;
    }
    if (!asked || *in_place != 0 || ls_mesh_sequence_ranks(mesh) == 1) return ls_ok();
    if (!any_near)
        return ls_error(
            LS_USAGE,
            "--transfers in-place: the transport does not let a rank read the memory of those that share its sequence");
    return ls_error(LS_USAGE, "--transfers in-place: strategy %s has no such lowering; expected put", target->strategy);
}

bool ls_ring_reads(const ls_image *image) { return (image->in_place & ls_mesh_block_axes(&image->mesh)) != 0; }
bool ls_block_reads(const ls_image *image) { return (image->in_place & ls_mesh_head_axes(&image->mesh)) != 0; }

const ls_kv_transfer *ls_ring_transfer(const ls_builder *b) {
    return ways[ls_ring_reads(b->image) ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT].transfer;
}

ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity) {
    if (ls_block_reads(b->image)) return ls_build_symmetric(b, LS_BUFFER_ACTIVATION, name, capacity, dtype, ndim, size);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, dtype, ndim, size);
}
