/*
 * device: memory, and queues of work on it. A rank has one device. Its programs' kernels are launched on queues of the
 * device; an event says that a launch has been executed; the host reaches the memory by read, write and clear.
 *
 * A queue executes what is launched on it in order. Queues run concurrently, unless a launch says which events it comes
 * after. A launch need not have been executed when the call returns: `at_once` in the traits says whether it has.
 *
 * A hold is a launch without work: its queue executes nothing further until the host releases it. So the host may
 * launch what comes after something that the host itself does or waits for (a put, a signal, a word) before that has
 * happened. Where a device has no holds, the host waits for the events that it needs, and launches later.
 *
 * A device that has messages executes also what ranks say to each other: it copies to memory of a peer's device, sets a
 * word of a peer, waits for a word of its own. The host then launches a whole program, and only watches it.
 *
 * A queue may have room for a limited number of launches that have not been executed. One beyond waits until the first
 * of them has been, behind a hold perhaps for ever: so the host asks for room before it launches far ahead.
 *
 * A device is used by one thread of its rank. Errors name what failed; an error of a launch may also be returned by a
 * later call. After an error only ls_device_close may be called.
 */
#ifndef LS_DEVICE_H
#define LS_DEVICE_H

#include "base/base.h"

typedef struct ls_device ls_device;

/*
 * How much is computed at a time, where what lies between need not be whole. Tokens of runs of token-wise ops
 * (compile/tile.c): products with multiples of `unit` rows keep all busy that computes; more than `most` rows are no
 * faster. Heads in a call of attention (compile/attention/local.c).
 */
typedef struct ls_device_tiles {
    int unit;
    int64_t most;
    double bytes; /* that a tile may take */
    int64_t wide; /* bytes of a call's results in the accumulator's type */
} ls_device_tiles;

/* What a device can do. */
typedef struct ls_device_traits {
    bool at_once;     /* a launch has been executed when the call returns */
    bool holds;       /* its queues can be held */
    bool messages;    /* its queues execute messages */
    bool records;     /* launches can be recorded, and launched again at once */
    bool loads;       /* a kernel's first launch may wait for all queues: programs are recorded to load theirs before */
    bool host_memory; /* its memory is the host's, whose pages are mapped when they are first touched */
    bool host_addresses; /* the host may access an arena at `base` while nothing is launched */
    bool submits;        /* it executes what a work submits to its streams; others execute what a work runs */
    bool judges;         /* it needs to know what a launch accesses (ls_device_work.accesses), and judges it */
    ls_device_tiles tiles;
} ls_device_traits;

/* Of a processor, for which more rows are no slower, and one head is enough: all is bounded by what it takes. */
#define LS_TILES_OF_HOST \
    { 16, INT64_MAX, 96 << 20, 8 << 20 }

typedef struct ls_device_options {
    int rank, queues; /* queue 0 computes; what is launched on others is short, and other ranks wait for it */
    int machine_rank; /* among those of its machine */
    ls_pool *pool;    /* the rank's threads; borrowed */
    /* Called from any thread when something has been executed for which the host may sleep. NULL: nobody sleeps. */
    void (*wake)(void *context);
    void *context;
} ls_device_options;

/*
 * Devices:
 *   "cpu"            the host's processor: a launch is a call
 *   "delayed:SEED[:awaited|:messages|:recorded][:CALL=N]"
 *                    for tests: each queue has a thread, which executes a launch after a random time, in memory that
 *                    nobody can access but through the device. Launches that access the same bytes, and of which
 *                    neither comes after the other, are an error that names both. awaited: it has no holds. messages:
 *                    it has messages, between ranks of one process, and no holds. recorded: these, and it records.
 *                    CALL=N: the N-th call of that name fails
 *   "cuda[:N][:ROUTE][:launched]"
 *                    NVIDIA's GPU number N, from 0; without N that of the rank on its machine, in turn. The driver is
 *                    loaded at run time: libcuda.so.1, or the file that LONGSPAN_CUDA_DRIVER names. LS_UNSUPPORTED:
 *                    it is missing or too old, or no GPU is there. ROUTE: how messages go, driver, nvshmem or nccl;
 *                    without, the driver's within a host, else the first of the others that all ranks have. It records,
 *                    into CUDA graphs, unless messages go by a library. launched: it does not, and the host launches
 *                    each kernel
 *
 * name NULL: the setting LONGSPAN_DEVICE of the environment, else "cpu". LS_INVALID: there is no such device.
 */

/* What a kind of device is like, as far as that can be said without opening one. */
typedef struct ls_device_facts {
    char model[80]; /* as its driver calls it; "": it is the host's processor (base/machine.h), and no more is said */
    int units;      /* devices of which each rank of the machine is given one, in turn; of one that is named by its
                       number 1 */
    int processors; /* that compute side by side in one device: multiprocessors */
    int64_t cache;  /* bytes of the largest cache of a device */
    int64_t memory; /* bytes of a device */
} ls_device_facts;

/*
 * *name: the name that ls_device_open would use for a setting, which lives as long as the setting or the environment;
 * *traits: what devices of that name can do. Opens nothing. LS_INVALID: there is no such device.
 */
LS_MUST_USE ls_status ls_device_choose(const char *setting, const char **name, ls_device_traits *traits);
/*
 * Opens nothing, and asks the driver in a process of its own (unless this one has used it before), so that this process
 * may still fork ranks. LS_INVALID, LS_UNSUPPORTED as ls_device_open.
 */
LS_MUST_USE ls_status ls_device_describe(const char *name, ls_device_facts *out);
LS_MUST_USE ls_status ls_device_open(const char *name, const ls_device_options *options, ls_device **out);
/*
 * Ends what was launched: what has not begun is not executed any more; but for cuda, which executes all of it, behind
 * holds too. Then what launches needed may be freed, while the device is still there; only ls_device_close may follow.
 * false: what was launched may wait for other ranks for ever. Then it stays, with all that it may touch, until the
 * process ends.
 */
bool ls_device_stop(ls_device *device);
/* Stops it, if that has not been done, and frees its arenas. NULL is allowed. */
void ls_device_close(ls_device *device);
/* The same where other ranks may not close theirs: waits for none of them. What they must close together stays. */
void ls_device_close_alone(ls_device *device);
const ls_device_traits *ls_device_traits_of(const ls_device *device);
const char *ls_device_name(int index); /* of the table; NULL past the end */

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* A range of memory. Its addresses are for launches and transports; the host uses read, write and clear. */
typedef struct ls_device_arena {
    char *base;   /* as launches address it */
    char *source; /* as messages address it, and transports that read what is put */
    size_t bytes;
    bool adopted; /* the memory is a transport's, and stays when the device is closed */
    bool host;    /* it is the host's beside that of the device (ls_device_allocate_host) */
    bool left;    /* it stays, too (ls_device_leave) */
    bool freed;   /* nothing: its memory was given back (ls_device_free) */
} ls_device_arena;

/* Zeroed memory of the device. LS_NO_MEMORY names the bytes. The arena lives until it is freed, or the device closed.
 */
LS_MUST_USE ls_status ls_device_allocate(ls_device *device, size_t bytes, const ls_device_arena **out);
/*
 * The same of the host, which what the device executes can copy to and from (pinned memory). On a device whose memory
 * is the host's it is more of that.
 */
LS_MUST_USE ls_status ls_device_allocate_host(ls_device *device, size_t bytes, const ls_device_arena **out);
/* Frees an arena that was allocated, when nothing that accesses it is launched and not yet executed. */
void ls_device_free(ls_device *device, const ls_device_arena *arena);
/* Bytes of the device's memory, and how many nobody uses, as its driver says. false: it keeps no account. */
bool ls_device_account(ls_device *device, size_t *unused, size_t *total);
/* An arena of memory that a transport has mapped, and that others access too; it outlives the device. */
LS_MUST_USE ls_status ls_device_adopt(ls_device *device, void *memory, size_t bytes, const ls_device_arena **out);

/*
 * Copies the bytes of a range of the arena to, or from, host memory without gaps; or sets them to zero. Nothing that
 * accesses them is launched and not yet executed. Blocks. Any thread of the rank may do so, several at once.
 */
LS_MUST_USE ls_status ls_device_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
LS_MUST_USE ls_status ls_device_write(ls_device *device, const ls_device_arena *arena, const ls_range *to,
                                      const void *from);
LS_MUST_USE ls_status ls_device_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

/*
 * Memory of the device, or of another one that it can access, which is a caller's, not an arena. Devices that have none
 * refuse (LS_UNSUPPORTED).
 *
 * follow: blocks until what was put on a stream of the caller's (a CUstream, or NULL for the default one of the calling
 *         thread's context) has been executed. Any thread may do so
 * knows:  LS_INVALID unless the driver knows an address as one that the device can access. Any thread may ask
 * copy:   begins to copy rows between an arena and the caller's memory; under the conditions of read and write
 * finish: blocks until all that was begun has been copied
 */
typedef struct ls_device_rows {
    size_t at, pitch; /* in the arena: of the first row, and from one row to the next */
    char *theirs;     /* the caller's */
    size_t their_pitch;
    size_t width, rows; /* bytes of a row; 1 or more rows, that do not overlap */
    bool in;            /* to the arena */
} ls_device_rows;
LS_MUST_USE ls_status ls_device_follow(ls_device *device, void *stream);
LS_MUST_USE ls_status ls_device_knows(ls_device *device, const void *address);
LS_MUST_USE ls_status ls_device_copy(ls_device *device, const ls_device_arena *arena, const ls_device_rows *rows);
LS_MUST_USE ls_status ls_device_finish(ls_device *device);

/* Where messages find a rank, and what they set here. */
typedef struct ls_device_remote {
    char *heap;
    uint64_t *words; /* of that rank: this one sets them; NULL: no message reaches it */
    uint64_t *own;   /* of this rank: that one sets them */
    const char *why; /* no message reaches it; NULL: there is nothing to say. Lives as long as the device */
} ls_device_remote;

/* The ranks whose devices send each other messages, as one of them sees them. */
typedef struct ls_device_ranks {
    int rank, ranks;
    double patience; /* seconds that a first message may take */
    /* The words of a rank in memory that this process can address, else NULL; *bytes: of all words of any rank. */
    void *(*words)(void *context, int rank, size_t *bytes);
    /* Collective: all[r] becomes `mine` of rank r. */
    ls_status (*exchange)(void *context, const void *mine, size_t bytes, void *all);
    void *context;
} ls_device_ranks;

/*
 * For devices that have messages. Collective, once: makes this rank's heap, zeroed, and says of each rank (this one,
 * too) where messages find it: out[ranks]. The addresses are valid until this device, or the peer's, closes. A failure
 * of one rank is one of all; only ls_device_close may follow.
 */
LS_MUST_USE ls_status ls_device_connect(ls_device *device, const ls_device_ranks *ranks, size_t heap_bytes,
                                        const ls_device_arena **heap, ls_device_remote *out);
/*
 * Leaves the memory of an arena, and the words that are set with it, to the process when the device is closed: after a
 * failure peers may still copy to it and set them.
 */
void ls_device_leave(ls_device *device, const ls_device_arena *arena);
/* Zeroed memory of the host, with huge pages and the name "longspan" where the system supports them. */
LS_MUST_USE ls_status ls_memory_map(size_t bytes, void **out);
void ls_memory_unmap(void *memory, size_t bytes);

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* Everything has been executed that was launched on the queue with this number or a lower one. */
typedef struct ls_event {
    int queue;
    uint64_t number; /* rises along the queue; the caller chooses it. 0: it has always happened */
} ls_event;

typedef struct ls_device_access {
    const ls_device_arena *arena;
    int owner; /* the rank whose arena it is: another one's may be read in place */
    ls_range range;
    bool writes;
} ls_device_access;

/*
 * How many rows a message copies: an i32 that is read when the message is executed. Both of its ranges are one piece,
 * of which the first rows are copied; more than that is an error, which names the channel.
 */
typedef struct ls_device_count {
    const char *at; /* as messages address it; NULL: all bytes are copied */
    size_t row;     /* bytes */
    const char *channel;
} ls_device_count;
/* Cuts the ranges to the rows that there are, for that rank. at: as the caller addresses it. */
LS_MUST_USE ls_status ls_device_count_rows(const ls_device_count *count, int peer, ls_range *from, ls_range *to);

/* What a queue executes between ranks: first the copy, then the word. */
typedef struct ls_device_message {
    const char *source; /* this rank's, ls_device_arena.source; NULL: nothing is copied */
    char *target;       /* of a peer (ls_device_reach) */
    ls_range from, to;
    ls_device_count count;
    uint64_t *word; /* ls_device_remote.words: one of a peer, which becomes the generation; or, if it awaits, one of
                       this rank (own), until it is the generation or more */
    uint64_t generation, rise; /* rise: by how much more it is each time that a recording of it is launched again */
    int peer;                  /* the rank at the other end */
    bool awaits;
    bool carries; /* the word says that something was copied; at both ends */
} ls_device_message;

typedef struct ls_device_work {
    const char *name;      /* for messages; must live until the work has been executed */
    ls_event event;        /* its queue, and the number that it gets there */
    const ls_event *after; /* n_after events of other queues, all of them launched before; its own queue's order holds
                              without */
    int n_after;
    const ls_device_access *accesses; /* n_accesses of them, which must live as long; where the device judges */
    int n_accesses;
    /* What is executed: one of these, or none of them, which is a hold. */
    void (*run)(void *context, ls_pool *pool); /* with the threads on which it may split its work */
    ls_status (*submit)(void *context,
                        void *stream); /* puts it on the queue's stream (a CUstream), and does not wait */
    const ls_device_message *message;  /* is copied */
    void *context;
} ls_device_work;

/*
 * Whether another launch on the queue would not wait for room. A large message may wait for its own room, piece after
 * piece: so it is launched when all that it comes after has been executed, and nobody else is needed meanwhile.
 */
bool ls_device_has_room(ls_device *device, int queue);
/* Whether a message that copies to such a range is large. */
bool ls_device_is_large(const ls_device *device, const ls_range *to);
LS_MUST_USE ls_status ls_device_launch(ls_device *device, const ls_device_work *work);
/*
 * Launches between begin and end are recorded and not executed; all that they come after is recorded before them. end
 * may wait for all that other ranks have launched on the same device. Where a device `loads` but does not record, end
 * loads the kernels, and there is no recording (NULL).
 *
 * replay launches all of them at once, any number of times, when everything before has been executed: an event has the
 * number that it was recorded with plus `shift`, the generation of a message is greater by `times` its rise. That an
 * event has happened may be seen later than without a recording, but not later than something that waits begins to.
 * What works refer to must live until the device is closed, which frees recordings.
 */
typedef struct ls_device_recording ls_device_recording;
LS_MUST_USE ls_status ls_device_record_begin(ls_device *device);
LS_MUST_USE ls_status ls_device_record_end(ls_device *device, ls_device_recording **out);
/* Of the device's memory that it takes, as far as the device says. */
size_t ls_device_recording_bytes(const ls_device_recording *recording);
LS_MUST_USE ls_status ls_device_replay(ls_device *device, ls_device_recording *recording, uint64_t shift,
                                       uint64_t times);
/* Lets the queue go on after a hold, when what comes before that has been executed. */
LS_MUST_USE ls_status ls_device_release(ls_device *device, ls_event hold);
/* *out: whether the event has happened. Does not block. */
LS_MUST_USE ls_status ls_device_happened(ls_device *device, ls_event event, bool *out);
/* Blocks until the event has happened. */
LS_MUST_USE ls_status ls_device_await(ls_device *device, ls_event event);
/* Blocks until all queues have executed everything; all holds have been released. */
LS_MUST_USE ls_status ls_device_join(ls_device *device);

#endif
