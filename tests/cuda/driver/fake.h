/*
 * A driver for CUDA without a GPU, for tests: a library with the functions of src/device/cuda/driver.h. A stream is a
 * thread that executes what it is given after random times. Memory of the device can be accessed by what a stream
 * executes alone; pinned memory has another address for the device than for the host.
 *
 * It is stricter than the real driver where that may wait: what may wait for the whole device does (allocating, pinning
 * and freeing memory, loading a kernel at its first launch, making a graph executable), a stream that is full blocks
 * whoever launches, on other streams, too, streams that would share a way to the hardware end the process, and so does
 * who frees a graph that runs, or launches it on another stream. While a stream captures, calls are refused, and the
 * capture is spoiled, as the mode of the capture says. Whoever waits for too long ends the process with a message.
 *
 * The environment variable FAKE_CUDA, read by cuInit while no context is retained, has settings with commas:
 *   devices=N   (2)       version=N  (13000)     words=0: streams cannot wait for words of 64 bits
 *   peers=0: no device can access another's memory
 *   memory=BYTES          of each device
 *   depth=N  (2048)       operations of graphs that a stream takes: who launches more waits
 *   ways=N                streams do share ways, N of them, which they take in turn: what is given to those of one is
 *                         executed in the order in which it was given
 *   copies=N              the same of copies alone
 *   patience=N  (20)      seconds, after which who waits ends the process
 *   seed=N                of the random times
 *   CALL=N:ERROR          the N-th call of a function fails, with that number
 *   CALL=N:ERROR:lost     and the device is lost: all later calls fail, but those that free; nothing more is executed
 *   execute=N:ERROR       the device is lost when a stream executes something for the N-th time
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include "device/cuda/driver.h"

#include <pthread.h>
#include <sys/types.h>

enum { MOST_DEVICES = 8, STREAM_ROOM = 1024 };
enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    ILLEGAL_STATE = 401,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    UNKNOWN = 999
};

#define DECLARE(function, arguments) unsigned function arguments;
LS_CUDA_FUNCTIONS(DECLARE)

/*
 * Executes run(context) on the stream, in the order of what it is given: what a kernel's launch is here. Where the
 * stream captures it becomes part of a graph, and runs whenever that does. release(context) when it will not run again.
 */
void fake_stream_run(void *stream, void (*run)(void *context), void (*release)(void *context), void *context);
/*
 * For libraries of tests: the bytes of a file as memory of the current device, as the device addresses it, to be freed
 * by cuMemFree_v2; and where others find memory of a device, NULL where it is none.
 */
void *fake_share(int file, size_t bytes);
void *fake_device_memory(uintptr_t at, size_t bytes);
/*
 * Which life the calling thread's context has, a number above 0: from the first time that it is retained to its
 * release. 0: the thread has none that lives.
 */
long fake_context_life(void);
/* Streams, contexts, allocations, pinned memory and graphs that are there. */
int fake_left(void);

/* ---- for the files of this folder ---- */

struct CUctx_st {
    int ordinal, retained, streams, graphs; /* graphs: also those that can be launched */
    int made;                               /* streams, also those that are gone */
    long life;
    unsigned peers; /* a bit for each whose memory it may access */
    size_t allocated;
};

typedef struct fake_settings {
    int devices, version, words, peers, connections;
    long memory, seed, depth, ways, copies, patience; /* ways, copies: 0: each stream has its own */
    bool lazy;                                        /* kernels are loaded at their first launch */
    char failing[64];
    long failing_call;
    unsigned error;
    bool loses;
} fake_settings;

/* Protected by the lock. */
typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char text[256]; /* of the settings */
    fake_settings settings;
    bool used; /* a context has been retained since they were read */
    struct CUctx_st contexts[MOST_DEVICES];
    long calls;    /* of the failing function */
    unsigned lost; /* all calls return it; 0: the device is there */
    long draws;    /* random numbers so far */
    long given;    /* operations so far */
    long lives;    /* of contexts so far */
    bool loaded;   /* a kernel has been launched */
    pid_t process; /* that has initialised the driver; those that are forked from it cannot use it */
} fake_state;
extern fake_state fake;

/* The beginning of each function: 0, or the error that it returns. Takes the lock for a moment. */
unsigned fake_begin(const char *function);
/* Under the lock: counts a call that may fail as the settings say. */
unsigned fake_count(const char *function);
unsigned fake_context(struct CUctx_st **out); /* of the calling thread; an error where it has none */
/* Like fake_begin, of calls that a capture may forbid: those that act at once, beside what streams do. */
unsigned fake_begin_at_once(const char *function);
_Noreturn void fake_abort(const char *what);

typedef enum fake_kind { FAKE_WAIT, FAKE_WRITE, FAKE_COPY, FAKE_SET, FAKE_RUN } fake_kind;

/* What a stream executes. */
typedef struct fake_operation fake_operation;
struct fake_operation {
    fake_operation *next;
    fake_kind kind;
    long turn;             /* when it was given, among all */
    uint64_t *word, value; /* FAKE_WAIT, FAKE_WRITE */
    char *to;              /* FAKE_COPY, FAKE_SET */
    const char *from;
    size_t width, rows, to_pitch, from_pitch;
    int byte;
    void (*run)(void *context);
    void (*release)(void *context); /* NULL: it belongs to a graph */
    void *context;
    bool last, of_graph;         /* the last one of what was given at once; a graph's */
    struct CUgraphExec_st *part; /* the last one of a graph that was launched */
};

/* Protected by the lock. */
struct CUstream_st {
    struct CUstream_st *next;
    struct CUctx_st *context;
    int place; /* among all that were made in the context */
    pthread_t thread;
    fake_operation *first, **end;
    int n;          /* what was given and not executed; a graph counts as one */
    long of_graphs; /* operations of graphs among it */
    bool ending;
    struct CUgraph_st *captured; /* what it is given becomes part of this graph; NULL: it is executed */
    unsigned mode;               /* of the capture */
    pthread_t capturer;          /* the thread that began it */
    bool spoiled;
};

/* streams.c. Under the lock: waits until all streams of the context have executed everything. */
void fake_wait_idle(const struct CUctx_st *context, const char *who);
/* Gives a stream n operations at once: one that is full blocks, and all other launches. Takes the lock. */
unsigned fake_give(struct CUstream_st *s, const fake_operation *operations, int n);
/* The same of a graph's, which blocks whenever the stream has as many as it takes. */
void fake_give_graph(struct CUstream_st *s, const fake_operation *operations, int n);
struct CUstream_st *fake_streams(void); /* the first of a list */
/* Of a stream's words; INVALID_VALUE where it cannot be done. Takes the lock. */
unsigned fake_read_words(const union CUstreamBatchMemOpParams_union *ops, unsigned count, fake_operation *out);

/* graphs.c. Under the lock. */
void fake_capture(struct CUstream_st *s, const fake_operation *operations, int n);
unsigned fake_forbidden(void);                     /* whether a capture forbids the calling thread what acts at once */
unsigned fake_forbidden_of(struct CUstream_st *s); /* whether the stream captures, which is spoiled then */
void fake_note_executed(struct CUgraphExec_st *graph); /* a launch of it */

enum { FAKE_MOST_WORDS = 255 };

/* memory.c */
typedef enum fake_side { SIDE_HOST, SIDE_DEVICE } fake_side;
/* Where a stream finds these bytes; NULL: it cannot access them. Under the lock. */
void *fake_find(fake_side side, uintptr_t at, size_t bytes);
/* Opens memory of devices to what is being executed; under the lock. */
void fake_open_memory(void);
void fake_close_memory(void);
int fake_regions(void);

#endif
