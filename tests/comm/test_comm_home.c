/*
 * Bytes of all ranks gathered in pieces, and results of rank 0 in the memory of who launched the ranks: of every size,
 * from processes and from threads, also when rank 0 dies while it sends.
 */
#include "comm/comm_impl.h"
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>

enum { MOST_RANKS = 17 };

/* Byte i of what a rank gives in a round, and how many bytes these are: none of some ranks, some beyond one piece. */
static unsigned char byte_of(int rank, int round, size_t i) { return (unsigned char)(rank * 31 + round * 7 + (int)i); }

static size_t bytes_of(int rank, int round) {
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 70001, 8};
    return sizes[(size_t)(rank + round) % LS_COUNT(sizes)];
}

/* --- gather ------------------------------------------------------------------------------------------------------- */

typedef struct listening {
    int rank, round; /* of the giver */
    int last;        /* the rank of the last piece */
    size_t at[MOST_RANKS];
} listening;

static ls_status give(void *context, size_t at, void *out, size_t bytes) {
    const listening *l = context;
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)out)[i] = byte_of(l->rank, l->round, at + i);
    return ls_ok();
}

static ls_status take(void *context, int rank, size_t at, const void *data, size_t bytes) {
    listening *l = context;
    RANK_CHECK((uintptr_t)data % 8 == 0 && at == l->at[rank]);
    RANK_CHECK(rank > l->last || at > 0); /* in the order of the ranks */
    for (size_t i = 0; i < bytes; i++) RANK_CHECK(((const unsigned char *)data)[i] == byte_of(rank, l->round, at + i));
    l->at[rank] += bytes;
    l->last = rank;
    return ls_ok();
}

static ls_status gather_all(ls_comm *comm, void *context) {
    (void)context;
    const int ranks = ls_comm_size(comm);
    for (int round = 0; round < 14; round++) {
        const bool everywhere = round % 2 != 0;
        listening l = {.rank = ls_comm_rank(comm), .round = round, .last = -1};
        const ls_comm_pieces pieces = {bytes_of(l.rank, round), give, take, &l, 0};
        LS_TRY(ls_comm_gather(comm, &pieces, everywhere));
        for (int r = 0; r < ranks; r++) RANK_CHECK(l.at[r] == (everywhere || l.rank == 0 ? bytes_of(r, round) : 0));
    }
    return ls_ok();
}

static void test_gather(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        const ls_world_options options = small_world(ranks);
        assert_ok(run_world(&options, true, gather_all, NULL));
        if (ranks < 6) assert_ok(run_world_on("chaos:3", &options, true, gather_all, NULL));
    }
}

static ls_status refuse(void *context, int rank, size_t at, const void *data, size_t bytes) {
    (void)context, (void)rank, (void)at, (void)data, (void)bytes;
    return ls_error(LS_IO, "no room");
}

/* A failure of one rank's take is its own; the others go on, and so does it. */
static ls_status gather_and_refuse(ls_comm *comm, void *context) {
    (void)context;
    listening l = {.rank = ls_comm_rank(comm), .last = -1};
    ls_comm_pieces pieces = {bytes_of(l.rank, 0), give, l.rank == 0 ? refuse : take, &l, 0};
    const ls_status status = ls_comm_gather(comm, &pieces, true);
    RANK_CHECK(status.code == (l.rank == 0 ? LS_IO : LS_OK));
    return ls_comm_barrier(comm);
}

static void test_refusal(void **state) {
    (void)state;
    const ls_world_options options = small_world(4);
    assert_ok(run_world(&options, true, gather_and_refuse, NULL));
}

/* --- results ------------------------------------------------------------------------------------------------------ */

enum { ROWS = 1000, ROW = 40, STRIDE = 3 * ROW, LARGE = 5 << 20, EACH = 70001 };

typedef struct results {
    char small[3];
    char rows[ROWS * STRIDE];
    char long_rows[2 * LARGE];
    char large[LARGE];
    char of_rank[MOST_RANKS][EACH];
} results;

static ls_status send_results(ls_comm *comm, void *context) {
    results *home = context;
    const int rank = ls_comm_rank(comm);
    char *own = malloc(LARGE);
    RANK_CHECK(own != NULL);
    for (size_t i = 0; i < LARGE; i++) own[i] = (char)byte_of(rank, 0, i);
    const ls_range rows = {ROW, ROW, {ROWS, 1, 1}, {STRIDE, 0, 0}};
    const ls_range long_rows = {1, LARGE / 2, {2, 1, 1}, {LARGE, 0, 0}};
    ls_status status = ls_comm_send_home(comm, home->small, own, sizeof home->small);
    if (status.code == LS_OK) status = ls_comm_send_rows_home(comm, home->rows, &rows, own);
    if (status.code == LS_OK) status = ls_comm_send_rows_home(comm, home->long_rows, &long_rows, own);
    if (status.code == LS_OK) status = ls_comm_send_home(comm, home->large, own, LARGE);
    if (status.code == LS_OK) status = ls_comm_gather_home(comm, own, bytes_of(rank, 0), home->of_rank, EACH);
    free(own);
    return status;
}

static void check_results(const results *r, int ranks) {
    for (int i = 0; i < 3; i++) assert_int_equal((unsigned char)r->small[i], byte_of(0, 0, (size_t)i));
    for (size_t i = 0; i < ROWS * STRIDE; i++) {
        const size_t row = i / STRIDE, within = i % STRIDE;
        const bool sent = within >= ROW && within < 2 * ROW;
        if ((unsigned char)r->rows[i] != (sent ? byte_of(0, 0, row * ROW + within - ROW) : 0))
            fail_msg("row byte %zu", i);
    }
    for (size_t i = 0; i < LARGE; i++) {
        const size_t at = i < LARGE / 2 ? i + 1 : i + LARGE / 2 + 1;
        if ((unsigned char)r->long_rows[at] != byte_of(0, 0, i)) fail_msg("byte %zu of long rows", i);
        if ((unsigned char)r->large[i] != byte_of(0, 0, i)) fail_msg("byte %zu", i);
    }
    for (int rank = 0; rank < ranks; rank++)
        for (size_t i = 0; i < EACH; i++)
            if ((unsigned char)r->of_rank[rank][i] != (i < bytes_of(rank, 0) ? byte_of(rank, 0, i) : 0))
                fail_msg("byte %zu of rank %d", i, rank);
}

static void test_results(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 7};
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    const bool forks = sanitizer == NULL || strcmp(sanitizer, "thread") != 0;
    for (size_t i = 0; i < LS_COUNT(counts); i++) {
        for (int threads = forks ? 0 : 1; threads < 2; threads++) {
            results *r = calloc(1, sizeof *r);
            assert_non_null(r);
            const ls_world_options options = small_world(counts[i]);
            assert_ok(run_world(&options, threads, send_results, r));
            check_results(r, counts[i]);
            free(r);
        }
    }
}

/* Rank 0 dies within a result: the launcher names its death, and not the half of a message. */
static ls_status die_while_sending(ls_comm *comm, void *context) {
    results *home = context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) != 0) return ls_comm_wait(comm, 0, 1, 0, "what never comes");
    LS_TRY(ls_comm_send_home(comm, home->small, home->small, sizeof home->small));
    signal(SIGALRM, SIG_DFL);
    ualarm(200000, 0);
    for (;;) LS_TRY(ls_comm_send_home(comm, home->large, home->large, LARGE));
}

static void test_death(void **state) {
    (void)state;
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    if (sanitizer != NULL && strcmp(sanitizer, "thread") == 0) return;
    results *r = calloc(1, sizeof *r);
    assert_non_null(r);
    const ls_world_options options = small_world(2);
    assert_fails(run_world(&options, false, die_while_sending, r), LS_PEER, "rank 0 was killed by signal 14");
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
