/*
 * comm, for this folder alone: the interface of a transport, and the memory of a rank that peers reach.
 *
 * Every rank has a segment. Words and heap begin at the same place in all of them; heaps may differ in size:
 *
 *     | line | words ....... | heap_bytes of the caller ........... | inbox of the host collectives |
 *     0      words           heap (a page begins here)              inbox                            bytes
 *
 * Words are set, and heaps are written, by the peers' transports. A rank waits by looking at its own words, whoever
 * sets them. So whatever sets a word of a rank must ring the rank's bell afterwards, or the rank may sleep on for a
 * while.
 */
#ifndef LS_COMM_TRANSPORT_IMPL_H
#define LS_COMM_TRANSPORT_IMPL_H

#include "comm/boot_impl.h"

/* ---- the segment of a rank ---- */

/*
 * The line of a rank. The bell is the futex that the rank sleeps on. Its lowest bit says that the rank sleeps, or is
 * about to; the other bits count rings. One atomic addition therefore rings the bell and tells the ringer whether a
 * system call is needed.
 */
typedef struct ls_rank_line {
    _Alignas(128) _Atomic uint32_t bell; /* written by peers, and by the rank when it goes to sleep */
    /* The instruction counter; this and the next two lines are written by the rank. */
    _Alignas(128) _Atomic uint64_t ticks;
    _Atomic int32_t waits_for; /* 1 + the peer that the rank sleeps for; 0: none */
    _Atomic bool joined, left;
} ls_rank_line;

#define LS_BELL_SLEEPS 1u
#define LS_BELL_STEP 2u

/* Offsets in the segment of a rank. words, n_words and heap are the same on all ranks. */
typedef struct ls_segment_form {
    size_t words, heap, inbox, common, bytes;
    int n_words;
} ls_segment_form;

static inline ls_rank_line *ls_segment_line(char *segment) { return (ls_rank_line *)segment; }
static inline _Atomic uint64_t *ls_segment_words(const ls_segment_form *form, char *segment) {
    return (_Atomic uint64_t *)(segment + form->words);
}

/* bell.c: rings a bell; reads a bell; sleeps while the rank's own bell has the value `bell`, for at most `seconds`. */
void ls_bell_ring(ls_rank_line *line);
uint32_t ls_bell_read(const ls_rank_line *line);
void ls_bell_sleep(ls_rank_line *line, uint32_t bell, double seconds);

/* ---- a transport ---- */

/*
 * A rank as its transports see it. Borrowed until close. segments[r]: the segment of rank r if this rank can load and
 * store it (its own included); else NULL.
 */
typedef struct ls_endpoint {
    int rank, ranks;
    ls_boot *boot;
    ls_segment_form form;
    char *const *segments;
    const struct ls_windows *windows; /* what peers may send to this rank */
    double timeout; /* seconds without progress of a peer after which an operation gives up; 0: never */
} ls_endpoint;

static inline ls_rank_line *ls_endpoint_line(const ls_endpoint *end) {
    return ls_segment_line(end->segments[end->rank]);
}

/*
 * For a transport that delivers on the rank's own side, in any thread: reads the generation of a word of the rank; sets
 * the word, which only rises and has one writer.
 */
static inline uint64_t ls_endpoint_reached(const ls_endpoint *end, int word) {
    return atomic_load_explicit(&ls_segment_words(&end->form, end->segments[end->rank])[word], memory_order_relaxed);
}
static inline void ls_endpoint_deliver(const ls_endpoint *end, int word, uint64_t generation) {
    _Atomic uint64_t *own = &ls_segment_words(&end->form, end->segments[end->rank])[word];
    if (ls_endpoint_reached(end, word) < generation) atomic_store_explicit(own, generation, memory_order_release);
    ls_bell_ring(ls_endpoint_line(end));
}

/* A message of a peer that sets a word, or that writes bytes for a word that is set later. */
typedef struct ls_arrival {
    int word;
    uint64_t generation;
    const ls_range *to; /* where the bytes that come with it go, from the heap's start; NULL: there are none */
    bool piece;         /* the signal comes later, in its own message */
} ls_arrival;

/*
 * windows.c: for a transport whose peers are not to be trusted, to be called before anything is written. LS_PEER, with
 * the rank, word, generation and range that came and what was expected, unless the rank expects the message. The word
 * must be one of the segment's, or -1; the range may have any numbers. reached: the current generation of the word.
 */
ls_status ls_windows_check(const struct ls_windows *windows, int peer, uint64_t reached, const ls_arrival *arrival);

/* What a rank can do with the memory of a peer over a transport. */
typedef struct ls_peer_reach {
    bool put;       /* put and signal */
    bool load;      /* load in place: segments[peer] is set */
    double seconds; /* the approximate time of a put of a few bytes with a signal, by which a pair of ranks takes the
                       fastest transport */
} ls_peer_reach;

/* A put with or without a signal. `source` stays valid and unchanged until the put is done. */
typedef struct ls_put {
    int peer;            /* may be the rank itself */
    int word;            /* the word that is set with it; -1: none */
    uint64_t generation; /* of the word */
    bool piece;          /* the word is set later, by a separate signal */
    uint64_t ticket;     /* of the put; tickets rise from put to put of a rank, over all its transports */
    const void *source;
    const ls_range *to; /* in the peer's heap or inbox, with offsets from the heap's start; must be copied to be kept */
    const ls_range *from;
} ls_put;

static inline bool ls_put_signals(const ls_put *put) { return put->word >= 0 && !put->piece; }

/* The offset of piece i of a range, counted in the innermost dimension first. */
static inline size_t ls_range_piece(const ls_range *range, size_t i) {
    int64_t at = (int64_t)range->offset;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        const size_t count = (size_t)range->count[d];
        at += (int64_t)(i % count) * range->stride[d];
        i /= count;
    }
    return (size_t)at;
}

/* What is known about a peer: the state of its line, and whether it is gone without having left. */
typedef struct ls_peer_state {
    uint64_t ticks;
    int waits_for; /* the rank that it sleeps for; -1: none */
    bool left, lost;
    double silent; /* seconds since it was asked for this state without answering; 0: it has answered */
} ls_peer_state;

/*
 * How bytes and generations reach a peer. All else (waiting, host collectives, abort, stop) is common to all
 * transports. A world may have several; each pair of ranks uses one, the same in both directions. `state` is what open
 * made; all functions but reach and open get it. One thread of the rank calls them at a time. Arguments have been
 * checked already, and words may be those of the host collectives.
 *
 * put and signal return no status. A transport that cannot go on aborts the world with a text (ls_notice_abort on the
 * boot's notice), after which its functions may do nothing.
 */
typedef struct ls_transport {
    const char *name;
    /*
     * What `rank` can do with the memory of `peer` (possibly itself). Symmetric, and every rank gets the same answer
     * for a pair.
     */
    ls_peer_reach (*reach)(const ls_boot *boot, int rank, int peer);
    /*
     * Collective: all ranks of the world open the transport, even those that use it with no peer; gather of the boot
     * may be used. used[r]: whether this rank uses it with rank r.
     */
    ls_status (*open)(const ls_endpoint *end, const bool *used, void **state);
    void (*put)(void *state, const ls_put *put);
    void (*signal)(void *state, int peer, int word, uint64_t generation);
    /* The latest known state of the peer, without blocking; if it is old, the peer is asked for a newer one. */
    ls_peer_state (*look)(void *state, int peer);
    /* Blocks until all puts of this rank are complete at their targets. */
    void (*quiet)(void *state);
    /*
     * Whether all puts of this transport with tickets up to this one are done, so that their sources may be
     * overwritten. The rank's bell rings when a put becomes done after its call has returned. NULL: every put is done
     * when it returns.
     */
    bool (*done)(void *state, uint64_t ticket);
    /*
     * Advances messages on their way, and returns the seconds that this rank may sleep before the next call; INFINITY:
     * no message needs the rank's help. NULL: the transport never needs the rank's help.
     */
    double (*progress)(void *state);
    /*
     * Collective, called after quiet and after the line says that the rank has left; messages that peers still wait for
     * are delivered nevertheless. Frees state. If the world is aborted, it waits for no peer.
     */
    void (*close)(void *state);
} ls_transport;

extern const ls_transport ls_transport_shm;
extern const ls_transport ls_transport_tcp;

#endif
