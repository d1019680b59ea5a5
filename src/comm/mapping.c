/* Fresh address space from the operating system. */
#include "comm/comm_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Huge pages where the system grants them on request; a refusal costs nothing but speed. */
#define ADVISE_FROM_BYTES ((size_t)4 << 20)

static ls_status finish(void *base, size_t bytes, const char *kind, ls_mapping *out) {
    if (base == MAP_FAILED)
        return ls_error(LS_NO_MEMORY, "cannot map %zu bytes of %s memory: %s", bytes, kind, strerror(errno));
    if (bytes >= ADVISE_FROM_BYTES) (void)madvise(base, bytes, MADV_HUGEPAGE);
    *out = (ls_mapping){base, bytes};
    return ls_ok();
}

/* A memfd gives the mapping a name in /proc/PID/maps; without one (old kernels, sandboxes) it is anonymous.
 * Either way there is no file to clean up. */
ls_status ls_map_shared(size_t bytes, ls_mapping *out) {
    const int protection = PROT_READ | PROT_WRITE;
    void *base = MAP_FAILED;
    const int fd = memfd_create("longspan-heap", MFD_CLOEXEC);
    if (fd >= 0) {
        if (ftruncate(fd, (off_t)bytes) == 0)
            base = mmap(NULL, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
        close(fd);
    }
    if (base == MAP_FAILED)
        base = mmap(NULL, bytes, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return finish(base, bytes, "shared", out);
}

ls_status ls_map_private(size_t bytes, ls_mapping *out) {
    void *base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return finish(base, bytes, "private", out);
}

void ls_unmap(ls_mapping *mapping) {
    if (mapping->base) munmap(mapping->base, mapping->bytes);
    *mapping = (ls_mapping){NULL, 0};
}
