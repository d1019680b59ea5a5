/* The first touch of fresh memory, before its use and by all threads of its rank; and how much memory is resident. */
#include "run/executor_impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older headers lack it */
#endif

/* --- first touch -------------------------------------------------------------------------------------------------- */

/* Slices end at multiples of this, which is several huge pages, so that no two threads touch the same page. */
enum { SLICE_BYTES = 8 << 20 };

typedef struct touching {
    char *start;
    size_t bytes;
    size_t before; /* bytes of the first slice in front of `start` */
    ls_comm *comm;
    atomic_bool refused;
    atomic_size_t given;
} touching;

/* Writes a byte of each page without changing its value, even while other ranks write to the page. */
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

/* --- resident memory ---------------------------------------------------------------------------------------------- */

/* Resident bytes of [start, start + bytes); 0 if the system does not say. */
static int64_t resident_in(const void *start, size_t bytes) {
    enum { PAGES = 4096 }; /* per call of mincore */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)start / page * page, end = (uintptr_t)start + bytes;
    unsigned char seen[PAGES];
    int64_t resident = 0;
    if (start == NULL || bytes == 0) return 0;
    for (uintptr_t at = first; at < end; at += PAGES * page) {
        const size_t pages = (size_t)ls_min(PAGES, (int64_t)((end - at + page - 1) / page));
        if (mincore((void *)at, pages * page, seen) != 0) return 0;
        for (size_t i = 0; i < pages; i++) resident += (seen[i] & 1) ? (int64_t)page : 0;
    }
    return resident;
}

int64_t ls_executor_resident(const ls_executor *ex, ls_space space) {
    const int64_t all = resident_in(ex->arena[space]->source, ex->image->bytes[space]);
    return space == LS_COMMON && all > 0 ? ls_ceil_div(all, ls_image_sharers(ex->image, ls_executor_rank(ex)).n) : all;
}

/* Bytes of an arena in a range of addresses. */
static int64_t overlap_with(const ls_executor *ex, int space, uintptr_t start, uintptr_t end) {
    const uintptr_t base = (uintptr_t)ex->arena[space]->source;
    if (base == 0) return 0;
    const int64_t first = ls_max((int64_t)start, (int64_t)base);
    return ls_max(0, ls_min((int64_t)end, (int64_t)(base + ex->image->bytes[space])) - first);
}

/* Whether the line of smaps counts huge pages; *kilobytes is its number. */
static bool parse_huge(const char *line, long long *kilobytes) {
    static const char *const keys[] = {"AnonHugePages:", "ShmemPmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"};
    for (size_t i = 0; i < LS_COUNT(keys); i++) {
        const size_t length = strlen(keys[i]);
        if (strncmp(line, keys[i], length) != 0) continue;
        *kilobytes = strtoll(line + length, NULL, 10);
        return true;
    }
    return false;
}

int64_t ls_executor_huge(const ls_executor *ex) {
    FILE *file = fopen("/proc/self/smaps", "re");
    if (file == NULL) return 0;
    char line[512];
    unsigned long start, end;
    long long kilobytes;
    int64_t huge = 0, arena_bytes = 0; /* arena_bytes: those in the current mapping that are not yet counted as huge */
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            arena_bytes = 0;
            for (int s = 0; s < LS_SPACES; s++) arena_bytes += overlap_with(ex, s, start, end);
        } else if (parse_huge(line, &kilobytes)) {
            const int64_t more = ls_min(arena_bytes, kilobytes * 1024);
            huge += more;
            arena_bytes -= more;
        }
    }
    fclose(file);
    return huge;
}
