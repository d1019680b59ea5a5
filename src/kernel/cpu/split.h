/* Dealing a kernel's work to the threads of the pool. */
#ifndef LS_KERNEL_CPU_SPLIT_H
#define LS_KERNEL_CPU_SPLIT_H

#include <stdint.h>

#include "base/base.h"

/*
 * How many parts n things are cut into for so many threads: a few parts per thread, so that a late thread does not hold
 * up the others, but no part smaller than `least` things. At least 1. It depends on nothing else, so sums that are made part by
 * part and combined in order give the same bits whichever thread made which.
 */
int ls_cpu_parts(int64_t n, int64_t least, int threads);

/* Calls body(context, part, start, end) for each of `parts` parts of [0, n). */
typedef void (*ls_cpu_body)(const void *context, int part, int64_t start, int64_t end);
void ls_cpu_split(ls_pool *pool, int64_t n, int parts, ls_cpu_body body, const void *context);

#endif
