/*
 * The inside of the plug-in over MPI. It moves bytes by messages between the processes of a job:
 *
 *   boot.c       the boot: MPI's start and end, and the notice (abort, stop), which is carried to all
 *   collectives.c  where ranks meet, and all-gather
 *   transport.c  the transport: puts, signals, and what peers are asked
 *   messages.c   moves messages, and hands those that come in to their handlers
 *   arrivals.c   the handlers
 *   calls.c      single messages and bodies
 *
 * MPI is entered by one thread at a time, under the lock `library`: the plug-in's own thread, and the rank's threads
 * while they wait. So MPI_THREAD_SERIALIZED is enough. No call blocks under this lock. `list` protects what a rank's
 * thread leaves for the holder of `library`; who holds `library` may take `list`, not the other way round.
 */
#ifndef LS_COMM_MPI_IMPL_H
#define LS_COMM_MPI_IMPL_H

#include "comm/mpi/plugin.h"

#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>

/* ---- messages ---- */

/*
 * Payloads up to this size travel in the message itself, larger ones follow it. Open MPI copies 4 KiB between processes
 * of one host at once; what is larger it announces first.
 */
enum { LS_MPI_INLINE = 3 << 10 };

/* What a message says: arrivals.c has a handler for each. */
typedef enum ls_mpi_kind {
    LS_MPI_STOP,   /* the job shall stop */
    LS_MPI_ABORT,  /* bytes: why the job ends */
    LS_MPI_SIGNAL, /* set a word */
    LS_MPI_PUT,    /* copy the bytes to `to`, then set a word */
    LS_MPI_BODY,   /* receive the next body of this sender at `to`, then set a word */
    LS_MPI_FENCE,  /* answer when all earlier puts of this sender are in place */
    LS_MPI_FENCED, /* that answer */
    LS_MPI_ASK,    /* tell your line */
    LS_MPI_TELL,   /* that answer */
    LS_MPI_WHERE,  /* to how many gathers have you come? */
    LS_MPI_HERE,   /* that answer: generation */
    LS_MPI_KINDS
} ls_mpi_kind;

_Static_assert(sizeof((ls_status){0}.text) <= LS_MPI_INLINE, "why a job is aborted fits into a message");

typedef struct ls_mpi_message {
    int32_t kind;
    int32_t word;        /* of signals and puts; -1: none */
    uint64_t generation; /* of the word; of fences: their number; of LS_MPI_HERE: the gathers */
    union {
        ls_range to;          /* of puts: in the heap of the receiver */
        ls_peer_state answer; /* of LS_MPI_TELL */
    };
    size_t bytes; /* in use of the following */
    char payload[LS_MPI_INLINE];
} ls_mpi_message;

/* A message on its way out, with the body that may follow it. */
typedef struct ls_mpi_sending {
    struct ls_mpi_sending *next; /* in the list where it is */
    struct ls_mpi_sending *next_put;
    int peer;
    MPI_Request message_request, body_request;
    const void *source; /* of the body; NULL: there is none */
    ls_range from;
    uint64_t ticket; /* of a put that is not done when it is posted; 0: not one */
    bool done;       /* it: the source may be overwritten */
    ls_mpi_message message;
} ls_mpi_sending;

/* A body on its way in. */
typedef struct ls_mpi_receiving {
    struct ls_mpi_receiving *next;
    int peer, word;
    uint64_t generation;
    MPI_Request request;
} ls_mpi_receiving;

typedef struct ls_mpi_transport ls_mpi_transport;

/* How far a peer has come. */
typedef struct ls_mpi_peer {
    uint64_t gathers; /* to so many it has come, as it said last */
    double asked;     /* in seconds of this rank's wait, when it was asked without an answer yet; -1: it was not */
} ls_mpi_peer;

/* The state of the boot. There is one in a process, until it ends. */
typedef struct ls_mpi {
    ls_boot *boot;
    ls_notice notice;
    bool told_stop, told_abort; /* to the others, or by them */
    bool is_ours;               /* MPI was initialised by this boot */
    double rendezvous_seconds;  /* ls_boot_rendezvous_seconds */
    MPI_Comm messages, bodies, gathers;
    MPI_Comm worlds, leaving, aborting; /* where ranks meet: as a world begins or ends, at the end, after an abort */

    pthread_t thread; /* initialises MPI, runs messages, and finalises MPI */
    sem_t started;    /* posted when `start` is set */
    ls_status start;
    _Atomic bool closing;
    _Atomic uint64_t looks; /* so far: how often the rank has advanced messages while it waits */
    bool finalise;          /* what the thread does after `closing` */
    bool exit_at_once;      /* without the ends of libraries */
    _Atomic bool silent;    /* MPI is not entered any more: memory that it may write is gone */
    pthread_mutex_t library, list;
    ls_mpi_sending *posted; /* under `list`: newest first */
    /* Under `library`: */
    ls_mpi_sending *sending;
    ls_mpi_receiving *receiving;
    ls_mpi_transport *transport; /* that is open; NULL */
    uint64_t came;               /* to so many gathers this rank has come */
    ls_mpi_peer *peers;          /* [ranks] */
    ls_mpi_message in;
} ls_mpi;

/* What this rank knows of a peer, and owes it. */
typedef struct ls_mpi_known {
    ls_peer_state state;     /* what it told last; under `list` */
    double since;            /* ls_seconds() of it; under `list` */
    double asked;            /* ls_seconds() of a question whose answer is on its way, 0: none is; under `list` */
    _Atomic bool unfenced;   /* something was posted to it since the last fence */
    _Atomic uint64_t fenced; /* the last fence that it has answered */
    /* Under `library`: */
    int receiving;       /* bodies from it that are on their way */
    uint64_t owes_fence; /* the fence of it that is answered when there is none; 0: none */
} ls_mpi_known;

struct ls_mpi_transport {
    ls_mpi *mpi;
    const ls_endpoint *end;
    uint64_t fences; /* so far */
    /* Puts that were not done when they were posted, oldest first; under `list`. */
    ls_mpi_sending *oldest, *newest;
    _Atomic uint64_t undone; /* the ticket of the oldest; UINT64_MAX: there is none */
    ls_mpi_known peers[];
};

/*
 * starting.c: m->start, when MPI has started. After some seconds says who does not come; LS_PEER, with the same, after
 * those of the rendezvous: then MPI is never entered again.
 */
ls_status ls_mpi_await_start(ls_mpi *m, const ls_mpi_launcher *launcher);

enum { LS_MPI_TAG = 1 };

/* calls.c. A new message with `bytes` of payload; out of memory it ends the process. */
ls_mpi_sending *ls_mpi_message_to(int peer, ls_mpi_kind kind, size_t bytes);
/* Hands it over: it is sent when messages are advanced next, and freed then. Also under `library`. */
void ls_mpi_post_later(ls_mpi *m, ls_mpi_sending *sending);
/* Gives it to MPI, with its body; under `library`. */
void ls_mpi_send(ls_mpi *m, ls_mpi_sending *sending);
/* Expects the body that this sender sends next. Under `library`. */
void ls_mpi_receive_body(ls_mpi *m, int peer, const ls_mpi_message *message, void *heap);
/* When the result of an MPI call is an error, aborts the job with its text. Returns whether it is not. */
bool ls_mpi_succeeded(ls_mpi *m, int result, const char *call);

/* messages.c. Hands a message over, and advances all. Does not block. */
void ls_mpi_post(ls_mpi *m, ls_mpi_sending *sending);
/* Advances all messages; returns whether any moved. `try`: not if another thread does so at this moment. */
bool ls_mpi_advance(ls_mpi *m, bool try);
/* Whether there is nothing on its way out. */
bool ls_mpi_all_sent(ls_mpi *m);
/* Advances messages until m->closing. */
void ls_mpi_run(ls_mpi *m);
/* For loops that wait: gives way for longer and longer, up to a quarter of the time since `since` (ls_seconds()). */
void ls_mpi_give_way(double since);
/* collectives.c: ls_boot_kind.gather. */
ls_status ls_mpi_gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all);
/*
 * Advances messages until all ranks have called it with this communicator, or `seconds` (0: any) are over.
 * Returns whether all have. Without even_aborted it gives up as soon as the job is aborted.
 */
bool ls_mpi_meet(ls_mpi *m, MPI_Comm where, double seconds, bool even_aborted);

/* arrivals.c: the handlers, under `library`; and what follows the last byte of a body. */
void ls_mpi_on_stop(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_abort(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_where(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_here(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_signal(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_put(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_body(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_fence(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_fenced(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_ask(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_on_tell(ls_mpi *m, int peer, const ls_mpi_message *message);
void ls_mpi_body_received(ls_mpi *m, const ls_mpi_receiving *receiving);
/* A put has been sent: its source may be overwritten. Frees it, now or later. */
void ls_mpi_put_sent(ls_mpi *m, ls_mpi_sending *sent);

extern const ls_transport ls_mpi_transport_row;

#endif
