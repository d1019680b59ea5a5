/* Which ranks of a host have memory in common. */
#include "program/common.h"

#include <limits.h>

/* The first of all ranks that have the same parts as this rank, on whatever host. */
static int first_owner(const ls_team *owners, int rank) {
    return ls_team_member(owners, rank, -ls_team_place(owners, rank));
}

/* The ranks of a rank's host: from the return value to *past - 1. */
static int host_of(int ranks, int host_ranks, int rank, int *past) {
    const int each = host_ranks > 1 ? host_ranks : 1, first = rank / each * each;
    *past = each < ranks - first ? first + each : ranks;
    return first;
}

ls_sharers ls_image_sharers(const ls_image *image, int rank) {
    int past;
    const int owner = first_owner(&image->owners, rank);
    ls_sharers found = {.holder = -1};
    for (int r = host_of(ls_mesh_ranks(&image->mesh), image->host_ranks, rank, &past); r < past; r++) {
        if (first_owner(&image->owners, r) != owner) continue;
        if (found.holder < 0) found.holder = r;
        if (r == rank) found.place = found.n;
        found.n++;
    }
    return found;
}

int ls_least_sharers(const ls_mesh *mesh, const ls_team *owners, int host_ranks) {
    const int ranks = ls_mesh_ranks(mesh);
    ls_arena *scratch = ls_arena_create();
    int *count = LS_NEW_ARRAY(scratch, int, ranks); /* by first owner: its ranks on the host */
    int least = ls_team_size(owners);
    for (int first = 0, past; first < ranks; first = past) {
        host_of(ranks, host_ranks, first, &past);
        for (int r = first; r < past; r++) count[first_owner(owners, r)]++;
        for (int r = first; r < past; r++)
            least = count[first_owner(owners, r)] < least ? count[first_owner(owners, r)] : least;
        for (int r = first; r < past; r++) count[first_owner(owners, r)] = 0;
    }
    ls_arena_destroy(scratch);
    return least;
}
