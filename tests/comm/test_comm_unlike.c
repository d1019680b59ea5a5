/*
 * Host collectives of ranks that do not do the same: all fail before they use a byte of each other, and a text says
 * what two ranks do.
 */
#include "support/world.h"

#include <stdlib.h>

enum { RANKS = 5, ODD = 3 /* the rank that does something else */ };

static const char *const transports[] = {"shm", "tcp", "chaos:7"};

static void add(void *into, const void *from, size_t bytes) {
    (void)bytes;
    *(int64_t *)into |= *(const int64_t *)from;
}

static ls_status take_nothing(void *context, int rank, size_t at, const void *data, size_t bytes) {
    (void)context;
    (void)rank;
    (void)at;
    (void)data;
    (void)bytes;
    return ls_ok();
}

static ls_status give_zeros(void *context, size_t at, void *out, size_t bytes) {
    (void)context;
    (void)at;
    memset(out, 0, bytes);
    return ls_ok();
}

/* What a rank can do; each is another message. */
typedef ls_status (*deed)(ls_comm *comm);

static ls_status agree(ls_comm *comm) { return ls_comm_agree(comm, ls_ok()); }
static ls_status exchange(ls_comm *comm, size_t bytes) {
    char mine[256] = "", all[RANKS * 256];
    return ls_comm_exchange(comm, mine, bytes, all);
}
static ls_status exchange_24(ls_comm *comm) { return exchange(comm, 24); }
static ls_status exchange_16(ls_comm *comm) { return exchange(comm, 16); }
static ls_status reduce(ls_comm *comm) {
    int64_t value = 1;
    return ls_comm_reduce(comm, &value, sizeof value, add);
}
static ls_status broadcast(ls_comm *comm) {
    int64_t value = 1;
    return ls_comm_broadcast(comm, &value, sizeof value);
}
static ls_status gather(ls_comm *comm, bool everywhere) {
    return ls_comm_gather(comm, &(ls_comm_pieces){40, give_zeros, take_nothing, NULL, 0}, everywhere);
}
static ls_status gather_to_0(ls_comm *comm) { return gather(comm, false); }
static ls_status gather_to_all(ls_comm *comm) { return gather(comm, true); }
static ls_status step(ls_comm *comm, int number) {
    ls_comm_doing(comm, "step %d", number);
    return ls_comm_meet(comm);
}
static ls_status step_5(ls_comm *comm) { return step(comm, 5); }
static ls_status step_6(ls_comm *comm) { return step(comm, 6); }

typedef struct unlike {
    deed most, odd;
    const char *most_says, *odd_says;
} unlike;

static const unlike pairs[] = {
    {agree, exchange_24, "agree", "exchange (24 bytes)"},
    {exchange_24, exchange_16, "exchange (24 bytes)", "exchange (16 bytes)"},
    {ls_comm_barrier, reduce, "something else", "reduce (8 bytes)"},
    {broadcast, reduce, "broadcast", "reduce"},
    {gather_to_0, gather_to_all, "gather (40 bytes)", "gather everywhere (40 bytes)"},
    {exchange_24, gather_to_all, "exchange (24 bytes)", "reduce (8 bytes)"},
    {step_5, step_6, "meet, step 5 (0 bytes)", "meet, step 6 (0 bytes)"},
};

/* What came of it on each rank. */
typedef struct account {
    const unlike *pair;
    ls_status status[RANKS];
} account;

static ls_status do_otherwise(ls_comm *comm, void *context) {
    account *a = context;
    const int rank = ls_comm_rank(comm);
    LS_TRY(agree(comm));
    a->status[rank] = (rank == ODD ? a->pair->odd : a->pair->most)(comm);
    return a->status[rank];
}

static void test_ranks_that_do_not_do_the_same(void **state) {
    (void)state;
    for (size_t t = 0; t < LS_COUNT(transports); t++) {
        for (size_t p = 0; p < LS_COUNT(pairs); p++) {
            account a = {.pair = &pairs[p]};
            ls_world_options options = small_world(RANKS);
            options.wait_timeout = 5;
            const ls_status status = run_world_on(transports[t], &options, true, do_otherwise, &a);
            if (status.code != LS_INVALID || strstr(status.text, pairs[p].most_says) == NULL ||
                strstr(status.text, pairs[p].odd_says) == NULL)
                fail_msg("%s, pair %zu: %s '%s'; expected '%s' and '%s'", transports[t], p, ls_code_name(status.code),
                         status.text, pairs[p].most_says, pairs[p].odd_says);
            assert_int_not_equal(a.status[ODD].code, LS_OK);
        }
    }
}

/* A status whose text does not end, as one that a rank's memory was written over has. */
static ls_status fail_without_end(ls_comm *comm, void *context) {
    (void)context;
    ls_status mine = ls_ok();
    if (ls_comm_rank(comm) == ODD) {
        mine.code = LS_IO;
        memset(mine.text, 'x', sizeof mine.text);
    }
    const ls_status agreed = ls_comm_agree(comm, mine);
    RANK_CHECK(agreed.code == LS_IO && memchr(agreed.text, 0, sizeof agreed.text) != NULL);
    RANK_CHECK(strncmp(agreed.text, "rank 3: xxx", 11) == 0);
    return ls_ok();
}

static void test_a_text_that_does_not_end(void **state) {
    (void)state;
    const ls_world_options options = small_world(RANKS);
    assert_ok(run_world(&options, true, fail_without_end, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks_that_do_not_do_the_same),
                                       cmocka_unit_test(test_a_text_that_does_not_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
