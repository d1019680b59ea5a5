/*
 * comm, for this folder alone: the interface of a transport, and the memory that the ranks of a world share.
 *
 *   board   shared memory with every transport: abort and stop flags, one line per rank (bell, ticks), signal words
 *   heap    of one rank: heap_bytes of the caller, then the inbox of the host collectives. It is page aligned. This
 *           folder does not touch it before the rank does, so that the system places its pages near the rank
 *
 *     rank 0: | heap_bytes ........ | inbox: 2 x ls_host_inbox_bytes |   heap_stride bytes in all
 *     rank 1: | heap_bytes ........ | inbox                          |
 */
#ifndef LS_COMM_IMPL_H
#define LS_COMM_IMPL_H

#include "comm/comm.h"

#include <stdatomic.h>

/*
 * The line of a rank on the board. The bell is the futex that the rank sleeps on. Its lowest bit says that the rank
 * sleeps, or is about to; the other bits count rings. One atomic addition therefore rings the bell and tells the ringer
 * whether a system call is needed.
 */
typedef struct ls_rank_line {
    _Alignas(128) _Atomic uint32_t bell; /* written by peers and, when it sleeps, by the rank */
    /* The instruction counter; this and the next two lines are written by the rank. */
    _Alignas(128) _Atomic uint64_t ticks;
    _Atomic int32_t waits_for; /* the peer that the rank sleeps for; -1: none */
    _Atomic bool joined, left;
    _Atomic bool stopped; /* by SIGSTOP; written by the launcher */
} ls_rank_line;

#define LS_BELL_SLEEPS 1u
#define LS_BELL_STEP 2u

typedef struct ls_board {
    _Atomic int abort_state; /* one of LS_ABORT_* */
    char abort_text[sizeof((ls_status){0}.text)];
    _Atomic bool stop;
    ls_rank_line lines[]; /* one per rank; after them the signal words, words_stride per rank */
} ls_board;

enum { LS_ABORT_NONE, LS_ABORT_BEING_WRITTEN, LS_ABORT_SET };

typedef struct ls_transport ls_transport;

/* A range of address space; base NULL: none. */
typedef struct ls_mapping {
    char *base;
    size_t bytes;
} ls_mapping;

/* The settings of the transport chaos. */
typedef struct ls_chaos_settings {
    const ls_transport *inner; /* the transport that it wraps */
    uint64_t seed;
    double delay; /* seconds from a put to its signal, at least */
} ls_chaos_settings;
typedef struct ls_chaos_message ls_chaos_message;
typedef struct ls_chaos_delivery ls_chaos_delivery;
typedef struct ls_home ls_home; /* home.c: the channel from a forked rank 0 to its launcher */

struct ls_world {
    const ls_transport *transport;
    const char *settings; /* the text after "NAME:", or ""; valid only while map runs */
    ls_chaos_settings chaos;
    ls_world_options options;
    size_t heap_stride;      /* bytes from one rank's heap to the next */
    size_t inbox;            /* offset of the inbox in each heap */
    size_t words_stride;     /* words per rank: options.words, then one for each round of the host collectives */
    ls_mapping shared;       /* the board; with shm also the heaps */
    ls_mapping private_heap; /* with self: the heap */
    ls_board *board;
    _Atomic uint64_t *words;
    char *heaps;
    ls_home *home; /* NULL: rank 0 is in the process that gets the results */
};

/* The state of a sleeping rank's check that its peer makes progress. */
typedef struct ls_watch {
    int peer;           /* the peer that the rank sleeps for; -1: none yet */
    int end;            /* the last rank of the chain "peer waits for rank x, which waits for ..." */
    uint64_t own_ticks; /* of this rank */
    uint64_t ticks;     /* the sum over all ranks of the chain */
    double checked;     /* ls_seconds() of the last check */
    double still;       /* seconds without progress */
} ls_watch;

struct ls_comm {
    ls_world *world;
    int rank;
    uint64_t collectives; /* host collectives so far */
    uint64_t puts;        /* so far: the ticket of the last one, also while the transport's put runs */
    ls_watch watch;
    struct {
        ls_chaos_message *messages;  /* on their way, oldest first */
        uint64_t draws;              /* random numbers drawn so far */
        ls_chaos_delivery *delivery; /* the delivery thread; NULL: none */
    } chaos;
};

/*
 * A transport: how bytes and generations reach a peer. Everything else (waiting, host collectives, abort, stop) is
 * common to all transports. The arguments of these functions are already checked. Heap offsets may be in the inbox, and
 * words may be those of the host collectives.
 */
struct ls_transport {
    const char *name;
    bool alone;       /* it takes one rank only */
    bool addressable; /* peer_heap returns the heap of every rank */
    /* Maps the board and heaps of a world whose sizes are set. Sets shared, board and heaps, or nothing on error. */
    ls_status (*map)(ls_world *world);
    void (*unmap)(ls_world *world);
    void *(*peer_heap)(const ls_comm *comm, int peer);
    void (*put)(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from);
    void (*put_signal)(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from, int word,
                       uint64_t generation);
    void (*signal)(ls_comm *comm, int peer, int word, uint64_t generation);
    uint64_t (*word)(const ls_comm *comm, int word); /* of this rank, with acquire */
    void (*quiet)(ls_comm *comm);
    /* ls_comm_done, without progress. NULL: a put is done when it returns. */
    bool (*done)(ls_comm *comm, uint64_t ticket);
    /*
     * Advances messages on their way, and returns the seconds that this rank may sleep before the next call; INFINITY:
     * no message is on its way. NULL: a put is complete when it returns. Rings the rank's own bell when a put is done.
     */
    double (*progress)(ls_comm *comm);
    /* Ends threads of this rank; called when no message is on its way. NULL: there are none. */
    void (*leave)(ls_comm *comm);
};

extern const ls_transport ls_transport_self;
extern const ls_transport ls_transport_shm;
extern const ls_transport ls_transport_chaos;

/*
 * host.c: the rounds of a host collective, each with a signal word; and the bytes of one half of the inbox, which grow
 * with the number of ranks because everyone receives everyone's part of an exchange: 64 bytes of it at a time, and more
 * while the ranks are few.
 */
int ls_host_rounds(int ranks);
size_t ls_host_inbox_bytes(int ranks);

/* comm.c: calls `progress` of the transport; INFINITY if it has none. */
double ls_comm_progress(ls_comm *comm);

/* mapping.c: new zeroed address space; memory is allocated when it is touched. LS_NO_MEMORY errors name the bytes. */
ls_status ls_map_shared(size_t bytes, ls_mapping *out);
ls_status ls_map_private(size_t bytes, ls_mapping *out);
void ls_unmap(ls_mapping *mapping);
/* Whether the system gives shared memory huge pages on request; folder: like /sys/kernel/mm/transparent_hugepage. */
bool ls_shared_gets_huge_pages(const char *folder);

/* world.c. NULL: no transport has this name. */
const ls_transport *ls_transport_find(const char *name);
/* The size of the board with its lines and words, in whole pages; and the placement of the board at an address. */
size_t ls_board_bytes(const ls_world *world);
void ls_board_place(ls_world *world, char *at);
/* LS_PEER with the text of the abort when the world is aborted, else LS_OK. */
ls_status ls_world_aborted(const ls_world *world);

/*
 * wait.c: rings the bell of a rank; reads a bell; sleeps while the rank's own bell has the value `bell`, for `seconds`
 * at most.
 */
void ls_bell_ring(ls_rank_line *line);
uint32_t ls_bell_read(const ls_rank_line *line);
void ls_bell_sleep(ls_rank_line *line, uint32_t bell, double seconds);
/* ls_comm_wait for any word, including those of the host collectives. */
ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);

static inline ls_rank_line *ls_line(const ls_comm *comm) { return &comm->world->board->lines[comm->rank]; }

#endif
