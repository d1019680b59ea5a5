/*
 * Host collectives. All of them are a dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier
 * synchronization", International Journal of Parallel Programming 17, 1988): in round k = 0, 1, ... each rank sends
 * what it knows to the rank 2^k after it, and waits for the rank 2^k before it. Before round k a rank knows of itself
 * and the 2^k - 1 ranks before it, so after ceil(log2 P) rounds it knows of all P ranks, whatever P is. What a rank
 * knows is
 *   barrier, meet       nothing but that they have come; those of a barrier are signals without a payload
 *   reduce              one value, the merge of theirs. Unless P is a power of two, the last round merges some of them
 *                       a second time. broadcast and agree are such merges, too: of several offered values the one of
 *                       the lowest rank is kept
 *   exchange            the bytes of each of them. The last round sends only what the receiver lacks (Bruck, Ho,
 * Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing
 * systems", IEEE Transactions on Parallel and Distributed Systems 8, 1997) gather              as an exchange, but only
 * the messages on the way to rank 0 carry bytes: a binomial tree, in which a rank sends its bytes once, in the round of
 * the lowest set bit of its distance to rank 0
 *
 * Every message but a barrier's begins with a head that says what the message is. The receiver compares the head with
 * its own before it reads anything else, so ranks that are not doing the same thing fail. The head of a round lies at
 * the same place of the inbox whatever the collective is (except in the first rounds of more than a hundred ranks), so
 * that the failure can say what each of the two ranks is doing.
 *
 * Messages arrive in the inbox after what the rank already has there, so that nothing is overwritten while it is being
 * sent. The inbox has two halves, which collectives use in turn. Two are enough: a rank begins collective n + 2 after
 * it has finished n + 1, hence after all ranks have begun n + 1 and have read what they received in n. Word k of the
 * host collectives is set by one rank only, the sender of round k.
 */
#include "comm/comm_impl.h"
#include "comm/message_impl.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef ls_message_head head;

enum { ALIGN = sizeof(uint64_t) }; /* of heads and of what follows them */

/* A collective under way. */
typedef struct collective {
    ls_comm *comm;
    int rounds;
    char *bytes; /* the half of this rank's inbox that it uses */
    head head;   /* the head of its messages */
    char what[LS_COMM_DOING + 64];
} collective;

/* The offset in a rank's heap of the half of the inbox that the collective uses. */
static size_t half_of(const ls_comm *comm, int rank) {
    const ls_segment_form form = ls_segment_lay_out(&comm->world->options, rank);
    return form.inbox - form.heap + (size_t)(comm->collectives & 1) * ls_host_inbox_bytes(comm->end.ranks);
}

/* bytes: the size of one rank's part of the messages. */
static collective begin(ls_comm *comm, const char *name, size_t bytes) {
    collective c = {.comm = comm, .rounds = ls_host_rounds(comm->end.ranks)};
    const uint64_t number = ++comm->collectives;
    c.bytes = comm->heap + half_of(comm, comm->end.rank);
    snprintf(c.what, sizeof c.what, "%s%s%s", name, comm->doing[0] != 0 ? ", " : "", comm->doing);
    c.head = ls_message_head_of(number, bytes, c.what);
    const size_t used = strlen(c.what);
    snprintf(c.what + used, sizeof c.what - used, ", collective %llu of the host", (unsigned long long)number);
    return c;
}

void ls_comm_doing(ls_comm *comm, const char *format, ...) {
    va_list args;
    va_start(args, format);
    ls_vprint(comm->doing, sizeof comm->doing, format, args);
    va_end(args);
}

/* The rank that is `distance` after this one. */
static int rank_after(const ls_comm *comm, int64_t distance) {
    const int64_t ranks = comm->end.ranks;
    return (int)((comm->end.rank + distance + ranks) % ranks);
}

/* Waits for the message of round k. */
static ls_status await_round(const collective *c, int k) {
    const int sender = rank_after(c->comm, -((int64_t)1 << k));
    return ls_wait_word(c->comm, c->comm->world->options.words + k, c->comm->collectives, sender, c->what);
}

/* Round k: the pieces `from` of this half go to the pieces `to` of the receiver's half; each begins with a head. */
static ls_status run_round(const collective *c, int k, const ls_range *from, const ls_range *to) {
    ls_comm *comm = c->comm;
    const int receiver = rank_after(comm, (int64_t)1 << k);
    ls_range target = *to;
    target.offset += half_of(comm, receiver);
    ls_put put = {.peer = receiver,
                  .word = comm->world->options.words + k,
                  .generation = comm->collectives,
                  .source = c->bytes,
                  .to = &target,
                  .from = from};
    ls_comm_send(comm, &put);
    return await_round(c, k);
}

/*
 * Whether the message that has come from a peer is the one that this rank expects; `at`: the offset of its head in this
 * half.
 */
static ls_status check_head(const collective *c, size_t at, int peer) {
    return ls_message_check(&c->head, c->comm->end.rank, (const head *)(const void *)(c->bytes + at), peer);
}

/*
 * If messages need this rank's help, the last one must not wait for the rank's next tick, because the caller may be
 * busy with something else for long.
 */
static void end(const collective *c) {
    for (int i = 0; i < c->comm->n_links; i++) {
        const ls_link *link = &c->comm->links[i];
        if (link->transport->progress != NULL) link->transport->quiet(link->state);
    }
}

/* Its messages are only signals, so a rank that is doing something else finds no head. */
ls_status ls_comm_barrier(ls_comm *comm) {
    ls_comm_quiet(comm);
    const collective c = begin(comm, "barrier", 0);
    for (int k = 0; k < c.rounds; k++) {
        const int receiver = rank_after(comm, (int64_t)1 << k);
        ls_comm_send_signal(comm, receiver, comm->world->options.words + k, comm->collectives);
        LS_TRY(await_round(&c, k));
    }
    end(&c);
    return ls_ok();
}

ls_status ls_comm_expect(ls_comm *comm, const ls_window *windows) {
    LS_TRY(ls_windows_expect(comm->windows, windows));
    return ls_comm_barrier(comm);
}

/* ---- exchange ---- */

/* The distance between two blocks of the inbox. A block is a head and bytes of one rank. */
static size_t block_stride(int ranks) { return ls_host_inbox_bytes(ranks) / (size_t)ranks / ALIGN * ALIGN; }

/*
 * How many blocks a rank sends in round k: those that the receiver lacks. Without `everywhere`, only blocks on their
 * way to rank 0 are sent.
 */
static int64_t blocks_of_round(int ranks, int rank, int k, bool everywhere) {
    const int64_t known = (int64_t)1 << k, to_first = (ranks - rank) % ranks; /* the distance to rank 0 */
    if (everywhere) return ls_min(known, ranks - known);
    return to_first % (2 * known) == known ? ls_min(known, ranks - to_first) : 0;
}

/* The range of n blocks from block `first` on; if n is 0, of the head of block `first`. */
static ls_range blocks(const collective *c, int64_t first, int64_t n, size_t bytes) {
    const size_t stride = block_stride(c->comm->end.ranks), length = sizeof(head) + (n > 0 ? bytes : 0);
    ls_range range = ls_range_flat((size_t)first * stride, length);
    range.count[0] = ls_max(n, 1);
    range.stride[0] = (int64_t)stride;
    return range;
}

/*
 * Runs the rounds after which every rank (without `everywhere`: rank 0) has a block with `bytes` bytes of every rank.
 * Block d of the inbox belongs to the rank that is d before this one. Before the call this rank has written its own
 * block 0, except for the head.
 */
static ls_status spread_blocks(const collective *c, size_t bytes, bool everywhere) {
    const int ranks = c->comm->end.ranks;
    memcpy(c->bytes, &c->head, sizeof c->head);
    for (int k = 0; k < c->rounds; k++) {
        const int64_t known = (int64_t)1 << k;
        const int64_t sent = blocks_of_round(ranks, c->comm->end.rank, k, everywhere);
        const int64_t come = blocks_of_round(ranks, rank_after(c->comm, -known), k, everywhere);
        const ls_range from = blocks(c, 0, sent, bytes), to = blocks(c, known, sent, bytes);
        LS_TRY(run_round(c, k, &from, &to));
        for (int64_t d = known; d < known + ls_max(come, 1); d++)
            LS_TRY(check_head(c, (size_t)d * block_stride(ranks), rank_after(c->comm, -d)));
    }
    return ls_ok();
}

/* The bytes after the head in the block of the rank that is d before this one. */
static char *block_bytes(const collective *c, int64_t d) {
    return c->bytes + (size_t)d * block_stride(c->comm->end.ranks) + sizeof(head);
}

/*
 * Exchanges the next `bytes` bytes of every rank, out of `whole` bytes of each; those of rank r go to all + r * whole.
 */
static ls_status exchange_slice(ls_comm *comm, const char *mine, size_t bytes, char *all, size_t whole) {
    const collective c = begin(comm, "exchange", whole);
    const int ranks = comm->end.ranks;
    if (bytes > 0) memcpy(block_bytes(&c, 0), mine, bytes);
    LS_TRY(spread_blocks(&c, bytes, true));
    for (int d = 0; d < ranks && bytes > 0; d++)
        memcpy(all + (size_t)rank_after(comm, -(int64_t)d) * whole, block_bytes(&c, d), bytes);
    end(&c);
    return ls_ok();
}

ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all) {
    const size_t most = block_stride(comm->end.ranks) - sizeof(head);
    size_t at = 0;
    do {
        const size_t slice = ls_min(most, bytes - at);
        LS_TRY(exchange_slice(comm, (const char *)mine + at, slice, (char *)all + at, bytes));
        at += slice;
    } while (at < bytes);
    return ls_ok();
}

/* ---- gather ---- */

/* What follows the head in a block of a gather. Every block has room for the same number of bytes. */
typedef struct piece {
    uint64_t bytes;
    char data[];
} piece;

static void keep_failure(ls_status *first, ls_status status) {
    if (first->code == LS_OK) *first = status;
}

/* Hands a piece that has come to `take`. */
static ls_status take_piece(const ls_comm_pieces *p, const piece *theirs, int rank, size_t at, size_t room,
                            ls_status *failure) {
    if (theirs->bytes > room)
        return ls_error(LS_INVALID, "rank %d gathers a piece of %llu bytes; expected at most %zu", rank,
                        (unsigned long long)theirs->bytes, room);
    if (theirs->bytes > 0) keep_failure(failure, p->take(p->context, rank, at, theirs->data, theirs->bytes));
    return ls_ok();
}

/* Gathers the pieces from byte `at` on, at most `room` bytes of each rank. */
static ls_status gather_slice(ls_comm *comm, const ls_comm_pieces *p, bool everywhere, size_t at, size_t room,
                              ls_status *failure) {
    const collective c = begin(comm, everywhere ? "gather everywhere" : "gather", room);
    const int ranks = comm->end.ranks;
    piece *mine = (piece *)(void *)block_bytes(&c, 0);
    mine->bytes = at < p->bytes ? ls_min(room, p->bytes - at) : 0;
    if (mine->bytes > 0) keep_failure(failure, p->give(p->context, at, mine->data, mine->bytes));
    LS_TRY(spread_blocks(&c, sizeof *mine + room, everywhere));
    for (int r = 0; r < ranks && p->take != NULL && (everywhere || comm->end.rank == 0); r++) {
        const int before = (comm->end.rank - r + ranks) % ranks;
        LS_TRY(take_piece(p, (const piece *)(const void *)block_bytes(&c, before), r, at, room, failure));
    }
    end(&c);
    return ls_ok();
}

ls_status ls_comm_gather(ls_comm *comm, const ls_comm_pieces *pieces, bool everywhere) {
    ls_status failure = ls_ok();
    int64_t longest = (int64_t)pieces->bytes;
    LS_TRY(ls_comm_max_i64(comm, &longest, 1));
    const size_t most = (size_t)longest;
    const size_t fits = block_stride(comm->end.ranks) - sizeof(head) - sizeof(piece);
    const size_t unit = pieces->unit > 0 ? pieces->unit : 1;
    const size_t room = ls_min(fits - fits % unit, ls_round_up(most, ALIGN));
    for (size_t at = 0; at < most; at += room) LS_TRY(gather_slice(comm, pieces, everywhere, at, room, &failure));
    return failure;
}

/* The context of a gather from the memory of the ranks to the memory of the caller of ls_launch. */
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
    return ls_comm_gather(comm, &(ls_comm_pieces){bytes, give_memory, take_home, &h, 0}, false);
}

/* ---- reduce ---- */

/*
 * Where the value that comes in round k lies: at the place of the first block of that round, unless there are so many
 * ranks that blocks are smaller than values; the values of the first rounds then lie one after the other. k = -1: the
 * rank's own value.
 */
static size_t place_of_value(int ranks, int k) {
    size_t at = 0;
    for (int j = 0; j <= k; j++) at = (size_t)ls_max((int64_t)at + LS_INBOX_VALUE, (int64_t)(block_stride(ranks) << j));
    return at;
}

/* merge NULL: there is no value. */
static ls_status reduce(ls_comm *comm, const char *name, void *value, size_t bytes, ls_comm_merge merge) {
    LS_ASSERT(sizeof(head) + bytes <= LS_INBOX_VALUE);
    const collective c = begin(comm, name, bytes);
    const int ranks = comm->end.ranks;
    memcpy(c.bytes, &c.head, sizeof c.head);
    if (bytes > 0) memcpy(c.bytes + sizeof c.head, value, bytes);
    for (int k = 0; k < c.rounds; k++) {
        const size_t mine = place_of_value(ranks, k - 1), theirs = place_of_value(ranks, k);
        LS_ASSERT(theirs + LS_INBOX_VALUE <= ls_host_inbox_bytes(ranks));
        const ls_range from = ls_range_flat(mine, sizeof c.head + bytes);
        const ls_range to = ls_range_flat(theirs, sizeof c.head + bytes);
        LS_TRY(run_round(&c, k, &from, &to));
        LS_TRY(check_head(&c, theirs, rank_after(comm, -((int64_t)1 << k))));
        if (merge != NULL) merge(c.bytes + theirs + sizeof c.head, c.bytes + mine + sizeof c.head, bytes);
    }
    if (bytes > 0) memcpy(value, c.bytes + place_of_value(ranks, c.rounds - 1) + sizeof c.head, bytes);
    end(&c);
    return ls_ok();
}

ls_status ls_comm_meet(ls_comm *comm) { return reduce(comm, "meet", NULL, 0, NULL); }

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

/*
 * *value becomes the value of the lowest rank that offers one, and *rank the number of that rank; INT_MAX: no rank
 * offers one.
 */
static ls_status take_first(ls_comm *comm, const char *name, bool offers, void *value, size_t bytes, int *rank) {
    LS_ASSERT(bytes <= LS_COMM_VALUE);
    offer first = {.rank = offers ? comm->end.rank : INT_MAX};
    memcpy(first.bytes, value, bytes);
    LS_TRY(reduce(comm, name, &first, offsetof(offer, bytes) + bytes, keep_first));
    if (first.rank != INT_MAX && (first.rank < 0 || first.rank >= comm->end.ranks))
        return ls_error(LS_INVALID, "%s: a value of rank %d came; expected one of %d ranks", name, first.rank,
                        comm->end.ranks);
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
    return rank == INT_MAX ? ls_ok() : ls_error_in(ls_status_sound(mine), "rank %d", rank);
}
