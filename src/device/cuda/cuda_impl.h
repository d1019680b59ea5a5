/* For the files of this folder: an open device. */
#ifndef LS_DEVICE_CUDA_IMPL_H
#define LS_DEVICE_CUDA_IMPL_H

#include "device/cuda/driver.h"
#include "device/device_impl.h"

#include <pthread.h>

/*
 * Launches of a queue that may be outstanding. A stream takes some thousand operations; a call that adds another one
 * then blocks, behind a hold for ever. A launch is its waits, some kernels and a write.
 */
enum { CUDA_ROOM = 128 };

/* Bytes of the pinned memory through which the host's copies go. */
enum { CUDA_STAGE_BYTES = 1 << 20 };

/* The words of a queue, in pinned memory of the host. Numbers rise. */
typedef struct cuda_words {
    _Alignas(64) uint64_t executed; /* the highest number executed, written by the stream */
    _Alignas(64) uint64_t released; /* the highest number of a released hold, written by the host */
} cuda_words;

typedef struct cuda_launch {
    uint64_t number;
    const char *name;
    bool hold, message;
    size_t puts; /* calls of a route's library */
} cuda_launch;

/* The part of a recording for one queue (chain.h). */
typedef struct cuda_chain cuda_chain;

/* A queue's part of the last run of a recording. Written under run_lock; `launched` also under `lock`. */
typedef struct cuda_run {
    const cuda_chain *chain;          /* NULL: no recording was run */
    uint64_t shift, times;            /* the arguments of replay */
    size_t ready, launched, executed; /* numbers of graphs; ready: their words are set */
} cuda_run;

typedef struct cuda_queue {
    ls_cuda_stream stream;
    cuda_words *words;
    ls_cuda_address words_at; /* their address for the device */
    cuda_launch launches[CUDA_ROOM];
    uint64_t first, past; /* launches[i % CUDA_ROOM], first <= i < past, are not known to have been executed */
    uint64_t launched;    /* the last number launched */
    cuda_run run;
} cuda_queue;

/* By how much the value of a word is greater in a run of a recording than when it was recorded. */
typedef struct cuda_growth {
    bool shifts;   /* by the shift of events, as well */
    uint64_t rise; /* times the `times` of the run */
} cuda_growth;

/* Memory of ranks that this rank has pinned or opened (messages.c). */
typedef struct cuda_opened cuda_opened;
/* How messages reach other ranks (route.h). */
typedef struct ls_cuda_route ls_cuda_route;

typedef struct cuda {
    ls_cuda_driver driver;
    ls_device *device;
    char name[96];           /* for messages */
    int ordinal, handle;     /* the number of the GPU, and the driver's handle of it */
    ls_cuda_context context; /* the primary context, which the CUDA runtime uses too */
    bool retained, has_ways; /* the context is retained; the device's streams are counted among the process's */
    cuda_queue *queues;
    cuda_words *words; /* of all queues */
    cuda_opened *opened;
    bool exports;                        /* ranks of other processes need a handle of the heap */
    const ls_cuda_route *asked;          /* the route that the settings name; NULL: none */
    const ls_cuda_route *route;          /* NULL: the device is not connected */
    const ls_cuda_route *open_route;     /* the route, once that of a library is open; the watcher reads it too */
    char why[768];                       /* why there is no route to other hosts; "": no reason is known */
    void *route_state;                   /* the route's: set when its library is loaded, freed by the device */
    struct ls_cuda_symmetric *symmetric; /* of a route that owns the heap; NULL: no route does */
    bool stuck;                          /* a first message has not come, so its stream may wait for ever */

    pthread_mutex_t lock; /* for the members below and the launches of all queues */
    pthread_cond_t changed;
    ls_status failed; /* the first failure of the device */
    bool closing, watched;
    pthread_t watcher;

    pthread_mutex_t copy_lock; /* for the host's copies, and for capturing */
    ls_cuda_stream copies;     /* graphs are captured on it too; what is captured is not executed */
    char *stage;

    bool torn;                /* only some graphs of the last run were launched; under `lock` */
    pthread_mutex_t run_lock; /* for launching graphs; taken before `lock` */
} cuda;

/*
 * The state while works are put on a stream one after the other: words that are waited for and set, kernels and copies.
 * Consecutive operations on words are passed to the driver in one call.
 */
enum { CUDA_WORDS = 16 };
typedef struct cuda_submission {
    const cuda *c;
    const ls_device_work *work;
    ls_cuda_stream to;
    cuda_chain *chain; /* the chain whose graph is captured; NULL: the stream executes the work */
    bool told;         /* the stream writes the work's number when it has executed the work */
    unsigned n;        /* words that have not been passed to the driver */
    ls_cuda_word_op words[CUDA_WORDS];
    cuda_growth growth[CUDA_WORDS];
} cuda_submission;

/*
 * context.c. Makes the device's context that of the calling thread, as calls of the driver that need a context require.
 */
LS_MUST_USE ls_status ls_cuda_enter(const cuda *c);

/* Memory of the host that is pinned for all contexts; cuMemFreeHost frees it. */
LS_MUST_USE ls_status ls_cuda_pin(const cuda *c, size_t bytes, void **out);
/* The same as ls_cuda_check; the error also names the work. */
LS_MUST_USE ls_status ls_cuda_check_work(const cuda *c, unsigned result, const char *call, const ls_device_work *work);

/* memory.c */
LS_MUST_USE ls_status ls_cuda_allocate(ls_device *device, ls_device_arena *arena);
LS_MUST_USE ls_status ls_cuda_adopt(ls_device *device, ls_device_arena *arena);
void ls_cuda_free(const cuda *c, const ls_device_arena *arena); /* adopted memory stays, and is unpinned */
LS_MUST_USE ls_status ls_cuda_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
LS_MUST_USE ls_status ls_cuda_write(ls_device *device, const ls_device_arena *arena, const ls_range *to,
                                    const void *from);
LS_MUST_USE ls_status ls_cuda_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

/* callers.c: memory and streams of a caller. */
LS_MUST_USE ls_status ls_cuda_follow(ls_device *device, void *stream);
LS_MUST_USE ls_status ls_cuda_knows(ls_device *device, const void *address);
LS_MUST_USE ls_status ls_cuda_copy(ls_device *device, const ls_device_arena *arena, const ls_device_rows *rows);
LS_MUST_USE ls_status ls_cuda_finish(ls_device *device);

/* Sets bytes of the device to zero, and waits until they are. */
LS_MUST_USE ls_status ls_cuda_set_zero(cuda *c, ls_cuda_address at, size_t bytes);

/* memory.c: a range as boxes of bytes, `rows` rows of `width` bytes, `pitch` bytes apart. */
typedef struct ls_cuda_box {
    size_t at, width, rows, pitch;
} ls_cuda_box;
/* A position in a range: the rest of the range is still to be visited. */
typedef struct ls_cuda_walk {
    const ls_range *range;
    int64_t i[LS_RANGE_DIMS]; /* the next piece */
    size_t within;            /* bytes of that piece that have been visited */
} ls_cuda_walk;
/* The next box, of at most `most` bytes. Returns false at the end, or if `most` is 0. */
bool ls_cuda_next_box(ls_cuda_walk *walk, size_t most, ls_cuda_box *out);

/* queues.c */
LS_MUST_USE ls_status ls_cuda_launch(ls_device *device, const ls_device_work *work);
LS_MUST_USE ls_status ls_cuda_release(ls_device *device, ls_event hold);
LS_MUST_USE ls_status ls_cuda_happened(ls_device *device, ls_event event, bool *out);
LS_MUST_USE ls_status ls_cuda_await(ls_device *device, ls_event event);
LS_MUST_USE ls_status ls_cuda_join(ls_device *device);
bool ls_cuda_has_room(ls_device *device, int queue);
bool ls_cuda_is_large(const ls_device *device, const ls_range *to);
void ls_cuda_let_go(cuda *c);      /* releases all holds; blocks until the watcher has launched what it can */
void ls_cuda_drain(const cuda *c); /* blocks until all streams are empty or have failed */

/*
 * ls_cuda_awaits_others: whether a message that was launched has not been executed, so that it may wait for ever.
 * ls_cuda_may_wait: the same, or a recording was launched only in part. What follows must not reach other ranks.
 */
bool ls_cuda_may_wait(cuda *c);
bool ls_cuda_awaits_others(cuda *c);

/*
 * submit.c: puts on a stream the waits for what a work comes after, the work and, if told, the write of its number. The
 * last words are still to be passed to the driver (ls_cuda_end_words).
 */
LS_MUST_USE ls_status ls_cuda_submit(cuda_submission *s);

/*
 * words.c: makes the stream wait until a word is the value or greater; set a word. *out: the stream, for a kernel or
 * copy.
 */
LS_MUST_USE ls_status ls_cuda_await_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth);
LS_MUST_USE ls_status ls_cuda_set_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth);
LS_MUST_USE ls_status ls_cuda_stream_of(cuda_submission *s, ls_cuda_stream *out);
LS_MUST_USE ls_status ls_cuda_end_words(cuda_submission *s); /* passes the last words to the driver */

/* graphs.c */
LS_MUST_USE ls_status ls_cuda_record(ls_device *device, ls_device_recording *recording);
LS_MUST_USE ls_status ls_cuda_replay(ls_device *device, ls_device_recording *recording, uint64_t shift, uint64_t times);
/* Launches those graphs of the last run for which there is room now. A failure becomes the device's. */
LS_MUST_USE ls_status ls_cuda_go_on(cuda *c);
/* Blocks until the watcher has launched all of them, or the device has failed. */
void ls_cuda_await_launches(cuda *c);
void ls_cuda_free_graphs(const cuda *c, ls_device_recording *recording);

/* chain.c. Notes a node of words in the graph that is being captured. */
void ls_cuda_note_words(cuda_chain *chain, ls_cuda_node node, const cuda_submission *s);
/*
 * In a run with this shift: the first work with a higher number, or NULL; whether there is a message among such works.
 */
const ls_device_work *ls_cuda_work_after(const cuda_chain *chain, uint64_t shift, uint64_t number);
bool ls_cuda_has_message_after(const cuda_chain *chain, uint64_t shift, uint64_t number);

/* routes.c */
LS_MUST_USE ls_status ls_cuda_connect(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                                      ls_device_remote *out);
/*
 * Puts the message of a work on its stream. If the stream is captured, the message is executed in each run of the
 * recording.
 */
LS_MUST_USE ls_status ls_cuda_message(cuda_submission *s);
/* The route of that name; NULL: there is none. */
const ls_cuda_route *ls_cuda_find_route(const char *name);
LS_MUST_USE ls_status ls_cuda_check_route(cuda *c);
/* The most library calls that send a message; and whether there is room for one more message after so many calls. */
size_t ls_cuda_puts(const cuda *c, const ls_device_message *message);
bool ls_cuda_route_has_room(const cuda *c, size_t puts);
void ls_cuda_close_route(cuda *c);

/* messages.c */
/* Pins the pages of words, which have no words of other ranks; *at: the address of the words for the device. */
LS_MUST_USE ls_status ls_cuda_pin_words(cuda *c, void *words, size_t bytes, ls_cuda_address *at);
/* Puts a copy of rows on the stream. */
LS_MUST_USE ls_status ls_cuda_copy_rows(cuda_submission *s, ls_cuda_address from, size_t from_pitch, ls_cuda_address to,
                                        size_t to_pitch, size_t width, size_t rows);
void ls_cuda_close_opened(cuda *c);

/* watch.c: a thread that notices what the device has executed, and whether it has failed. */
LS_MUST_USE ls_status ls_cuda_watch(cuda *c);
void ls_cuda_stop_watching(cuda *c);

/* failure.c */
ls_status ls_cuda_failure_of(cuda *c); /* the first failure; LS_OK: the device has not failed */
/* Under the lock: makes a call's failure the device's, and adds which launches had not been executed. */
ls_status ls_cuda_fail(cuda *c, ls_status failure);

/*
 * Loads the kernels that a recording launches, on a device that does not record. A kernel that is loaded at its first
 * launch may wait for all streams. These may wait for the host, which would first launch more before it releases them.
 */
LS_MUST_USE ls_status ls_cuda_load(cuda *c, const ls_device_recording *recording);

static inline uint64_t ls_cuda_executed(const cuda_queue *queue) {
    return __atomic_load_n(&queue->words->executed, __ATOMIC_ACQUIRE);
}

#endif
