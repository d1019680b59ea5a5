/*
 * The private arena, one anonymous mapping; and the first touch of fresh memory, ahead of its use and by all threads of
 * its rank.
 */
#include "run/run.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older headers lack it */
#endif

/* --- the mapping -------------------------------------------------------------------------------------------------- */

ls_status ls_memory_map(size_t bytes, void **out) {
    if (bytes == 0) {
        *out = NULL;
        return ls_ok();
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return ls_error(LS_NO_MEMORY, "the private arena of %zu bytes cannot be mapped: %s", bytes, strerror(errno));
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* nothing depends on these two: old kernels know neither */
    (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, bytes, "longspan");
    *out = memory;
    return ls_ok();
}

void ls_memory_unmap(void *memory, size_t bytes) {
    if (memory != NULL) (void)munmap(memory, bytes);
}

/* --- first touch -------------------------------------------------------------------------------------------------- */

/* Slices end at multiples of this, which is several huge pages, so that no two threads touch the same page. */
enum { SLICE_BYTES = 8 << 20 };

typedef struct touching {
    char *start;
    size_t bytes;
    size_t before; /* bytes of the first slice that lie before start */
    ls_comm *comm;
    atomic_bool refused;
    atomic_size_t given;
} touching;

/* Writes a byte of each page without changing it, also while other ranks write to the page. */
static void write_pages(void *start, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    atomic_char *const byte = start;
    for (size_t at = 0; at < bytes; at += page) atomic_fetch_or_explicit(&byte[at], 0, memory_order_relaxed);
}

static bool populate(char *start, size_t bytes) {
    if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false; /* EINVAL: the system does not know this advice */
    write_pages(start, bytes);
    return true;
}

static void touch_slice(void *context, int i, int thread) {
    touching *t = context;
    const size_t slice = (size_t)i * SLICE_BYTES;
    const size_t first = slice > t->before ? slice - t->before : 0;
    const size_t end = (size_t)ls_min((int64_t)t->bytes, (int64_t)(slice + SLICE_BYTES - t->before));
    if (t->comm != NULL && thread == 0) ls_comm_tick(t->comm); /* thread 0 is the caller's thread */
    if (atomic_load_explicit(&t->refused, memory_order_relaxed)) return;
    if (populate(t->start + first, end - first))
        atomic_fetch_add_explicit(&t->given, end - first, memory_order_relaxed);
    else
        atomic_store_explicit(&t->refused, true, memory_order_relaxed);
}

void ls_touch(void *start, size_t bytes, ls_pool *pool, ls_comm *comm, ls_touched *sum) {
    if (bytes == 0) return;
    const double began = ls_seconds();
    touching t = {.start = start, .bytes = bytes, .before = (uintptr_t)start % SLICE_BYTES, .comm = comm};
    ls_pool_run(pool, (int)ls_ceil_div((int64_t)(t.before + bytes), SLICE_BYTES), touch_slice, &t);
    sum->seconds += ls_seconds() - began;
    sum->bytes += atomic_load(&t.given);
}
