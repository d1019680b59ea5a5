/*
 * shm: ranks of one host, as processes forked after the world was made or as threads of one process. One
 * shared anonymous mapping holds the board and all heaps; every rank has it at the same address, so a put is
 * a copy.
 */
#include "comm/comm_impl.h"

static ls_status map(ls_world *world) {
    const size_t board = ls_board_bytes(world);
    ls_mapping shared;
    LS_TRY(ls_map_shared(board + (size_t)world->options.ranks * world->heap_stride, &shared));
    world->shared = shared;
    ls_board_place(world, shared.base);
    world->heaps = shared.base + board;
    return ls_ok();
}

static void unmap(ls_world *world) { ls_unmap(&world->shared); }

const ls_transport ls_transport_shm = {
    .name = "shm",
    .max_ranks = 1024,
    .addressable = true,
    .map = map,
    .unmap = unmap,
    .peer_heap = ls_mapped_peer_heap,
    .put = ls_mapped_put,
    .put_signal = ls_mapped_put_signal,
    .signal = ls_mapped_signal,
    .word = ls_mapped_word,
    .quiet = ls_mapped_quiet,
};
