/*
 * device: memory, and queues of work on it. A rank has one device. The kernels of its programs are launched on queues
 * of the device; an event says that a launch has been executed; the host accesses the memory by read, write and clear.
 *
 * A queue executes its launches in order. Queues run concurrently; a launch names the events of other queues that it
 * comes after. A launch need not have been executed when the call returns: the trait `at_once` says whether it has.
 *
 * A hold is a launch without work: its queue executes nothing further until the host releases it. So if a launch comes
 * after something that the host itself does or waits for (a put, a signal, a word), the host may launch it before that
 * has happened. If a device has no holds, the host waits for the events that it needs, and launches later.
 *
 * A device that has messages also executes the communication between ranks: it copies to memory of a peer's device,
 * sets a word of a peer, and waits for a word of its own. The host then launches a whole program, and only watches it.
 *
 * A queue may have room for a limited number of launches that have not been executed. A further launch blocks until the
 * first of them has been executed; behind a hold, that may be for ever. So the host asks for room before it launches
 * far ahead.
 *
 * A device is used by one thread of its rank. Errors name what failed; an error of a launch may also be returned by a
 * later call. After an error only ls_device_close may be called.
 */
#ifndef LS_DEVICE_H
#define LS_DEVICE_H

#include "base/base.h"

typedef struct ls_device ls_device;

/*
 * How much is computed at a time if intermediate results need not exist as a whole. For the tokens of consecutive
 * token-wise ops (compile/tile.c): products with multiples of `unit` rows keep the whole device busy; more than `most`
 * rows are no faster. Also for the heads in a call of attention (compile/attention/local.c).
 */
typedef struct ls_device_tiles {
    int unit;
    int64_t most;
    double bytes; /* that a tile may take */
    int64_t wide; /* bytes of a call's results in the accumulator's type */
} ls_device_tiles;

/* What a device can do. */
typedef struct ls_device_traits {
    bool at_once;  /* a launch has been executed when the call returns */
    bool holds;    /* its queues can be held */
    bool messages; /* its queues execute messages */
    bool records;  /* launches can be recorded, and a recording can be launched again in one call */
    bool loads;    /* a kernel's first launch may wait for all queues, so programs are recorded to load them before */
    bool host_memory;    /* its memory is the host's, whose pages are mapped when they are first touched */
    bool host_addresses; /* the host may access an arena at `base` while nothing is launched */
    bool submits;        /* works have `submit`, which puts kernels on a stream; for other devices they have `run` */
    bool judges;         /* it checks the accesses of launches for races, and needs ls_device_work.accesses */
    ls_device_tiles tiles;
} ls_device_traits;

/* The tiles of a processor: more rows are no slower, and one head is enough, so only the bytes limit a tile. */
#define LS_TILES_OF_HOST \
    { 16, INT64_MAX, 96 << 20, 8 << 20 }

typedef struct ls_device_options {
    int rank, queues; /* queue 0 computes; launches on other queues are short, and other ranks wait for them */
    int machine_rank; /* number among the ranks of its machine */
    ls_pool *pool;    /* the rank's threads; borrowed */
    /* Called from any thread when a launch has been executed, since the host may sleep. NULL: the host never sleeps. */
    void (*wake)(void *context);
    void *context;
} ls_device_options;

/*
 * Devices:
 *   "cpu"            the host's processor: a launch is a call
 *   "delayed:SEED[:awaited|:messages|:recorded][:CALL=N]"
 *                    for tests: each queue has a thread, which executes a launch after a random time, in memory that
 *                    can be accessed only through the device. If two launches access the same bytes and neither comes
 *                    after the other, this is an error that names both. awaited: it has no holds. messages: it has
 *                    messages, between ranks of one process, and no holds. recorded: like messages, and it records.
 *                    CALL=N: the N-th call of that name fails
 *   "cuda[:N][:ROUTE][:launched]"
 *                    NVIDIA's GPU number N, from 0; without N, the ranks of a machine take its GPUs in turn. The driver
 *                    is loaded at run time: libcuda.so.1, or the file that LONGSPAN_CUDA_DRIVER names. LS_UNSUPPORTED:
 *                    it is missing or too old, or there is no GPU. ROUTE: how messages are sent, driver, nvshmem or
 *                    nccl; without ROUTE, by the driver within a host, else by the first of the others that all ranks
 *                    have. The device records, into CUDA graphs, unless a library sends messages. launched: the device
 *                    does not record, and the host launches each kernel
 *
 * name NULL: the setting LONGSPAN_DEVICE of the environment, else "cpu". LS_INVALID: there is no such device.
 */

/* Properties of a kind of device that can be found without opening one. */
typedef struct ls_device_facts {
    char model[80]; /* the driver's name for it; "": the host's processor (base/machine.h), and nothing else is set */
    int units;      /* the devices that the ranks of the machine take in turn; 1 if the name has a device's number */
    int processors; /* multiprocessors of one device */
    int64_t cache;  /* bytes of the largest cache of a device */
    int64_t memory; /* bytes of a device */
} ls_device_facts;

/*
 * *name: the name that ls_device_open would use for a setting; it exists as long as the setting or the environment.
 * *traits: what devices of that name can do. Opens nothing. LS_INVALID: there is no such device.
 */
LS_MUST_USE ls_status ls_device_choose(const char *setting, const char **name, ls_device_traits *traits);
/*
 * Opens no device, and asks the driver in a separate process, unless this process has already used the driver, so that
 * this process may still fork ranks. LS_INVALID, LS_UNSUPPORTED as for ls_device_open.
 */
LS_MUST_USE ls_status ls_device_describe(const char *name, ls_device_facts *out);
LS_MUST_USE ls_status ls_device_open(const char *name, const ls_device_options *options, ls_device **out);
/*
 * Ends all launches: those that have not begun are not executed any more. (cuda executes all of them, also those behind
 * holds.) After that, memory that launches needed may be freed while the device still exists; only ls_device_close may
 * follow. false: launches may wait for other ranks for ever. Then they, and all memory that they may access, stay until
 * the process ends.
 */
bool ls_device_stop(ls_device *device);
/* Stops the device, if it has not been stopped, and frees its arenas. NULL is allowed. */
void ls_device_close(ls_device *device);
/*
 * The same if other ranks may not close their devices: waits for none of them. What ranks can only close together
 * stays.
 */
void ls_device_close_alone(ls_device *device);
const ls_device_traits *ls_device_traits_of(const ls_device *device);
const char *ls_device_name(int index); /* of a row of the table; NULL past the end */

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* A range of memory. Its addresses are for launches and transports; the host uses read, write and clear. */
typedef struct ls_device_arena {
    char *base;   /* address for launches */
    char *source; /* address for messages, and for transports that read the sources of puts */
    size_t bytes;
    bool adopted; /* the memory belongs to a transport, and stays when the device is closed */
    bool host;    /* memory of the host, in addition to that of the device (ls_device_allocate_host) */
    bool left;    /* the memory stays when the device is closed (ls_device_leave) */
    bool freed;   /* the arena has no memory any more (ls_device_free) */
} ls_device_arena;

/*
 * Zeroed memory of the device. LS_NO_MEMORY names the bytes. The arena exists until it is freed or the device closed.
 */
LS_MUST_USE ls_status ls_device_allocate(ls_device *device, size_t bytes, const ls_device_arena **out);
/*
 * Zeroed memory of the host that launches can copy to and from (pinned memory). If the device's memory is the host's,
 * the same as ls_device_allocate.
 */
LS_MUST_USE ls_status ls_device_allocate_host(ls_device *device, size_t bytes, const ls_device_arena **out);
/* Frees an allocated arena. All launches that access it must have been executed. */
void ls_device_free(ls_device *device, const ls_device_arena *arena);
/* Bytes of the device's memory, and how many of them are unused, as its driver says. false: it keeps no account. */
bool ls_device_account(ls_device *device, size_t *unused, size_t *total);
/* An arena of memory that a transport has mapped, and that others access too; it outlives the device. */
LS_MUST_USE ls_status ls_device_adopt(ls_device *device, void *memory, size_t bytes, const ls_device_arena **out);

/*
 * Copies the bytes of a range of the arena to or from dense host memory, or sets them to zero. All launches that access
 * these bytes must have been executed. Blocks. Any thread of the rank may call, several at once.
 */
LS_MUST_USE ls_status ls_device_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
LS_MUST_USE ls_status ls_device_write(ls_device *device, const ls_device_arena *arena, const ls_range *to,
                                      const void *from);
LS_MUST_USE ls_status ls_device_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

/*
 * Memory of the device, or of another device that it can access, that belongs to a caller and is not an arena. Devices
 * without such memory refuse (LS_UNSUPPORTED).
 *
 * follow: blocks until everything on a stream of the caller (a CUstream, or NULL for the default stream of the calling
 *         thread's context) has been executed. Any thread may call
 * knows:  LS_INVALID unless the driver knows the address as one that the device can access. Any thread may call
 * copy:   begins to copy rows between an arena and the caller's memory; under the conditions of read and write
 * finish: blocks until all copies that were begun are complete
 */
typedef struct ls_device_rows {
    size_t at, pitch; /* in the arena: offset of the first row, distance of rows */
    char *theirs;     /* the caller's memory */
    size_t their_pitch;
    size_t width, rows; /* bytes of a row; 1 or more rows, which do not overlap */
    bool in;            /* to the arena; else from it */
} ls_device_rows;
LS_MUST_USE ls_status ls_device_follow(ls_device *device, void *stream);
LS_MUST_USE ls_status ls_device_knows(ls_device *device, const void *address);
LS_MUST_USE ls_status ls_device_copy(ls_device *device, const ls_device_arena *arena, const ls_device_rows *rows);
LS_MUST_USE ls_status ls_device_finish(ls_device *device);

/* The addresses that messages between this rank and another one use. */
typedef struct ls_device_remote {
    char *heap;      /* of the other rank */
    uint64_t *words; /* of the other rank, set by this one; NULL: no message reaches the other rank */
    uint64_t *own;   /* of this rank, set by the other one */
    const char *why; /* why no message reaches the other rank; NULL: no reason is known. Exists as long as the device */
} ls_device_remote;

/* The ranks whose devices send each other messages, as one of them sees them. */
typedef struct ls_device_ranks {
    int rank, ranks;
    double patience; /* seconds that a first message may take */
    /* The words of a rank; NULL: this process cannot address them. *bytes: of all words of one rank. */
    void *(*words)(void *context, int rank, size_t *bytes);
    /* Collective: all[r] = `mine` of rank r. */
    ls_status (*exchange)(void *context, const void *mine, size_t bytes, void *all);
    void *context;
} ls_device_ranks;

/*
 * For devices that have messages. Collective, once: makes this rank's heap, zeroed, and sets out[ranks], the addresses
 * for messages to each rank, also to this one. The addresses are valid until this device or the peer's is closed. If
 * one rank fails, all fail; then only ls_device_close may follow.
 */
LS_MUST_USE ls_status ls_device_connect(ls_device *device, const ls_device_ranks *ranks, size_t heap_bytes,
                                        const ls_device_arena **heap, ls_device_remote *out);
/*
 * The memory of an arena, and the words that messages set, stay until the process ends, also when the device is closed:
 * after a failure, peers may still copy to that memory and set those words.
 */
void ls_device_leave(ls_device *device, const ls_device_arena *arena);
/* Zeroed memory of the host, with huge pages and the name "longspan" where the system supports them. */
LS_MUST_USE ls_status ls_memory_map(size_t bytes, void **out);
void ls_memory_unmap(void *memory, size_t bytes);

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* The event that all launches on the queue with this number or a lower one have been executed. */
typedef struct ls_event {
    int queue;
    uint64_t number; /* rises along the queue; the caller chooses it. 0: the event has always happened */
} ls_event;

typedef struct ls_device_access {
    const ls_device_arena *arena;
    int owner; /* the rank whose arena it is: another rank's arena may be read in place */
    ls_range range;
    bool writes;
} ls_device_access;

/*
 * How many rows a message copies: an i32 that is read when the message is executed. Each range of the message is one
 * piece, of which the first rows are copied. A number of rows that exceeds the piece is an error, which names the
 * channel.
 */
typedef struct ls_device_count {
    const char *at; /* address of the i32 for messages; NULL: all bytes are copied */
    size_t row;     /* bytes */
    const char *channel;
} ls_device_count;
/* Shortens the ranges to the number of rows, which go to rank `peer`. count->at: an address for the caller. */
LS_MUST_USE ls_status ls_device_count_rows(const ls_device_count *count, int peer, ls_range *from, ls_range *to);

/* What a queue executes between ranks: first the copy, then the word. */
typedef struct ls_device_message {
    const char *source; /* in this rank's memory, ls_device_arena.source; NULL: nothing is copied */
    char *target;       /* in the peer's memory, ls_device_remote.heap */
    ls_range from, to;
    ls_device_count count;
    uint64_t *word; /* one of ls_device_remote.words, which is set to the generation; or, if the message awaits, one of
                       ls_device_remote.own, which is awaited until it is the generation or more */
    uint64_t generation, rise; /* rise: added to the generation each time that a recording is launched again */
    int peer;                  /* the rank at the other end */
    bool awaits;
    bool carries; /* the word says that something was copied; the same at both ends */
} ls_device_message;

typedef struct ls_device_work {
    const char *name;      /* for messages; must exist until the work has been executed */
    ls_event event;        /* the queue of the work, and its number there */
    const ls_event *after; /* n_after events of other queues, all launched before; a queue's own order needs none */
    int n_after;
    const ls_device_access *accesses; /* n_accesses, which must exist as long as name; if the device judges */
    int n_accesses;
    /* What is executed: one of these, or none of them, which is a hold. */
    void (*run)(void *context, ls_pool *pool); /* pool: threads over which the work may be split */
    ls_status (*submit)(void *context,
                        void *stream); /* puts the work on the queue's stream (a CUstream), and does not wait */
    const ls_device_message *message;  /* is copied */
    void *context;
} ls_device_work;

/*
 * Whether another launch on the queue would not block for lack of room. A large message may block for lack of room
 * itself, piece after piece. So it is launched only when all that it comes after has been executed, so that it needs no
 * other rank meanwhile.
 */
bool ls_device_has_room(ls_device *device, int queue);
/* Whether a message that copies to this range is large. */
bool ls_device_is_large(const ls_device *device, const ls_range *to);
LS_MUST_USE ls_status ls_device_launch(ls_device *device, const ls_device_work *work);
/*
 * Launches between begin and end are recorded and not executed; all that they come after is recorded before them. end
 * may wait for everything that other ranks have launched on the same device. If a device `loads` but does not record,
 * end loads the kernels, and *out is NULL.
 *
 * replay launches the whole recording, any number of times, when everything before has been executed: an event has its
 * recorded number plus `shift`, the generation of a message is greater by `times` its rise. It may be seen later than
 * without a recording that an event has happened, but no later than when the next launch that waits begins to wait.
 * Everything that works refer to must exist until the device is closed, which frees recordings.
 */
typedef struct ls_device_recording ls_device_recording;
LS_MUST_USE ls_status ls_device_record_begin(ls_device *device);
LS_MUST_USE ls_status ls_device_record_end(ls_device *device, ls_device_recording **out);
/* Bytes of the device's memory that the recording takes, as far as the device knows. */
size_t ls_device_recording_bytes(const ls_device_recording *recording);
LS_MUST_USE ls_status ls_device_replay(ls_device *device, ls_device_recording *recording, uint64_t shift,
                                       uint64_t times);
/* Lets the queue go on behind a hold, once everything in front of the hold has been executed. */
LS_MUST_USE ls_status ls_device_release(ls_device *device, ls_event hold);
/* *out: whether the event has happened. Does not block. */
LS_MUST_USE ls_status ls_device_happened(ls_device *device, ls_event event, bool *out);
/* Blocks until the event has happened. */
LS_MUST_USE ls_status ls_device_await(ls_device *device, ls_event event);
/* Blocks until all queues have executed everything. All holds must have been released. */
LS_MUST_USE ls_status ls_device_join(ls_device *device);

#endif
