/*
 * Operations of the transports that address every heap directly: a put is a copy by the sender, complete when
 * it returns, and a signal is a release store of the word followed by a ring.
 */
#include "comm/comm_impl.h"

#include <string.h>

void *ls_mapped_peer_heap(const ls_comm *comm, int peer) {
    return comm->world->heaps + (size_t)peer * comm->world->heap_stride;
}

static bool is_flat(const ls_range *range) {
    return range->count[0] == 1 && range->count[1] == 1 && range->count[2] == 1;
}

void ls_mapped_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    char *target = ls_mapped_peer_heap(comm, peer);
    if (is_flat(to) && is_flat(from)) {
        LS_ASSERT(to->length == from->length);
        memcpy(target + to->offset, (const char *)source + from->offset, to->length);
    } else {
        ls_range_copy(target, to, source, from);
    }
}

void ls_mapped_signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    ls_world *world = comm->world;
    _Atomic uint64_t *target = &world->words[(size_t)peer * world->words_stride + (size_t)word];
    atomic_store_explicit(target, generation, memory_order_release);
    ls_bell_ring(&world->board->lines[peer]);
}

void ls_mapped_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source,
                          const ls_range *from, int word, uint64_t generation) {
    ls_mapped_put(comm, peer, to, source, from);
    ls_mapped_signal(comm, peer, word, generation);
}

uint64_t ls_mapped_word(const ls_comm *comm, int word) {
    const ls_world *world = comm->world;
    const _Atomic uint64_t *mine = &world->words[(size_t)comm->rank * world->words_stride + (size_t)word];
    return atomic_load_explicit(mine, memory_order_acquire);
}

/* Nothing is ever under way: each put was complete when it returned, and the release of any later signal
 * orders it. */
void ls_mapped_quiet(ls_comm *comm) { (void)comm; }
