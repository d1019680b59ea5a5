/* Teams: peers at some distance in a team, and the shares of its members. */
#include "compile/compile_impl.h"

int ls_build_team(ls_builder *b, const ls_team *team) {
    ls_image *image = b->image;
    for (int t = 0; t < image->n_teams; t++)
        if (ls_team_equal(&image->teams[t], team)) return t;
    *LS_PUSH(image->arena, image->teams, image->n_teams, image->team_capacity) = *team;
    return image->n_teams - 1;
}

int ls_build_team_of(ls_builder *b, ls_axes axes) {
    const ls_team team = ls_mesh_team(&b->target->mesh, axes);
    return ls_build_team(b, &team);
}

int ls_build_team_size(const ls_builder *b, int team) { return ls_team_size(&b->image->teams[team]); }

int ls_build_team_place(const ls_builder *b, int team) {
    return ls_team_place(&b->image->teams[team], b->target->rank);
}

static ls_team split_at(const ls_builder *b, int team, int inner, ls_team *outer) {
    ls_team split;
    const bool can = ls_team_split(&b->image->teams[team], inner, &split, outer);
    LS_ASSERT(can);
    return split;
}

int ls_build_split_team(ls_builder *b, int team, int inner) {
    ls_team outer;
    const ls_team split = split_at(b, team, inner, &outer);
    return ls_build_team(b, &split);
}

int ls_build_outer_team(ls_builder *b, int team, int inner) {
    if (inner == 1) return team;
    ls_team outer;
    (void)split_at(b, team, inner, &outer);
    return ls_build_team(b, &outer);
}

/* The shift as a number from 0 to the team's size - 1. */
static int forward(const ls_builder *b, int team, int shift) {
    const int within = shift % ls_build_team_size(b, team);
    return within < 0 ? ls_team_back(&b->image->teams[team], -within) : within;
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
