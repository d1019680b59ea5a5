/*
 * First touch: it maps all pages of a range and no others, their content stays, and a refusal of the system is no
 * failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/run.h"
#include "support/scratch.h"

enum { BYTES = 40 << 20, BEFORE = 3 << 20 };

static void *map(int flags, int file, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static size_t resident(void *start, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page;
    unsigned char *seen = malloc(pages);
    assert_int_equal(mincore(start, bytes, seen), 0);
    size_t n = 0;
    for (size_t i = 0; i < pages; i++) n += (seen[i] & 1) ? page : 0;
    free(seen);
    return n;
}

/* A part in the middle, at a page but not at a huge one, with something written at both ends. */
static void check(int flags, int file, int threads) {
    char *memory = map(flags, file, BYTES);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = BYTES - BEFORE - 2 * (size_t)BEFORE - 5 * page;
    char *start = memory + BEFORE + page;
    ls_pool *pool;
    ls_touched sum = {1.0, 1};
    (void)madvise(memory, BYTES, MADV_NOHUGEPAGE); /* or a neighbour of the part may come with it */
    assert_ok(ls_pool_create(threads, false, &pool));
    start[0] = 1;
    start[bytes - 1] = 2;
    ls_touch(start, bytes - 7, pool, NULL, &sum);
    assert_int_equal(sum.bytes, 1 + bytes - 7);
    assert_true(sum.seconds > 1.0);
    assert_int_equal(resident(start, bytes), bytes);
    assert_int_equal(resident(memory, (size_t)(start - memory)), 0);
    assert_int_equal(resident(start + bytes, (size_t)(memory + BYTES - start) - bytes), 0);
    assert_true(start[0] == 1 && start[bytes - 1] == 2 && start[bytes / 2] == 0);
    ls_touch(start, 0, pool, NULL, &sum);
    assert_int_equal(sum.bytes, 1 + bytes - 7);
    ls_pool_destroy(pool);
    munmap(memory, BYTES);
}

static void all_pages_come(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        check(MAP_PRIVATE | MAP_ANONYMOUS, -1, threads);
        check(MAP_SHARED | MAP_ANONYMOUS, -1, threads);
    }
}

/* Another rank: writes every page of the heap, over and over. */
typedef struct writer {
    char *start;
    size_t bytes;
    atomic_bool stop;
} writer;

static void *write_over_and_over(void *argument) {
    writer *w = argument;
    do {
        for (size_t at = 64; at < w->bytes; at += 4096) w->start[at]++;
    } while (!atomic_load(&w->stop));
    return NULL;
}

static void what_others_write_stays(void **state) {
    (void)state;
    enum { ROUNDS = 5 };
    writer w = {.start = map(MAP_SHARED | MAP_ANONYMOUS, -1, BYTES), .bytes = BYTES};
    pthread_t thread;
    ls_touched sum = {0, 0};
    assert_int_equal(pthread_create(&thread, NULL, write_over_and_over, &w), 0);
    for (int i = 0; i < ROUNDS; i++) ls_touch(w.start, BYTES, NULL, NULL, &sum);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(sum.bytes, (size_t)ROUNDS * BYTES);
    for (size_t at = 64; at < BYTES; at += 4096) assert_int_equal(w.start[at], w.start[64]);
    munmap(w.start, BYTES);
}

/* There is no memory behind the end of a file: a plain write would end the process. */
static void a_refusal_is_no_failure(void **state) {
    enum { THERE = 8 << 20 };
    FILE *file = fopen(scratch_text(state, "short", ""), "r+");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), THERE), 0);
    char *memory = map(MAP_SHARED, fileno(file), BYTES);
    ls_touched sum = {0, 0};
    if (madvise(memory, 4096, 23) != 0) skip(); /* a system without MADV_POPULATE_WRITE, where pages must be written */
    ls_touch(memory, BYTES, NULL, NULL, &sum);
    print_message("%zu of %d bytes given\n", sum.bytes, BYTES);
    assert_true(sum.bytes <= THERE);
    munmap(memory, BYTES);
    assert_int_equal(fclose(file), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_pages_come), cmocka_unit_test(what_others_write_stays),
                                       cmocka_unit_test(a_refusal_is_no_failure)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
