/* Worlds, and the collectives among the ranks of a host. */
#include "support/world.h"

#include <stdlib.h>

static ls_status exchange_sizes(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    static const size_t sizes[] = {1, 8, 100, LS_COMM_EXCHANGE, 0};
    unsigned char *all = malloc((size_t)size * LS_COMM_EXCHANGE);
    RANK_CHECK(all != NULL);
    ls_status status = ls_ok();
    for (int round = 0; round < 100 && status.code == LS_OK; round++) {
        const size_t bytes = sizes[(size_t)round % LS_COUNT(sizes)];
        unsigned char mine[LS_COMM_EXCHANGE];
        memset(mine, (rank * 7 + round) % 251, sizeof mine);
        status = ls_comm_exchange(comm, mine, bytes, all);
        memset(mine, 0, sizeof mine); /* ours again at once */
        for (int peer = 0; peer < size && status.code == LS_OK; peer++)
            for (size_t i = 0; i < bytes; i++)
                if (all[(size_t)peer * bytes + i] != (peer * 7 + round) % 251)
                    status = ls_error(LS_INVALID, "round %d: rank %d sees a wrong byte %zu of rank %d", round,
                                      rank, i, peer);
    }
    free(all);
    return status;
}

/* After a barrier, what every rank put before it is there; heap words hold the round number. */
static ls_status barriers(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    const uint32_t *heap = ls_comm_heap(comm);
    const ls_range from = ls_range_flat(0, sizeof(uint32_t));
    const ls_range to = ls_range_flat((size_t)rank * sizeof(uint32_t), sizeof(uint32_t));
    for (uint32_t round = 1; round <= 200; round++) {
        for (int peer = 0; peer < size; peer++) ls_comm_put(comm, peer, &to, &round, &from);
        LS_TRY(ls_comm_barrier(comm));
        for (int peer = 0; peer < size; peer++) RANK_CHECK(heap[peer] == round);
        LS_TRY(ls_comm_barrier(comm));
    }
    return ls_ok();
}

static ls_status agreements(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    for (int round = 0; round < 20; round++) {
        LS_TRY(ls_comm_agree(comm, ls_ok()));
        /* the ranks from `first` on fail; everybody hears of `first` */
        const int first = round % size;
        const ls_status mine = rank >= first ? ls_error(LS_IO, "disk %d is full", rank) : ls_ok();
        const ls_status agreed = ls_comm_agree(comm, mine);
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d: disk %d is full", first, first);
        RANK_CHECK(agreed.code == LS_IO);
        RANK_CHECK(strcmp(agreed.text, expected) == 0);
    }
    return ls_ok();
}

static void at_sizes(ls_rank_main rank_main) {
    static const int sizes[] = {1, 2, 3, 8, 16};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        const ls_world_options options = small_world(sizes[i]);
        assert_ok(run_world(&options, true, rank_main, NULL));
        assert_ok(run_world(&options, false, rank_main, NULL));
    }
}

static void test_exchange(void **state) {
    (void)state;
    at_sizes(exchange_sizes);
}

static void test_barrier(void **state) {
    (void)state;
    at_sizes(barriers);
}

static void test_agree(void **state) {
    (void)state;
    at_sizes(agreements);
}

static void test_transport_names(void **state) {
    (void)state;
    assert_string_equal(ls_transport_name(0), "self");
    assert_string_equal(ls_transport_name(1), "shm");
    assert_string_equal(ls_transport_name(2), "chaos");
    assert_null(ls_transport_name(3));
    assert_null(ls_transport_name(-1));
}

static void test_options_refused(void **state) {
    (void)state;
    ls_world *world = NULL;
    ls_world_options options = small_world(2);
    assert_fails(ls_world_create("pigeon", &options, &world), LS_INVALID, "'pigeon'");
    assert_fails(ls_world_create("self", &options, &world), LS_INVALID,
                 "transport self takes 1 to 1 ranks, not 2");
    options.ranks = 0;
    assert_fails(ls_world_create("shm", &options, &world), LS_INVALID, "not 0");
    options.ranks = 100000;
    assert_fails(ls_world_create("shm", &options, &world), LS_INVALID, "not 100000");
    options = small_world(2);
    options.words = -1;
    assert_fails(ls_world_create("shm", &options, &world), LS_INVALID, "-1");
    options = small_world(2);
    options.wait_timeout = -1.0;
    assert_fails(ls_world_create("shm", &options, &world), LS_INVALID, "-1");
    assert_null(world);
}

/* Both what this machine has not, and what no machine has. */
static void test_heap_too_large(void **state) {
    (void)state;
    ls_world *world = NULL;
    ls_world_options options = small_world(2);
    options.heap_bytes = (size_t)1 << 50;
    assert_fails(ls_world_create("shm", &options, &world), LS_NO_MEMORY, "1125899906842624");
    options.heap_bytes = SIZE_MAX - 100;
    assert_fails(ls_world_create("shm", &options, &world), LS_NO_MEMORY, "18446744073709551515");
    options.ranks = 1;
    assert_fails(ls_world_create("self", &options, &world), LS_NO_MEMORY, "18446744073709551515");
    assert_null(world);
}

static void test_thousand_ranks(void **state) {
    (void)state;
    ls_world_options options = small_world(1000);
    options.heap_bytes = 0;
    options.words = 3000;
    ls_world *world;
    assert_ok(ls_world_create("shm", &options, &world));
    ls_comm *first, *last, *again;
    assert_ok(ls_world_join(world, 0, &first));
    assert_ok(ls_world_join(world, 999, &last));
    assert_fails(ls_world_join(world, 999, &again), LS_INVALID, "rank 999 has joined already");
    assert_fails(ls_world_join(world, 1000, &again), LS_INVALID, "rank 1000");
    ls_comm_signal(first, 999, 2999, 5);
    assert_true(ls_comm_test(last, 2999, 5));
    assert_int_equal(ls_comm_word(last, 2998), 0);
    ls_comm_leave(first);
    ls_comm_leave(last);
    ls_world_destroy(world);
}

/* Pages are placed by the rank that owns them, so the world must not have touched any. */
static void test_heap_untouched(void **state) {
    (void)state;
    static const char *const names[] = {"shm", "self"};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        ls_world_options options = small_world(1);
        options.heap_bytes = (size_t)64 << 20;
        ls_world *world;
        ls_comm *comm;
        assert_ok(ls_world_create(names[i], &options, &world));
        assert_ok(ls_world_join(world, 0, &comm));
        unsigned char *heap = ls_comm_heap(comm);
        assert_int_equal((uintptr_t)heap % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
        FILE *maps = fopen("/proc/self/smaps", "r");
        assert_non_null(maps);
        char line[512];
        bool inside = false, found = false;
        while (fgets(line, sizeof line, maps)) {
            unsigned long from, to;
            long kilobytes;
            if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
                inside = from <= (uintptr_t)heap && (uintptr_t)heap < to;
            if (inside && sscanf(line, "Rss: %ld kB", &kilobytes) == 1) {
                found = true;
                assert_true(kilobytes < 64);
            }
        }
        fclose(maps);
        assert_true(found);
        assert_int_equal(heap[options.heap_bytes - 1], 0);
        ls_comm_leave(comm);
        ls_world_destroy(world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_agree),           cmocka_unit_test(test_transport_names),
        cmocka_unit_test(test_options_refused), cmocka_unit_test(test_heap_too_large),
        cmocka_unit_test(test_thousand_ranks),  cmocka_unit_test(test_heap_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
