/*
 * The thread pool of one rank: the calling thread and threads-1 workers.
 * An idle worker spins briefly, then sleeps on a futex. With may_spin false it sleeps at once, which is right when
 * ranks x threads exceed the cores.
 */
#ifndef LS_BASE_POOL_H
#define LS_BASE_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "longspan/status.h"

/*
 * Starts a thread in which all signals are blocked, so that another thread handles them. Returns 0 or an error number.
 */
LS_MUST_USE int ls_thread_start(pthread_t *thread, void *(*thread_main)(void *argument), void *argument);

typedef struct ls_pool ls_pool;

/* threads >= 1 counts the calling thread. */
LS_MUST_USE ls_status ls_pool_create(int threads, bool may_spin, ls_pool **out);
void ls_pool_destroy(ls_pool *pool);      /* NULL is allowed */
int ls_pool_threads(const ls_pool *pool); /* NULL: 1 */

/*
 * Calls task(context, i, thread) once for each i in [0, n) and returns when all are done. Any thread may run task i;
 * `thread`, in [0, threads), is its index. Tasks start in ascending order of i, so the longest should be first.
 * With pool NULL, one thread or n = 1 the caller runs all tasks. A task must not call ls_pool_run on the same pool.
 */
typedef void (*ls_pool_task)(void *context, int i, int thread);
void ls_pool_run(ls_pool *pool, int n, ls_pool_task task, void *context);

#endif
