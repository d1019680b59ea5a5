/* Memory of a CUDA device that belongs to a caller, and the caller's streams. */
#include "device/cuda/cuda_impl.h"

/* Called in the context of the calling thread, which is the stream's: a default stream's handle differs by context. */
ls_status ls_cuda_follow(ls_device *device, void *stream) {
    const cuda *c = device->state;
    return ls_cuda_check(&c->driver, c->driver.cuStreamSynchronize(stream), "cuStreamSynchronize",
                         "the stream of a caller of %s", c->name);
}

ls_status ls_cuda_knows(ls_device *device, const void *address) {
    const cuda *c = device->state;
    unsigned kind;
    const unsigned result = c->driver.cuPointerGetAttribute(&kind, LS_CUDA_MEMORY_KIND, (uintptr_t)address);
    if (result != LS_CUDA_INVALID_VALUE)
        return ls_cuda_check(&c->driver, result, "cuPointerGetAttribute", "the address %p, for %s", address, c->name);
    return ls_error(LS_INVALID, "the address %p, which the CUDA driver does not know; expected memory of a GPU",
                    address);
}

static ls_status copy_rows(const cuda *c, const struct CUDA_MEMCPY2D_st *copy) {
    if (copy->Height == 1)
        return ls_cuda_check(
            &c->driver, c->driver.cuMemcpyDtoDAsync_v2(copy->dstDevice, copy->srcDevice, copy->WidthInBytes, c->copies),
            "cuMemcpyDtoDAsync_v2", "%zu bytes of a caller of %s", copy->WidthInBytes, c->name);
    return ls_cuda_check(&c->driver, c->driver.cuMemcpy2DAsync_v2(copy, c->copies), "cuMemcpy2DAsync_v2",
                         "%zu rows of %zu bytes of a caller of %s", copy->Height, copy->WidthInBytes, c->name);
}

ls_status ls_cuda_copy(ls_device *device, const ls_device_arena *arena, const ls_device_rows *r) {
    cuda *c = device->state;
    const ls_cuda_address own = (uintptr_t)arena->base + r->at, theirs = (uintptr_t)r->theirs;
    const struct CUDA_MEMCPY2D_st copy = {.srcMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .srcDevice = r->in ? theirs : own,
                                          .srcPitch = r->in ? r->their_pitch : r->pitch,
                                          .dstMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .dstDevice = r->in ? own : theirs,
                                          .dstPitch = r->in ? r->pitch : r->their_pitch,
                                          .WidthInBytes = r->width,
                                          .Height = r->rows};
    LS_TRY(ls_cuda_enter(c));
    pthread_mutex_lock(&c->copy_lock);
    const ls_status status = copy_rows(c, &copy);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}

ls_status ls_cuda_finish(ls_device *device) {
    cuda *c = device->state;
    pthread_mutex_lock(&c->copy_lock);
    const ls_status status = ls_cuda_check(&c->driver, c->driver.cuStreamSynchronize(c->copies), "cuStreamSynchronize",
                                           "copying arrays of a caller of %s", c->name);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}
