/* First touch of fresh memory: ahead of its use, by all threads of the rank that it belongs to. */
#ifndef LS_RUN_TOUCH_H
#define LS_RUN_TOUCH_H

#include "comm/comm.h"

/* Seconds that it took, and the bytes that the system gave. */
typedef struct ls_touched {
    double seconds;
    size_t bytes;
} ls_touched;

/*
 * Has the system give the pages of [start, start + bytes), start at a page, in slices that the pool's threads take in turn, and adds
 * to *sum. What they hold is kept, be it written by other ranks meanwhile. A wish: where the system refuses, whoever uses the rest
 * touches it. comm (NULL: none) ticks between slices, since peers may wait.
 */
void ls_touch(void *start, size_t bytes, ls_pool *pool, ls_comm *comm, ls_touched *sum);

#endif
