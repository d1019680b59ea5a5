/*
 * The thread pool runs each task once, starts tasks in ascending order, on threads that exist; workers sleep and
 * spin.
 */
#include "base/base.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 5000 };

typedef struct job {
    int times[MOST]; /* plain, so that a sanitizer sees a task that runs twice at once */
    _Atomic int started[MOST];
    _Atomic int next;
    _Atomic bool bad_thread;
    int threads;
} job;

static void record(void *context, int i, int thread) {
    job *j = context;
    if (thread < 0 || thread >= j->threads) atomic_store(&j->bad_thread, true);
    atomic_store(&j->started[i], atomic_fetch_add(&j->next, 1));
    j->times[i]++;
}

static void check_once_each(job *j, int n) {
    assert_false(atomic_load(&j->bad_thread));
    assert_int_equal(atomic_load(&j->next), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(j->times[i], 1);
        /* Started in order; with more threads one may overtake another between taking a task and recording it. */
        if (j->threads == 1) assert_int_equal(atomic_load(&j->started[i]), i);
    }
}

static job *run_and_check(ls_pool *pool, int n) {
    static job j;
    for (int i = 0; i < n; i++) j.times[i] = 0;
    atomic_store(&j.next, 0);
    j.threads = ls_pool_threads(pool);
    ls_pool_run(pool, n, record, &j);
    check_once_each(&j, n);
    return &j;
}

static void test_each_task_runs_once(void **state) {
    (void)state;
    const int sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 64, 1000, MOST};
    for (int threads = 1; threads <= 9; threads += 2)
        for (int spin = 0; spin <= 1; spin++) {
            ls_pool *pool = NULL;
            assert_int_equal(ls_pool_create(threads, spin, &pool).code, LS_OK);
            assert_int_equal(ls_pool_threads(pool), threads);
            for (size_t i = 0; i < LS_COUNT(sizes); i++) run_and_check(pool, sizes[i]);
            ls_pool_destroy(pool);
        }
    run_and_check(NULL, 10);
    ls_pool_destroy(NULL);
}

/* Many short runs, back to back and with pauses in which workers fall asleep: late workers meet a later run. */
static void test_many_short_runs(void **state) {
    (void)state;
    for (int spin = 0; spin <= 1; spin++) {
        ls_pool *pool = NULL;
        assert_int_equal(ls_pool_create(4, spin, &pool).code, LS_OK);
        for (int round = 0; round < 3000; round++) {
            const int n = 1 + round % 7;
            job *j = run_and_check(pool, n);
            if (round % 20 != 6) continue;
            usleep(200);
            check_once_each(j, n); /* a worker that wakes after the run finds nothing to do */
        }
        ls_pool_destroy(pool);
    }
}

typedef struct meeting {
    _Atomic int here;
    int wanted;
} meeting;

/* Ends only when all tasks run at the same time. */
static void meet(void *context, int i, int thread) {
    (void)i, (void)thread;
    meeting *m = context;
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < m->wanted) usleep(50);
}

static void test_threads_work_at_the_same_time(void **state) {
    (void)state;
    for (int spin = 0; spin <= 1; spin++) {
        ls_pool *pool = NULL;
        assert_int_equal(ls_pool_create(4, spin, &pool).code, LS_OK);
        for (int round = 0; round < 20; round++) {
            meeting m = {.here = 0, .wanted = 4};
            ls_pool_run(pool, 4, meet, &m);
            usleep(round % 2 ? 1000 : 0);
        }
        ls_pool_destroy(pool);
    }
}

static void sum_task(void *context, int i, int thread) {
    (void)thread;
    ((int64_t *)context)[i] = (int64_t)i * i;
}

static void *own_pool(void *argument) {
    int64_t *wrong = argument;
    ls_pool *pool = NULL;
    if (ls_pool_create(3, false, &pool).code != LS_OK) *wrong = -1;
    int64_t squares[100];
    for (int round = 0; round < 200 && *wrong == 0; round++) {
        ls_pool_run(pool, 100, sum_task, squares);
        for (int i = 0; i < 100; i++) *wrong += squares[i] != (int64_t)i * i;
    }
    ls_pool_destroy(pool);
    return NULL;
}

/* Ranks may be threads of one process, each with its own pool. */
static void test_pools_side_by_side(void **state) {
    (void)state;
    pthread_t threads[3];
    int64_t wrong[3] = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, own_pool, &wrong[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(wrong[i], 0);
}

static void test_no_threads_is_an_error(void **state) {
    (void)state;
    ls_pool *pool = (ls_pool *)(uintptr_t)1;
    const ls_status status = ls_pool_create(0, true, &pool);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "0 threads"));
    assert_ptr_equal(pool, (ls_pool *)(uintptr_t)1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_runs_once),           cmocka_unit_test(test_many_short_runs),
        cmocka_unit_test(test_threads_work_at_the_same_time), cmocka_unit_test(test_pools_side_by_side),
        cmocka_unit_test(test_no_threads_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
