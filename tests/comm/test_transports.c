/* Several transports in one world, on hosts that are pretended: each pair of ranks takes the fastest that reaches. */
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>

enum { RANKS = 4, BLOCK = 3000 };

static void set_hosts(const char *setting) { assert_int_equal(setenv(LS_HOSTS_VARIABLE, setting, 1), 0); }

static int forget_hosts(void **state) {
    (void)state;
    return unsetenv(LS_HOSTS_VARIABLE);
}

/* ---- hosts ---- */

static void test_blocks(void **state) {
    (void)state;
    static const struct {
        const char *setting;
        int block;
    } cases[] = {{"1", 4}, {"2", 2}, {"4", 1}, {"3", 1}, {"0,0,1,1", 2}, {"0,1,0,1", 1}, {"0,0,0,3", 3}};
    ls_hosts hosts;
    assert_ok(ls_hosts_find(1000000, &hosts));
    assert_int_equal(hosts.block, 1000000);
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        set_hosts(cases[i].setting);
        assert_ok(ls_hosts_find(RANKS, &hosts));
        assert_int_equal(hosts.block, cases[i].block);
        assert_int_equal(hosts.machine_ranks, RANKS);
    }
}

static void test_bad_hosts(void **state) {
    (void)state;
    static const char *const bad[] = {"", "0", "5", "-1", "x", "0,1", "0,0,1,4", "0,0,1,-1", "0,0,1,1,1", "0,0,1,1,"};
    ls_hosts hosts;
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        set_hosts(bad[i]);
        assert_fails(ls_hosts_find(RANKS, &hosts), LS_INVALID, "expected a number of hosts from 1 to 4");
    }
}

static void test_unreached_pairs_are_refused(void **state) {
    (void)state;
    set_hosts("0,0,1,1");
    const ls_world_options options = small_world(RANKS);
    ls_world *world;
    const ls_status status = ls_world_create("shm", &options, &world);
    assert_fails(status, LS_UNSUPPORTED, "nothing connects rank 0 on host ");
    assert_fails(status, LS_UNSUPPORTED, "(pretended 0) with rank 2 on host ");
    assert_fails(status, LS_UNSUPPORTED, "tried shm");
}

/* ---- mixtures ---- */

/* A value that says who wrote it for whom in which round, at each place of a block. */
static unsigned char byte_of(int from, int to, int round, int i) {
    return (unsigned char)(from * 67 + to * 31 + round * 7 + i);
}

/*
 * Every rank puts a strided block into every rank, itself too, and the receiver checks it when it is signalled; then it
 * lets the sender put the next one.
 */
static ls_status exchange(ls_comm *comm, void *context) {
    enum { ROUNDS = 20, PIECE = 30, GAP = 10 };
    const bool load_within_host = context != NULL && *(const bool *)context;
    const int me = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    unsigned char block[BLOCK];
    const ls_range from = ls_range_flat(0, BLOCK);
    for (int peer = 0; peer < ranks; peer++)
        RANK_CHECK((ls_comm_peer_heap(comm, peer) != NULL) == (peer == me || (load_within_host && peer / 2 == me / 2)));
    for (int round = 1; round <= ROUNDS; round++) {
        for (int peer = 0; peer < ranks; peer++) {
            const ls_range to = {.offset = (size_t)me * 4096,
                                 .length = PIECE,
                                 .count = {BLOCK / PIECE, 1, 1},
                                 .stride = {PIECE + GAP, 0, 0}};
            LS_TRY(ls_comm_wait(comm, 8 + peer, (uint64_t)round - 1, peer, "the slot to be free"));
            for (int i = 0; i < BLOCK; i++) block[i] = byte_of(me, peer, round, i);
            const uint64_t ticket = ls_comm_put_signal(comm, peer, &to, block, &from, me, (uint64_t)round);
            for (uint32_t bell = ls_comm_bell(comm); !ls_comm_done(comm, ticket); bell = ls_comm_bell(comm))
                if (!ls_comm_done(comm, ticket)) LS_TRY(ls_comm_sleep(comm, bell, peer, "a put"));
        }
        for (int peer = 0; peer < ranks; peer++) {
            LS_TRY(ls_comm_wait(comm, peer, (uint64_t)round, peer, "a block"));
            const unsigned char *slot = (unsigned char *)ls_comm_heap(comm) + (size_t)peer * 4096;
            for (int i = 0; i < BLOCK; i++)
                RANK_CHECK(slot[i / PIECE * (PIECE + GAP) + i % PIECE] == byte_of(peer, me, round, i));
            ls_comm_signal(comm, peer, 8 + me, (uint64_t)round);
        }
        ls_comm_tick(comm);
    }
    return ls_comm_barrier(comm);
}

/* Puts without signals are in place after a barrier, whose signals take other ways than they. */
static ls_status put_and_meet(ls_comm *comm, void *context) {
    (void)context;
    const int me = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    const ls_range from = ls_range_flat(0, sizeof(int));
    for (int round = 1; round <= 50; round++) {
        const int mine = me * 1000 + round;
        for (int peer = 0; peer < ranks; peer++) {
            const ls_range to = ls_range_flat((size_t)me * sizeof(int), sizeof(int));
            ls_comm_put(comm, peer, &to, &mine, &from);
        }
        LS_TRY(ls_comm_barrier(comm));
        for (int peer = 0; peer < ranks; peer++) RANK_CHECK(((int *)ls_comm_heap(comm))[peer] == peer * 1000 + round);
        LS_TRY(ls_comm_barrier(comm));
    }
    return ls_ok();
}

static void test_mixtures(void **state) {
    (void)state;
    bool loads = true;
    static const char *const transports[] = {NULL, "shm,tcp", "chaos:7", "chaos:7:0.0005"};
    const ls_world_options options = small_world(RANKS);
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    /* The one for threads does not see that two accesses of one process may be ordered by another process. */
    const int first = sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
    set_hosts("0,0,1,1");
    for (size_t i = 0; i < LS_COUNT(transports); i++) {
        for (int as_threads = first; as_threads < 2; as_threads++) {
            assert_ok(run_world_on(transports[i], &options, as_threads, exchange, &loads));
            assert_ok(run_world_on(transports[i], &options, as_threads, put_and_meet, NULL));
        }
    }
}

static void test_tcp_alone(void **state) {
    (void)state;
    const ls_world_options options = small_world(RANKS);
    assert_ok(run_world_on("tcp", &options, true, exchange, NULL));
    assert_ok(run_world_on("tcp", &options, false, put_and_meet, NULL));
    assert_ok(run_world_on("chaos:3:0:tcp", &options, false, exchange, NULL));
}

/* More than any connection holds at once, to a rank that looks at nothing until all is sent. */
static ls_status send_much(ls_comm *comm, void *context) {
    (void)context;
    const size_t bytes = ls_comm_heap_bytes(comm) / 2;
    const int peer = 1 - ls_comm_rank(comm);
    const ls_range to = ls_range_flat(0, bytes), from = ls_range_flat(bytes, bytes);
    memset((char *)ls_comm_heap(comm) + bytes, 1 + ls_comm_rank(comm), bytes);
    ls_comm_put_signal(comm, peer, &to, ls_comm_heap(comm), &from, 0, 1);
    LS_TRY(ls_comm_wait(comm, 0, 1, peer, "much"));
    const char *heap = ls_comm_heap(comm);
    for (size_t i = 0; i < bytes; i++) RANK_CHECK(heap[i] == 1 + peer);
    return ls_ok();
}

static void test_both_send_much(void **state) {
    (void)state;
    ls_world_options options = small_world(2);
    options.heap_bytes = (size_t)64 << 20;
    set_hosts("2");
    assert_ok(run_world_on(NULL, &options, false, send_much, NULL));
}

/* ---- what is known of peers on other hosts ---- */

/* Ranks wait for the next; the last one works on without a sign of life. */
static ls_status wait_in_chain(ls_comm *comm, void *context) {
    (void)context;
    const int me = ls_comm_rank(comm), last = ls_comm_size(comm) - 1;
    if (me < last) return ls_comm_wait(comm, 0, 1, me + 1, "a signal");
    sleep_seconds(4.0);
    return ls_ok();
}

static void test_chain_names_the_last(void **state) {
    (void)state;
    ls_world_options options = small_world(3);
    options.wait_timeout = 1;
    set_hosts("0,1,2");
    assert_fails(run_world_on(NULL, &options, false, wait_in_chain, NULL), LS_PEER, "rank 2, which makes no progress");
}

static ls_status wait_for_who_left(ls_comm *comm, void *context) {
    (void)context;
    return ls_comm_rank(comm) == 1 ? ls_ok() : ls_comm_wait(comm, 0, 1, 1, "a signal");
}

static void test_left_is_known(void **state) {
    (void)state;
    const ls_world_options options = small_world(2);
    set_hosts("2");
    for (int as_threads = 0; as_threads < 2; as_threads++)
        assert_fails(run_world_on(NULL, &options, as_threads, wait_for_who_left, NULL), LS_PEER,
                     "rank 0 waits for rank 1, which has left");
}

static ls_status die(ls_comm *comm, void *context) {
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == *(const int *)context) raise(SIGKILL);
    return ls_comm_wait(comm, 0, 1, *(const int *)context, "a signal");
}

static void test_each_rank_killed(void **state) {
    (void)state;
    const ls_world_options options = small_world(RANKS);
    set_hosts("0,0,1,1");
    for (int victim = 0; victim < RANKS; victim++) {
        const double began = ls_seconds();
        char text[64];
        snprintf(text, sizeof text, "rank %d was killed by signal 9", victim);
        assert_fails(run_world_on(NULL, &options, false, die, &victim), LS_PEER, text);
        assert_true(ls_seconds() - began < 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_blocks, forget_hosts),
        cmocka_unit_test_teardown(test_bad_hosts, forget_hosts),
        cmocka_unit_test_teardown(test_unreached_pairs_are_refused, forget_hosts),
        cmocka_unit_test_teardown(test_mixtures, forget_hosts),
        cmocka_unit_test(test_tcp_alone),
        cmocka_unit_test_teardown(test_both_send_much, forget_hosts),
        cmocka_unit_test_teardown(test_chain_names_the_last, forget_hosts),
        cmocka_unit_test_teardown(test_left_is_known, forget_hosts),
        cmocka_unit_test_teardown(test_each_rank_killed, forget_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
