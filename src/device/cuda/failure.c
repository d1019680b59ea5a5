/* The failure of a CUDA device: the first failure, with the launches that were outstanding then. */
#include "device/cuda/cuda_impl.h"

#include <stdio.h>
#include <string.h>

/*
 * The first launch of a queue, other than a hold, that is not known to have been executed. Under the lock. False: none.
 */
static bool find_outstanding(const cuda_queue *queue, const char **name, uint64_t *number) {
    const uint64_t executed = ls_cuda_executed(queue);
    const ls_device_work *work =
        queue->run.launched > 0 ? ls_cuda_work_after(queue->run.chain, queue->run.shift, executed) : NULL;
    if (work != NULL) {
        *name = work->name;
        *number = work->event.number + queue->run.shift;
        return true;
    }
    for (uint64_t i = queue->first; i < queue->past; i++) {
        const cuda_launch *launch = &queue->launches[i % CUDA_ROOM];
        if (launch->number <= executed || launch->hold) continue;
        *name = launch->name;
        *number = launch->number;
        return true;
    }
    return false;
}

/* Lists the first outstanding launch of each queue. Under the lock. */
static void describe_outstanding(const cuda *c, char *text, size_t room) {
    text[0] = 0;
    for (int q = 0; q < c->device->options.queues; q++) {
        const char *name;
        uint64_t number;
        if (!find_outstanding(&c->queues[q], &name, &number)) continue;
        const size_t used = strlen(text);
        snprintf(text + used, room - used, "%s%s (queue %d, number %llu)", used > 0 ? ", " : "", name, q,
                 (unsigned long long)number);
    }
}

ls_status ls_cuda_fail(cuda *c, ls_status failure) {
    char outstanding[256];
    if (c->failed.code != LS_OK) return c->failed;
    describe_outstanding(c, outstanding, sizeof outstanding);
    c->failed = outstanding[0] == 0 ? failure
                                    : ls_error(failure.code, "%s; first of what is not known to be executed: %s",
                                               failure.text, outstanding);
    return c->failed;
}

ls_status ls_cuda_failure_of(cuda *c) {
    pthread_mutex_lock(&c->lock);
    const ls_status failed = c->failed;
    pthread_mutex_unlock(&c->lock);
    return failed;
}
