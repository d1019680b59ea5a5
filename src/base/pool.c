/*
 * A run is one call of ls_pool_run. `work` holds a run number in its upper half and the index of the next task in its
 * lower half. A thread takes a task by adding one with compare-and-swap, which fails if the run has changed since the
 * thread read `work`. Run numbers are odd during a run and even between runs. The description of a run (task, context,
 * n) is written only between runs, and each of its fields is atomic: a late worker may read fields of two runs, but
 * then its compare-and-swap fails. The end of a run does not wait for workers without a task.
 *
 * Workers sleep on `begun`, the number of runs so far. The caller sleeps on `finished`, the number of finished tasks;
 * its top bit says that the caller sleeps.
 */
#include "base/base.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_SECONDS 20e-6
#define CALLER_SLEEPS 0x80000000u

typedef struct worker {
    ls_pool *pool;
    int thread; /* 1 .. threads-1 */
    pthread_t handle;
} worker;

struct ls_pool {
    int threads;
    bool may_spin;
    worker *workers; /* threads-1 */

    _Alignas(64) _Atomic uint64_t work;
    _Atomic ls_pool_task task;
    void *_Atomic context;
    _Atomic int n;
    atomic_bool stop;

    _Alignas(64) _Atomic uint32_t finished;
    _Alignas(64) _Atomic uint32_t begun;
    _Atomic int sleepers;
};

static uint32_t run_of(uint64_t work) { return (uint32_t)(work >> 32); }
static uint32_t next_task_of(uint64_t work) { return (uint32_t)work; }
static uint64_t make_work(uint32_t run) { return (uint64_t)run << 32; }

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int threads) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Spins until *word differs from `value` or SPIN_SECONDS are over; returns the last value read. */
static uint32_t spin_while_equal(const ls_pool *pool, _Atomic uint32_t *word, uint32_t value) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (!pool->may_spin) return seen;
    const double until = ls_seconds() + SPIN_SECONDS;
    while (seen == value) {
        for (int i = 0; i < 32 && seen == value; i++) {
            ls_pause();
            seen = atomic_load_explicit(word, memory_order_acquire);
        }
        if (ls_seconds() >= until) break;
    }
    return seen;
}

/* Runs tasks until all are taken. */
static void do_tasks(ls_pool *pool, int thread) {
    for (;;) {
        uint64_t work = atomic_load_explicit(&pool->work, memory_order_acquire);
        const ls_pool_task task = atomic_load_explicit(&pool->task, memory_order_acquire);
        void *const context = atomic_load_explicit(&pool->context, memory_order_acquire);
        const uint32_t n = (uint32_t)atomic_load_explicit(&pool->n, memory_order_acquire);
        const uint32_t i = next_task_of(work);
        if (run_of(work) % 2 == 0 || i >= n) return;
        if (!atomic_compare_exchange_strong_explicit(&pool->work, &work, work + 1, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        task(context, (int)i, thread);
        const uint32_t before = atomic_fetch_add_explicit(&pool->finished, 1, memory_order_acq_rel);
        if (before == (CALLER_SLEEPS | (n - 1))) futex_wake(&pool->finished, 1);
    }
}

static void *worker_main(void *argument) {
    const worker *self = argument;
    ls_pool *pool = self->pool;
    uint32_t seen = 0;
    for (;;) {
        while (spin_while_equal(pool, &pool->begun, seen) == seen) {
            atomic_fetch_add(&pool->sleepers, 1);
            futex_wait(&pool->begun, seen);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
        seen = atomic_load_explicit(&pool->begun, memory_order_acquire);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) return NULL;
        do_tasks(pool, self->thread);
    }
}

/* Counts one more run, which makes spinning workers look for tasks, and wakes up to `threads` sleeping workers. */
static void wake_workers(ls_pool *pool, int threads) {
    atomic_fetch_add(&pool->begun, 1);
    if (atomic_load(&pool->sleepers) > 0) futex_wake(&pool->begun, threads);
}

static void stop_workers(ls_pool *pool, int started) {
    atomic_store_explicit(&pool->stop, true, memory_order_release);
    wake_workers(pool, started);
    for (int i = 0; i < started; i++) pthread_join(pool->workers[i].handle, NULL);
}

static void free_pool(ls_pool *pool) {
    free(pool->workers);
    free(pool);
}

int ls_thread_start(pthread_t *thread, void *(*thread_main)(void *argument), void *argument) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(thread, NULL, thread_main, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

ls_status ls_pool_create(int threads, bool may_spin, ls_pool **out) {
    if (threads < 1) return ls_error(LS_INVALID, "a thread pool of %d threads; expected at least 1", threads);
    ls_pool *pool = aligned_alloc(64, ls_round_up(sizeof *pool, 64));
    worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return ls_error(LS_NO_MEMORY, "no memory for a pool of %d threads", threads);
    }
    memset(pool, 0, sizeof *pool);
    pool->threads = threads;
    pool->may_spin = may_spin;
    pool->workers = workers;
    for (int i = 0; i < threads - 1; i++) {
        workers[i] = (worker){.pool = pool, .thread = i + 1};
        const int error = ls_thread_start(&workers[i].handle, worker_main, &workers[i]);
        if (error) {
            stop_workers(pool, i);
            free_pool(pool);
            return ls_error(LS_NO_MEMORY, "thread %d of %d did not start: %s", i + 1, threads, strerror(error));
        }
    }
    *out = pool;
    return ls_ok();
}

void ls_pool_destroy(ls_pool *pool) {
    if (!pool) return;
    stop_workers(pool, pool->threads - 1);
    free_pool(pool);
}

int ls_pool_threads(const ls_pool *pool) { return pool ? pool->threads : 1; }

static void wait_until_finished(ls_pool *pool, uint32_t n) {
    uint32_t finished = atomic_load_explicit(&pool->finished, memory_order_acquire);
    const double until = ls_seconds() + (pool->may_spin ? SPIN_SECONDS : 0);
    while (finished != n && ls_seconds() < until) finished = spin_while_equal(pool, &pool->finished, finished);
    if (finished == n) return;
    finished = atomic_fetch_or(&pool->finished, CALLER_SLEEPS) | CALLER_SLEEPS;
    while (finished != (CALLER_SLEEPS | n)) {
        futex_wait(&pool->finished, finished);
        finished = atomic_load_explicit(&pool->finished, memory_order_acquire);
    }
}

void ls_pool_run(ls_pool *pool, int n, ls_pool_task task, void *context) {
    if (!pool || pool->threads == 1 || n <= 1) {
        for (int i = 0; i < n; i++) task(context, i, 0);
        return;
    }
    const uint32_t run = run_of(atomic_load_explicit(&pool->work, memory_order_relaxed)) + 1;
    atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->task, task, memory_order_release);
    atomic_store_explicit(&pool->context, context, memory_order_release);
    atomic_store_explicit(&pool->n, n, memory_order_release);
    atomic_store_explicit(&pool->work, make_work(run), memory_order_release);
    wake_workers(pool, (int)ls_min(n - 1, pool->threads - 1));
    do_tasks(pool, 0);
    wait_until_finished(pool, (uint32_t)n);
    atomic_store_explicit(&pool->work, make_work(run + 1), memory_order_seq_cst);
}
