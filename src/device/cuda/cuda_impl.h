/* For the files of this folder: an open device. */
#ifndef LS_DEVICE_CUDA_IMPL_H
#define LS_DEVICE_CUDA_IMPL_H

#include "device/cuda/driver.h"
#include "device/device_impl.h"

#include <pthread.h>

/*
 * Launches of a queue that may be outstanding. A stream takes some thousand operations and then blocks whoever gives it
 * one more: behind a hold that would be for ever. A launch is its waits, some kernels and a write.
 */
enum { CUDA_ROOM = 128 };

/* Bytes of pinned memory by way of which the host's copies go. */
enum { CUDA_STAGE_BYTES = 1 << 20 };

/* The words of a queue, in pinned memory of the host. Numbers rise. */
typedef struct cuda_words {
    _Alignas(64) uint64_t executed; /* the stream writes here what it has executed */
    _Alignas(64) uint64_t released; /* the host writes here which holds are over */
} cuda_words;

typedef struct cuda_launch {
    uint64_t number;
    const char *name;
    bool hold, message;
    size_t puts; /* calls of a route's library */
} cuda_launch;

/* What a recording has for one queue (chain.h). */
typedef struct cuda_chain cuda_chain;

/* The last run of a recording, as far as a queue has it. Written under run_lock; `launched` under `lock`, too. */
typedef struct cuda_run {
    const cuda_chain *chain;          /* NULL: none was run */
    uint64_t shift, times;            /* of its numbers; how often it was run before */
    size_t ready, launched, executed; /* graphs: their words are set; and so on */
} cuda_run;

typedef struct cuda_queue {
    ls_cuda_stream stream;
    cuda_words *words;
    ls_cuda_address words_at; /* as the device addresses them */
    cuda_launch launches[CUDA_ROOM];
    uint64_t first,
        past;          /* those of them that are not known to be executed: first % CUDA_ROOM up to past % CUDA_ROOM */
    uint64_t launched; /* the last number */
    cuda_run run;
} cuda_queue;

/* By how much the value of a word is greater in a later run of a recording. */
typedef struct cuda_growth {
    bool shifts;   /* by the shift of events, too */
    uint64_t rise; /* for each time that it has been run */
} cuda_growth;

/* What was pinned and opened of other ranks (messages.c). */
typedef struct cuda_opened cuda_opened;
/* How messages reach other ranks (route.h). */
typedef struct ls_cuda_route ls_cuda_route;

typedef struct cuda {
    ls_cuda_driver driver;
    ls_device *device;
    char name[96];           /* for messages */
    int ordinal, handle;     /* of the device: among all, and for the driver */
    ls_cuda_context context; /* the one that the CUDA runtime uses, too */
    bool retained, has_ways; /* it keeps the context; its streams are counted among the process's */
    cuda_queue *queues;
    cuda_words *words; /* of all queues */
    cuda_opened *opened;
    bool exports;                        /* ranks of other processes need handles of the heap */
    const ls_cuda_route *asked;          /* by the settings; NULL: none was */
    const ls_cuda_route *route;          /* NULL: the device is not connected */
    const ls_cuda_route *open_route;     /* the same, when a library's is open: for the watcher, too */
    char why[768];                       /* why there is no route to other hosts; "": there is nothing to say */
    void *route_state;                   /* of the row: set when its library is loaded, freed by the device */
    struct ls_cuda_symmetric *symmetric; /* of a route that owns the heap; NULL: none does */
    bool stuck;                          /* a first message has not come: its stream may wait for ever */

    pthread_mutex_t lock; /* of what follows, and of the launches of all queues */
    pthread_cond_t changed;
    ls_status failed; /* the first failure of the device */
    bool closing, watched;
    pthread_t watcher;

    pthread_mutex_t copy_lock; /* of the host's copies, and of capturing */
    ls_cuda_stream copies;     /* also what is captured into a graph is given to it, and then not executed */
    char *stage;

    bool torn;                /* a run of which only some graphs were launched; under `lock` */
    pthread_mutex_t run_lock; /* of launching graphs, and before `lock` */
} cuda;

/*
 * What works, one after the other, put on a stream: words that are waited for and set, kernels and copies. Of words
 * that follow each other the driver is told at once.
 */
enum { CUDA_WORDS = 16 };
typedef struct cuda_submission {
    const cuda *c;
    const ls_device_work *work;
    ls_cuda_stream to;
    cuda_chain *chain; /* what it becomes part of; NULL: the stream executes it */
    bool told;         /* it writes its number when it has been executed */
    unsigned n;        /* words that the driver has not been told of */
    ls_cuda_word_op words[CUDA_WORDS];
    cuda_growth growth[CUDA_WORDS];
} cuda_submission;

/* context.c. Makes the context that of the calling thread. Before any call of the driver that needs one. */
LS_MUST_USE ls_status ls_cuda_enter(const cuda *c);

/* Memory of the host that is pinned for all contexts; cuMemFreeHost frees it. */
LS_MUST_USE ls_status ls_cuda_pin(const cuda *c, size_t bytes, void **out);
/* The failure of a call becomes an error that names the work, too. */
LS_MUST_USE ls_status ls_cuda_check_work(const cuda *c, unsigned result, const char *call, const ls_device_work *work);

/* memory.c */
LS_MUST_USE ls_status ls_cuda_allocate(ls_device *device, ls_device_arena *arena);
LS_MUST_USE ls_status ls_cuda_adopt(ls_device *device, ls_device_arena *arena);
void ls_cuda_free(const cuda *c, const ls_device_arena *arena); /* one that is adopted stays, and is no longer pinned */
LS_MUST_USE ls_status ls_cuda_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
LS_MUST_USE ls_status ls_cuda_write(ls_device *device, const ls_device_arena *arena, const ls_range *to,
                                    const void *from);
LS_MUST_USE ls_status ls_cuda_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

/* callers.c: memory and streams of a caller's. */
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
/* What is left of a range. */
typedef struct ls_cuda_walk {
    const ls_range *range;
    int64_t i[LS_RANGE_DIMS]; /* the next piece */
    size_t within;            /* bytes of it that have been taken */
} ls_cuda_walk;
/* The next box, of at most `most` bytes. Returns false at the end, or where there is no room. */
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
 * Whether something that was launched may wait for ever: a message that has not been executed, or a part of a recording
 * whose other parts were not launched. What follows it must not reach other ranks. ls_cuda_awaits_others: the first.
 */
bool ls_cuda_may_wait(cuda *c);
bool ls_cuda_awaits_others(cuda *c);

/* submit.c: puts what a work comes after, the work and, if it is told, its number on a stream; its last words are not
 * ended. */
LS_MUST_USE ls_status ls_cuda_submit(cuda_submission *s);

/* words.c: the stream waits until a word is the value or greater; sets it; *out: the stream, for a kernel or a copy. */
LS_MUST_USE ls_status ls_cuda_await_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth);
LS_MUST_USE ls_status ls_cuda_set_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth);
LS_MUST_USE ls_status ls_cuda_stream_of(cuda_submission *s, ls_cuda_stream *out);
LS_MUST_USE ls_status ls_cuda_end_words(cuda_submission *s); /* tells the driver of the last words */

/* graphs.c */
LS_MUST_USE ls_status ls_cuda_record(ls_device *device, ls_device_recording *recording);
LS_MUST_USE ls_status ls_cuda_replay(ls_device *device, ls_device_recording *recording, uint64_t shift, uint64_t times);
/* Launches those graphs of the last run for which there is room now. A failure is the device's. */
LS_MUST_USE ls_status ls_cuda_go_on(cuda *c);
/* Blocks until the watcher has launched all of them, or the device has failed. */
void ls_cuda_await_launches(cuda *c);
void ls_cuda_free_graphs(const cuda *c, ls_device_recording *recording);

/* chain.c. A node of a graph that is being captured. */
void ls_cuda_note_words(cuda_chain *chain, ls_cuda_node node, const cuda_submission *s);
/* Of a run with this shift: the first work with a number above this one, NULL where there is none; any message. */
const ls_device_work *ls_cuda_work_after(const cuda_chain *chain, uint64_t shift, uint64_t number);
bool ls_cuda_has_message_after(const cuda_chain *chain, uint64_t shift, uint64_t number);

/* routes.c */
LS_MUST_USE ls_status ls_cuda_connect(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                                      ls_device_remote *out);
/*
 * Puts the message of a work on its stream. That may be captured: then whatever is put there is executed in each run of
 * the recording.
 */
LS_MUST_USE ls_status ls_cuda_message(cuda_submission *s);
/* The route of that name; NULL: there is none. */
const ls_cuda_route *ls_cuda_find_route(const char *name);
LS_MUST_USE ls_status ls_cuda_check_route(cuda *c);
/* Calls of a library by which a message is sent, at most; and whether one more message has room after so many. */
size_t ls_cuda_puts(const cuda *c, const ls_device_message *message);
bool ls_cuda_route_has_room(const cuda *c, size_t puts);
void ls_cuda_close_route(cuda *c);

/* messages.c */
/* Pins the pages of words, which are no other rank's; *at: the address for the device. */
LS_MUST_USE ls_status ls_cuda_pin_words(cuda *c, void *words, size_t bytes, ls_cuda_address *at);
/* A copy of rows. */
LS_MUST_USE ls_status ls_cuda_copy_rows(cuda_submission *s, ls_cuda_address from, size_t from_pitch, ls_cuda_address to,
                                        size_t to_pitch, size_t width, size_t rows);
void ls_cuda_close_opened(cuda *c);

/* watch.c: a thread that notices what the device has executed and where it has failed. */
LS_MUST_USE ls_status ls_cuda_watch(cuda *c);
void ls_cuda_stop_watching(cuda *c);

/* failure.c */
ls_status ls_cuda_failure_of(cuda *c); /* the first one; LS_OK: it has not failed */
/* Under the lock: the failure of a call becomes the device's, with what had been launched and not been executed. */
ls_status ls_cuda_fail(cuda *c, ls_status failure);

/*
 * Loads the kernels that a recording launches, on a device that does not record: a kernel that is loaded at its first
 * launch may wait for all streams, which may wait for the host, which would launch more before it lets them go on.
 */
LS_MUST_USE ls_status ls_cuda_load(cuda *c, const ls_device_recording *recording);

static inline uint64_t ls_cuda_executed(const cuda_queue *queue) {
    return __atomic_load_n(&queue->words->executed, __ATOMIC_ACQUIRE);
}

#endif
