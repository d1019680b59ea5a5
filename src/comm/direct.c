/*
 * The transports that address every heap directly, self and shm. A put is a copy by the sender and complete when it
 * returns. A signal is a release store of the word, and then a ring of the peer's bell.
 */
#include "comm/comm_impl.h"

#include <string.h>

static void *peer_heap(const ls_comm *comm, int peer) {
    return comm->world->heaps + (size_t)peer * comm->world->heap_stride;
}

static void put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    char *target = peer_heap(comm, peer);
    if (ls_range_is_flat(to) && ls_range_is_flat(from)) {
        LS_ASSERT(to->length == from->length);
        memcpy(target + to->offset, (const char *)source + from->offset, to->length);
    } else {
        ls_range_copy(target, to, source, from);
    }
}

static void signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    ls_world *world = comm->world;
    _Atomic uint64_t *target = &world->words[(size_t)peer * world->words_stride + (size_t)word];
    atomic_store_explicit(target, generation, memory_order_release);
    ls_bell_ring(&world->board->lines[peer]);
}

static void put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from, int word,
                       uint64_t generation) {
    put(comm, peer, to, source, from);
    signal(comm, peer, word, generation);
}

static uint64_t word_value(const ls_comm *comm, int word) {
    const ls_world *world = comm->world;
    const _Atomic uint64_t *mine = &world->words[(size_t)comm->rank * world->words_stride + (size_t)word];
    return atomic_load_explicit(mine, memory_order_acquire);
}

/* Every put is complete when it returns, and the release store of a later signal orders it. */
static void quiet(ls_comm *comm) { (void)comm; }

/* ---- self ---- */

/*
 * self has one rank. Its heap is private memory, because most systems give huge pages to private memory only. The board
 * is shared, so that a launcher in the parent process can set the stop flag.
 */
static ls_status map_self(ls_world *world) {
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

static void unmap_self(ls_world *world) {
    ls_unmap(&world->private_heap);
    ls_unmap(&world->shared);
}

const ls_transport ls_transport_self = {
    .name = "self",
    .alone = true,
    .addressable = true,
    .map = map_self,
    .unmap = unmap_self,
    .peer_heap = peer_heap,
    .put = put,
    .put_signal = put_signal,
    .signal = signal,
    .word = word_value,
    .quiet = quiet,
};

/* ---- shm ---- */

/*
 * shm has the ranks of one host: processes that are forked after the world was made, or threads of one process. One
 * shared anonymous mapping holds the board and all heaps. It has the same address in every rank.
 */
static ls_status map_shm(ls_world *world) {
    const size_t board = ls_board_bytes(world);
    ls_mapping shared;
    LS_TRY(ls_map_shared(board + (size_t)world->options.ranks * world->heap_stride, &shared));
    world->shared = shared;
    ls_board_place(world, shared.base);
    world->heaps = shared.base + board;
    return ls_ok();
}

static void unmap_shm(ls_world *world) { ls_unmap(&world->shared); }

const ls_transport ls_transport_shm = {
    .name = "shm",
    .addressable = true,
    .map = map_shm,
    .unmap = unmap_shm,
    .peer_heap = peer_heap,
    .put = put,
    .put_signal = put_signal,
    .signal = signal,
    .word = word_value,
    .quiet = quiet,
};
