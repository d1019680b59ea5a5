/* See touch.h. */
#include "run/touch.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14, which older headers lack */
#endif

/* Slices end at multiples of this, several huge pages, so that no two threads ask for one page. */
enum { SLICE_BYTES = 8 << 20 };

typedef struct touching {
    char *start;
    size_t bytes;
    size_t before; /* of the first slice, that lie before start */
    ls_comm *comm;
    atomic_bool refused;
    atomic_size_t given;
} touching;

/* A byte of each page is written with what it holds. */
static void write_pages(void *start, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    atomic_char *const byte = start;
    for (size_t at = 0; at < bytes; at += page) atomic_fetch_or_explicit(&byte[at], 0, memory_order_relaxed);
}

static bool populate(char *start, size_t bytes) {
    if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false; /* else the system does not know this advice */
    write_pages(start, bytes);
    return true;
}

static void touch_slice(void *context, int i, int thread) {
    touching *t = context;
    const size_t slice = (size_t)i * SLICE_BYTES;
    const size_t first = slice > t->before ? slice - t->before : 0;
    const size_t end = (size_t)ls_min((int64_t)t->bytes, (int64_t)(slice + SLICE_BYTES - t->before));
    if (t->comm != NULL && thread == 0) ls_comm_tick(t->comm); /* the caller's thread */
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
