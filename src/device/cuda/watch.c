/*
 * The watcher of a CUDA device: a thread that polls the words of the queues while launches are outstanding. When a word
 * has changed, it wakes the host and launches the graphs for which there is room then; from time to time it asks the
 * driver whether the device has failed. It is needed because a stream's write wakes nobody. A function that the driver
 * calls on the host after each launch could wake the host too, but would block the stream until it has returned.
 */
#include "device/cuda/cuda_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* The watcher sleeps between polls for a fraction of the time since the last change, within these limits. */
#define LEAST_NAP 20e-6
#define MOST_NAP 500e-6
#define NAPS_SINCE_CHANGE 16
/* The time between two queries of the driver. */
#define CHECK_SECONDS 5e-3

/* A number that rises whenever a queue has executed something. */
static uint64_t progress_of(const cuda *c) {
    uint64_t sum = 0;
    for (int q = 0; q < c->device->options.queues; q++) sum += ls_cuda_executed(&c->queues[q]);
    return sum;
}

/* Under the lock. */
static bool is_outstanding(const cuda *c) {
    for (int q = 0; q < c->device->options.queues; q++)
        if (ls_cuda_executed(&c->queues[q]) < c->queues[q].launched) return true;
    return false;
}

/* The failure of a stream or of the route, as the driver and the route report it. */
static ls_status ask_driver(cuda *c) {
    for (int q = 0; q < c->device->options.queues; q++) {
        const unsigned result = c->driver.cuStreamQuery(c->queues[q].stream);
        if (result != LS_CUDA_NOT_READY)
            LS_TRY(ls_cuda_check(&c->driver, result, "cuStreamQuery", "queue %d of %s", q, c->name));
    }
    return ls_cuda_check_route(c);
}

static void nap(double since_change) {
    double seconds = since_change / NAPS_SINCE_CHANGE;
    if (seconds < LEAST_NAP) seconds = LEAST_NAP;
    if (seconds > MOST_NAP) seconds = MOST_NAP;
    const struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static void wake(const cuda *c) {
    if (c->device->options.wake != NULL) c->device->options.wake(c->device->options.context);
}

/* Without the lock. */
static void note_failure(cuda *c, ls_status failed) {
    if (failed.code == LS_OK) return;
    pthread_mutex_lock(&c->lock);
    (void)ls_cuda_fail(c, failed);
    pthread_mutex_unlock(&c->lock);
    wake(c);
}

/* Polls once, after a nap. *failed: the device's failure. Returns whether a queue has executed something. */
static bool look(cuda *c, uint64_t *seen, double *changed, double *checked, ls_status *failed) {
    nap(ls_seconds() - *changed);
    const uint64_t progress = progress_of(c);
    const double now = ls_seconds();
    const bool news = progress != *seen;
    *seen = progress;
    if (news) *changed = now;
    if (now - *checked > CHECK_SECONDS) {
        *checked = now;
        *failed = ask_driver(c);
    }
    return news;
}

/*
 * Whether graphs of a run are still to be launched. Asked even if nothing new was seen, because the launched graphs may
 * have been executed, and this been seen, before `torn` was set.
 */
static bool has_more(cuda *c) {
    pthread_mutex_lock(&c->lock);
    const bool more = c->torn && c->failed.code == LS_OK;
    pthread_mutex_unlock(&c->lock);
    return more;
}

static void *watch(void *argument) {
    cuda *c = argument;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL); /* so that naps are not longer than requested */
    ls_status failed = ls_cuda_enter(c);
    uint64_t seen = 0;
    double changed = ls_seconds(), checked = changed;
    note_failure(c, failed);
    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        if (c->failed.code != LS_OK || (!is_outstanding(c) && progress_of(c) == seen)) {
            pthread_cond_wait(&c->changed, &c->lock);
            changed = ls_seconds();
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        const bool news = look(c, &seen, &changed, &checked, &failed);
        if (failed.code == LS_OK && has_more(c)) failed = ls_cuda_go_on(c);
        note_failure(c, failed);
        if (news) wake(c);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

ls_status ls_cuda_watch(cuda *c) {
    const int error = ls_thread_start(&c->watcher, watch, c);
    if (error != 0) return ls_error(LS_NO_MEMORY, "no thread that watches %s: %s", c->name, strerror(error));
    c->watched = true;
    return ls_ok();
}

void ls_cuda_stop_watching(cuda *c) {
    if (!c->watched) return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->watcher, NULL);
}
