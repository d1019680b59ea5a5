/*
 * self: one rank. The heap is private memory, because the kernel gives huge pages to that and mostly not to
 * shared memory; the board stays shared, so that a launcher in the parent process can still raise the stop
 * flag.
 */
#include "comm/comm_impl.h"

static ls_status map(ls_world *world) {
    ls_mapping shared, heap;
    LS_TRY(ls_map_shared(ls_board_bytes(world), &shared));
    const ls_status status = ls_map_private(world->heap_stride, &heap);
    if (status.code != LS_OK) {
        ls_unmap(&shared);
        return status;
    }
    world->shared = shared;
    world->private_heap = heap;
    ls_board_place(world, shared.base);
    world->heaps = heap.base;
    return ls_ok();
}

static void unmap(ls_world *world) {
    ls_unmap(&world->private_heap);
    ls_unmap(&world->shared);
}

const ls_transport ls_transport_self = {
    .name = "self",
    .max_ranks = 1,
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
