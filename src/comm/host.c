/*
 * Host collectives. All of them are a dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier
 * synchronization", International Journal of Parallel Programming 17, 1988): in round k = 0, 1, ... each rank sends
 * what it knows to the rank 2^k after it, and waits for the rank 2^k before it. Before round k a rank knows of itself
 * and the 2^k - 1 ranks before it, so after ceil(log2 P) rounds it knows of all P ranks, whatever P is. What it knows
 * is
 *   barrier             nothing but that they have come: signals without a payload
 *   reduce              one value, the merge of theirs. Unless P is a power of two, the last round merges some of them
 *                       a second time. broadcast and agree are such merges, too: of several offered values the one of
 *                       the lowest rank is kept
 *   exchange            the bytes of each of them. The last round sends only what is missing (Bruck, Ho, Kipnis, Upfal
 *                       and Weathersby, "Efficient algorithms for all-to-all communications in multiport
 *                       message-passing systems", IEEE Transactions on Parallel and Distributed Systems 8, 1997)
 *   gather              as an exchange, but only the messages on the way to rank 0 have bytes: a binomial tree, in
 *                       which a rank sends once, in the round of the lowest bit of its distance to rank 0
 *
 * Messages arrive in the inbox, behind what the rank already has there, so that nothing is overwritten while it is
 * sent. The inbox has two halves, which collectives use in turn. That is enough: a rank begins collective n + 2 when it
 * has finished n + 1, hence all ranks have begun n + 1, hence they have read what they received in n. Word k of the
 * host collectives is set by one rank only, that of round k.
 */
#include "comm/comm_impl.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    SMALLEST_SLICE = 64,       /* bytes that a rank can exchange at once, whatever the number of ranks */
    SMALLEST_INBOX = 1 << 17,  /* so that large results of few ranks go in large pieces */
    VALUE = LS_COMM_VALUE + 64 /* from one value in the inbox to the next; an offer begins with a rank */
};

int ls_host_rounds(int ranks) {
    int rounds = 0;
    while ((ranks - 1) >> rounds > 0) rounds++;
    return rounds;
}

size_t ls_host_inbox_bytes(int ranks) {
    const size_t exchange = (size_t)ranks * SMALLEST_SLICE;
    const size_t reduce = (size_t)(ls_host_rounds(ranks) + 1) * VALUE;
    const size_t most = exchange > reduce ? exchange : reduce;
    return most > SMALLEST_INBOX ? most : SMALLEST_INBOX;
}

/* A collective under way. */
typedef struct collective {
    ls_comm *comm;
    int rounds;
    size_t inbox; /* offset of its half of the inbox from the heap's start */
    char *bytes;  /* that half, of this rank */
    char what[64];
} collective;

static collective begin(ls_comm *comm, const char *name) {
    const ls_segment_form *form = &comm->end.form;
    collective c = {.comm = comm, .rounds = ls_host_rounds(comm->end.ranks)};
    const uint64_t number = ++comm->collectives;
    c.inbox = form->inbox - form->heap + (size_t)(number & 1) * ls_host_inbox_bytes(comm->end.ranks);
    c.bytes = comm->heap + c.inbox;
    snprintf(c.what, sizeof c.what, "%s, collective %llu of the host", name, (unsigned long long)number);
    return c;
}

/* The rank that is `distance` after this one. */
static int rank_after(const ls_comm *comm, int64_t distance) {
    const int64_t ranks = comm->end.ranks;
    return (int)((comm->end.rank + distance + ranks) % ranks);
}

/* Round k: the first `bytes` at offset `from` of this half go to offset `to` of the receiver's half. */
static ls_status run_round(const collective *c, int k, size_t from, size_t to, size_t bytes) {
    ls_comm *comm = c->comm;
    const int64_t distance = (int64_t)1 << k;
    const int receiver = rank_after(comm, distance), sender = rank_after(comm, -distance);
    const int word = comm->world->options.words + k;
    const ls_range source = ls_range_flat(from, bytes), target = ls_range_flat(c->inbox + to, bytes);
    ls_put put = {.peer = receiver,
                  .word = word,
                  .generation = comm->collectives,
                  .source = c->bytes,
                  .to = &target,
                  .from = &source};
    if (bytes > 0)
        ls_comm_send(comm, &put);
    else
        ls_comm_send_signal(comm, receiver, word, comm->collectives);
    return ls_wait_word(comm, word, comm->collectives, sender, c->what);
}

/*
 * Where messages need this rank's help, the last one must not wait for its next tick: the caller may be busy with
 * something else for long.
 */
static void end(const collective *c) {
    for (int i = 0; i < c->comm->n_links; i++) {
        const ls_link *link = &c->comm->links[i];
        if (link->transport->progress != NULL) link->transport->quiet(link->state);
    }
}

ls_status ls_comm_barrier(ls_comm *comm) {
    ls_comm_quiet(comm);
    const collective c = begin(comm, "barrier");
    for (int k = 0; k < c.rounds; k++) LS_TRY(run_round(&c, k, 0, 0, 0));
    end(&c);
    return ls_ok();
}

/* ---- exchange ---- */

/*
 * The rounds after which every rank has a block of `bytes` of every rank, or, unless `everywhere`, rank 0 has. Block d
 * of the inbox is that of the rank d before this one; the rank has written block 0.
 */
static ls_status spread_blocks(const collective *c, size_t bytes, bool everywhere) {
    const size_t ranks = (size_t)c->comm->end.ranks;
    const size_t to_first = (ranks - (size_t)c->comm->end.rank) % ranks; /* the distance to rank 0 */
    for (int k = 0; k < c->rounds; k++) {
        const size_t known = (size_t)1 << k;
        const bool sends_now = to_first % (2 * known) == known;
        const size_t wanted = everywhere ? ranks - known : sends_now ? ranks - to_first : 0;
        LS_TRY(run_round(c, k, 0, known * bytes, ls_min(known, wanted) * bytes));
    }
    return ls_ok();
}

/* Exchanges `bytes` of every rank; those of rank r go to all + r * stride. */
static ls_status exchange_slice(ls_comm *comm, const char *mine, size_t bytes, char *all, size_t stride) {
    const collective c = begin(comm, "exchange");
    const int ranks = comm->end.ranks;
    if (bytes > 0) memcpy(c.bytes, mine, bytes);
    LS_TRY(spread_blocks(&c, bytes, true));
    for (int d = 0; d < ranks && bytes > 0; d++)
        memcpy(all + (size_t)rank_after(comm, -(int64_t)d) * stride, c.bytes + (size_t)d * bytes, bytes);
    end(&c);
    return ls_ok();
}

ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all) {
    const int ranks = comm->end.ranks;
    const size_t most = ls_host_inbox_bytes(ranks) / (size_t)ranks;
    size_t at = 0;
    do {
        const size_t slice = ls_min(most, bytes - at);
        LS_TRY(exchange_slice(comm, (const char *)mine + at, slice, (char *)all + at, bytes));
        at += slice;
    } while (at < bytes);
    return ls_ok();
}

/* ---- gather ---- */

/* What a block of a gather begins with; the block has room for the same number of bytes of every rank. */
typedef struct block {
    uint64_t bytes; /* of the piece */
    char piece[];
} block;

static void keep_failure(ls_status *first, ls_status status) {
    if (first->code == LS_OK) *first = status;
}

/* Passes on the pieces from byte `at` on, at most `room` bytes of each rank. */
static ls_status gather_slice(ls_comm *comm, const ls_comm_pieces *p, bool everywhere, size_t at, size_t room,
                              ls_status *failure) {
    const collective c = begin(comm, "gather");
    const int ranks = comm->end.ranks;
    const size_t stride = sizeof(block) + room;
    block *mine = (block *)(void *)c.bytes;
    mine->bytes = at < p->bytes ? ls_min(room, p->bytes - at) : 0;
    if (mine->bytes > 0) keep_failure(failure, p->give(p->context, at, mine->piece, mine->bytes));
    LS_TRY(spread_blocks(&c, stride, everywhere));
    for (int r = 0; r < ranks && p->take != NULL && (everywhere || comm->end.rank == 0); r++) {
        const size_t before = (size_t)((comm->end.rank - r + ranks) % ranks);
        const block *theirs = (const block *)(const void *)(c.bytes + before * stride);
        if (theirs->bytes > 0) keep_failure(failure, p->take(p->context, r, at, theirs->piece, theirs->bytes));
    }
    end(&c);
    return ls_ok();
}

ls_status ls_comm_gather(ls_comm *comm, const ls_comm_pieces *pieces, bool everywhere) {
    const size_t ranks = (size_t)comm->end.ranks;
    const size_t align = sizeof(uint64_t);
    ls_status failure = ls_ok();
    int64_t longest = (int64_t)pieces->bytes;
    LS_TRY(ls_comm_max_i64(comm, &longest, 1));
    const size_t most = (size_t)longest;
    const size_t fits = ls_host_inbox_bytes((int)ranks) / ranks / align * align - sizeof(block);
    const size_t room = ls_min(fits, ls_round_up(most, align));
    for (size_t at = 0; at < most; at += room) LS_TRY(gather_slice(comm, pieces, everywhere, at, room, &failure));
    return failure;
}

/* The context of a gather of the ranks' memory to the memory of the caller. */
typedef struct gathering_home {
    ls_comm *comm;
    const char *mine;
    char *all;
    size_t stride;
} gathering_home;

static ls_status give_memory(void *context, size_t at, void *out, size_t bytes) {
    memcpy(out, ((const gathering_home *)context)->mine + at, bytes);
    return ls_ok();
}

static ls_status take_home(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const gathering_home *h = context;
    return ls_comm_send_home(h->comm, h->all + (size_t)rank * h->stride + at, data, bytes);
}

ls_status ls_comm_gather_home(ls_comm *comm, const void *mine, size_t bytes, void *all, size_t stride) {
    gathering_home h = {comm, mine, all, stride};
    return ls_comm_gather(comm, &(ls_comm_pieces){bytes, give_memory, take_home, &h}, false);
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

static void keep_greater_i64(void *into, const void *from, size_t bytes) {
    int64_t *kept = into;
    const int64_t *other = from;
    for (size_t i = 0; i < bytes / sizeof *kept; i++) kept[i] = ls_max(kept[i], other[i]);
}

static void keep_greater_f64(void *into, const void *from, size_t bytes) {
    double *kept = into;
    const double *other = from;
    for (size_t i = 0; i < bytes / sizeof *kept; i++) kept[i] = fmax(kept[i], other[i]);
}

ls_status ls_comm_max_i64(ls_comm *comm, int64_t *values, int n) {
    return ls_comm_reduce(comm, values, sizeof *values * (size_t)n, keep_greater_i64);
}

ls_status ls_comm_max_f64(ls_comm *comm, double *values, int n) {
    return ls_comm_reduce(comm, values, sizeof *values * (size_t)n, keep_greater_f64);
}

/* The value of the lowest rank that offers one; rank INT_MAX: none does. */
typedef struct offer {
    int rank;
    char bytes[LS_COMM_VALUE];
} offer;

static void keep_first(void *into, const void *from, size_t bytes) {
    if (((const offer *)from)->rank < ((const offer *)into)->rank) memcpy(into, from, bytes);
}

/* *value becomes that of the lowest rank that offers one, *rank that rank's number, INT_MAX if no rank does. */
static ls_status take_first(ls_comm *comm, const char *name, bool offers, void *value, size_t bytes, int *rank) {
    LS_ASSERT(bytes <= LS_COMM_VALUE);
    offer first = {.rank = offers ? comm->end.rank : INT_MAX};
    memcpy(first.bytes, value, bytes);
    LS_TRY(reduce(comm, name, &first, offsetof(offer, bytes) + bytes, keep_first));
    memcpy(value, first.bytes, bytes);
    *rank = first.rank;
    return ls_ok();
}

ls_status ls_comm_broadcast(ls_comm *comm, void *value, size_t bytes) {
    int rank;
    return take_first(comm, "broadcast", comm->end.rank == 0, value, bytes, &rank);
}

ls_status ls_comm_agree(ls_comm *comm, ls_status mine) {
    int rank;
    LS_TRY(take_first(comm, "agree", mine.code != LS_OK, &mine, sizeof mine, &rank));
    return rank == INT_MAX ? ls_ok() : ls_error_in(mine, "rank %d", rank);
}
