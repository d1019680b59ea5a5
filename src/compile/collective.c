/* Sums over ranks, lowered to puts, signals and additions in a fixed order. Nothing is opaque. */
#include "compile/compile_impl.h"

ls_team ls_build_team(ls_builder *b, const bool axes[LS_AXES]) {
    const ls_mesh *mesh = &b->target->mesh;
    const int ranks = ls_mesh_ranks(mesh);
    ls_team team = {.members = LS_NEW_ARRAY(b->image->arena, int, ranks)};
    for (int r = 0; r < ranks; r++) {
        bool member = true;
        for (int a = 0; a < LS_AXES; a++) {
            const ls_axis axis = (ls_axis)a;
            if (!axes[a] &&
                ls_mesh_coordinate(mesh, r, axis) != ls_mesh_coordinate(mesh, b->target->rank, axis))
                member = false;
        }
        if (r == b->target->rank) team.me = team.n;
        if (member) team.members[team.n++] = r;
    }
    return team;
}

/* Every member puts its part into its slot of every other member; each adds the slots in team order. */
void ls_build_all_reduce(ls_builder *b, const ls_team *team, ls_operand part, ls_operand sum) {
    const int64_t n = ls_view_elements(&part.view);
    const int64_t size[] = {team->n, n};
    const ls_operand flat = ls_operand_dense(part.buffer, part.offset, part.view.dtype, 2, (int64_t[]){1, n});
    const ls_operand slots =
        ls_build_symmetric(b, LS_BUFFER_SLOT, "reduce slots", team->n * n, part.view.dtype, 2, size);
    for (int j = 1; j < team->n; j++) {
        const int from = (team->me - j + team->n) % team->n;
        ls_build_ready(b, ls_build_channel(b, "reduce.%d.%d", team->n, j), team->members[from],
                       ls_operand_slice(slots, 0, from, 1));
    }
    for (int j = 1; j < team->n; j++) {
        const int to = (team->me + j) % team->n;
        ls_build_send(b, ls_build_channel(b, "reduce.%d.%d", team->n, j), team->members[to], flat,
                      ls_operand_slice(slots, 0, team->me, 1));
    }
    ls_build_copy(b, flat, ls_operand_slice(slots, 0, team->me, 1));
    for (int j = 1; j < team->n; j++) {
        const int from = (team->me - j + team->n) % team->n;
        ls_build_receive(b, ls_build_channel(b, "reduce.%d.%d", team->n, j), team->members[from],
                         ls_operand_slice(slots, 0, from, 1));
    }
    ls_build_quiet(b);
    const ls_operand out = ls_operand_dense(sum.buffer, sum.offset, sum.view.dtype, 2, (int64_t[]){1, n});
    ls_build_fill(b, out);
    for (int r = 0; r < team->n; r++) ls_build_accumulate(b, ls_operand_slice(slots, 0, r, 1), out);
}
