/*
 * comm: symmetric memory with one-sided communication. The contract follows OpenSHMEM 1.5 at its weakest, so that every
 * transport can honour it.
 *
 * A world is made once, before its ranks start. Each rank has one heap, all of the same size, and one array of 64-bit
 * signal words. Offsets into heaps come from programs, never from an allocator. The contract:
 *   - a put is done when its source may be overwritten: when ls_comm_done says so, or when an answer of the peer shows
 *     that the put has arrived. It does so without help of the peer. Puts are done in any order, and complete at their
 *     targets at the latest at quiet;
 *   - put_signal sets the peer's word after the payload of this put is visible there; it promises nothing about other
 *     puts;
 *   - signal releases the earlier loads and stores of the caller; it does not complete its earlier puts;
 *   - a word is SET to a generation number that only rises; only signal operations write words. Of two that are on
 *     their way to one word, the later may come first, before the payload of the earlier; the earlier then leaves the
 *     word as it is;
 *   - test and wait mean "word >= generation", with acquire.
 */
#ifndef LS_COMM_H
#define LS_COMM_H

#include "base/base.h"

typedef struct ls_world ls_world; /* all ranks; owned by the launcher, or by each launched rank for itself */
typedef struct ls_comm ls_comm;   /* a world as one rank uses it, by one thread at a time */

/* ---- how this process came to be ---- */

/*
 * Somebody may have launched this process as one rank of several (torchrun, srun, mpirun ...), by what its environment
 * says; else it starts its ranks itself (ls_launch). The environment variable LONGSPAN_BOOT says instead who did:
 * "local" (nobody), "environment", or "mpi".
 */
typedef struct ls_launched {
    int rank, ranks;   /* ranks 0: nobody did */
    int machine_ranks; /* of them: on this machine */
    const char *boot;  /* how the ranks found each other: "environment", ...; else "local" */
    int core_ranks; /* that are bound to one core, the same as this one; 0: this one is bound to several, or to none */
    /* What the launcher does at Ctrl-C if it does not wait for the ranks, with what helps; NULL: it waits. */
    const char *at_interrupt;
} ls_launched;

#define LS_BOOT_VARIABLE "LONGSPAN_BOOT"

/*
 * The first call connects the ranks, and blocks until all have made it; it fails when they do not come in time. The
 * connection lasts until the end of the process.
 */
LS_MUST_USE ls_status ls_launched_find(ls_launched *out);
/*
 * For a process that starts no ranks and needs none: it meets nobody, whatever its environment says. To be called
 * before the first ls_launched_find.
 */
void ls_launched_stay_alone(void);
/* What the environment alone says that this process is one of; *ranks 0: nothing that makes sense. Meets nobody. */
void ls_launched_foresee(int *rank, int *ranks);
/*
 * A status that another process sent, or that a function of the user returned: its text ends, and is one line. A code
 * that there is not becomes LS_FAULT, with the number in the text.
 */
ls_status ls_status_sound(ls_status status);
/*
 * For launched ranks: all[r] becomes `mine` of rank r, at most LS_GATHER_VALUE bytes. Collective; needs no world. what:
 * names the value; LS_INVALID, with what two ranks tell, unless all ranks tell the same, of the same size.
 */
#define LS_GATHER_VALUE 1024
LS_MUST_USE ls_status ls_launched_gather(const char *what, const void *mine, size_t bytes, void *all);
/* For a launched rank: what ls_world_abort and ls_world_request_stop do, also before there is a world. */
void ls_launched_abort(const char *why);
void ls_launched_request_stop(void); /* async-signal-safe */
bool ls_launched_stop_requested(void);
/*
 * Whether this process says for all ranks why they fail: rank 0, and another one of each host that hears no more of
 * rank 0, because that is stopped, has died or is not reached; not after ls_launched_be_silent.
 */
void ls_launched_be_silent(void);
bool ls_launched_speaks(void);

/* How ranks are spread over hosts. */
typedef struct ls_hosts {
    int machine_ranks; /* that share the memory of this machine, pretended hosts or not */
    int block;         /* the most consecutive ranks, r / block being equal, that can load each other's heaps */
} ls_hosts;

/*
 * For a world of so many ranks. The environment variable LONGSPAN_HOSTS pretends, for tests, that ranks live on several
 * hosts: a number of hosts, or a list with the host of each rank (0,0,1,1). LS_INVALID for a value that is neither.
 */
LS_MUST_USE ls_status ls_hosts_find(int ranks, ls_hosts *out);
#define LS_HOSTS_VARIABLE "LONGSPAN_HOSTS"

/* ---- worlds ---- */

/* Bytes that a rank brings into a world. */
typedef struct ls_rank_memory {
    size_t heap;
    size_t common; /* that ranks of its host read, and some fill, before they read (ls_comm_common) */
} ls_rank_memory;

typedef struct ls_world_options {
    int ranks;                    /* >= 1; those of the job when this process was launched as a rank, unless local */
    bool local;                   /* ls_launch starts the ranks, also in a process that was launched as a rank itself */
    size_t heap_bytes;            /* of each rank, where memory is NULL */
    const ls_rank_memory *memory; /* [ranks] of each; the world keeps a copy */
    int words;                    /* signal words of each rank */
    bool may_spin;                /* false when ranks x threads exceed the cores */
    double wait_timeout;          /* seconds without progress of a peer after which a wait fails; 0: never */
    bool unguarded; /* peers may set any word and put anywhere in the heap; else only as ls_comm_expect says */
} ls_world_options;

/*
 * The transports that a world may use; each pair of ranks takes the fastest that reaches. A setting is NULL (that of
 * LONGSPAN_TRANSPORTS in the environment, else all), or a list of names with commas:
 *   "shm"    ranks of one host: processes or threads. The memory is freed with the last process, however that ends
 *   "tcp"    any ranks; those of another host only where the boot knows the hosts' addresses
 *   "mpi"    any ranks that an mpirun started; it comes with the boot "mpi"
 * or "chaos:SEED[:SECONDS[:LIST]]", which wraps those of the list (default all) and reorders, delays and splits
 * messages as far as the contract allows. SECONDS: the shortest time from a put to its signal.
 *
 * Collective when this process was launched as a rank. LS_USAGE: the setting is none. LS_UNSUPPORTED names a transport
 * that is not there, or the first pair of ranks that nothing
 * connects, with their hosts; LS_NO_MEMORY the bytes that could not be mapped.
 */
LS_MUST_USE ls_status ls_world_create(const char *transports, const ls_world_options *options, ls_world **out);
void ls_world_destroy(ls_world *world);
int ls_world_ranks(const ls_world *world);
int ls_world_rank(const ls_world *world); /* of this process, when it was launched as one; -1: ls_launch starts them */
#define LS_TRANSPORTS_VARIABLE "LONGSPAN_TRANSPORTS"

/* LS_USAGE, with the names that there are, unless the text is such a setting. */
LS_MUST_USE ls_status ls_transports_check(const char *setting);

/* The name of a transport by its index in the table; NULL past the end. */
const char *ls_transport_name(int index);

/*
 * Each rank calls this once, in its own process or thread. Blocks until all ranks have called it if they use another
 * transport than shm.
 */
LS_MUST_USE ls_status ls_world_join(ls_world *world, int rank, ls_comm **out);
/* Whether a wait of this rank failed because the other rank had left: that one's failure, if any, is the cause. */
bool ls_comm_was_left(const ls_comm *comm);
/* Completes the messages of this rank, which may take time, and frees comm. */
void ls_comm_leave(ls_comm *comm);

/* Every wait in the world fails soon with LS_PEER and this text. The text of the first call is used. */
void ls_world_abort(ls_world *world, const char *why);
/*
 * For the launcher of a local world: records that a rank was stopped (SIGSTOP) or continued, for the messages of ranks
 * that give up waiting for it.
 */
void ls_world_set_stopped(ls_world *world, int rank, bool stopped);
double ls_world_wait_timeout(const ls_world *world); /* of its options */
/* Sets a flag that all ranks can read, e.g. after SIGINT; async-signal-safe. */
void ls_world_request_stop(ls_world *world);
bool ls_comm_stop_requested(const ls_comm *comm);
/*
 * Whether a request to stop ends what this rank does from now on, because it has no steps after which it could stop:
 * its waits then fail with LS_INTERRUPTED, and so does ls_comm_check_stop, which an executor calls between
 * instructions.
 */
void ls_comm_end_at_stop(ls_comm *comm, bool ends);
LS_MUST_USE ls_status ls_comm_check_stop(const ls_comm *comm);
bool ls_world_stop_requested(const ls_world *world);

/*
 * For a launcher that forks the ranks: the channel for ls_comm_send_home. open makes it before the fork; keep closes
 * what a process does not need of it, after the fork (rank -1: the launcher); file is to be polled for input (-1: there
 * is no channel, or it has ended); take puts what has come into its place, and does not block (a rank 0 that dies may
 * leave a part of a result); close is allowed without a channel.
 */
LS_MUST_USE ls_status ls_world_open_home(ls_world *world);
void ls_world_keep_home(ls_world *world, int rank);
int ls_world_home_file(const ls_world *world);
LS_MUST_USE ls_status ls_world_take_home(ls_world *world);
void ls_world_close_home(ls_world *world);

int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);
int ls_comm_machine_ranks(const ls_comm *comm); /* ls_hosts */
int ls_comm_machine_rank(const ls_comm *comm);  /* of this rank among them */
void *ls_comm_heap(const ls_comm *comm);        /* of this rank */
size_t ls_comm_heap_bytes(const ls_comm *comm); /* of this rank */
size_t ls_comm_heap_bytes_of(const ls_comm *comm, int rank);
int ls_comm_word_count(const ls_comm *comm); /* words of each rank */
/* The heap of a peer; NULL if this rank cannot load from it. */
void *ls_comm_peer_heap(const ls_comm *comm, int peer);
/* The common memory of a rank; NULL if this rank cannot load from it. */
void *ls_comm_common(const ls_comm *comm, int rank);
/*
 * The words of a rank, for devices that set them and wait for them; NULL if this rank cannot load from it. What a
 * device sets rings no bell.
 */
void *ls_comm_words(const ls_comm *comm, int rank, size_t *bytes);

/*
 * Copies the bytes `from` of source (any memory of this rank) to the bytes `to` of the peer's heap. peer may be this
 * rank. Returns a ticket for ls_comm_done; tickets of a rank rise by one from 1.
 */
uint64_t ls_comm_put(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from);
uint64_t ls_comm_put_signal(ls_comm *comm, int peer, const ls_range *to, const void *source, const ls_range *from,
                            int word, uint64_t generation);
/*
 * What one of this rank's words is for. What comes over a transport whose ranks cannot load and store each other's
 * memory (tcp) must agree with it: anything else ends the connection, and aborts the world with a text that names rank,
 * word and range. The ends of a channel set each other's words in turn, and generations rise by one.
 */
typedef struct ls_window {
    int peer;              /* that sets the word; -1: nobody does */
    int answers;           /* the word of that peer which this rank sets in turn */
    bool begins;           /* the peer sets its word first, and this rank answers; else the other way round */
    uint64_t notes;        /* the first generations, with each of which the bytes `note` may come; length 0: no bytes */
    ls_range note;         /* in the heap, as are slots */
    uint64_t uses;         /* of later generations, again and again: */
    const ls_range *slots; /* [uses] what comes with each; NULL: no bytes */
    const size_t
        *counted; /* [uses] bytes of a row of a slot in which any number of its first rows comes; 0: all comes */
} ls_window;

/*
 * Says what each word is for, of windows[words], which are copied, with what they point to. Collective, and called
 * once: before it no message for these words is expected, unless the world is unguarded.
 */
LS_MUST_USE ls_status ls_comm_expect(ls_comm *comm, const ls_window *windows);

/* Whether this rank's puts up to that ticket are done. Advances messages on their way. */
bool ls_comm_done(ls_comm *comm, uint64_t ticket);
bool ls_comm_idle(ls_comm *comm); /* all its puts are done */
void ls_comm_signal(ls_comm *comm, int peer, int word, uint64_t generation);

/* Whether this rank's word has reached the generation. */
bool ls_comm_test(ls_comm *comm, int word, uint64_t generation);

/*
 * Sleeping without missing a signal. The bell is a counter that changes whenever a word of this rank is set, or a put
 * of this rank is done that was not when it returned. A caller reads the bell, tests what it waits for, and sleeps if
 * none has come. sleep returns LS_OK when the bell no longer has the value `bell`. It returns LS_PEER when the world
 * was aborted, or when `peer` has not advanced its instruction counter for wait_timeout seconds. `what` (e.g.
 * "instruction 12, slot kv.1, expected generation 7, seen 6") completes the message.
 */
uint32_t ls_comm_bell(const ls_comm *comm);
LS_MUST_USE ls_status ls_comm_sleep(ls_comm *comm, uint32_t bell, int peer, const char *what);

/* Rings the rank's own bell: something else has come for which it may sleep. Any thread of the rank may call it. */
void ls_comm_wake(ls_comm *comm);

/* What a rank waits for: a word of its own to reach a generation, or its puts up to a ticket to be done. */
typedef struct ls_awaited {
    int word;            /* -1: puts */
    uint64_t generation; /* of puts: the ticket */
} ls_awaited;
/*
 * Tests n awaited things, for a moment if ranks may spin; returns whether one has come. To be called before sleeping.
 */
bool ls_comm_spin(ls_comm *comm, const ls_awaited *awaited, int n);

/* Waits for one word: spins, then tests and sleeps in a loop. */
LS_MUST_USE ls_status ls_comm_wait(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);
uint64_t ls_comm_word(const ls_comm *comm, int word); /* the current value, for messages */

/* Completes all puts of this rank at their targets: for ranks that leave, and before barriers. */
void ls_comm_quiet(ls_comm *comm);

/*
 * Advances the instruction counter of this rank, which the timeouts of its peers read, and the messages of a transport
 * that needs the rank's help. Cheap; called once per instruction.
 */
void ls_comm_tick(ls_comm *comm);

/*
 * Host collectives are called outside programs. They have signal words of their own. Each blocks until all ranks have
 * called it, and takes ceil(log2 ranks) rounds, in each of which a rank sends one message. All ranks call them in the
 * same order, with the same sizes, and doing the same (ls_comm_doing). Where they do not, the ranks that notice fail
 * with LS_INVALID, and the text says what two ranks do.
 *   barrier    what all ranks have put before it is in place
 *   meet       all ranks have come, and do the same
 *   broadcast  *value becomes that of rank 0; bytes <= LS_COMM_VALUE
 *   reduce     *value becomes the merge of the values of all ranks; bytes <= LS_COMM_VALUE
 *   exchange   all[r] is `mine` of rank r, any number of bytes. What every rank holds afterwards grows with the number
 *              of ranks; where a maximum, or another merge, is all that is needed, reduce needs less
 *   agree      LS_OK when `mine` is LS_OK on all ranks; else, on every rank, the status of the first rank that failed,
 *              with the rank before its text
 */
#define LS_COMM_VALUE 1024
/*
 * Says what this rank does from now on ("step 12", "parameter wte"), and thereby what the collectives that follow are:
 * ranks that do something else do not meet. At most LS_COMM_DOING - 1 bytes count.
 */
#define LS_COMM_DOING 192
void ls_comm_doing(ls_comm *comm, const char *format, ...) LS_PRINTF(2, 3);
LS_MUST_USE ls_status ls_comm_barrier(ls_comm *comm);
LS_MUST_USE ls_status ls_comm_meet(ls_comm *comm);
LS_MUST_USE ls_status ls_comm_broadcast(ls_comm *comm, void *value, size_t bytes);
/*
 * *into becomes the merge of two values. Values are merged in an order that depends on the rank, and some more than
 * once, so the result must not depend on that: a minimum, "any", the first of something; not a sum.
 */
typedef void (*ls_comm_merge)(void *into, const void *from, size_t bytes);
LS_MUST_USE ls_status ls_comm_reduce(ls_comm *comm, void *value, size_t bytes, ls_comm_merge merge);
/*
 * Each of values[n] becomes its maximum over the ranks; n <= LS_COMM_VALUE / 8. A NaN counts only where all ranks have
 * one.
 */
LS_MUST_USE ls_status ls_comm_max_i64(ls_comm *comm, int64_t *values, int n);
LS_MUST_USE ls_status ls_comm_max_f64(ls_comm *comm, double *values, int n);
LS_MUST_USE ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all);
LS_MUST_USE ls_status ls_comm_agree(ls_comm *comm, ls_status mine);

/*
 * Bytes of every rank, a piece of each at a time, so that nobody needs memory for those of all. Their number may differ
 * between the ranks. `take` is called for the pieces of rank 0, 1, ..., this rank's own included, then for the next
 * ones of these ranks, and so on; on rank 0 only, with `everywhere` on every rank. A failure of give or take is
 * returned on its rank when all pieces have passed.
 */
typedef struct ls_comm_pieces {
    size_t bytes; /* of this rank */
    /* Writes bytes [at, at + bytes) of this rank's to `out`. */
    ls_status (*give)(void *context, size_t at, void *out, size_t bytes);
    /* Gets bytes [at, at + bytes) of a rank's; they lie at a multiple of 8. NULL: this rank needs none. */
    ls_status (*take)(void *context, int rank, size_t at, const void *data, size_t bytes);
    void *context;
    size_t unit; /* a piece is a multiple of so many bytes, as many on all ranks; 0: of 1 */
} ls_comm_pieces;
LS_MUST_USE ls_status ls_comm_gather(ls_comm *comm, const ls_comm_pieces *pieces, bool everywhere);

/*
 * Results for the caller of ls_launch, whose memory `to` is: the one of the process that forked the ranks or has them
 * as threads, and rank 0's own where another program started the ranks. Not collective; blocks while the launcher is
 * slow to read. Ranks other than 0 send nothing. LS_PEER when the world was aborted meanwhile.
 *   send       rank 0's bytes [from, from + bytes)
 *   send_rows  rank 0's bytes at `from`, without gaps, to the pieces of a range with one stride
 *   gather     collective: [mine, mine + bytes) of rank r, which may differ in size, to (char *)all + r * stride
 */
LS_MUST_USE ls_status ls_comm_send_home(ls_comm *comm, void *to, const void *from, size_t bytes);
LS_MUST_USE ls_status ls_comm_send_rows_home(ls_comm *comm, void *to, const ls_range *rows, const void *from);
LS_MUST_USE ls_status ls_comm_gather_home(ls_comm *comm, const void *mine, size_t bytes, void *all, size_t stride);

#endif
