/* Worlds, and the collectives among the ranks of a host. */
#include "comm/comm_impl.h"
#include "support/world.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Host collectives are tried at every number of ranks up to this: one beyond a power of two. */
enum { MOST_RANKS = 33, MOST_BYTES = 1000 };

static ls_status exchange_sizes(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    static const size_t sizes[] = {1, 8, 100, MOST_BYTES, 0};
    unsigned char *all = malloc((size_t)size * MOST_BYTES);
    RANK_CHECK(all != NULL);
    ls_status status = ls_ok();
    for (int round = 0; round < 10 && status.code == LS_OK; round++) {
        const size_t bytes = sizes[(size_t)round % LS_COUNT(sizes)];
        unsigned char mine[MOST_BYTES];
        for (size_t i = 0; i < bytes; i++) mine[i] = (unsigned char)((rank * 7 + round + (int)i) % 251);
        status = ls_comm_exchange(comm, mine, bytes, all);
        memset(mine, 0, sizeof mine); /* ours again at once */
        for (int peer = 0; peer < size && status.code == LS_OK; peer++)
            for (size_t i = 0; i < bytes; i++)
                if (all[(size_t)peer * bytes + i] != (peer * 7 + round + (int)i) % 251)
                    status = ls_error(LS_INVALID, "round %d: rank %d sees a wrong byte %zu of rank %d", round, rank, i,
                                      peer);
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
    for (uint32_t round = 1; round <= 6; round++) {
        for (int peer = 0; peer < size; peer++) ls_comm_put(comm, peer, &to, &round, &from);
        LS_TRY(ls_comm_barrier(comm));
        for (int peer = 0; peer < size; peer++) RANK_CHECK(heap[peer] == round);
        LS_TRY(ls_comm_barrier(comm));
    }
    return ls_ok();
}

/* A set of ranks as bits, and the largest of some numbers, in a value of the largest size. */
typedef struct heard {
    uint64_t ranks;
    double most;
    char text[LS_COMM_VALUE - 16];
} heard;

static void hear(void *into, const void *from, size_t bytes) {
    heard *all = into;
    const heard *one = from;
    LS_ASSERT(bytes == sizeof *all);
    all->ranks |= one->ranks;
    if (one->most <= all->most) return;
    all->most = one->most;
    memcpy(all->text, one->text, sizeof all->text);
}

/* Every rank's value is merged, on every rank; and everybody hears rank 0, of any number of bytes. */
static ls_status reductions(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    for (int round = 0; round < 6; round++) {
        const int loudest = round % size;
        heard all = {.ranks = (uint64_t)1 << rank, .most = rank == loudest ? 1000 : rank};
        memset(all.text, 'a' + rank % 26, sizeof all.text);
        LS_TRY(ls_comm_reduce(comm, &all, sizeof all, hear));
        RANK_CHECK(all.ranks == ((uint64_t)1 << size) - 1);
        RANK_CHECK(all.most == 1000 && all.text[sizeof all.text - 1] == 'a' + loudest % 26);
        int64_t said[2] = {rank + round, rank - round};
        LS_TRY(ls_comm_broadcast(comm, said, sizeof said));
        RANK_CHECK(said[0] == round && said[1] == -round);
        char most[LS_COMM_VALUE];
        memset(most, rank == 0 ? round : 99, sizeof most);
        LS_TRY(ls_comm_broadcast(comm, most, sizeof most));
        for (size_t i = 0; i < sizeof most; i++) RANK_CHECK(most[i] == round);
    }
    return ls_ok();
}

/* The first value is greatest on rank 0, the second on the last rank; the third is a number on one rank only. */
static ls_status maxima(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    int64_t whole[] = {-rank, INT64_MAX - size + rank, -7};
    double real[] = {-rank, 0.5 * rank, rank == size / 2 ? -3 : NAN, NAN};
    LS_TRY(ls_comm_max_i64(comm, whole, (int)LS_COUNT(whole)));
    LS_TRY(ls_comm_max_f64(comm, real, (int)LS_COUNT(real)));
    RANK_CHECK(whole[0] == 0 && whole[1] == INT64_MAX - 1 && whole[2] == -7);
    RANK_CHECK(real[0] == 0 && real[1] == 0.5 * (size - 1) && real[2] == -3 && isnan(real[3]));
    return ls_ok();
}

static ls_status agreements(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    for (int round = 0; round < 6; round++) {
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

static const ls_rank_main collectives[] = {exchange_sizes, barriers, reductions, maxima, agreements};

/* All of them one after the other: a message of one must not be taken for one of the next. */
static ls_status every_collective(ls_comm *comm, void *context) {
    for (size_t i = 0; i < LS_COUNT(collectives); i++) LS_TRY(collectives[i](comm, context));
    return ls_ok();
}

static void test_any_number_of_ranks(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        const ls_world_options options = small_world(ranks);
        assert_ok(run_world_on("shm", &options, true, every_collective, NULL));
    }
}

static void test_processes(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, 17};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        const ls_world_options options = small_world(sizes[i]);
        assert_ok(run_world_on("shm", &options, false, every_collective, NULL));
    }
}

static void test_chaos(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks += ranks < 9 ? 1 : 8) {
        const ls_world_options options = small_world(ranks);
        char name[32];
        snprintf(name, sizeof name, "chaos:%d", ranks);
        assert_ok(run_world_on(name, &options, true, every_collective, NULL));
    }
}

/* Messages take a millisecond, so ranks are a round apart. */
static void test_slow_messages(void **state) {
    (void)state;
    const ls_world_options options = small_world(5);
    assert_ok(run_world_on("chaos:1:0.001", &options, true, reductions, NULL));
}

/* What one rank holds for them grows as P, not as P squared in all but the parts of an exchange. */
static void test_inbox(void **state) {
    (void)state;
    assert_int_equal(ls_host_rounds(1), 0);
    assert_int_equal(ls_host_rounds(33), 6);
    assert_int_equal(ls_host_rounds(INT32_MAX), 31);
    assert_true(ls_host_inbox_bytes(4096) <= 4096 * 160); /* 64, and a head of 96 */
    assert_true(ls_host_inbox_bytes(2) <= 128 << 10);
}

static void test_transport_names(void **state) {
    (void)state;
    assert_string_equal(ls_transport_name(0), "shm");
    assert_string_equal(ls_transport_name(1), "tcp");
    assert_null(ls_transport_name(2));
    assert_null(ls_transport_name(-1));
}

static void test_options_refused(void **state) {
    (void)state;
    ls_world *world = NULL;
    ls_world_options options = small_world(2);
    assert_fails(ls_world_create("pigeon", &options, &world), LS_USAGE, "'pigeon'");
    assert_fails(ls_world_create("shm,shm", &options, &world), LS_USAGE, "each once");
    options.ranks = 0;
    assert_fails(ls_world_create("shm", &options, &world), LS_INVALID, "not 0");
    options.ranks = INT32_MAX; /* no limit but this machine's */
    assert_fails(ls_world_create("shm", &options, &world), LS_NO_MEMORY, "2147483647 symmetric heaps");
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
    assert_fails(ls_world_create("shm", &options, &world), LS_NO_MEMORY, "18446744073709551515");
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
    for (int ranks = 1; ranks <= 2; ranks++) { /* private and shared memory */
        ls_world_options options = small_world(ranks);
        options.heap_bytes = (size_t)64 << 20;
        ls_world *world;
        ls_comm *comm;
        assert_ok(ls_world_create("shm", &options, &world));
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
            if (sscanf(line, "%lx-%lx ", &from, &to) == 2) inside = from <= (uintptr_t)heap && (uintptr_t)heap < to;
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

/* Maps a new file in /dev/shm, whose name goes to `path`. */
static void *map_shared_file(char path[40]) {
    snprintf(path, 40, "/dev/shm/longspan-test-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0 && ftruncate(file, 4096) == 0);
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    assert_true(memory != MAP_FAILED);
    close(file);
    return memory;
}

/* When the launcher is gone, the files that a program has mapped itself stay: only those that came later are listed. */
static void test_shared_files(void **state) {
    (void)state;
    char own[40], later[40], expected[48];
    void *first = map_shared_file(own);
    char *before = ls_shared_files(NULL);
    assert_non_null(before);
    assert_non_null(strstr(before, own));
    void *second = map_shared_file(later);
    char *came = ls_shared_files(before);
    snprintf(expected, sizeof expected, "%s\n", later);
    assert_string_equal(came, expected);
    free(before);
    free(came);
    assert_true(munmap(first, 4096) == 0 && munmap(second, 4096) == 0 && unlink(own) == 0 && unlink(later) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_ranks),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_chaos),
        cmocka_unit_test(test_slow_messages),
        cmocka_unit_test(test_inbox),
        cmocka_unit_test(test_transport_names),
        cmocka_unit_test(test_options_refused),
        cmocka_unit_test(test_heap_too_large),
        cmocka_unit_test(test_thousand_ranks),
        cmocka_unit_test(test_heap_untouched),
        cmocka_unit_test(test_shared_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
