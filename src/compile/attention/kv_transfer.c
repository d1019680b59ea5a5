/*
 * How other ranks' blocks arrive: the names of the ways, and the choice of axes along which blocks are read in place.
 */
#include "compile/attention/attention.h"

#include <string.h>

/* auto: the mesh decides. */
static const char *const names[] = {
    [LS_TRANSFERS_AUTO] = "auto", [LS_TRANSFERS_PUT] = "put", [LS_TRANSFERS_IN_PLACE] = "in-place"};

const char *ls_transfers_name(ls_transfers transfers) { return names[transfers]; }

ls_status ls_transfers_parse(const char *name, ls_transfers *out) {
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        if (name != NULL && strcmp(name, names[i]) != 0) continue;
        *out = (ls_transfers)i;
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--transfers %s; expected auto, put or in-place", name);
}

const char *ls_transfers_of(const ls_image *image) {
    const ls_axes puts = ls_mesh_axes(&image->mesh, LS_AXIS_SEQUENCE) & ~image->in_place;
    return image->in_place == 0 ? "put" : puts == 0 ? "in-place" : "in-place+put";
}

/* Whether two ranks can read each other's heaps. */
static bool are_near(const ls_target *target, int a, int b) {
    return target->host_ranks > 0 && a / target->host_ranks == b / target->host_ranks;
}

/*
 * Whether all members of a team can. The answer is for all such teams of the mesh, so that ranks of a class stay alike.
 */
static bool is_near(const ls_target *target, const ls_team *team) {
    for (int rank = 0; rank < ls_mesh_ranks(&target->mesh); rank++) {
        if (!are_near(target, rank, ls_team_member(team, rank, -ls_team_place(team, rank)))) return false;
    }
    return true;
}

/*
 * The choice applies to all attention, so every strategy in use must be able to read in place. *cannot: one that is not
 * able to; NULL: all are.
 */
static ls_status reads_in_place(const ls_target *target, const char **cannot) {
    const char *const used[] = {target->strategy, target->window_strategy};
    *cannot = NULL;
    for (size_t i = 0; i < LS_COUNT(used); i++) {
        bool can = true;
        if (used[i] != NULL) LS_TRY(ls_strategy_reads_in_place(used[i], &can));
        if (!can) *cannot = used[i];
    }
    return ls_ok();
}

/*
 * Both ways have the same bits. The ring in place copies nothing and needs no slots. An all-to-all copies once in
 * either way, and takes more memory in place (docs/performance.md); so on a mesh with an all-to-all, auto means put.
 */
ls_status ls_choose_transfers(const ls_target *target, ls_axes *in_place) {
    const ls_mesh *mesh = &target->mesh;
    struct {
        ls_axes axes;
        bool supported;
    } exchanges[] = {{ls_mesh_block_axes(mesh), false}, {ls_mesh_head_axes(mesh), true}};
    const char *cannot;
    LS_TRY(reads_in_place(target, &cannot));
    exchanges[0].supported = cannot == NULL;
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
    return ls_error(LS_USAGE, "--transfers in-place: strategy %s has no such lowering; expected put",
                    cannot != NULL ? cannot : target->strategy);
}
