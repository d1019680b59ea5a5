/* The operations of one rank: one-sided operations with their checks, and host collectives. */
#include "comm/comm_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- one-sided operations ---- */

int ls_comm_rank(const ls_comm *comm) { return comm->rank; }

int ls_comm_size(const ls_comm *comm) { return comm->world->options.ranks; }

void *ls_comm_heap(const ls_comm *comm) { return comm->world->transport->peer_heap(comm, comm->rank); }

static void check_peer(const ls_comm *comm, int peer) {
    LS_ASSERT(peer >= 0 && peer < comm->world->options.ranks);
}

static void check_word(const ls_comm *comm, int word) {
    LS_ASSERT(word >= 0 && word < comm->world->options.words);
}

static void check_put(const ls_comm *comm, int peer, const ls_range *to) {
    check_peer(comm, peer);
    LS_ASSERT(ls_range_end(to) <= comm->world->options.heap_bytes);
}

void *ls_comm_peer_heap(const ls_comm *comm, int peer) {
    check_peer(comm, peer);
    return comm->world->transport->peer_heap(comm, peer);
}

void ls_comm_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from) {
    check_put(comm, peer, to);
    comm->world->transport->put(comm, peer, to, source, from);
}

void ls_comm_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                        int word, uint64_t generation) {
    check_put(comm, peer, to);
    check_word(comm, word);
    comm->world->transport->put_signal(comm, peer, to, source, from, word, generation);
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

/* ---- host collectives ---- */

/*
 * Host collectives are built on the transport. In collective number n a rank puts its bytes into the inbox of every rank, half n mod 2,
 * and sets its word there to n. Two halves are enough: a rank begins n + 2 only after all ranks have sent n + 1, which they do after they
 * have read n.
 */

static size_t inbox_offset(const ls_world *world, uint64_t collective, int from) {
    const size_t half = (size_t)(collective & 1) * (size_t)world->options.ranks;
    return world->inbox + (half + (size_t)from) * LS_COMM_EXCHANGE;
}

/* The bytes of rank `from` in the collective that has just ended; valid until the next one begins. */
static const void *inbox(const ls_comm *comm, int from) {
    return (const char *)ls_comm_heap(comm) + inbox_offset(comm->world, comm->collectives, from);
}

/* Sends `bytes` to all ranks and waits for the bytes of all ranks. `name` is for error messages. */
static ls_status gather(ls_comm *comm, const void *mine, size_t bytes, const char *name) {
    const ls_world *world = comm->world;
    const int ranks = world->options.ranks;
    const int my_word = world->options.words + comm->rank;
    const uint64_t collective = ++comm->collectives;
    const ls_range from = ls_range_flat(0, bytes);
    const ls_range to = ls_range_flat(inbox_offset(world, collective, comm->rank), bytes);
    for (int i = 0; i < ranks; i++) {
        const int peer = (comm->rank + i) % ranks;
        if (bytes > 0)
            world->transport->put_signal(comm, peer, &to, mine, &from, my_word, collective);
        else
            world->transport->signal(comm, peer, my_word, collective);
    }
    world->transport->quiet(comm); /* the caller may reuse `mine` */

    char what[64];
    snprintf(what, sizeof what, "%s, collective %llu of the host", name, (unsigned long long)collective);
    for (int i = 0; i < ranks; i++) {
        const int peer = (comm->rank + i) % ranks;
        LS_TRY(ls_wait_word(comm, world->options.words + peer, collective, peer, what));
    }
    return ls_ok();
}

ls_status ls_comm_barrier(ls_comm *comm) {
    ls_comm_quiet(comm);
    return gather(comm, NULL, 0, "barrier");
}

ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all) {
    LS_ASSERT(bytes <= LS_COMM_EXCHANGE);
    LS_TRY(gather(comm, mine, bytes, "exchange"));
    for (int rank = 0; rank < comm->world->options.ranks && bytes > 0; rank++)
        memcpy((char *)all + (size_t)rank * bytes, inbox(comm, rank), bytes);
    return ls_ok();
}

_Static_assert(sizeof(ls_status) <= LS_COMM_EXCHANGE, "agree exchanges a status");

ls_status ls_comm_agree(ls_comm *comm, ls_status mine) {
    LS_TRY(gather(comm, &mine, sizeof mine, "agree"));
    for (int rank = 0; rank < comm->world->options.ranks; rank++) {
        ls_status theirs;
        memcpy(&theirs, inbox(comm, rank), sizeof theirs);
        if (theirs.code != LS_OK) return ls_error_in(theirs, "rank %d", rank);
    }
    return ls_ok();
}
