/*
 * Host collectives. All of them are a dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier
 * synchronization", International Journal of Parallel Programming 17, 1988): in round k = 0, 1, ... each rank sends
 * what it knows to the rank 2^k after it, and waits for the rank 2^k before it. Before round k a rank knows of itself
 * and the 2^k - 1 ranks before it, so after ceil(log2 P) rounds it knows of all P ranks, whatever P is. What it knows
 * is
 *   barrier             nothing but that they have come: signals without a payload
 *   reduce              one value, the merge of theirs. Unless P is a power of two, the last round merges some of them
 *                       a second time. broadcast and agree are such merges, too: of several statements the first rank's
 *                       is kept
 *   exchange            the bytes of each of them. The last round sends only what is missing (Bruck, Ho, Kipnis, Upfal
 *                       and Weathersby, "Efficient algorithms for all-to-all communications in multiport
 *                       message-passing systems", IEEE Transactions on Parallel and Distributed Systems 8, 1997)
 *
 * Messages arrive in the inbox, behind what the rank already has there, so that nothing is overwritten while it is
 * sent. The inbox has two halves, which collectives use in turn. That is enough: a rank begins collective n + 2 when it
 * has finished n + 1, hence all ranks have begun n + 1, hence they have read what they received in n. Word k of the
 * host collectives is set by one rank only, that of round k.
 */
#include "comm/comm_impl.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    SMALLEST_SLICE = 64,       /* bytes that a rank can exchange at once, whatever the number of ranks */
    VALUE = LS_COMM_VALUE + 64 /* from one value in the inbox to the next; a statement begins with a rank */
};

int ls_host_rounds(int ranks) {
    int rounds = 0;
    while ((ranks - 1) >> rounds > 0) rounds++;
    return rounds;
}

size_t ls_host_inbox_bytes(int ranks) {
    const size_t exchange = (size_t)ranks * SMALLEST_SLICE;
    const size_t reduce = (size_t)(ls_host_rounds(ranks) + 1) * VALUE;
    return exchange > reduce ? exchange : reduce;
}

/* A collective under way. */
typedef struct collective {
    ls_comm *comm;
    int rounds;
    size_t inbox; /* offset of its half of the inbox in the heap */
    char *bytes;  /* that half, of this rank */
    char what[64];
} collective;

static collective begin(ls_comm *comm, const char *name) {
    const ls_world *world = comm->world;
    collective c = {.comm = comm, .rounds = ls_host_rounds(world->options.ranks)};
    const uint64_t number = ++comm->collectives;
    c.inbox = world->inbox + (size_t)(number & 1) * ls_host_inbox_bytes(world->options.ranks);
    c.bytes = (char *)ls_comm_heap(comm) + c.inbox;
    snprintf(c.what, sizeof c.what, "%s, collective %llu of the host", name, (unsigned long long)number);
    return c;
}

/* The rank that is `distance` after this one. */
static int rank_after(const ls_comm *comm, int64_t distance) {
    const int64_t ranks = comm->world->options.ranks;
    return (int)((comm->rank + distance + ranks) % ranks);
}

/* Round k: the first `bytes` at offset `from` of this half go to offset `to` of the receiver's half. */
static ls_status run_round(const collective *c, int k, size_t from, size_t to, size_t bytes) {
    ls_comm *comm = c->comm;
    const ls_transport *transport = comm->world->transport;
    const int64_t distance = (int64_t)1 << k;
    const int receiver = rank_after(comm, distance), sender = rank_after(comm, -distance);
    const int word = comm->world->options.words + k;
    const ls_range source = ls_range_flat(from, bytes), target = ls_range_flat(c->inbox + to, bytes);
    if (bytes > 0)
        transport->put_signal(comm, receiver, &target, c->bytes, &source, word, comm->collectives);
    else
        transport->signal(comm, receiver, word, comm->collectives);
    return ls_wait_word(comm, word, comm->collectives, sender, c->what);
}

/* The last message must not wait for this rank's next tick: the caller may be busy with something else for long. */
static void end(const collective *c) { c->comm->world->transport->quiet(c->comm); }

ls_status ls_comm_barrier(ls_comm *comm) {
    ls_comm_quiet(comm);
    const collective c = begin(comm, "barrier");
    for (int k = 0; k < c.rounds; k++) LS_TRY(run_round(&c, k, 0, 0, 0));
    end(&c);
    return ls_ok();
}

/* ---- exchange ---- */

/*
 * Exchanges `bytes` of every rank; those of rank r go to all + r * stride. Block d of the inbox is that of the rank d
 * before this one.
 */
static ls_status exchange_slice(ls_comm *comm, const char *mine, size_t bytes, char *all, size_t stride) {
    const collective c = begin(comm, "exchange");
    const int ranks = comm->world->options.ranks;
    if (bytes > 0) memcpy(c.bytes, mine, bytes);
    for (int k = 0; k < c.rounds; k++) {
        const size_t known = (size_t)1 << k, missing = (size_t)ranks - known;
        LS_TRY(run_round(&c, k, 0, known * bytes, ls_min(known, missing) * bytes));
    }
    for (int d = 0; d < ranks && bytes > 0; d++)
        memcpy(all + (size_t)rank_after(comm, -(int64_t)d) * stride, c.bytes + (size_t)d * bytes, bytes);
    end(&c);
    return ls_ok();
}

ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all) {
    const int ranks = comm->world->options.ranks;
    const size_t most = ls_host_inbox_bytes(ranks) / (size_t)ranks;
    size_t at = 0;
    do {
        const size_t slice = ls_min(most, bytes - at);
        LS_TRY(exchange_slice(comm, (const char *)mine + at, slice, (char *)all + at, bytes));
        at += slice;
    } while (at < bytes);
    return ls_ok();
}

/* ---- reduce ---- */

static ls_status reduce(ls_comm *comm, const char *name, void *value, size_t bytes, ls_comm_merge merge) {
    LS_ASSERT(bytes <= VALUE);
    const collective c = begin(comm, name);
    memcpy(c.bytes, value, bytes);
    for (int k = 0; k < c.rounds; k++) {
        const size_t mine = (size_t)k * VALUE, theirs = mine + VALUE;
        LS_TRY(run_round(&c, k, mine, theirs, bytes));
        merge(c.bytes + theirs, c.bytes + mine, bytes);
    }
    memcpy(value, c.bytes + (size_t)c.rounds * VALUE, bytes);
    end(&c);
    return ls_ok();
}

ls_status ls_comm_reduce(ls_comm *comm, void *value, size_t bytes, ls_comm_merge merge) {
    LS_ASSERT(bytes > 0 && bytes <= LS_COMM_VALUE);
    return reduce(comm, "reduce", value, bytes, merge);
}

/* What the first of some ranks says; rank INT_MAX: none of them says anything. */
typedef struct statement {
    int rank;
    char bytes[LS_COMM_VALUE];
} statement;

static void keep_first(void *into, const void *from, size_t bytes) {
    if (((const statement *)from)->rank < ((const statement *)into)->rank) memcpy(into, from, bytes);
}

/* *value becomes that of the first rank that speaks; returns its number in *rank, INT_MAX if no rank does. */
static ls_status hear_first(ls_comm *comm, const char *name, bool speaks, void *value, size_t bytes, int *rank) {
    LS_ASSERT(bytes <= LS_COMM_VALUE);
    statement first = {.rank = speaks ? comm->rank : INT_MAX};
    memcpy(first.bytes, value, bytes);
    LS_TRY(reduce(comm, name, &first, offsetof(statement, bytes) + bytes, keep_first));
    memcpy(value, first.bytes, bytes);
    *rank = first.rank;
    return ls_ok();
}

ls_status ls_comm_broadcast(ls_comm *comm, void *value, size_t bytes) {
    int rank;
    return hear_first(comm, "broadcast", comm->rank == 0, value, bytes, &rank);
}

ls_status ls_comm_agree(ls_comm *comm, ls_status mine) {
    int rank;
    LS_TRY(hear_first(comm, "agree", mine.code != LS_OK, &mine, sizeof mine, &rank));
    return rank == INT_MAX ? ls_ok() : ls_error_in(mine, "rank %d", rank);
}
