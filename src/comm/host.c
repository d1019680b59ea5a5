/*
 * Collectives of the host, built on the transport. Collective number n of a rank puts what it gives into
 * everybody's inbox, half n mod 2, and sets its word there to n. Two halves are enough: a rank is at n + 2
 * only after everybody has sent n + 1, that is, has read n.
 */
#include "comm/comm_impl.h"

#include <stdio.h>
#include <string.h>

static size_t inbox_offset(const ls_world *world, uint64_t collective, int from) {
    const size_t half = (size_t)(collective & 1) * (size_t)world->options.ranks;
    return world->inbox + (half + (size_t)from) * LS_COMM_EXCHANGE;
}

/* What `from` gave to the collective that has just ended; valid until the next one begins. */
static const void *inbox(const ls_comm *comm, int from) {
    return (const char *)ls_comm_heap(comm) + inbox_offset(comm->world, comm->collectives, from);
}

/* Gives `bytes` to everybody and waits until everybody's have come. `name`: for the message of a failure. */
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
