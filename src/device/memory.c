/* Memory of the host: mapped zeroed, and copied by ranges. */
#include "device/device_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

ls_status ls_memory_map(size_t bytes, void **out) {
    if (bytes == 0) {
        *out = NULL;
        return ls_ok();
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ls_error(LS_NO_MEMORY, "%zu bytes of memory cannot be mapped: %s", bytes, strerror(errno));
    (void)madvise(memory, bytes,
                  MADV_HUGEPAGE); /* old kernels know neither of these two calls, and nothing depends on them */
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, bytes, "longspan");
    *out = memory;
    return ls_ok();
}

void ls_memory_unmap(void *memory, size_t bytes) {
    if (memory != NULL) (void)munmap(memory, bytes);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void copy(void *target, const ls_range *to, const void *source, const ls_range *from) {
    if (ls_range_is_flat(to) && ls_range_is_flat(from))
        memcpy((char *)target + to->offset, (const char *)source + from->offset, to->length);
    else
        ls_range_copy(target, to, source, from);
}

ls_status ls_device_host_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out) {
    (void)device;
    const ls_range dense = ls_range_flat(0, ls_range_bytes(from));
    if (dense.length > 0) copy(out, &dense, arena->source, from);
    return ls_ok();
}

ls_status ls_device_host_write(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from) {
    (void)device;
    const ls_range dense = ls_range_flat(0, ls_range_bytes(to));
    if (dense.length > 0) copy(arena->source, to, from, &dense);
    return ls_ok();
}

ls_status ls_device_host_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range) {
    (void)device;
    LS_ASSERT(ls_range_is_flat(range));
    if (range->length > 0) memset(arena->source + range->offset, 0, range->length);
    return ls_ok();
}
