#include "transfers.h"

#include "meshes.h"

const transfer_way transfer_ways[TRANSFER_WAYS] = {{"put", LS_TRANSFERS_PUT, false},
                                                   {"in place", LS_TRANSFERS_IN_PLACE, false},
                                                   {"in place within blocks", LS_TRANSFERS_IN_PLACE, true}};

bool reads_ring_in_place(const char *strategy, const ls_mesh *mesh) {
    bool reads;
    const ls_status status = ls_strategy_reads_in_place(strategy, &reads);
    LS_ASSERT(status.code == LS_OK);
    return reads && mesh_ring(mesh) > 1;
}

/* Whether the ranks of a block follow each other, as they must where a block has a host. */
static bool are_blocks_of_hosts(const ls_mesh *mesh) {
    const ls_team block = ls_mesh_team(mesh, ls_mesh_head_axes(mesh));
    bool follow = true;
    for (int i = 0; i < ls_team_size(&block); i++) follow &= ls_team_member(&block, 0, i) == i;
    return follow;
}

bool transfer_way_fits(const transfer_way *way, const char *strategy, const ls_mesh *mesh) {
    if (way->asked == LS_TRANSFERS_PUT) return true;
    const bool within = mesh_ulysses(mesh) > 1, across = reads_ring_in_place(strategy, mesh);
    return way->blocks_apart ? within && across && are_blocks_of_hosts(mesh) : within || across;
}

void transfer_way_set(const transfer_way *way, ls_target *target) {
    target->transfers = way->asked;
    target->host_ranks = way->blocks_apart ? mesh_ulysses(&target->mesh) : LS_ONE_HOST;
}
