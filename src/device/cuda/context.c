/* The context of a CUDA device: entering it, pinned memory for it, and the errors of calls in it. */
#include "device/cuda/cuda_impl.h"

ls_status ls_cuda_enter(const cuda *c) {
    return ls_cuda_check(&c->driver, c->driver.cuCtxSetCurrent(c->context), "cuCtxSetCurrent", "%s", c->name);
}

ls_status ls_cuda_pin(const cuda *c, size_t bytes, void **out) {
    return ls_cuda_check(&c->driver, c->driver.cuMemHostAlloc(out, bytes, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED),
                         "cuMemHostAlloc", "%zu bytes of pinned memory for %s", bytes, c->name);
}

ls_status ls_cuda_check_work(const cuda *c, unsigned result, const char *call, const ls_device_work *work) {
    return ls_cuda_check(&c->driver, result, call, "%s (queue %d, number %llu) on %s", work->name, work->event.queue,
                         (unsigned long long)work->event.number, c->name);
}
