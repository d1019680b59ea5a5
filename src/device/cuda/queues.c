/*
 * Queues of a CUDA device, each of which is a stream. An event is a number in a word of the host's memory, which the
 * stream writes after each launch; launches that come after the event wait for the word. A hold is a wait for another
 * word, which the host writes.
 */
#include "device/cuda/cuda_impl.h"

#include <time.h>

/* How long a wait polls without pause before it sleeps between polls. */
#define SPIN_SECONDS 50e-6

static bool has_happened(const cuda *c, ls_event event) {
    return ls_cuda_executed(&c->queues[event.queue]) >= event.number;
}

static void lock(cuda *c) { pthread_mutex_lock(&c->lock); }
static void unlock(cuda *c) { pthread_mutex_unlock(&c->lock); }

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* The watcher notices if the device fails meanwhile. */
static ls_status await(cuda *c, ls_event event) {
    const struct timespec nap = {0, 20000};
    const double began = ls_seconds();
    while (!has_happened(c, event)) {
        LS_TRY(ls_cuda_failure_of(c));
        if (ls_seconds() - began < SPIN_SECONDS)
            ls_pause();
        else
            nanosleep(&nap, NULL);
    }
    return ls_ok();
}

ls_status ls_cuda_await(ls_device *device, ls_event event) { return await(device->state, event); }

ls_status ls_cuda_join(ls_device *device) {
    cuda *c = device->state;
    for (int q = 0; q < device->options.queues; q++) LS_TRY(await(c, (ls_event){q, c->queues[q].launched}));
    return ls_cuda_failure_of(c);
}

ls_status ls_cuda_happened(ls_device *device, ls_event event, bool *out) {
    cuda *c = device->state;
    const bool happened = has_happened(c, event);
    if (!happened) LS_TRY(ls_cuda_failure_of(c));
    *out = happened;
    return ls_ok();
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

/* Forgets launches that have been executed. Under the lock. */
static void forget_executed(cuda_queue *q) {
    const uint64_t executed = ls_cuda_executed(q);
    while (q->first < q->past && q->launches[q->first % CUDA_ROOM].number <= executed) q->first++;
}

bool ls_cuda_has_room(ls_device *device, int queue) {
    cuda *c = device->state;
    cuda_queue *q = &c->queues[queue];
    lock(c);
    forget_executed(q);
    size_t puts = 0;
    for (uint64_t i = q->first; i < q->past; i++) puts += q->launches[i % CUDA_ROOM].puts;
    const bool room = q->past - q->first < CUDA_ROOM && ls_cuda_route_has_room(c, puts);
    unlock(c);
    return room;
}

static void note_launch(const cuda *c, cuda_queue *q, const ls_device_work *work) {
    q->launches[q->past++ % CUDA_ROOM] = (cuda_launch){.number = work->event.number,
                                                       .name = work->name,
                                                       .hold = work->submit == NULL && work->message == NULL,
                                                       .message = work->message != NULL,
                                                       .puts = ls_cuda_puts(c, work->message)};
    q->launched = work->event.number;
}

ls_status ls_cuda_launch(ls_device *device, const ls_device_work *work) {
    cuda *c = device->state;
    cuda_queue *q = &c->queues[work->event.queue];
    LS_ASSERT(work->event.number > q->launched);
    ls_cuda_await_launches(c);
    LS_TRY(ls_cuda_failure_of(c));
    LS_TRY(ls_cuda_enter(c));
    while (!ls_cuda_has_room(device, work->event.queue)) /* the oldest launch may have freed too few puts */
        LS_TRY(await(c, (ls_event){work->event.queue, q->launches[q->first % CUDA_ROOM].number}));
    cuda_submission submission = {.c = c, .work = work, .to = q->stream, .told = true};
    ls_status status = ls_cuda_submit(&submission);
    if (status.code == LS_OK) status = ls_cuda_end_words(&submission);
    lock(c);
    forget_executed(q);
    if (status.code == LS_OK)
        note_launch(c, q, work);
    else
        status = ls_cuda_fail(c, status);
    pthread_cond_signal(&c->changed);
    unlock(c);
    return status;
}

ls_status ls_cuda_release(ls_device *device, ls_event hold) {
    cuda *c = device->state;
    LS_TRY(ls_cuda_failure_of(c));
    __atomic_store_n(&c->queues[hold.queue].words->released, hold.number, __ATOMIC_RELEASE);
    return ls_ok();
}

bool ls_cuda_awaits_others(cuda *c) {
    lock(c);
    bool any = c->stuck;
    for (int q = 0; q < c->device->options.queues; q++) {
        cuda_queue *queue = &c->queues[q];
        if (queue->words == NULL) continue;
        forget_executed(queue);
        for (uint64_t i = queue->first; i < queue->past; i++) any |= queue->launches[i % CUDA_ROOM].message;
        any |= queue->run.launched > 0 &&
               ls_cuda_has_message_after(queue->run.chain, queue->run.shift, ls_cuda_executed(queue));
    }
    unlock(c);
    return any;
}

/* Whether the device is lost: then it executes nothing any more. */
static bool is_lost(const cuda *c) {
    for (int q = 0; q < c->device->options.queues; q++) {
        const unsigned result = c->driver.cuStreamQuery(c->queues[q].stream);
        if (result != LS_CUDA_SUCCESS && result != LS_CUDA_NOT_READY) return true;
    }
    return false;
}

bool ls_cuda_may_wait(cuda *c) {
    lock(c);
    const bool torn = c->torn;
    unlock(c);
    return (torn && !is_lost(c)) || ls_cuda_awaits_others(c);
}

void ls_cuda_let_go(cuda *c) {
    for (int q = 0; q < c->device->options.queues && c->words != NULL; q++)
        __atomic_store_n(&c->words[q].released, (uint64_t)INT64_MAX, __ATOMIC_RELEASE);
    if (!ls_cuda_awaits_others(c)) ls_cuda_await_launches(c);
}

void ls_cuda_drain(const cuda *c) {
    for (int q = 0; q < c->device->options.queues; q++) {
        if (c->queues[q].stream != NULL) (void)c->driver.cuStreamSynchronize(c->queues[q].stream);
    }
    if (c->copies != NULL) (void)c->driver.cuStreamSynchronize(c->copies);
}
