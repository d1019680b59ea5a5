/*
 * Waiting: no signal is missed, a waiting rank sleeps, and a wait that cannot end stops with a message that names
 * the rank at fault.
 */
#include "comm/comm_impl.h"
#include "support/world.h"

#include <pthread.h>

/* ---- the bell itself ---- */

typedef struct bells {
    ls_rank_line lines[2];
    _Atomic uint32_t turns[2]; /* turn number that each side has been given */
    _Atomic int overslept;
} bells;

typedef struct side {
    bells *bells;
    int me;
} side;

enum { TURNS = 20000 };

/* Takes turns with the other side, always asleep in between, with a time limit so long that a missed ring
 * shows. */
static void *take_turns(void *argument) {
    const side *s = argument;
    bells *b = s->bells;
    ls_rank_line *mine = &b->lines[s->me];
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        if (s->me == 0) {
            atomic_store_explicit(&b->turns[1], turn, memory_order_release);
            ls_bell_ring(&b->lines[1]);
        }
        for (;;) {
            const uint32_t bell = ls_bell_read(mine);
            if (atomic_load_explicit(&b->turns[s->me], memory_order_acquire) >= turn) break;
            const double before = ls_seconds();
            ls_bell_sleep(mine, bell, 5.0);
            if (ls_seconds() - before > 4.0) atomic_fetch_add(&b->overslept, 1);
        }
        if (s->me == 1) {
            atomic_store_explicit(&b->turns[0], turn, memory_order_release);
            ls_bell_ring(&b->lines[0]);
        }
    }
    return NULL;
}

static void test_bell_never_misses(void **state) {
    (void)state;
    bells b;
    memset(&b, 0, sizeof b);
    side sides[2] = {{&b, 0}, {&b, 1}};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, take_turns, &sides[1]), 0);
    take_turns(&sides[0]);
    pthread_join(other, NULL);
    assert_int_equal(b.overslept, 0);
}

/* Bell, test, sleep as the executor uses them, over several words from several peers, without spinning. */
static ls_status sleep_over_many_words(ls_comm *comm, void *context) {
    (void)context;
    enum { ROUNDS = 2000 };
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int peer = 0; peer < size; peer++) ls_comm_signal(comm, peer, rank, round);
        for (;;) {
            const uint32_t bell = ls_comm_bell(comm);
            int missing = -1;
            for (int peer = 0; peer < size; peer++)
                if (!ls_comm_test(comm, peer, round)) missing = peer;
            if (missing < 0) break;
            const ls_awaited awaited = {missing, round};
            if (ls_comm_spin(comm, &awaited, 1)) continue;
            LS_TRY(ls_comm_sleep(comm, bell, missing, "round"));
        }
        ls_comm_tick(comm);
    }
    return ls_ok();
}

static void test_sleep_over_many_words(void **state) {
    (void)state;
    for (int spin = 0; spin < 2; spin++) {
        ls_world_options options = small_world(4);
        options.may_spin = spin;
        assert_ok(run_world(&options, true, sleep_over_many_words, NULL));
        assert_ok(run_world(&options, false, sleep_over_many_words, NULL));
    }
}

/* Any of the awaited words ends the spinning; nothing but the clock ends it when none comes. */
static ls_status spin_over_words(ls_comm *comm, void *context) {
    (void)context;
    const ls_awaited awaited[] = {{0, 1}, {1, 3}};
    const double start = ls_seconds();
    if (ls_comm_spin(comm, awaited, 2)) return ls_error(LS_INVALID, "came before it was sent");
    if (ls_seconds() - start > 0.5) return ls_error(LS_INVALID, "span for %g s", ls_seconds() - start);
    ls_comm_signal(comm, 0, 1, 2);
    if (ls_comm_spin(comm, awaited, 2)) return ls_error(LS_INVALID, "an earlier generation was enough");
    ls_comm_signal(comm, 0, 1, 3);
    return ls_comm_spin(comm, awaited, 2) ? ls_ok() : ls_error(LS_INVALID, "did not see the second word");
}

static void test_spin_over_words(void **state) {
    (void)state;
    for (int spin = 0; spin < 2; spin++) {
        ls_world_options options = small_world(1);
        options.may_spin = spin;
        assert_ok(run_world(&options, true, spin_over_words, NULL));
    }
}

static double own_cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static ls_status wait_for_late(ls_comm *comm, void *context) {
    (void)context;
    if (ls_comm_rank(comm) == 1) {
        sleep_seconds(1.0);
        ls_comm_signal(comm, 0, 0, 1);
        return ls_ok();
    }
    const double cpu = own_cpu_seconds();
    LS_TRY(ls_comm_wait(comm, 0, 1, 1, "late"));
    const double burnt = own_cpu_seconds() - cpu;
    return burnt < 0.1 ? ls_ok() : ls_error(LS_INVALID, "a wait of 1 s took %.3f s of processor time", burnt);
}

static void test_no_busy_core(void **state) {
    (void)state;
    const ls_world_options options = small_world(2);
    assert_ok(run_world(&options, false, wait_for_late, NULL));
}

/* ---- peers that stand still, are slow, wait themselves, or have left ---- */

/* Rank 0 waits for rank 1, and so on up to the last, which does what `last` says. */
typedef enum last_does { STANDS_STILL, TICKS_THEN_SIGNALS, WAITS_FOR_RANK_0, LEAVES } last_does;

typedef struct chain {
    last_does last;
    double seconds;    /* that the last rank takes */
    ls_status *result; /* per rank, shared */
} chain;

static ls_status stand_in_chain(ls_comm *comm, void *context) {
    chain *c = context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    if (rank < size - 1 || c->last == WAITS_FOR_RANK_0) {
        const char *what = "instruction 12, slot kv.1, expected generation 7, seen 6";
        c->result[rank] = ls_comm_wait(comm, 0, 7, (rank + 1) % size, what);
    } else {
        const double end = ls_seconds() + c->seconds;
        while (c->last != LEAVES && ls_seconds() < end) {
            if (c->last == TICKS_THEN_SIGNALS) ls_comm_tick(comm);
            sleep_seconds(0.02);
        }
    }
    if (rank > 0 && c->last == TICKS_THEN_SIGNALS) ls_comm_signal(comm, rank - 1, 0, 7);
    return ls_ok();
}

static void run_chain(int ranks, double timeout, last_does last, double seconds, ls_status result[]) {
    ls_world_options options = small_world(ranks);
    options.wait_timeout = timeout;
    chain c = {last, seconds, result};
    for (int rank = 0; rank < ranks; rank++) result[rank] = ls_ok();
    assert_ok(run_world(&options, true, stand_in_chain, &c));
}

static void test_still_peer(void **state) {
    (void)state;
    ls_status result[4];
    run_chain(2, 0.3, STANDS_STILL, 1.0, result);
    assert_fails(result[0], LS_PEER,
                 "s for rank 1, which makes no progress (instruction 12, slot kv.1, expected generation 7, seen 6)");
    assert_fails(result[0], LS_PEER, "rank 0 waited 0.3");
    run_chain(3, 0.3, STANDS_STILL, 1.0, result);
    assert_fails(result[1], LS_PEER, "for rank 2, which makes no progress");
    assert_int_equal(result[0].code, LS_PEER); /* of rank 2 in person, or of rank 1 that has given up */
}

/* Neither a slow peer nor a peer that waits for a slow one is given up. */
static void test_slow_peer(void **state) {
    (void)state;
    ls_status result[4];
    for (int ranks = 2; ranks <= 4; ranks++) {
        run_chain(ranks, 0.3, TICKS_THEN_SIGNALS, 1.0, result);
        for (int rank = 0; rank < ranks; rank++) assert_ok(result[rank]);
    }
}

/* Ranks that wait for each other are found, though each of them is "in order". */
static void test_circle(void **state) {
    (void)state;
    ls_status result[4];
    run_chain(3, 0.3, WAITS_FOR_RANK_0, 0.0, result);
    int circles = 0;
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(result[rank].code, LS_PEER);
        circles += strstr(result[rank].text, "which waits") != NULL;
    }
    assert_true(circles >= 1);
}

/* A peer that has left is noticed at once, even by who would wait for ever. */
static void test_peer_has_left(void **state) {
    (void)state;
    ls_status result[2];
    const double before = ls_seconds();
    run_chain(2, 0.0, LEAVES, 0.0, result);
    assert_fails(result[0], LS_PEER, "rank 0 waits for rank 1, which has left (instruction 12");
    assert_true(ls_seconds() - before < 2.0);
}

static ls_status wait_alone(ls_comm *comm, void *context) {
    (void)context;
    return ls_comm_wait(comm, 0, 1, 0, "slot x");
}

static void test_alone(void **state) {
    (void)state;
    const ls_world_options options = small_world(1);
    assert_fails(run_world(&options, true, wait_alone, NULL), LS_PEER, "rank 0 is alone and waits");
}

/* ---- abort ---- */

typedef struct abortion {
    ls_world *world;
    _Atomic int64_t nanoseconds; /* when it was aborted */
    ls_status result[4];
} abortion;

static ls_status abort_sleepers(ls_comm *comm, void *context) {
    abortion *a = context;
    const int rank = ls_comm_rank(comm);
    if (rank == 0) {
        sleep_seconds(0.3);
        a->nanoseconds = (int64_t)(ls_seconds() * 1e9);
        ls_world_abort(a->world, "the first reason");
        ls_world_abort(a->world, "another reason");
        return ls_ok();
    }
    a->result[rank] = ls_comm_wait(comm, 0, 1, 0, "nothing");
    const double late = ls_seconds() - (double)a->nanoseconds * 1e-9;
    if (late > 1.0) return ls_error(LS_INVALID, "rank %d returned %.3f s after the abort", rank, late);
    return ls_ok();
}

static void test_abort(void **state) {
    (void)state;
    ls_world_options options = small_world(4);
    options.wait_timeout = 0.0;
    abortion a = {0};
    assert_ok(ls_world_create("shm", &options, &a.world));
    assert_ok(ls_launch(a.world, 4, true, abort_sleepers, &a));
    for (int rank = 1; rank < 4; rank++) {
        assert_int_equal(a.result[rank].code, LS_PEER);
        assert_string_equal(a.result[rank].text, "the first reason");
    }
    ls_world_destroy(a.world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bell_never_misses),
        cmocka_unit_test(test_sleep_over_many_words),
        cmocka_unit_test(test_spin_over_words),
        cmocka_unit_test(test_no_busy_core),
        cmocka_unit_test(test_still_peer),
        cmocka_unit_test(test_slow_peer),
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_peer_has_left),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
