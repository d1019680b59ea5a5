/*
 * Memory of a CUDA device. Allocated arenas are in the device's own memory; the host's copies go through pinned memory,
 * on a stream of their own, independent of queues that may be held. Adopted arenas, and arenas allocated in memory of
 * the host, are the host's memory, pinned and mapped.
 */
#include "device/cuda/cuda_impl.h"

#include <string.h>

/* The largest distance of rows in a copy. */
#define MOST_PITCH ((int64_t)INT32_MAX)

/* --- arenas ------------------------------------------------------------------------------------------------------- */

static ls_status finish_copies(cuda *c, const char *what, size_t bytes) {
    return ls_cuda_check(&c->driver, c->driver.cuStreamSynchronize(c->copies), "cuStreamSynchronize",
                         "%s %zu bytes of %s", what, bytes, c->name);
}

ls_status ls_cuda_set_zero(cuda *c, ls_cuda_address at, size_t bytes) {
    pthread_mutex_lock(&c->copy_lock);
    ls_status status = ls_cuda_check(&c->driver, c->driver.cuMemsetD8Async(at, 0, bytes, c->copies), "cuMemsetD8Async",
                                     "%zu bytes of %s", bytes, c->name);
    if (status.code == LS_OK) status = finish_copies(c, "clearing", bytes);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}

static ls_status refuse_bytes(const cuda *c, unsigned result, size_t bytes) {
    size_t unused, total;
    if (c->driver.cuMemGetInfo_v2(&unused, &total) != LS_CUDA_SUCCESS)
        return ls_cuda_check(&c->driver, result, "cuMemAlloc_v2", "%zu bytes on %s", bytes, c->name);
    return ls_cuda_check(&c->driver, result, "cuMemAlloc_v2", "%zu bytes on %s, where %zu of %zu are free", bytes,
                         c->name, unused, total);
}

static ls_status allocate_host(cuda *c, ls_device_arena *arena) {
    void *memory;
    LS_TRY(ls_cuda_pin(c, arena->bytes, &memory));
    memset(memory, 0, arena->bytes);
    arena->base = arena->source = memory; /* pinned memory has the same address for the device as for the host */
    return ls_ok();
}

ls_status ls_cuda_allocate(ls_device *device, ls_device_arena *arena) {
    cuda *c = device->state;
    ls_cuda_address address;
    if (arena->bytes == 0) return ls_ok();
    LS_TRY(ls_cuda_enter(c));
    if (arena->host) return allocate_host(c, arena);
    const unsigned result = c->driver.cuMemAlloc_v2(&address, arena->bytes);
    if (result != LS_CUDA_SUCCESS) return refuse_bytes(c, result, arena->bytes);
    const ls_status status = ls_cuda_set_zero(c, address, arena->bytes);
    if (status.code == LS_OK)
        arena->base = arena->source = (char *)(uintptr_t)address;
    else
        (void)c->driver.cuMemFree_v2(address);
    return status;
}

ls_status ls_cuda_adopt(ls_device *device, ls_device_arena *arena) {
    cuda *c = device->state;
    ls_cuda_address address;
    if (arena->bytes == 0) return ls_ok();
    LS_TRY(ls_cuda_enter(c));
    LS_TRY(ls_cuda_check(
        &c->driver,
        c->driver.cuMemHostRegister_v2(arena->source, arena->bytes, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED),
        "cuMemHostRegister_v2", "%zu bytes of the host for %s", arena->bytes, c->name));
    const ls_status status =
        ls_cuda_check(&c->driver, c->driver.cuMemHostGetDevicePointer_v2(&address, arena->source, 0),
                      "cuMemHostGetDevicePointer_v2", "%zu bytes of the host for %s", arena->bytes, c->name);
    if (status.code == LS_OK)
        arena->base = (char *)(uintptr_t)address;
    else
        (void)c->driver.cuMemHostUnregister(arena->source);
    return status;
}

void ls_cuda_free(const cuda *c, const ls_device_arena *arena) {
    if (arena->bytes == 0) return;
    if (arena->adopted)
        (void)c->driver.cuMemHostUnregister(arena->source);
    else if (arena->host)
        (void)c->driver.cuMemFreeHost(arena->source);
    else
        (void)c->driver.cuMemFree_v2((uintptr_t)arena->base);
}

static bool is_of_host(const ls_device_arena *arena) { return arena->adopted || arena->host; }

/* --- a range as boxes of bytes ------------------------------------------------------------------------------------ */

/* Advances by some pieces of the innermost dimension, at most to its end. */
static void go_on(ls_cuda_walk *w, int64_t pieces) {
    w->within = 0;
    w->i[0] += pieces;
    for (int d = 0; d + 1 < LS_RANGE_DIMS && w->i[d] == w->range->count[d]; d++) {
        w->i[d] = 0;
        w->i[d + 1]++;
    }
}

bool ls_cuda_next_box(ls_cuda_walk *w, size_t most, ls_cuda_box *out) {
    const ls_range *r = w->range;
    if (most == 0 || w->i[LS_RANGE_DIMS - 1] == r->count[LS_RANGE_DIMS - 1]) return false;
    size_t at = r->offset + w->within;
    for (int d = 0; d < LS_RANGE_DIMS; d++) at += (size_t)(w->i[d] * r->stride[d]);
    const size_t left = r->length - w->within;
    if (w->within > 0 || left > most) {
        *out = (ls_cuda_box){at, (size_t)ls_min((int64_t)left, (int64_t)most), 1, 0};
        w->within += out->width;
        if (w->within == r->length) go_on(w, 1);
        return true;
    }
    const bool pitched = r->stride[0] >= (int64_t)r->length && r->stride[0] <= MOST_PITCH;
    const int64_t rows = pitched ? ls_min(r->count[0] - w->i[0], (int64_t)(most / r->length)) : 1;
    *out = (ls_cuda_box){at, r->length, (size_t)rows, (size_t)r->stride[0]};
    go_on(w, rows);
    return true;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static ls_status read_box(const cuda *c, ls_cuda_address base, const ls_cuda_box *b, char *to) {
    if (b->rows == 1)
        return ls_cuda_check(&c->driver, c->driver.cuMemcpyDtoHAsync_v2(to, base + b->at, b->width, c->copies),
                             "cuMemcpyDtoHAsync_v2", "%zu bytes of %s", b->width, c->name);
    const struct CUDA_MEMCPY2D_st copy = {.srcMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .srcDevice = base + b->at,
                                          .srcPitch = b->pitch,
                                          .dstMemoryType = LS_CUDA_MEMORY_HOST,
                                          .dstHost = to,
                                          .dstPitch = b->width,
                                          .WidthInBytes = b->width,
                                          .Height = b->rows};
    return ls_cuda_check(&c->driver, c->driver.cuMemcpy2DAsync_v2(&copy, c->copies), "cuMemcpy2DAsync_v2",
                         "%zu rows of %zu bytes from %s", b->rows, b->width, c->name);
}

static ls_status write_box(const cuda *c, ls_cuda_address base, const ls_cuda_box *b, const char *from) {
    if (b->rows == 1)
        return ls_cuda_check(&c->driver, c->driver.cuMemcpyHtoDAsync_v2(base + b->at, from, b->width, c->copies),
                             "cuMemcpyHtoDAsync_v2", "%zu bytes to %s", b->width, c->name);
    const struct CUDA_MEMCPY2D_st copy = {.srcMemoryType = LS_CUDA_MEMORY_HOST,
                                          .srcHost = from,
                                          .srcPitch = b->width,
                                          .dstMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .dstDevice = base + b->at,
                                          .dstPitch = b->pitch,
                                          .WidthInBytes = b->width,
                                          .Height = b->rows};
    return ls_cuda_check(&c->driver, c->driver.cuMemcpy2DAsync_v2(&copy, c->copies), "cuMemcpy2DAsync_v2",
                         "%zu rows of %zu bytes to %s", b->rows, b->width, c->name);
}

/* Repeats: copies as many boxes as the stage has room for, then copies from the stage to the host's memory. */
static ls_status read_range(cuda *c, ls_cuda_address base, const ls_range *from, char *out) {
    ls_cuda_walk w = {.range = from};
    size_t staged;
    do {
        ls_cuda_box b;
        for (staged = 0; ls_cuda_next_box(&w, CUDA_STAGE_BYTES - staged, &b); staged += b.width * b.rows)
            LS_TRY(read_box(c, base, &b, c->stage + staged));
        LS_TRY(finish_copies(c, "reading", staged));
        memcpy(out, c->stage, staged);
        out += staged;
    } while (staged > 0);
    return ls_ok();
}

static ls_status write_range(cuda *c, ls_cuda_address base, const ls_range *to, const char *from) {
    ls_cuda_walk w = {.range = to};
    size_t staged;
    do {
        ls_cuda_box b;
        for (staged = 0; ls_cuda_next_box(&w, CUDA_STAGE_BYTES - staged, &b); staged += b.width * b.rows) {
            memcpy(c->stage + staged, from + staged, b.width * b.rows);
            LS_TRY(write_box(c, base, &b, c->stage + staged));
        }
        LS_TRY(finish_copies(c, "writing", staged));
        from += staged;
    } while (staged > 0);
    return ls_ok();
}

ls_status ls_cuda_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out) {
    cuda *c = device->state;
    if (is_of_host(arena) || ls_range_bytes(from) == 0) return ls_device_host_read(device, arena, from, out);
    LS_TRY(ls_cuda_enter(c));
    pthread_mutex_lock(&c->copy_lock);
    const ls_status status = read_range(c, (uintptr_t)arena->base, from, out);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}

ls_status ls_cuda_write(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from) {
    cuda *c = device->state;
    if (is_of_host(arena) || ls_range_bytes(to) == 0) return ls_device_host_write(device, arena, to, from);
    LS_TRY(ls_cuda_enter(c));
    pthread_mutex_lock(&c->copy_lock);
    const ls_status status = write_range(c, (uintptr_t)arena->base, to, from);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}

ls_status ls_cuda_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range) {
    if (is_of_host(arena) || range->length == 0) return ls_device_host_clear(device, arena, range);
    LS_ASSERT(ls_range_is_flat(range));
    LS_TRY(ls_cuda_enter(device->state));
    return ls_cuda_set_zero(device->state, (uintptr_t)arena->base + range->offset, range->length);
}
