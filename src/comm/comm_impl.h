/*
 * comm, for this folder alone: what a transport is, and the memory that the ranks of a world share.
 *
 *   board   always shared, whatever the transport: abort and stop flags, one line per rank (bell, ticks),
 *           signal words
 *   heap    of one rank: the user's heap_bytes, then the inbox of the host collectives; page aligned, never
 *           touched here, so that the rank that owns it places its pages
 *
 *     rank 0: | heap_bytes ........ | inbox: 2 x ranks x LS_COMM_EXCHANGE |   heap_stride bytes in all
 *     rank 1: | heap_bytes ........ | inbox                               |
 */
#ifndef LS_COMM_IMPL_H
#define LS_COMM_IMPL_H

#include "comm/comm.h"

#include <stdatomic.h>

/*
 * One rank's line on the board. The bell is the futex that the rank sleeps on: its lowest bit says that the
 * rank sleeps (or is about to), the others count rings. One atomic addition therefore both rings and tells
 * the ringer whether a system call is needed.
 */
typedef struct ls_rank_line {
    _Alignas(128) _Atomic uint32_t bell;  /* written by peers */
    _Alignas(128) _Atomic uint64_t ticks; /* from here on written by the rank itself */
    _Atomic int32_t waits_for;            /* the peer that it sleeps for, -1 none */
    _Atomic bool joined, left;
    _Atomic bool stopped; /* by SIGSTOP: written by the launcher */
} ls_rank_line;

#define LS_BELL_SLEEPS 1u
#define LS_BELL_STEP 2u

typedef struct ls_board {
    _Atomic int abort_state; /* one of LS_ABORT_* */
    char abort_text[sizeof((ls_status){0}.text)];
    _Atomic bool stop;
    ls_rank_line lines[]; /* one per rank; the words follow, words_stride per rank */
} ls_board;

enum { LS_ABORT_NONE, LS_ABORT_BEING_WRITTEN, LS_ABORT_SET };

typedef struct ls_transport ls_transport;

/* A piece of address space; base NULL: none. */
typedef struct ls_mapping {
    char *base;
    size_t bytes;
} ls_mapping;

/* Of the transport chaos: which transport it wraps, and how. */
typedef struct ls_chaos_settings {
    const ls_transport *inner;
    uint64_t seed;
    double delay; /* seconds */
} ls_chaos_settings;
typedef struct ls_chaos_message ls_chaos_message;
typedef struct ls_chaos_delivery ls_chaos_delivery;

struct ls_world {
    const ls_transport *transport;
    const char *settings; /* what followed "NAME:"; "" when nothing did; valid while map runs */
    ls_chaos_settings chaos;
    ls_world_options options;
    size_t heap_stride;      /* bytes from one rank's heap to the next */
    size_t inbox;            /* offset of the inbox in each heap */
    size_t words_stride;     /* words per rank: options.words, then one per rank for the host collectives */
    ls_mapping shared;       /* holds the board, and the heaps of shm */
    ls_mapping private_heap; /* of self */
    ls_board *board;
    _Atomic uint64_t *words;
    char *heaps;
};

/* How long, and since when, the peer that this rank sleeps for has stood still. */
typedef struct ls_watch {
    int peer;           /* -1: nobody is watched */
    int end;            /* the last rank of the chain "peer waits for rank x, which waits for ..." */
    uint64_t own_ticks; /* of this rank */
    uint64_t ticks;     /* of all ranks of the chain, summed */
    double looked;      /* when it was last looked at, ls_seconds */
    double still;       /* seconds without a change */
} ls_watch;

struct ls_comm {
    ls_world *world;
    int rank;
    uint64_t collectives; /* of the host, so far */
    ls_watch watch;
    struct {
        ls_chaos_message *messages;  /* under way, oldest first */
        uint64_t draws;              /* of random numbers so far */
        ls_chaos_delivery *delivery; /* NULL: none */
    } chaos;
};

/*
 * A transport: how bytes and generations reach a peer. Everything else (waiting, host collectives, abort,
 * stop) is common to all. Arguments have been checked when these are called; heap offsets may lie in the
 * inbox, and words may be those of the host collectives.
 */
struct ls_transport {
    const char *name;
    int max_ranks;
    bool addressable; /* peer_heap gives every rank's heap */
    /* Maps board and heaps of a world whose sizes are set; sets shared, board and heaps, or nothing. */
    ls_status (*map)(ls_world *world);
    void (*unmap)(ls_world *world);
    void *(*peer_heap)(const ls_comm *comm, int peer);
    void (*put)(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from);
    void (*put_signal)(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                       int word, uint64_t generation);
    void (*signal)(ls_comm *comm, int peer, int word, uint64_t generation);
    uint64_t (*word)(const ls_comm *comm, int word); /* this rank's, with acquire */
    void (*quiet)(ls_comm *comm);
    /* Where puts go on after the call: moves them on, and returns for how many seconds this rank may sleep before the
     * next call (INFINITY: nothing is under way). NULL where a put is complete when it returns. */
    double (*progress)(ls_comm *comm);
    void (*leave)(
        ls_comm *comm); /* ends what runs for this rank; nothing is under way. NULL: nothing to end */
};

extern const ls_transport ls_transport_self;
extern const ls_transport ls_transport_shm;
extern const ls_transport ls_transport_chaos;

/* transports.c: NULL when no transport has this name. */
const ls_transport *ls_transport_find(const char *name);

/* comm.c: the transport's progress, if it has one. */
double ls_comm_progress(ls_comm *comm);

/* mapping.c: fresh zeroed address space; memory is taken when it is touched. LS_NO_MEMORY names the bytes. */
ls_status ls_map_shared(size_t bytes, ls_mapping *out);
ls_status ls_map_private(size_t bytes, ls_mapping *out);
void ls_unmap(ls_mapping *mapping);
/* Whether shared memory is given huge pages on request; folder: like /sys/kernel/mm/transparent_hugepage. */
bool ls_shared_gets_huge_pages(const char *folder);

/* world.c: bytes of the board with its lines and words, in whole pages; and the board put at an address. */
size_t ls_board_bytes(const ls_world *world);
void ls_board_place(ls_world *world, char *at);
/* LS_PEER with the text of the abort once there is one, else LS_OK. */
ls_status ls_world_aborted(const ls_world *world);

/* mapped.c: the operations of transports that address every heap directly. */
void *ls_mapped_peer_heap(const ls_comm *comm, int peer);
void ls_mapped_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from);
void ls_mapped_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source,
                          const ls_range *from, int word, uint64_t generation);
void ls_mapped_signal(ls_comm *comm, int peer, int word, uint64_t generation);
uint64_t ls_mapped_word(const ls_comm *comm, int word);
void ls_mapped_quiet(ls_comm *comm);

/* bell.c: ring a rank; sleep on one's own bell while it reads `bell`, at most so many seconds. */
void ls_bell_ring(ls_rank_line *line);
uint32_t ls_bell_read(const ls_rank_line *line);
void ls_bell_doze(ls_rank_line *line, uint32_t bell, double seconds);

/* watch.c: look again: LS_PEER once the chain that begins at peer has stood still for the time limit,
 * or when nothing can come any more. Called between dozes, no more than LS_LOOK_SECONDS apart. */
#define LS_LOOK_SECONDS 0.05
ls_status ls_watch_look(ls_comm *comm, uint32_t bell, int peer, const char *what);
/* Seconds until the next look is due. */
double ls_watch_pause(const ls_comm *comm);

/* wait.c: ls_comm_wait for any word, those of the host collectives included. */
ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);

static inline ls_rank_line *ls_line(const ls_comm *comm) { return &comm->world->board->lines[comm->rank]; }

#endif
