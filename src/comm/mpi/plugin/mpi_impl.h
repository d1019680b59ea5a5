/*
 * For the plug-in over MPI alone. It moves bytes by messages between the processes of a job:
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
 * thread leaves for the holder of `library`. A thread that holds `library` may take `list`, but not the other way
 * round.
 */
#ifndef LS_COMM_MPI_IMPL_H
#define LS_COMM_MPI_IMPL_H

#include "comm/mpi/plugin.h"

#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>

/* ---- messages ---- */

/*
 * Payloads up to this size are sent in the message itself; larger ones follow it. Open MPI copies up to 4 KiB between
 * processes of one host at once, and announces larger messages first.
 */
enum { LS_MPI_INLINE = 3 << 10 };

/* The kinds of messages; arrivals.c has a handler for each. */
typedef enum ls_mpi_kind {
    LS_MPI_STOP,   /* the job is asked to stop */
    LS_MPI_ABORT,  /* bytes: why the job ends */
    LS_MPI_SIGNAL, /* set a word */
    LS_MPI_PUT,    /* copy the bytes to `to`, then set a word */
    LS_MPI_BODY,   /* receive the next body of this sender at `to`, then set a word */
    LS_MPI_FENCE,  /* asks for an answer once all earlier puts of this sender are in place */
    LS_MPI_FENCED, /* that answer */
    LS_MPI_ASK,    /* asks for the state of the receiver's line */
    LS_MPI_TELL,   /* that answer */
    LS_MPI_WHERE,  /* asks to how many gathers the receiver has come */
    LS_MPI_HERE,   /* that answer, in `generation` */
    LS_MPI_KINDS
} ls_mpi_kind;

_Static_assert(sizeof((ls_status){0}.text) <= LS_MPI_INLINE, "why a job is aborted fits into a message");

typedef struct ls_mpi_message {
    int32_t kind;
    int32_t word;        /* of signals and puts; -1: none */
    uint64_t generation; /* of the word; of a fence: its number; of LS_MPI_HERE: the number of gathers */
    union {
        ls_range to;          /* of puts: the target in the heap of the receiver */
        ls_peer_state answer; /* of LS_MPI_TELL */
    };
    size_t bytes; /* of `payload` in use */
    char payload[LS_MPI_INLINE];
} ls_mpi_message;

/* An outgoing message, and the body that may follow it. */
typedef struct ls_mpi_sending {
    struct ls_mpi_sending *next; /* in whichever list it is */
    struct ls_mpi_sending *next_put;
    int peer;
    MPI_Request message_request, body_request;
    const void *source; /* of the body; NULL: there is none */
    ls_range from;
    uint64_t ticket; /* of a put that is not done when it is posted; 0: it is not such a put */
    bool done;       /* of such a put: the source may be overwritten */
    ls_mpi_message message;
} ls_mpi_sending;

/* An incoming body. */
typedef struct ls_mpi_receiving {
    struct ls_mpi_receiving *next;
    int peer, word;
    uint64_t generation;
    MPI_Request request;
} ls_mpi_receiving;

typedef struct ls_mpi_transport ls_mpi_transport;

/* How far a peer has come. */
typedef struct ls_mpi_peer {
    uint64_t gathers; /* the number of gathers that it has come to, by its last answer */
    double asked;     /* when it was asked, in seconds of this rank's wait, if it has not answered yet; else -1 */
} ls_mpi_peer;

/* The state of the boot. There is one in a process, until the process ends. */
typedef struct ls_mpi {
    ls_boot *boot;
    ls_notice notice;
    bool told_stop, told_abort; /* to the others, or by them */
    bool is_ours;               /* MPI was initialised by this boot */
    double rendezvous_seconds;  /* ls_boot_rendezvous_seconds */
    MPI_Comm messages, bodies, gathers;
    MPI_Comm worlds, leaving, aborting; /* where ranks meet: when a world begins or ends; at the end; after an abort */

    pthread_t thread; /* initialises MPI, runs messages, and finalises MPI */
    sem_t started;    /* posted when `start` is set */
    ls_status start;
    _Atomic bool closing;
    _Atomic uint64_t looks; /* how often the rank has advanced messages while waiting */
    bool finalise;          /* what the thread does after `closing` */
    bool exit_at_once;      /* without the clean-up of libraries */
    _Atomic bool silent;    /* MPI must not be entered any more, because memory that it may write is gone */
    pthread_mutex_t library, list;
    ls_mpi_sending *posted; /* under `list`: newest first */
    /* Under `library`: */
    ls_mpi_sending *sending;
    ls_mpi_receiving *receiving;
    ls_mpi_transport *transport; /* that is open; NULL */
    uint64_t came;               /* gathers that this rank has come to */
    ls_mpi_peer *peers;          /* [ranks] */
    ls_mpi_message in;
} ls_mpi;

/* What this rank knows about a peer, and which answer it owes the peer. */
typedef struct ls_mpi_known {
    ls_peer_state state;     /* its last answer; under `list` */
    double since;            /* ls_seconds() of that answer; under `list` */
    double asked;            /* ls_seconds() of a question that is not answered yet, 0: there is none; under `list` */
    _Atomic bool unfenced;   /* something was posted to it since the last fence */
    _Atomic uint64_t fenced; /* the last fence that the peer has answered */
    /* Under `library`: */
    int receiving;       /* bodies from the peer that are on their way */
    uint64_t owes_fence; /* the peer's fence that is answered once `receiving` is 0; 0: none */
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
 * starting.c: waits until MPI has started, and returns m->start. After some seconds it prints which ranks do not come.
 * After the seconds of the rendezvous it returns LS_PEER with the same text, and MPI must never be entered again.
 */
ls_status ls_mpi_await_start(ls_mpi *m, const ls_mpi_launcher *launcher);

enum { LS_MPI_TAG = 1 };

/* calls.c. A new message with `bytes` of payload; out of memory it ends the process. */
ls_mpi_sending *ls_mpi_message_to(int peer, ls_mpi_kind kind, size_t bytes);
/*
 * Hands over a message, which is sent when messages are next advanced, and freed afterwards. May be called under
 * `library`.
 */
void ls_mpi_post_later(ls_mpi *m, ls_mpi_sending *sending);
/* Gives a message and its body to MPI; under `library`. */
void ls_mpi_send(ls_mpi *m, ls_mpi_sending *sending);
/* Expects the body that this sender sends next. Under `library`. */
void ls_mpi_receive_body(ls_mpi *m, int peer, const ls_mpi_message *message, void *heap);
/* If the result of an MPI call is an error, aborts the job with the error's text and returns false. */
bool ls_mpi_succeeded(ls_mpi *m, int result, const char *call);

/* messages.c. Hands over a message, and advances all messages. Does not block. */
void ls_mpi_post(ls_mpi *m, ls_mpi_sending *sending);
/*
 * Advances all messages; returns whether any moved. `try`: does nothing if another thread is doing so at this moment.
 */
bool ls_mpi_advance(ls_mpi *m, bool try);
/* Whether no message is on its way out. */
bool ls_mpi_all_sent(ls_mpi *m);
/* Advances messages until m->closing. */
void ls_mpi_run(ls_mpi *m);
/*
 * For loops that wait: yields the processor for longer and longer, up to a quarter of the time since `since`
 * (ls_seconds()).
 */
void ls_mpi_give_way(double since);
/* collectives.c: ls_boot_kind.gather. */
ls_status ls_mpi_gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all);
/*
 * Advances messages until all ranks have called it with this communicator, or `seconds` (0: no limit) are over. Returns
 * whether all have. Without even_aborted it gives up as soon as the job is aborted.
 */
bool ls_mpi_meet(ls_mpi *m, MPI_Comm where, double seconds, bool even_aborted);

/* arrivals.c: the handlers of messages, under `library`; and the function to call after the last byte of a body. */
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
/* Called when a put has been sent: its source may be overwritten. Frees `sent`, now or later. */
void ls_mpi_put_sent(ls_mpi *m, ls_mpi_sending *sent);

extern const ls_transport ls_mpi_transport_row;

#endif
