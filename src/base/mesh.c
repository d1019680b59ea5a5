#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const axis_names[LS_AXES] = {"dp", "ring", "ulysses"};

const char *ls_axis_name(ls_axis axis) {
    LS_ASSERT(axis < LS_AXES);
    return axis_names[axis];
}

int ls_mesh_ranks(const ls_mesh *mesh) { return mesh->size[LS_AXIS_DP] * ls_mesh_sequence_ranks(mesh); }

int ls_mesh_sequence_ranks(const ls_mesh *mesh) { return mesh->size[LS_AXIS_RING] * mesh->size[LS_AXIS_ULYSSES]; }

/* The difference in rank between neighbours along axis: the product of the sizes of the inner axes. */
static int axis_stride(const ls_mesh *mesh, ls_axis axis) {
    int stride = 1;
    for (int inner = (int)axis + 1; inner < LS_AXES; inner++) stride *= mesh->size[inner];
    return stride;
}

int ls_mesh_coordinate(const ls_mesh *mesh, int rank, ls_axis axis) {
    LS_ASSERT(rank >= 0 && rank < ls_mesh_ranks(mesh) && axis < LS_AXES);
    return rank / axis_stride(mesh, axis) % mesh->size[axis];
}

int ls_mesh_neighbour(const ls_mesh *mesh, int rank, ls_axis axis, int coordinate) {
    LS_ASSERT(coordinate >= 0 && coordinate < mesh->size[axis]);
    return rank + (coordinate - ls_mesh_coordinate(mesh, rank, axis)) * axis_stride(mesh, axis);
}

int ls_mesh_sequence_index(const ls_mesh *mesh, int rank) {
    LS_ASSERT(rank >= 0 && rank < ls_mesh_ranks(mesh));
    return rank % ls_mesh_sequence_ranks(mesh);
}

/* --- teams -------------------------------------------------------------------------------------------------------- */

ls_team ls_mesh_team(const ls_mesh *mesh, const bool axes[LS_AXES]) {
    ls_team team = {0};
    for (int axis = 0; axis < LS_AXES; axis++) {
        if (!axes[axis] || mesh->size[axis] == 1) continue;
        team.digit[team.digits].size = mesh->size[axis];
        team.digit[team.digits++].stride = axis_stride(mesh, (ls_axis)axis);
    }
    return team;
}

int ls_team_size(const ls_team *team) {
    int size = 1;
    for (int d = 0; d < team->digits; d++) size *= team->digit[d].size;
    return size;
}

int ls_team_place(const ls_team *team, int rank) {
    int place = 0;
    for (int d = 0; d < team->digits; d++)
        place = place * team->digit[d].size + rank / team->digit[d].stride % team->digit[d].size;
    return place;
}

int ls_team_member(const ls_team *team, int rank, int shift) {
    const int size = ls_team_size(team);
    int place = ((ls_team_place(team, rank) + shift) % size + size) % size;
    for (int d = team->digits - 1; d >= 0; d--) {
        const int digit = rank / team->digit[d].stride % team->digit[d].size;
        rank += (place % team->digit[d].size - digit) * team->digit[d].stride;
        place /= team->digit[d].size;
    }
    return rank;
}

bool ls_team_equal(const ls_team *a, const ls_team *b) {
    bool equal = a->digits == b->digits;
    for (int d = 0; equal && d < a->digits; d++)
        equal = a->digit[d].size == b->digit[d].size && a->digit[d].stride == b->digit[d].stride;
    return equal;
}

/* Reads one "axis=number" of the given length into mesh. */
static ls_status parse_part(const char *text, int length, ls_mesh *mesh) {
    const char *equals = memchr(text, '=', (size_t)length);
    if (!equals) return ls_error(LS_USAGE, "mesh part '%.*s' has no '='; expected dp=A,ring=R,ulysses=U", length, text);
    const int name_length = (int)(equals - text);
    int axis = 0;
    while (axis < LS_AXES && (strlen(axis_names[axis]) != (size_t)name_length ||
                              strncmp(axis_names[axis], text, (size_t)name_length) != 0))
        axis++;
    if (axis == LS_AXES)
        return ls_error(LS_USAGE, "mesh axis '%.*s' is unknown; expected dp, ring or ulysses", name_length, text);
    if (mesh->size[axis]) return ls_error(LS_USAGE, "mesh axis '%s' is given twice", axis_names[axis]);

    const int digits = length - name_length - 1;
    char number[16] = "";
    if (digits < (int)sizeof number) snprintf(number, sizeof number, "%.*s", digits, equals + 1);
    char *end = number;
    const long size = number[0] >= '0' && number[0] <= '9' ? strtol(number, &end, 10) : 0;
    if (*end || size < 1 || size > INT_MAX)
        return ls_error(LS_USAGE, "mesh axis '%s' has size '%.*s'; expected an integer from 1 to %d", axis_names[axis],
                        digits, equals + 1, INT_MAX);
    int64_t ranks = size;
    for (int other = 0; other < LS_AXES; other++) {
        ranks *= mesh->size[other] != 0 ? mesh->size[other] : 1;
        if (ranks > INT_MAX) return ls_error(LS_USAGE, "the mesh has more than %d ranks", INT_MAX);
    }
    mesh->size[axis] = (int)size;
    return ls_ok();
}

ls_status ls_mesh_parse(const char *text, ls_mesh *out) {
    ls_mesh mesh = {{0}};
    for (const char *part = text;;) {
        const size_t length = strcspn(part, ",");
        LS_TRY(parse_part(part, (int)length, &mesh));
        if (!part[length]) break;
        part += length + 1;
    }
    *out = mesh;
    return ls_ok();
}

void ls_mesh_print(const ls_mesh *mesh, char *out, size_t bytes) {
    if (bytes == 0) return;
    out[0] = 0;
    size_t used = 0;
    for (int axis = 0; axis < LS_AXES && used < bytes; axis++) {
        if (mesh->size[axis] == 1) continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s %d", used ? " · " : "", axis_names[axis],
                                 mesh->size[axis]);
    }
    if (used == 0) snprintf(out, bytes, "1 rank");
}
