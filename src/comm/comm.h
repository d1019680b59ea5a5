/*
 * comm: symmetric memory with one-sided communication. The contract follows OpenSHMEM 1.5 at its weakest, so that every
 * transport can honour it.
 *
 * A world is made once, before its ranks start. Each rank has one heap and one array of 64-bit signal words. Offsets
 * into heaps come from programs, never from an allocator. The contract:
 *   - a put is done when its source may be overwritten: when ls_comm_done says so, or when an answer of the peer
 *     shows that the put has arrived. It becomes done without the peer's help. Puts become done in any order, and are
 *     complete at their targets at the latest after quiet;
 *   - put_signal sets the peer's word after the payload of this put is visible there; it promises nothing about other
 *     puts;
 *   - signal releases the earlier loads and stores of the caller; it does not complete its earlier puts;
 *   - a word is SET to a generation number that only rises; only signal operations write words. Of two signals on
 *     their way to one word, the later may arrive first, even before the payload of the earlier; the earlier signal
 *     then leaves the word as it is;
 *   - test and wait mean "word >= generation", with acquire.
 */
#ifndef LS_COMM_H
#define LS_COMM_H

#include "base/base.h"

typedef struct ls_world ls_world; /* all ranks; owned by the launcher, or by each launched rank for itself */
typedef struct ls_comm ls_comm;   /* a world as one rank sees it; used by one thread at a time */

/* ---- how this process was started ---- */

/*
 * Another program (torchrun, srun, mpirun ...) may have launched this process as one of several ranks, as its
 * environment shows; otherwise this process starts its ranks itself (ls_launch). The environment variable LONGSPAN_BOOT
 * overrides this: "local" (not launched), "environment", or "mpi".
 */
typedef struct ls_launched {
    int rank, ranks;   /* ranks 0: this process was not launched as a rank */
    int machine_ranks; /* how many of the ranks are on this machine */
    const char *boot; /* how the ranks found each other: "environment", ...; "local" if this process was not launched */
    int core_ranks;   /* how many ranks, this one included, are bound to the same single core; 0: this one is bound to
                         several, or to none */
    /* If the launcher does not wait for the ranks at Ctrl-C: what it does, and the remedy, as text; NULL: it waits. */
    const char *at_interrupt;
} ls_launched;

#define LS_BOOT_VARIABLE "LONGSPAN_BOOT"

/*
 * The first call connects the ranks, and blocks until all ranks have made it; it fails if they do not in time. The
 * connection lasts until the end of the process.
 */
LS_MUST_USE ls_status ls_launched_find(ls_launched *out);
/*
 * For a process that neither starts ranks nor is one: it connects to no other rank, whatever its environment says. To
 * be called before the first ls_launched_find.
 */
void ls_launched_stay_alone(void);
/*
 * The rank and the number of ranks according to the environment alone, without connecting to any rank; *ranks 0: the
 * environment names none, or makes no sense.
 */
void ls_launched_foresee(int *rank, int *ranks);
/*
 * Makes a status safe that another process sent, or that a function of the user returned: its text becomes a terminated
 * single line. An unknown code becomes LS_FAULT, with the number in the text.
 */
ls_status ls_status_sound(ls_status status);
/*
 * For launched ranks: all[r] becomes `mine` of rank r, at most LS_GATHER_VALUE bytes. Collective; needs no world.
 * `what` names the value. LS_INVALID, with the names that two ranks give, unless all ranks give the same name and size.
 */
#define LS_GATHER_VALUE 1024
LS_MUST_USE ls_status ls_launched_gather(const char *what, const void *mine, size_t bytes, void *all);
/*
 * For a launched rank: the same as ls_world_abort and ls_world_request_stop, but also possible before there is a world.
 */
void ls_launched_abort(const char *why);
void ls_launched_request_stop(void); /* async-signal-safe */
bool ls_launched_stop_requested(void);
/*
 * Whether this process reports for all ranks why they fail. Rank 0 does, and so does one rank of each host that no
 * longer hears rank 0, because rank 0 is stopped, has died or is not reached. No process does after its
 * ls_launched_be_silent.
 */
void ls_launched_be_silent(void);
bool ls_launched_speaks(void);

/* How ranks are spread over hosts. */
typedef struct ls_hosts {
    int machine_ranks; /* ranks that share the memory of this machine, whether or not hosts are pretended */
    int block; /* the largest number such that all ranks with equal r / block can load from each other's heaps */
} ls_hosts;

/*
 * For a world of `ranks` ranks. The environment variable LONGSPAN_HOSTS pretends, for tests, that ranks live on several
 * hosts: a number of hosts, or a list with the host of each rank (0,0,1,1). LS_INVALID for a value that is neither.
 */
LS_MUST_USE ls_status ls_hosts_find(int ranks, ls_hosts *out);
#define LS_HOSTS_VARIABLE "LONGSPAN_HOSTS"

/* ---- worlds ---- */

/* The bytes of memory that a rank contributes to a world. */
typedef struct ls_rank_memory {
    size_t heap;
    size_t common; /* memory that ranks of its host read, after some of them have filled it (ls_comm_common) */
} ls_rank_memory;

typedef struct ls_world_options {
    int ranks;                    /* >= 1; if this process was launched as a rank, those of the job, unless local */
    bool local;                   /* ls_launch starts the ranks, even in a process that was itself launched as a rank */
    size_t heap_bytes;            /* of each rank, if memory is NULL */
    const ls_rank_memory *memory; /* [ranks] the memory of each; the world keeps a copy */
    int words;                    /* signal words of each rank */
    bool may_spin;                /* false when ranks x threads exceed the cores */
    double wait_timeout;          /* seconds without progress of a peer after which a wait fails; 0: never */
    bool unguarded; /* peers may set any word and put anywhere in the heap; false: only as ls_comm_expect says */
} ls_world_options;

/*
 * `transports` says which transports the world may use; each pair of ranks takes the fastest that connects it. It is
 * NULL (the value of LONGSPAN_TRANSPORTS in the environment, else all transports), or a list of names with commas:
 *   "shm"    ranks of one host: processes or threads. The memory is freed when the last process ends, in whatever way
 *   "tcp"    any ranks; ranks of different hosts only if the boot knows the hosts' addresses
 *   "mpi"    any ranks that an mpirun started; it comes with the boot "mpi"
 * or "chaos:SEED[:SECONDS[:LIST]]", which wraps the transports of LIST (default all) and reorders, delays and splits
 * messages as far as the contract allows. SECONDS: the shortest time from a put to its signal.
 *
 * Collective when this process was launched as a rank. LS_USAGE: `transports` is not such a setting. LS_UNSUPPORTED
 * names a transport that is not available, or the first pair of ranks that no transport connects, with their hosts.
 * LS_NO_MEMORY names the bytes that could not be mapped.
 */
LS_MUST_USE ls_status ls_world_create(const char *transports, const ls_world_options *options, ls_world **out);
void ls_world_destroy(ls_world *world);
int ls_world_ranks(const ls_world *world);
int ls_world_rank(const ls_world *world); /* of this process, if launched as a rank; -1: ls_launch starts the ranks */
#define LS_TRANSPORTS_VARIABLE "LONGSPAN_TRANSPORTS"

/* LS_USAGE, with the known names, unless the text is a setting of transports. */
LS_MUST_USE ls_status ls_transports_check(const char *setting);

/* The name of a transport by its index in the table; NULL past the end. */
const char *ls_transport_name(int index);

/*
 * Each rank calls this once, in its own process or thread. Blocks until all ranks have called it if they use a
 * transport other than shm.
 */
LS_MUST_USE ls_status ls_world_join(ls_world *world, int rank, ls_comm **out);
/* Whether a wait of this rank failed because the peer had left: then the peer's failure, if any, is the cause. */
bool ls_comm_was_left(const ls_comm *comm);
/* Completes the messages of this rank, which may take time, and frees comm. */
void ls_comm_leave(ls_comm *comm);

/* Makes every wait in the world fail soon with LS_PEER and this text. The text of the first call is used. */
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
 * ends: a request to stop interrupts what this rank does from now on, because that has no steps after which the rank
 * could stop. Its waits then fail with LS_INTERRUPTED, and so does ls_comm_check_stop, which an executor calls between
 * instructions.
 */
void ls_comm_end_at_stop(ls_comm *comm, bool ends);
LS_MUST_USE ls_status ls_comm_check_stop(const ls_comm *comm);
bool ls_world_stop_requested(const ls_world *world);

/*
 * For a launcher that forks the ranks: the pipe for ls_comm_send_home. open makes the pipe before the fork; keep, after
 * the fork, closes the end that the process does not need (rank -1: the launcher); home_file is the file to poll for
 * input (-1: there is no pipe, or it has ended); take copies what has arrived into its place, without blocking (if rank
 * 0 dies, part of a result may be missing); close is allowed without a pipe.
 */
LS_MUST_USE ls_status ls_world_open_home(ls_world *world);
void ls_world_keep_home(ls_world *world, int rank);
int ls_world_home_file(const ls_world *world);
LS_MUST_USE ls_status ls_world_take_home(ls_world *world);
void ls_world_close_home(ls_world *world);

int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);
int ls_comm_machine_ranks(const ls_comm *comm); /* ls_hosts */
int ls_comm_machine_rank(const ls_comm *comm);  /* the index of this rank among them */
void *ls_comm_heap(const ls_comm *comm);        /* of this rank */
size_t ls_comm_heap_bytes(const ls_comm *comm); /* of this rank */
size_t ls_comm_heap_bytes_of(const ls_comm *comm, int rank);
int ls_comm_word_count(const ls_comm *comm); /* words of each rank */
/* The heap of a peer; NULL if this rank cannot load from it. */
void *ls_comm_peer_heap(const ls_comm *comm, int peer);
/* The common memory of a rank; NULL if this rank cannot load from it. */
void *ls_comm_common(const ls_comm *comm, int rank);
/*
 * The words of a rank, for devices that set them and wait for them; NULL if this rank cannot load from it. A word that
 * a device sets rings no bell.
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
 * What one of this rank's words is for. Messages over a transport whose ranks cannot load and store each other's memory
 * (tcp) must agree with it: any other message ends the connection, and aborts the world with a text that names rank,
 * word and range. The two ends of a channel set each other's words in turn, and generations rise by one.
 */
typedef struct ls_window {
    int peer;       /* the peer that sets the word; -1: none does */
    int answers;    /* the word of the peer that this rank sets in turn */
    bool begins;    /* the peer sets its word first, and this rank answers; else the other way round */
    uint64_t notes; /* the number of first generations, each of which may come with the bytes `note`; note of length 0:
                       no bytes */
    ls_range note;  /* in the heap, as are slots */
    uint64_t uses;  /* later generations go through the `uses` entries of slots and counted again and again */
    const ls_range *slots; /* [uses] the bytes that come with each generation; NULL: none */
    const size_t
        *counted; /* [uses] bytes of a row, if any number of the slot's first rows may come; 0: the whole slot comes */
} ls_window;

/*
 * Says what each word is for: windows[words], which are copied together with what they point to. Collective, and called
 * once. Before the call no message for these words is accepted, unless the world is unguarded.
 */
LS_MUST_USE ls_status ls_comm_expect(ls_comm *comm, const ls_window *windows);

/* Whether this rank's puts up to that ticket are done. Advances messages on their way. */
bool ls_comm_done(ls_comm *comm, uint64_t ticket);
bool ls_comm_idle(ls_comm *comm); /* all puts of this rank are done */
void ls_comm_signal(ls_comm *comm, int peer, int word, uint64_t generation);

/* Whether this rank's word has reached the generation. */
bool ls_comm_test(ls_comm *comm, int word, uint64_t generation);

/*
 * Sleeping without missing a signal. The bell is a counter that changes whenever a word of this rank is set, or a put
 * of this rank that was not done when the call returned becomes done. A caller reads the bell, tests everything that it
 * waits for, and sleeps if nothing has come. sleep returns LS_OK when the bell no longer has the value `bell`. It
 * returns LS_PEER when the world was aborted, or when `peer` has not advanced its instruction counter for wait_timeout
 * seconds. `what` (e.g. "instruction 12, slot kv.1, expected generation 7, seen 6") completes the message.
 */
uint32_t ls_comm_bell(const ls_comm *comm);
LS_MUST_USE ls_status ls_comm_sleep(ls_comm *comm, uint32_t bell, int peer, const char *what);

/*
 * Rings the rank's own bell, because something else has come for which the rank may be sleeping. Any thread of the rank
 * may call it.
 */
void ls_comm_wake(ls_comm *comm);

/* What a rank waits for: until one of its words reaches a generation, or until its puts up to a ticket are done. */
typedef struct ls_awaited {
    int word;            /* -1: for puts */
    uint64_t generation; /* for puts: the ticket */
} ls_awaited;
/*
 * Tests n awaited things, repeatedly for a moment if ranks may spin; returns whether one of them has come. To be called
 * before sleeping.
 */
bool ls_comm_spin(ls_comm *comm, const ls_awaited *awaited, int n);

/* Waits for one word: spins, then tests and sleeps in a loop. */
LS_MUST_USE ls_status ls_comm_wait(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);
uint64_t ls_comm_word(const ls_comm *comm, int word); /* the current value, for messages */

/* Completes all puts of this rank at their targets: for a rank that leaves, and before a barrier. */
void ls_comm_quiet(ls_comm *comm);

/*
 * Advances the instruction counter of this rank, by which its peers' timeouts see progress, and the messages of a
 * transport that needs the rank's help. Cheap; called once per instruction.
 */
void ls_comm_tick(ls_comm *comm);

/*
 * Host collectives are called outside programs. They have their own signal words. Each blocks until all ranks have
 * called it, and takes ceil(log2 ranks) rounds, in each of which a rank sends one message. All ranks must call them in
 * the same order, with the same sizes, and while doing the same thing (ls_comm_doing). Otherwise the ranks that notice
 * fail with LS_INVALID, and the text says what two ranks are doing.
 *   barrier    everything that any rank has put before it is in place
 *   meet       all ranks have come, and are doing the same thing
 *   broadcast  *value becomes that of rank 0; bytes <= LS_COMM_VALUE
 *   reduce     *value becomes the merge of the values of all ranks; bytes <= LS_COMM_VALUE
 *   exchange   all[r] is `mine` of rank r, any number of bytes. The memory for `all` grows with the number
 *              of ranks; if only a maximum or another merge is needed, reduce takes less
 *   agree      LS_OK when `mine` is LS_OK on all ranks; else, on every rank, the status of the first rank that failed,
 *              with the rank before its text
 */
#define LS_COMM_VALUE 1024
/*
 * Says what this rank is doing from now on ("step 12", "parameter wte"). The collectives that follow are part of that:
 * they fail with ranks that are doing something else. At most LS_COMM_DOING - 1 bytes count.
 */
#define LS_COMM_DOING 192
void ls_comm_doing(ls_comm *comm, const char *format, ...) LS_PRINTF(2, 3);
LS_MUST_USE ls_status ls_comm_barrier(ls_comm *comm);
LS_MUST_USE ls_status ls_comm_meet(ls_comm *comm);
LS_MUST_USE ls_status ls_comm_broadcast(ls_comm *comm, void *value, size_t bytes);
/*
 * *into becomes the merge of two values. The order in which values are merged depends on the rank, and some values are
 * merged more than once. The result must not depend on either: a minimum, "any" or the first of something will do, a
 * sum will not.
 */
typedef void (*ls_comm_merge)(void *into, const void *from, size_t bytes);
LS_MUST_USE ls_status ls_comm_reduce(ls_comm *comm, void *value, size_t bytes, ls_comm_merge merge);
/*
 * Each of values[n] becomes its maximum over the ranks; n <= LS_COMM_VALUE / 8. A maximum is NaN only if the value is
 * NaN on all ranks.
 */
LS_MUST_USE ls_status ls_comm_max_i64(ls_comm *comm, int64_t *values, int n);
LS_MUST_USE ls_status ls_comm_max_f64(ls_comm *comm, double *values, int n);
LS_MUST_USE ls_status ls_comm_exchange(ls_comm *comm, const void *mine, size_t bytes, void *all);
LS_MUST_USE ls_status ls_comm_agree(ls_comm *comm, ls_status mine);

/*
 * Gathers bytes of every rank, one piece of each rank at a time, so that no rank needs memory for the bytes of all. The
 * number of bytes may differ between ranks. `take` is called for the first pieces of ranks 0, 1, ..., this rank's own
 * included, then for the second pieces of these ranks, and so on; on rank 0 only, or with `everywhere` on every rank. A
 * failure of give or take is returned on the rank where it happened, after all pieces have passed.
 */
typedef struct ls_comm_pieces {
    size_t bytes; /* of this rank */
    /* Writes this rank's bytes [at, at + bytes) to `out`. */
    ls_status (*give)(void *context, size_t at, void *out, size_t bytes);
    /* Gets a rank's bytes [at, at + bytes); `data` is aligned to 8 bytes. NULL: this rank needs none. */
    ls_status (*take)(void *context, int rank, size_t at, const void *data, size_t bytes);
    void *context;
    size_t unit; /* the size of a piece is a multiple of this, which is the same on all ranks; 0 counts as 1 */
} ls_comm_pieces;
LS_MUST_USE ls_status ls_comm_gather(ls_comm *comm, const ls_comm_pieces *pieces, bool everywhere);

/*
 * Sends results to the caller of ls_launch. `to` is in the memory of that caller: the process that forked the ranks or
 * has them as threads, or, if another program started the ranks, rank 0's own process. send and send_rows are not
 * collective. Blocks while the launcher is slow to read. Ranks other than 0 send nothing. LS_PEER if the world was
 * aborted meanwhile.
 *   send       rank 0's bytes [from, from + bytes)
 *   send_rows  rank 0's bytes at `from`, without gaps, to the pieces of a range with one stride
 *   gather     collective: [mine, mine + bytes) of rank r, which may differ in size, to (char *)all + r * stride
 */
LS_MUST_USE ls_status ls_comm_send_home(ls_comm *comm, void *to, const void *from, size_t bytes);
LS_MUST_USE ls_status ls_comm_send_rows_home(ls_comm *comm, void *to, const ls_range *rows, const void *from);
LS_MUST_USE ls_status ls_comm_gather_home(ls_comm *comm, const void *mine, size_t bytes, void *all, size_t stride);

#endif
