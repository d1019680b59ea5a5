/* Puts and signals between ranks: which bytes arrive, where, and in which order. */
#include "support/world.h"

#include <stdlib.h>

enum { TRIPS = 200, ROUNDS = 25, REGION = 4096, POISON = 0xEE };

/* ---- a token goes round all ranks, and grows ---- */

static ls_status pass_token(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    const ls_range place = ls_range_flat(0, sizeof(uint64_t));
    uint64_t *inbox = ls_comm_heap(comm);
    for (uint64_t trip = 1; trip <= TRIPS; trip++) {
        uint64_t token = (trip - 1) * (uint64_t)size;
        if (rank > 0) {
            LS_TRY(ls_comm_wait(comm, 0, trip, previous, "token"));
            token = *inbox;
        }
        RANK_CHECK(token == (trip - 1) * (uint64_t)size + (uint64_t)rank);
        token++;
        ls_comm_put_signal(comm, next, &place, &token, &place, 0, trip);
        ls_comm_quiet(comm);
        if (rank == 0) {
            LS_TRY(ls_comm_wait(comm, 0, trip, previous, "token back"));
            RANK_CHECK(*inbox == trip * (uint64_t)size);
        }
        ls_comm_tick(comm);
    }
    return ls_ok();
}

/* ---- every rank puts random strided ranges into every rank ---- */

/* A deterministic stream of small numbers. */
typedef struct draws {
    uint64_t stream, index;
} draws;

static int64_t below(draws *d, int64_t n) { return (int64_t)ls_rng_below(7, d->stream, d->index++, (uint64_t)n); }

/* Random strides for given counts, within REGION bytes of base; pieces disjoint. */
static ls_range lay_out(draws *d, size_t base, size_t length, const int64_t count[LS_RANGE_DIMS]) {
    ls_range range = {.length = length};
    size_t extent = length;
    for (int dim = 0; dim < LS_RANGE_DIMS; dim++) {
        range.count[dim] = count[dim];
        range.stride[dim] = (int64_t)extent + below(d, 5);
        extent += (size_t)(range.stride[dim] * (count[dim] - 1));
    }
    range.offset = base + (size_t)below(d, (int64_t)(REGION - extent) + 1);
    return range;
}

/* Where a round's bytes from source go in target's heap, and where they come from; cut differently. */
static void draw_ranges(int source, int target, int round, ls_range *to, ls_range *from) {
    draws d = {.stream = (uint64_t)((round * 64 + source) * 64 + target)};
    const size_t length = 1 + (size_t)below(&d, 40);
    const int64_t count[LS_RANGE_DIMS] = {1 + below(&d, 4), 1 + below(&d, 3), 1 + below(&d, 3)};
    *to = lay_out(&d, (size_t)source * REGION, length, count);
    const int64_t joined[LS_RANGE_DIMS] = {count[1], count[2], 1};
    const int64_t one[LS_RANGE_DIMS] = {1, 1, 1};
    const size_t all = length * (size_t)(count[0] * count[1] * count[2]);
    switch (below(&d, 3)) {
    case 0:
        *from = lay_out(&d, 0, length, count);
        break;
    case 1:
        *from = lay_out(&d, 0, length * (size_t)count[0], joined);
        break;
    default:
        *from = lay_out(&d, 0, all, one);
        break;
    }
}

/* Address of the range's byte number n, counted innermost first. */
static size_t byte_at(const ls_range *range, size_t n) {
    size_t at = range->offset + n % range->length;
    n /= range->length;
    for (int dim = 0; dim < LS_RANGE_DIMS; dim++) {
        at += (n % (size_t)range->count[dim]) * (size_t)range->stride[dim];
        n /= (size_t)range->count[dim];
    }
    return at;
}

static unsigned char payload(int source, int target, int round, size_t n) {
    return (unsigned char)((size_t)(source * 31 + target * 17 + round * 7) + n * 13) % 200;
}

static size_t range_bytes(const ls_range *range) {
    return range->length * (size_t)(range->count[0] * range->count[1] * range->count[2]);
}

static ls_status check_region(const unsigned char *heap, int source, int target, int round) {
    unsigned char expected[REGION];
    memset(expected, POISON, sizeof expected);
    ls_range to, from;
    draw_ranges(source, target, round, &to, &from);
    for (size_t n = 0; n < range_bytes(&to); n++)
        expected[byte_at(&to, n) - (size_t)source * REGION] = payload(source, target, round, n);
    const unsigned char *region = heap + (size_t)source * REGION;
    for (size_t i = 0; i < REGION; i++)
        if (region[i] != expected[i])
            return ls_error(LS_INVALID, "round %d, rank %d to %d: byte %zu is %d, expected %d", round, source, target,
                            i, region[i], expected[i]);
    return ls_ok();
}

/* Words: 0.. "rank i's bytes are here", 16.. "rank i has read mine". */
static ls_status all_to_all(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    unsigned char *heap = ls_comm_heap(comm);
    unsigned char source[REGION];
    memset(heap, POISON, (size_t)size * REGION);
    LS_TRY(ls_comm_barrier(comm));
    for (int round = 1; round <= ROUNDS; round++) {
        const uint64_t generation = (uint64_t)round;
        for (int peer = 0; peer < size; peer++) {
            LS_TRY(ls_comm_wait(comm, 16 + peer, generation - 1, peer, "region free"));
            ls_range to, from;
            draw_ranges(rank, peer, round, &to, &from);
            memset(source, 0xDD, sizeof source);
            for (size_t n = 0; n < range_bytes(&from); n++) source[byte_at(&from, n)] = payload(rank, peer, round, n);
            ls_comm_put_signal(comm, peer, &to, source, &from, rank, generation);
            ls_comm_quiet(comm);
        }
        for (int peer = 0; peer < size; peer++) {
            LS_TRY(ls_comm_wait(comm, peer, generation, peer, "bytes"));
            LS_TRY(check_region(heap, peer, rank, round));
            memset(heap + (size_t)peer * REGION, POISON, REGION);
            ls_comm_signal(comm, peer, 16 + rank, generation);
        }
        ls_comm_tick(comm);
    }
    return ls_ok();
}

/* ---- order ---- */

/* Rank 0 raises rank 1's word without waiting; rank 1 must see it rise only. Meanwhile quiet orders plain
 * puts. */
static ls_status generations_rise(ls_comm *comm, void *context) {
    (void)context;
    enum { LAST = 20000, BYTES = 4096 };
    unsigned char block[BYTES];
    const ls_range place = ls_range_flat(0, BYTES);
    if (ls_comm_rank(comm) == 0) {
        memset(block, 42, BYTES);
        for (uint64_t g = 1; g < LAST; g++) ls_comm_signal(comm, 1, 3, g);
        ls_comm_put(comm, 1, &place, block, &place);
        ls_comm_quiet(comm);
        ls_comm_signal(comm, 1, 3, LAST);
        return ls_comm_wait(comm, 3, 1, 1, "done");
    }
    uint64_t before = 0;
    while (before < LAST) {
        const uint64_t now = ls_comm_word(comm, 3);
        RANK_CHECK(now >= before && now <= LAST);
        RANK_CHECK(ls_comm_test(comm, 3, now));
        before = now;
    }
    RANK_CHECK(!ls_comm_test(comm, 3, LAST + 1));
    const unsigned char *heap = ls_comm_heap(comm);
    for (int i = 0; i < BYTES; i++) RANK_CHECK(heap[i] == 42);
    ls_comm_signal(comm, 0, 3, 1);
    return ls_ok();
}

/* Reading in place: ready, wait, read the peer's heap, done; the owner overwrites after done. */
static ls_status read_in_place(ls_comm *comm, void *context) {
    (void)context;
    const int rank = ls_comm_rank(comm), size = ls_comm_size(comm), peer = (rank + 1) % size;
    const int reader = (rank + size - 1) % size;
    uint32_t *mine = ls_comm_heap(comm);
    const uint32_t *theirs = ls_comm_peer_heap(comm, peer);
    RANK_CHECK(theirs != NULL);
    for (uint32_t round = 1; round <= 300; round++) {
        for (uint32_t i = 0; i < 512; i++) mine[i] = round * 1000 + i + (uint32_t)rank;
        ls_comm_signal(comm, reader, 0, round);
        LS_TRY(ls_comm_wait(comm, 0, round, peer, "ready"));
        for (uint32_t i = 0; i < 512; i++) RANK_CHECK(theirs[i] == round * 1000 + i + (uint32_t)peer);
        ls_comm_signal(comm, peer, 1, round);
        LS_TRY(ls_comm_wait(comm, 1, round, reader, "done"));
    }
    return ls_ok();
}

/* ---- the tests ---- */

static void at_every_size(ls_rank_main rank_main) {
    for (int ranks = 1; ranks <= 8; ranks++) {
        const ls_world_options options = small_world(ranks);
        assert_ok(run_world(&options, true, rank_main, NULL));
        assert_ok(run_world(&options, false, rank_main, NULL));
    }
}

static void test_token(void **state) {
    (void)state;
    at_every_size(pass_token);
}

static void test_all_to_all(void **state) {
    (void)state;
    at_every_size(all_to_all);
}

static void test_order(void **state) {
    (void)state;
    for (int spin = 0; spin < 2; spin++) {
        ls_world_options options = small_world(2);
        options.may_spin = spin;
        assert_ok(run_world(&options, true, generations_rise, NULL));
        assert_ok(run_world(&options, false, generations_rise, NULL));
    }
}

static void test_read_in_place(void **state) {
    (void)state;
    const ls_world_options options = small_world(3);
    assert_ok(run_world(&options, true, read_in_place, NULL));
    assert_ok(run_world(&options, false, read_in_place, NULL));
}

/* More ranks than cores, and told to spin nevertheless. */
static void test_oversubscribed(void **state) {
    (void)state;
    for (int spin = 0; spin < 2; spin++) {
        ls_world_options options = small_world(16);
        options.may_spin = spin;
        assert_ok(run_world(&options, true, all_to_all, NULL));
        assert_ok(run_world(&options, false, pass_token, NULL));
    }
}

/* The transport of one rank keeps to the same contract. */
static void test_self(void **state) {
    (void)state;
    const ls_world_options options = small_world(1);
    const ls_rank_main mains[] = {pass_token, all_to_all, read_in_place};
    for (size_t i = 0; i < LS_COUNT(mains); i++) {
        ls_world *world;
        assert_ok(ls_world_create(NULL, &options, &world));
        assert_ok(ls_launch(world, 1, i % 2, mains[i], NULL));
        ls_world_destroy(world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),         cmocka_unit_test(test_all_to_all),     cmocka_unit_test(test_order),
        cmocka_unit_test(test_read_in_place), cmocka_unit_test(test_oversubscribed), cmocka_unit_test(test_self),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
