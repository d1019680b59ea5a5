/*
 * comm: symmetric memory with one-sided communication. The contract follows OpenSHMEM 1.5 at its weakest, so that
 * every transport can honour it.
 *
 * A world is made once, before its ranks start: for each rank one heap of the same size and one array of 64-bit signal
 * words. Offsets into heaps come from programs, never from an allocator. What holds:
 *   - a put may complete in any order until quiet; source bytes may be reused only after quiet, or when the peer's answer
 *     shows that it has arrived;
 *   - put_signal sets the peer's word after that put's payload is visible there, and promises nothing about other puts;
 *   - signal releases the caller's own earlier loads and stores, and does not complete its earlier puts;
 *   - a word is SET to a generation number that only rises; only signal operations touch words;
 *   - test and wait mean "word >= generation", with acquire.
 */
#ifndef LS_COMM_H
#define LS_COMM_H

#include "base/base.h"

typedef struct ls_world ls_world; /* all ranks: owned by whoever starts them */
typedef struct ls_comm ls_comm;   /* one rank's end; used by one thread at a time */

typedef struct ls_world_options {
    int ranks;         /* >= 1 */
    size_t heap_bytes; /* of each rank */
    int words;         /* signal words of each rank */
    bool may_spin;     /* false when ranks x threads exceed the cores */
    double
        wait_timeout; /* seconds that a peer's instruction counter may stand still before a wait fails; 0: for ever */
} ls_world_options;

/*
 * transport: "self" (one rank) or "shm" (processes forked by the caller after this call, or threads of this process; the
 * memory is shared and anonymous: nothing to clean up, whatever dies), or "chaos:SEED[:SECONDS[:TRANSPORT]]", which wraps one of
 * them (default shm) and reorders, delays and splits deliveries as far as the contract allows; SECONDS: the least time from a
 * put to its signal. LS_NO_MEMORY names the bytes asked for.
 */
LS_MUST_USE ls_status ls_world_create(const char *transport, const ls_world_options *options, ls_world **out);
void ls_world_destroy(ls_world *world);

/* Whether its ranks can address each other's heaps (ls_comm_peer_heap). transport: as above; false for an unknown one. */
bool ls_transport_addresses_peers(const char *transport);

/* Names of the transports built in, NULL past the end. */
const char *ls_transport_name(int index);

/* Called once by each rank, in its own process or thread. */
LS_MUST_USE ls_status ls_world_join(ls_world *world, int rank, ls_comm **out);
void ls_comm_leave(ls_comm *comm);

/* For the launcher: makes every wait in the world fail soon with LS_PEER and this text (first caller wins). */
void ls_world_abort(ls_world *world, const char *why);
/* For the launcher: a rank was stopped (SIGSTOP), or goes on; who gives up waiting for it says so. */
void ls_world_set_stopped(ls_world *world, int rank, bool stopped);
double ls_world_wait_timeout(const ls_world *world); /* of its options */
/* A flag that the launcher raises (SIGINT) and ranks read; async-signal-safe. */
void ls_world_request_stop(ls_world *world);
bool ls_comm_stop_requested(const ls_comm *comm);
bool ls_world_stop_requested(const ls_world *world);

int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);
void *ls_comm_heap(const ls_comm *comm); /* this rank's heap */
/* The peer's heap where it can be addressed from here, else NULL. */
void *ls_comm_peer_heap(const ls_comm *comm, int peer);

/* Bytes `from` (relative to source, any memory of this rank) to bytes `to` of the peer's heap. peer may be this rank. */
void ls_comm_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from);
void ls_comm_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                        int word, uint64_t generation);
void ls_comm_signal(ls_comm *comm, int peer, int word, uint64_t generation);

/* Whether this rank's word has reached the generation. */
bool ls_comm_test(ls_comm *comm, int word, uint64_t generation);

/*
 * Sleeping without missing anything: take the bell, test what you wait for, and sleep only if nothing had come.
 * The bell rings whenever any word of this rank is set. sleep returns when the bell no longer reads `bell`, or with LS_PEER when the
 * world was aborted or `peer` has not advanced its instruction counter for wait_timeout seconds while this rank slept; `what`
 * (e.g. "instruction 12, slot kv.1, expected generation 7, seen 6") completes the message.
 */
uint32_t ls_comm_bell(const ls_comm *comm);
LS_MUST_USE ls_status ls_comm_sleep(ls_comm *comm, uint32_t bell, int peer, const char *what);

/* What is waited for: this rank's word at the generation or above. */
typedef struct ls_awaited {
    int word;
    uint64_t generation;
} ls_awaited;
/* Before sleeping: looks at n awaited words for a moment, where ranks may spin; whether one of them has come. */
bool ls_comm_spin(ls_comm *comm, const ls_awaited *awaited, int n);

/* Spins, then loops test and sleep. */
LS_MUST_USE ls_status ls_comm_wait(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);
uint64_t ls_comm_word(const ls_comm *comm, int word); /* as seen now, for messages */

/* Completes all of this rank's puts at their targets. */
void ls_comm_quiet(ls_comm *comm);

/* Publishes "I have moved on" for the peers' timeouts, and lets what was sent move on, where this rank must see to that; cheap,
 * called once per instruction. */
void ls_comm_tick(ls_comm *comm);

/*
 * Collectives of the host, outside programs, on a channel of their own: every rank calls them in the same order.
 * exchange: all[r] = what rank r gave, bytes <= LS_COMM_EXCHANGE. agree: LS_OK when every rank's mine is LS_OK; else each
 * rank returns the first failing rank's status (its text prefixed with the rank).
 */
#define LS_COMM_EXCHANGE 1024
LS_MUST_USE ls_status ls_comm_barrier(ls_comm *comm);
LS_MUST_USE ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all);
LS_MUST_USE ls_status ls_comm_agree(ls_comm *comm, ls_status mine);

#endif
