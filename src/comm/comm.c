/* The one-sided operations of one rank, with their checks. */
#include "comm/comm_impl.h"

#include <math.h>

int ls_comm_rank(const ls_comm *comm) { return comm->rank; }

int ls_comm_size(const ls_comm *comm) { return comm->world->options.ranks; }

size_t ls_comm_heap_bytes(const ls_comm *comm) { return comm->world->options.heap_bytes; }
void *ls_comm_heap(const ls_comm *comm) { return comm->world->transport->peer_heap(comm, comm->rank); }

static void check_peer(const ls_comm *comm, int peer) { LS_ASSERT(peer >= 0 && peer < comm->world->options.ranks); }

static void check_word(const ls_comm *comm, int word) { LS_ASSERT(word >= 0 && word < comm->world->options.words); }

static void check_put(const ls_comm *comm, int peer, const ls_range *to) {
    check_peer(comm, peer);
    LS_ASSERT(ls_range_end(to) <= comm->world->options.heap_bytes);
}

void *ls_comm_peer_heap(const ls_comm *comm, int peer) {
    check_peer(comm, peer);
    return comm->world->transport->peer_heap(comm, peer);
}

uint64_t ls_comm_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    check_put(comm, peer, to);
    comm->puts++;
    comm->world->transport->put(comm, peer, to, source, from);
    return comm->puts;
}

uint64_t ls_comm_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                            int word, uint64_t generation) {
    check_put(comm, peer, to);
    check_word(comm, word);
    comm->puts++;
    comm->world->transport->put_signal(comm, peer, to, source, from, word, generation);
    return comm->puts;
}

bool ls_comm_done(ls_comm *comm, uint64_t ticket) {
    if (comm->world->transport->done == NULL) return true;
    (void)ls_comm_progress(comm);
    return comm->world->transport->done(comm, ticket);
}

void ls_comm_signal(ls_comm *comm, int peer, int word, uint64_t generation) {
    check_peer(comm, peer);
    check_word(comm, word);
    comm->world->transport->signal(comm, peer, word, generation);
}

uint64_t ls_comm_word(const ls_comm *comm, int word) {
    check_word(comm, word);
    return comm->world->transport->word(comm, word);
}

double ls_comm_progress(ls_comm *comm) {
    const ls_transport *transport = comm->world->transport;
    return transport->progress != NULL ? transport->progress(comm) : INFINITY;
}

bool ls_comm_test(ls_comm *comm, int word, uint64_t generation) {
    (void)ls_comm_progress(comm);
    return ls_comm_word(comm, word) >= generation;
}

ls_status ls_comm_wait(ls_comm *comm, int word, uint64_t generation, int peer, const char *what) {
    check_word(comm, word);
    check_peer(comm, peer);
    return ls_wait_word(comm, word, generation, peer, what);
}

void ls_comm_quiet(ls_comm *comm) { comm->world->transport->quiet(comm); }

/* This rank is the only writer, so no atomic addition is needed. */
void ls_comm_tick(ls_comm *comm) {
    _Atomic uint64_t *ticks = &ls_line(comm)->ticks;
    atomic_store_explicit(ticks, atomic_load_explicit(ticks, memory_order_relaxed) + 1, memory_order_relaxed);
    (void)ls_comm_progress(comm);
}
