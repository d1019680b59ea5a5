/* Teams, and sums over their ranks, lowered to puts, signals and additions in a fixed order. Nothing is opaque. */
#include "compile/compile_impl.h"

/* --- teams -------------------------------------------------------------------------------------------------------- */

int ls_build_team(ls_builder *b, const ls_team *team) {
    ls_image *image = b->image;
    for (int t = 0; t < image->n_teams; t++)
        if (ls_team_equal(&image->teams[t], team)) return t;
    *LS_PUSH(image->arena, image->teams, image->n_teams, image->team_capacity) = *team;
    return image->n_teams - 1;
}

int ls_build_team_of(ls_builder *b, const bool axes[LS_AXES]) {
    const ls_team team = ls_mesh_team(&b->target->mesh, axes);
    return ls_build_team(b, &team);
}

int ls_build_axis(ls_builder *b, ls_axis axis) {
    bool axes[LS_AXES] = {false};
    axes[axis] = true;
    return ls_build_team_of(b, axes);
}

int ls_build_team_size(const ls_builder *b, int team) { return ls_team_size(&b->image->teams[team]); }

int ls_build_team_place(const ls_builder *b, int team) {
    return ls_team_place(&b->image->teams[team], b->target->rank);
}

/* shift as one of 0 .. size - 1. */
static int forward(const ls_builder *b, int team, int shift) {
    const int size = ls_build_team_size(b, team);
    return (shift % size + size) % size;
}

ls_peer ls_build_peer(const ls_builder *b, int team, int shift) {
    const int places = forward(b, team, shift);
    return places == 0 ? (ls_peer){0} : (ls_peer){team, places};
}

static bool is_same(const ls_displacement *a, const ls_displacement *b) {
    bool same = a->n == b->n;
    for (int t = 0; same && t < a->n; t++)
        same = a->term[t].team == b->term[t].team && a->term[t].shift == b->term[t].shift &&
               a->term[t].bytes == b->term[t].bytes;
    return same;
}

static uint64_t hash_of(const ls_displacement *d) {
    uint64_t key[3 * LS_DISPLACEMENT_TERMS] = {0};
    for (int t = 0; t < d->n; t++) {
        key[3 * t] = (uint64_t)d->term[t].team;
        key[3 * t + 1] = (uint64_t)d->term[t].shift;
        key[3 * t + 2] = d->term[t].bytes;
    }
    return ls_hash_bytes(key, sizeof key);
}

static int displacement_of(ls_builder *b, const ls_displacement *wanted) {
    ls_image *image = b->image;
    const uint64_t hash = hash_of(wanted);
    for (int i = ls_index_first(&b->displacements, hash); i >= 0; i = ls_index_next(&b->displacements, i))
        if (is_same(&image->displacements[i + 1], wanted)) return i + 1;
    ls_index_add(&b->displacements, hash);
    *LS_PUSH(image->arena, image->displacements, image->n_displacements, image->displacement_capacity) = *wanted;
    return image->n_displacements - 1;
}

ls_operand ls_build_share(ls_builder *b, ls_operand all, int dim, int64_t count, int team, int shift) {
    ls_operand share = ls_operand_slice(all, dim, 0, count);
    if (ls_build_team_size(b, team) == 1) return share;
    ls_displacement d = b->image->displacements[all.displacement];
    LS_ASSERT(d.n < LS_DISPLACEMENT_TERMS);
    d.term[d.n].team = team;
    d.term[d.n].shift = forward(b, team, shift);
    d.term[d.n].bytes = (size_t)(count * all.view.stride[dim]) * ls_dtype_bytes(all.view.dtype);
    d.most += (size_t)(ls_build_team_size(b, team) - 1) * d.term[d.n].bytes;
    d.n++;
    share.displacement = displacement_of(b, &d);
    return share;
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/*
 * Every member puts its part into the slot of its place at every other member; each adds all slots in the order of
 * places.
 */
static void reduce_stage(ls_builder *b, int team, ls_operand part, ls_operand sum) {
    const int size = ls_build_team_size(b, team);
    const int64_t n = part.view.size[1];
    const ls_operand slots =
        ls_build_symmetric(b, LS_BUFFER_SLOT, "reduce slots", size * n, part.view.dtype, 2, (int64_t[]){size, n});
    const ls_operand mine = ls_build_share(b, slots, 0, 1, team, 0);
    for (int j = 1; j < size; j++)
        ls_build_grant(b, ls_build_channel(b, "reduce.%d.%d", team, j), ls_build_peer(b, team, -j),
                       ls_build_share(b, slots, 0, 1, team, -j));
    for (int j = 1; j < size; j++)
        ls_build_send(b, ls_build_channel(b, "reduce.%d.%d", team, j), ls_build_peer(b, team, j), part, mine);
    ls_build_copy(b, part, mine);
    for (int j = 1; j < size; j++)
        ls_build_receive(b, ls_build_channel(b, "reduce.%d.%d", team, j), ls_build_peer(b, team, -j),
                         ls_build_share(b, slots, 0, 1, team, -j));
    ls_build_add_rows(b, slots, size, ls_operand_dense(sum.buffer, sum.offset, sum.view.dtype, 1, &n));
}

/* The operand as one row. */
static ls_operand row_of(ls_operand o) {
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 2, (int64_t[]){1, ls_view_elements(&o.view)});
}

void ls_build_all_reduce(ls_builder *b, int team, ls_operand part, ls_operand sum) {
    const ls_team whole = b->image->teams[team];
    int stages[LS_TEAM_DIGITS];
    const int n = ls_build_stages(b, &whole, stages);
    ls_operand from = row_of(part);
    LS_ASSERT(part.displacement == 0 && sum.displacement == 0);
    for (int s = 0; s < n; s++) {
        const ls_operand to = s + 1 == n ? row_of(sum)
                                         : ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over near ranks",
                                                            from.view.dtype, 2, from.view.size);
        reduce_stage(b, stages[s], from, to);
        from = to;
    }
}
