/* The transport chaos keeps the contract of transports and uses the freedom that the contract leaves. */
#include "support/world.h"

#include <stdlib.h>

enum { BYTES = 3000, WORDS = 4 };

static ls_status run_chaos(const char *transport, int ranks, bool as_threads, ls_rank_main rank_main, void *context) {
    const ls_world_options options = small_world(ranks);
    ls_world *world;
    LS_TRY(ls_world_create(transport, &options, &world));
    const ls_status status = ls_launch(world, ranks, as_threads, rank_main, context);
    ls_world_destroy(world);
    return status;
}

/* What rank 0 saw of itself; shared, as ranks are threads or rank 0 is alone. */
typedef struct sights {
    int poisoned;   /* the target read 0xFF after the put */
    int partial;    /* some bytes had come, others had not */
    int early;      /* a source overwritten after the put and before quiet changed what arrived */
    int overtaken;  /* a plain signal came before an earlier put's */
    int ahead;      /* a word had a generation before the payload of an earlier one had come */
    int unfinished; /* a put was not done when it returned */
    double seconds;
} sights;

static unsigned char value_at(int i, int round) { return (unsigned char)((i * 7 + round * 31) % 251); }

static void fill(unsigned char *bytes, int round) {
    for (int i = 0; i < BYTES; i++) bytes[i] = value_at(i, round);
}

/* Rank 0 puts to itself and looks at what it should not look at. */
static ls_status look_inside(ls_comm *comm, void *context) {
    sights *seen = context;
    unsigned char *source = malloc(BYTES), *heap = ls_comm_heap(comm);
    const ls_range all = ls_range_flat(0, BYTES), strided = {8192, 30, {10, 10, 1}, {64, 1000, 0}};
    fill(source, 1);
    memset(heap, 0, BYTES);
    ls_comm_put_signal(comm, 0, &all, source, &all, 0, 1);
    ls_comm_signal(comm, 0, 1, 1);
    seen->poisoned += heap[0] == 0xFF && heap[BYTES - 1] == 0xFF;
    while (!ls_comm_test(comm, 0, 1)) {
        int come = 0;
        for (int i = 0; i < BYTES; i++) come += heap[i] != 0xFF;
        seen->partial += come > 0 && come < BYTES;
        seen->overtaken += ls_comm_test(comm, 1, 1);
    }
    for (int i = 0; i < BYTES; i++) RANK_CHECK(heap[i] == value_at(i, 1)); /* the signal promises this */
    ls_comm_put(comm, 0, &strided, source, &all);
    fill(source, 2); /* too early */
    ls_comm_quiet(comm);
    for (int i = 0; i < BYTES; i++)
        seen->early += heap[8192 + i % 30 + i / 30 % 10 * 64 + i / 300 * 1000] == value_at(i, 2);
    free(source);
    return ls_comm_wait(comm, 1, 1, 0, "the plain signal");
}

static void test_freedom_is_used(void **state) {
    (void)state;
    sights seen = {0};
    for (int seed = 0; seed < 20; seed++) {
        char name[32];
        snprintf(name, sizeof name, "chaos:%d:0:shm", seed);
        assert_ok(run_chaos(name, 1, true, look_inside, &seen));
    }
    print_message("of 20: poisoned %d, partial %d, bytes read late %d, overtaken %d\n", seen.poisoned, seen.partial,
                  seen.early, seen.overtaken);
    assert_int_equal(seen.poisoned, 20);
    assert_true(seen.partial > 0 && seen.early > 0 && seen.overtaken > 0);
}

/* Rank 0 sets a word again before it has awaited it, which programs must not do. */
static ls_status set_twice(ls_comm *comm, void *context) {
    enum { LAST = 6 };
    sights *seen = context;
    unsigned char *source = malloc(BYTES), *heap = ls_comm_heap(comm);
    const ls_range all = ls_range_flat(0, BYTES);
    fill(source, 1);
    ls_comm_put_signal(comm, 0, &all, source, &all, 0, 1);
    for (uint64_t g = 2; g <= LAST; g++) ls_comm_signal(comm, 0, 0, g);
    uint64_t before = 0;
    for (int i = 0; i < 1000; i++) {
        ls_comm_tick(comm);
        const uint64_t value = ls_comm_word(comm, 0);
        RANK_CHECK(value >= before && value <= LAST);
        before = value;
        seen->ahead += value > 1 && memchr(heap, 0xFF, BYTES) != NULL;
    }
    ls_comm_quiet(comm);
    RANK_CHECK(ls_comm_word(comm, 0) == LAST);
    for (int i = 0; i < BYTES; i++) RANK_CHECK(heap[i] == value_at(i, 1));
    free(source);
    return ls_ok();
}

static void test_signals_of_one_word_overtake_each_other(void **state) {
    (void)state;
    sights seen = {0};
    for (int seed = 0; seed < 20; seed++) {
        char name[32];
        snprintf(name, sizeof name, "chaos:%d:0:shm", seed);
        assert_ok(run_chaos(name, 1, true, set_twice, &seen));
    }
    assert_true(seen.ahead > 0);
}

/* Everyone sends to everyone, strided, in several rounds; every round is right on arrival. */
static ls_status all_to_all(ls_comm *comm, void *context) {
    (void)context;
    const int me = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    unsigned char *source = malloc(BYTES), *heap = ls_comm_heap(comm);
    const ls_range from = ls_range_flat(0, BYTES);
    for (int round = 1; round <= 5; round++) {
        LS_TRY(ls_comm_barrier(comm)); /* all slots are free */
        fill(source, round + me);
        for (int r = 0; r < ranks; r++) {
            const ls_range to = {(size_t)(me * 8192), 100, {30, 1, 1}, {250, 0, 0}};
            ls_comm_put_signal(comm, r, &to, source, &from, me, (uint64_t)round);
        }
        for (int r = 0; r < ranks; r++) {
            LS_TRY(ls_comm_wait(comm, r, (uint64_t)round, r, "a part"));
            for (int i = 0; i < BYTES; i++)
                RANK_CHECK(heap[r * 8192 + i / 100 * 250 + i % 100] == value_at(i, round + r));
        }
        ls_comm_quiet(comm);
        ls_status mine = ls_ok();
        LS_TRY(ls_comm_agree(comm, mine));
        ls_comm_tick(comm);
    }
    free(source);
    return ls_ok();
}

static void test_contract_is_kept(void **state) {
    (void)state;
    for (int seed = 0; seed < 8; seed++) {
        char name[32];
        snprintf(name, sizeof name, "chaos:%d", seed);
        assert_ok(run_chaos(name, 1 + seed % 4, seed % 2 == 0, all_to_all, NULL));
    }
}

/* Puts are done in the end without the help of anybody, which the bell tells, and then read their sources no more. */
static ls_status wait_until_done(ls_comm *comm, void *context) {
    sights *seen = context;
    unsigned char *source = malloc(BYTES), *heap = ls_comm_heap(comm);
    const ls_range all = ls_range_flat(0, BYTES);
    for (int round = 1; round <= 3; round++) {
        fill(source, round);
        const uint64_t ticket = ls_comm_put(comm, 0, &all, source, &all);
        RANK_CHECK(ticket == (uint64_t)round);
        for (;;) {
            const uint32_t bell = ls_comm_bell(comm);
            if (ls_comm_done(comm, ticket)) break;
            seen->unfinished++;
            LS_TRY(ls_comm_sleep(comm, bell, 0, "a put"));
        }
        fill(source, round + 1);
        RANK_CHECK(ls_comm_done(comm, ticket));
        ls_comm_quiet(comm);
        for (int i = 0; i < BYTES; i++) RANK_CHECK(heap[i] == value_at(i, round));
    }
    free(source);
    return ls_ok();
}

static void test_puts_are_done(void **state) {
    (void)state;
    sights seen = {0};
    for (int seed = 0; seed < 10; seed++) {
        char name[32];
        snprintf(name, sizeof name, "chaos:%d:0:shm", seed);
        assert_ok(run_chaos(name, 1, true, wait_until_done, &seen));
    }
    assert_true(seen.unfinished > 0);
    seen.unfinished = 0;
    const ls_world_options options = small_world(1);
    assert_ok(run_world(&options, true, wait_until_done, &seen)); /* there at once */
    assert_int_equal(seen.unfinished, 0);
}

static ls_status time_a_put(ls_comm *comm, void *context) {
    sights *seen = context;
    const ls_range eight = ls_range_flat(0, 8);
    const uint64_t value = 7;
    if (ls_comm_rank(comm) == 0) {
        const double start = ls_seconds();
        ls_comm_put_signal(comm, 1, &eight, &value, &eight, 0, 1);
        ls_comm_quiet(comm); /* does not sit the delay out */
        seen->seconds = ls_seconds() - start;
        return ls_ok();
    }
    const double start = ls_seconds();
    LS_TRY(ls_comm_wait(comm, 0, 1, 0, "a slow put"));
    RANK_CHECK(ls_seconds() - start > 0.04);
    return ls_ok();
}

static void test_delay(void **state) {
    (void)state;
    sights seen = {0};
    assert_ok(run_chaos("chaos:3:0.06", 2, true, time_a_put, &seen));
    assert_true(seen.seconds < 0.05);
}

static void test_bad_names(void **state) {
    (void)state;
    static const char *const bad[] = {"chaos:", "chaos:x", "chaos:1:-2", "chaos:1:0:"};
    static const char *const unknown[] = {"chaos", "chaos:1:0:pigeon", "chaos:1:0:chaos"};
    const ls_world_options options = small_world(2);
    ls_world *world;
    for (size_t i = 0; i < LS_COUNT(bad); i++)
        assert_fails(ls_world_create(bad[i], &options, &world), LS_USAGE, "expected chaos:SEED");
    for (size_t i = 0; i < LS_COUNT(unknown); i++)
        assert_fails(ls_world_create(unknown[i], &options, &world), LS_USAGE, "expected some of shm, tcp, mpi");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_puts_are_done),    cmocka_unit_test(test_freedom_is_used),
        cmocka_unit_test(test_contract_is_kept), cmocka_unit_test(test_delay),
        cmocka_unit_test(test_bad_names),        cmocka_unit_test(test_signals_of_one_word_overtake_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
