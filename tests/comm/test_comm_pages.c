/*
 * The pages of the shared heap: the system's settings for huge pages are read correctly, and reserved huge pages
 * are used up to the last whole one. This machine may have none, so memfd_create and madvise are replaced, and
 * ordinary pages stand for reserved ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "comm/comm_impl.h"
#include "support/scratch.h"

static struct {
    bool set_aside, refuses; /* there are such pages; but they cannot be had when they are asked for */
    int given;               /* files of them */
} stand_in;

int memfd_create(const char *name, unsigned flags) {
    if ((flags & MFD_HUGETLB) != 0) {
        if (!stand_in.set_aside) {
            errno = ENOMEM;
            return -1;
        }
        stand_in.given++;
        flags &= MFD_CLOEXEC;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

int madvise(void *at, size_t bytes, int advice) {
    if (advice == 23 && stand_in.refuses) { /* MADV_POPULATE_WRITE */
        errno = EFAULT;
        return -1;
    }
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* --- what the system says ----------------------------------------------------------------------------------------- */

static bool says(void **state, const char *all, const char *of_2_mib) {
    if (all != NULL) (void)scratch_text(state, "shmem_enabled", all);
    if (of_2_mib != NULL) {
        (void)mkdir(scratch_path(state, "hugepages-2048kB"), 0700);
        (void)scratch_text(state, "hugepages-2048kB/shmem_enabled", of_2_mib);
    }
    return ls_shared_gets_huge_pages(*state);
}

static void the_choice_is_read(void **state) {
    assert_false(ls_shared_gets_huge_pages("/nowhere"));
    assert_false(says(state, NULL, NULL));
    assert_true(says(state, "always within_size [advise] never deny force\n", NULL));
    assert_true(says(state, "[always] within_size advise never deny force\n", NULL));
    assert_true(says(state, "always [within_size] advise never deny force\n", NULL));
    assert_false(says(state, "always within_size advise [never] deny force\n", NULL));
    assert_false(says(state, "always within_size advise never [deny] force\n", NULL));
    char longest[5000];
    memset(longest, '[', sizeof longest);
    longest[sizeof longest - 1] = 0;
    const char *const hostile[] = {"",         "\n",        "advise",    "[",        "[]",    "[advise",
                                   "]advise[", "[advised]", "[ advise]", "%s%n[%s]", longest, "\xff\xfe[\x01]"};
    for (size_t i = 0; i < LS_COUNT(hostile); i++) assert_false(says(state, hostile[i], NULL));
    assert_false(says(state, "[never]", "always [inherit] within_size advise never"));
    assert_true(says(state, "[advise]", "always [inherit] within_size advise never"));
    assert_true(says(state, "[never]", "always inherit within_size [advise] never"));
    assert_false(says(state, "[advise]", "always inherit within_size advise [never]"));
}

/* --- pages set aside ---------------------------------------------------------------------------------------------- */

/* Written and read from end to end, by this process and a child, and not a byte more is there than asked for. */
static void check_heap(size_t bytes) {
    ls_mapping heap;
    assert_ok(ls_map_shared(bytes, &heap));
    assert_int_equal(heap.bytes, bytes);
    assert_int_equal((uintptr_t)heap.base % (2 << 20), 0);
    unsigned char seen;
    assert_int_equal(mincore(heap.base + bytes - 4096, 4096, &seen), 0);
    for (size_t at = 0; at < bytes; at += 4096) assert_int_equal(heap.base[at], 0);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t at = 0; at < bytes; at += 4096) heap.base[at] = (char)(at >> 12);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (size_t at = 0; at < bytes; at += 4096) assert_int_equal(heap.base[at], (char)(at >> 12));
    char *base = heap.base;
    ls_unmap(&heap);
    assert_int_equal(mincore(base, 4096, &seen), -1);
    assert_int_equal(mincore(base + bytes - 4096, 4096, &seen), -1);
}

static void pages_set_aside_are_used(void **state) {
    (void)state;
    const size_t sizes[] = {(4 << 20) + 4096, 8 << 20, (8 << 20) - 4096, (10 << 20) + (1 << 20)};
    const bool asks = ls_shared_gets_huge_pages("/sys/kernel/mm/transparent_hugepage"); /* then those are enough */
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        stand_in.given = 0;
        stand_in.set_aside = false;
        check_heap(sizes[i]);
        stand_in.set_aside = true;
        check_heap(sizes[i]);
        assert_int_equal(stand_in.given, asks ? 0 : 1);
        stand_in.refuses = true;
        check_heap(sizes[i]);
        assert_int_equal(stand_in.given, asks ? 0 : 2);
        stand_in.refuses = false;
    }
    check_heap(4096);
    assert_int_equal(stand_in.given, asks ? 0 : 2); /* a small one takes none */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_choice_is_read),
                                       cmocka_unit_test(pages_set_aside_are_used)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
