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
} cuda_launch;

typedef struct cuda_queue {
    ls_cuda_stream stream;
    cuda_words *words;
    ls_cuda_address words_at; /* as the device addresses them */
    cuda_launch launches[CUDA_ROOM];
    uint64_t first,
        past;          /* those of them that are not known to be executed: first % CUDA_ROOM up to past % CUDA_ROOM */
    uint64_t launched; /* the last number */
} cuda_queue;

/* What was pinned and opened of other ranks (messages.c). */
typedef struct cuda_opened cuda_opened;

typedef struct cuda {
    ls_cuda_driver driver;
    ls_device *device;
    char name[96];           /* for messages */
    int ordinal, handle;     /* of the device: among all, and for the driver */
    ls_cuda_context context; /* the one that the CUDA runtime uses, too */
    bool retained;
    cuda_queue *queues;
    cuda_words *words; /* of all queues */
    cuda_opened *opened;

    pthread_mutex_t lock; /* of what follows, and of the launches of all queues */
    pthread_cond_t changed;
    ls_status failed; /* the first failure of the device */
    bool closing, watched;
    pthread_t watcher;

    pthread_mutex_t copy_lock; /* of the host's copies */
    ls_cuda_stream copies;
    char *stage;
} cuda;

/* Makes the context that of the calling thread. Before any call of the driver that needs one. */
LS_MUST_USE ls_status ls_cuda_enter(const cuda *c);

/* Memory of the host that is pinned for all contexts; cuMemFreeHost frees it. */
LS_MUST_USE ls_status ls_cuda_pin(const cuda *c, size_t bytes, void **out);

/* memory.c */
LS_MUST_USE ls_status ls_cuda_allocate(ls_device *device, ls_device_arena *arena);
LS_MUST_USE ls_status ls_cuda_adopt(ls_device *device, ls_device_arena *arena);
void ls_cuda_free(const cuda *c, const ls_device_arena *arena); /* one that is adopted stays, and is no longer pinned */
LS_MUST_USE ls_status ls_cuda_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
LS_MUST_USE ls_status ls_cuda_write(ls_device *device, const ls_device_arena *arena, const ls_range *to,
                                    const void *from);
LS_MUST_USE ls_status ls_cuda_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

/* queues.c */
LS_MUST_USE ls_status ls_cuda_launch(ls_device *device, const ls_device_work *work);
LS_MUST_USE ls_status ls_cuda_release(ls_device *device, ls_event hold);
LS_MUST_USE ls_status ls_cuda_happened(ls_device *device, ls_event event, bool *out);
LS_MUST_USE ls_status ls_cuda_await(ls_device *device, ls_event event);
LS_MUST_USE ls_status ls_cuda_join(ls_device *device);
bool ls_cuda_has_room(ls_device *device, int queue);
void ls_cuda_drain(const cuda *c); /* releases all holds, and blocks until all streams are empty or have failed */

/*
 * Whether a message has been launched and not executed: what waits for other ranks may do so for ever, and what follows
 * must not reach them.
 */
bool ls_cuda_holds_messages(cuda *c);

/* messages.c */
LS_MUST_USE ls_status ls_cuda_share(ls_device *device, const ls_device_arena *heap, void *words, size_t bytes,
                                    ls_device_handle *out);
LS_MUST_USE ls_status ls_cuda_reach(ls_device *device, const ls_device_handle *handle, void *words, size_t bytes,
                                    ls_device_remote *out);
/* Gives the stream of the work its message. */
LS_MUST_USE ls_status ls_cuda_message(const cuda *c, const ls_device_work *work);
void ls_cuda_close_opened(cuda *c);

/* watch.c: a thread that notices what the device has executed and where it has failed. */
LS_MUST_USE ls_status ls_cuda_watch(cuda *c);
void ls_cuda_stop_watching(cuda *c);
/* Under the lock: the failure of a call becomes the device's, with what had been launched and not been executed. */
ls_status ls_cuda_fail(cuda *c, ls_status failure);

static inline uint64_t ls_cuda_executed(const cuda_queue *queue) {
    return __atomic_load_n(&queue->words->executed, __ATOMIC_ACQUIRE);
}

#endif
