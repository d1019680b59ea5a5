#include "run/memory.h"

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
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ls_error(LS_NO_MEMORY, "the private arena of %zu bytes cannot be mapped: %s", bytes,
                        strerror(errno));
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* both are wishes: old kernels know neither */
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, bytes, "longspan");
    *out = memory;
    return ls_ok();
}

void ls_memory_unmap(void *memory, size_t bytes) {
    if (memory != NULL) (void)munmap(memory, bytes);
}
