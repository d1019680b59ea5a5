/* Splitting a kernel's work into parts for the threads of the pool. */
#ifndef LS_KERNEL_CPU_SPLIT_H
#define LS_KERNEL_CPU_SPLIT_H

#include <stdint.h>

#include "base/base.h"

/*
 * Number of parts into which n things are split: a few per thread, so that the others need not wait for a slow thread,
 * but no part is smaller than `least` things. At least 1. It depends on nothing else, so a sum that is computed part by
 * part and then added in order has the same bits whichever thread computes which part.
 */
static inline int ls_cpu_parts(int64_t n, int64_t least, int threads) {
    enum { PARTS_OF_A_THREAD = 4 };
    if (threads <= 1) return 1;
    const int64_t most = (int64_t)threads * PARTS_OF_A_THREAD;
    return (int)ls_max(1, ls_min(most, n / least));
}

typedef void (*ls_cpu_body)(const void *context, int part, int64_t start, int64_t end);

typedef struct ls_cpu_work {
    int64_t n;
    int parts;
    ls_cpu_body body;
    const void *context;
} ls_cpu_work;

static inline void ls_cpu_run_part(void *context, int i, int thread) {
    (void)thread;
    const ls_cpu_work *w = context;
    w->body(w->context, i, ls_part_start(w->n, w->parts, i), ls_part_start(w->n, w->parts, i + 1));
}

/* Calls body(context, part, start, end) for each of `parts` parts of [0, n). */
static inline void ls_cpu_split(ls_pool *pool, int64_t n, int parts, ls_cpu_body body, const void *context) {
    ls_cpu_work w = {n, parts, body, context};
    ls_pool_run(pool, parts, ls_cpu_run_part, &w);
}

#endif
