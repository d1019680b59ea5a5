/* The permutation of sequences, and the store of tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "data/data.h"
#include "data/order_impl.h"

#include <math.h>

static void is_a_bijection(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097, 65537};
    for (size_t k = 0; k < LS_COUNT(sizes); k++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t n = sizes[k];
            uint8_t *seen = calloc(n, 1);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t to = ls_permute(7, epoch, n, i);
                assert_true(to < n);
                if (seen[to]++) fail_msg("n %d: two indices go to %d", (int)n, (int)to);
            }
            free(seen);
        }
    }
}

/* Share of the indices of [0, n) that two permutations send to the same place. */
static double agreement(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b, uint64_t n) {
    uint64_t same = 0;
    for (uint64_t i = 0; i < n; i++) same += ls_permute(seed_a, epoch_a, n, i) == ls_permute(seed_b, epoch_b, n, i);
    return (double)same / (double)n;
}

static void depends_on_seed_and_epoch(void **state) {
    (void)state;
    assert_true(agreement(1, 0, 1, 0, 5000) == 1);
    assert_true(agreement(1, 0, 2, 0, 5000) < 0.01);
    assert_true(agreement(1, 0, 1, 1, 5000) < 0.01);
    assert_true(agreement(1, 0, 1ull << 32, 0, 5000) < 0.01);
    assert_true(agreement(1, 0, 1, 1ull << 32, 5000) < 0.01);
}

/* Every index goes to every place about equally often, over many seeds: chi-squared, by the number of places. */
static double chi_squared(uint64_t n) {
    enum { SEEDS = 20000, MOST = 16 };
    double counts[MOST][MOST] = {{0}}, mean = SEEDS / (double)n, chi = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t i = 0; i < n; i++) counts[i][ls_permute(seed, 0, n, i)]++;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < n; j++) chi += (counts[i][j] - mean) * (counts[i][j] - mean) / mean;
    return chi;
}

static void is_fair(void **state) {
    (void)state;
    assert_true(chi_squared(2) < 15); /* 1 degree of freedom: p = 0.0001; and so on */
    assert_true(chi_squared(7) < 77);
    assert_true(chi_squared(13) < 215);
}

static void is_the_same_for_ever(void **state) {
    (void)state;
    static const uint64_t expected[] = {417, 802, 723, 804, 776, 105, 688, 112};
    for (uint64_t i = 0; i < LS_COUNT(expected); i++) assert_int_equal(ls_permute(42, 3, 1000, i), expected[i]);
    assert_true(ls_permute(42, 3, (uint64_t)1 << 62, 12345) < (uint64_t)1 << 62);
}

/* Work as attention has it, of few long documents and many short ones; the caller frees it. */
static int64_t *draw_work(int64_t n) {
    int64_t *work = malloc((size_t)n * sizeof *work);
    for (int64_t i = 0; i < n; i++) {
        const double share = (double)(1 + ls_rng_below(9, 0, (uint64_t)i, 1000)) / 1000;
        work[i] = (int64_t)(1000 / share);
    }
    return work;
}

static ls_epoch_order grouped_order(int64_t n, int64_t batch, uint64_t seed, const int64_t *work) {
    ls_epoch_order order = {.n = n, .shuffle = true, .seed = seed};
    assert_ok(ls_order_group(&order, batch, work));
    return order;
}

static void groups_hold_each_sequence_once_an_epoch(void **state) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 4}, {7, 3}, {5, 8}, {8, 8}, {100, 8}, {1000, 16}, {1003, 7}};
    (void)state;
    for (size_t k = 0; k < LS_COUNT(sizes); k++) {
        const int64_t n = sizes[k][0];
        int64_t *work = draw_work(n), same = 0;
        ls_epoch_order order = grouped_order(n, sizes[k][1], 3, work), other = grouped_order(n, sizes[k][1], 4, work);
        for (int64_t epoch = 0; epoch < 5; epoch++) {
            uint8_t *seen = calloc((size_t)n, 1);
            for (int64_t i = 0; i < n; i++) {
                const int64_t place = ls_order_place(&order, epoch * n + i);
                assert_true(place >= 0 && place < n);
                assert_int_equal(seen[place]++, 0);
                same += place == ls_order_place(&other, epoch * n + i);
                if (epoch > 0) same += place == ls_order_place(&order, (epoch - 1) * n + i);
            }
            free(seen);
        }
        if (n >= 100) assert_true(same < n); /* of 9 n */
        ls_order_free(&order);
        ls_order_free(&other);
        free(work);
    }
}

/* Where each sequence lies in the order by work. */
static int64_t *ranks_by_work(const ls_epoch_order *order) {
    int64_t *rank = malloc((size_t)order->n * sizeof *rank);
    for (int64_t i = 0; i < order->n; i++) rank[order->by_work[i]] = i;
    return rank;
}

/* The steps of epochs that a batch does not divide, those too that two epochs share. */
static void a_step_has_sequences_of_similar_work_and_steps_come_by_chance(void **state) {
    enum { N = 4003, B = 8, STEPS = 5 * N / B };
    int64_t *work = draw_work(N), longer = 0, last = 0;
    ls_epoch_order order = grouped_order(N, B, 1, work);
    int64_t *rank = ranks_by_work(&order);
    (void)state;
    assert_int_equal(order.neighbour, N / 50);
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t least = N, most = 0;
        for (int64_t i = 0; i < B; i++) {
            const int64_t at = rank[ls_order_place(&order, step * B + i)];
            least = ls_min(least, at);
            most = ls_max(most, at);
        }
        assert_true(most - least < 3 * order.neighbour); /* two parts at most, the last of which may be larger */
        longer += least > last;
        last = least;
    }
    assert_true(longer > STEPS * 45 / 100 && longer < STEPS * 55 / 100);
    ls_order_free(&order);
    free(rank);
    free(work);
}

/* Sequences that are in one step in two epochs: as few as chance makes of what they are drawn from. */
static void steps_differ_between_epochs(void **state) {
    enum { N = 4000, B = 8 };
    int64_t *work = draw_work(N), *step_of[2], together = 0;
    ls_epoch_order order = grouped_order(N, B, 1, work);
    (void)state;
    for (int epoch = 0; epoch < 2; epoch++) {
        step_of[epoch] = malloc(N * sizeof(int64_t));
        for (int64_t i = 0; i < N; i++) step_of[epoch][ls_order_place(&order, epoch * N + i)] = i / B;
    }
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < i; j++) together += step_of[0][i] == step_of[0][j] && step_of[1][i] == step_of[1][j];
    /* A sequence has 7 others in its step, of 79 neighbours: 0.62 of them again, by chance: 1,240 pairs. */
    assert_true(together > 1000 && together < 1500);
    for (int epoch = 0; epoch < 2; epoch++) free(step_of[epoch]);
    ls_order_free(&order);
    free(work);
}

static void groups_make_replicas_even(void **state) {
    enum { N = 4000 };
    static const ls_step_parts parts[] = {{8, 1, 1}, {8, 1, 8}, {8, 2, 4}, {8, 4, 2}};
    int64_t *work = draw_work(N);
    ls_epoch_order order = grouped_order(N, 8, 1, work), none = {.n = 3, .batch = 4, .shuffle = true};
    const ls_epoch_order shuffled = {.n = N, .shuffle = true, .seed = 1};
    (void)state;
    for (size_t k = 0; k < LS_COUNT(parts); k++) {
        const double by_chance = ls_order_balance(&shuffled, work, &parts[k]);
        const double grouped = ls_order_balance(&order, work, &parts[k]);
        if (parts[k].replicas == 1) assert_true(fabs(grouped - 1) < 1e-12 && fabs(by_chance - 1) < 1e-12);
        if (parts[k].replicas > 1) assert_true(grouped >= 1 && by_chance > 1.2 && grouped - 1 < (by_chance - 1) / 3);
    }
    assert_true(isnan(ls_order_balance(&none, work, &parts[0])));
    ls_order_free(&order);
    free(work);
}

static void stores_every_width(void **state) {
    (void)state;
    static const int32_t vocabularies[] = {256, 257, 65536, 65537, INT32_MAX};
    static const int widths[] = {1, 2, 2, 4, 4};
    for (size_t k = 0; k < LS_COUNT(vocabularies); k++) {
        ls_store store = ls_store_empty(vocabularies[k]);
        assert_int_equal(store.width, widths[k]);
        const int32_t last = vocabularies[k] - 1, ids[] = {0, last, 1, last / 2, 255};
        int32_t back[3];
        for (int round = 0; round < 300000; round++) assert_ok(ls_store_append(&store, ids, 5));
        assert_int_equal(store.count, 1500000);
        ls_store_read(&store, 1499996, 3, back);
        assert_memory_equal(back, ids + 1, sizeof back);
        ls_store_free(&store);
    }
}

/* In each round each set is read as often as its weight says, and goes through its own sequences in their order of
 * rounds. */
static void a_mixture_reads_each_set_by_its_weight(void **state) {
    enum { SETS = 3, ROUNDS = 50, PERIOD = 6 };
    ls_mixed_set sets[SETS] = {{.weight = 3}, {.weight = 1}, {.weight = 2}};
    const ls_mixture mixture = {.n = SETS, .set = sets, .period = PERIOD, .seed = 5}, one = {1, sets + 1, 1, 5};
    bool seen[SETS][3 * ROUNDS] = {{false}};
    int orders = 0, last = -1;
    (void)state;
    for (int64_t i = 0; i < ROUNDS * PERIOD; i++) {
        int64_t own;
        const int k = ls_mixture_find(&mixture, i, &own);
        assert_int_equal(own / sets[k].weight, i / PERIOD);
        assert_false(seen[k][own]);
        seen[k][own] = true;
        if (i % PERIOD == 0) orders += k != last;
        if (i % PERIOD == 0) last = k;
        assert_int_equal(ls_mixture_find(&one, i, &own), 0);
        assert_int_equal(own, i);
    }
    assert_true(orders > 5); /* the rounds differ */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_bijection),
        cmocka_unit_test(depends_on_seed_and_epoch),
        cmocka_unit_test(is_fair),
        cmocka_unit_test(is_the_same_for_ever),
        cmocka_unit_test(groups_hold_each_sequence_once_an_epoch),
        cmocka_unit_test(a_step_has_sequences_of_similar_work_and_steps_come_by_chance),
        cmocka_unit_test(steps_differ_between_epochs),
        cmocka_unit_test(groups_make_replicas_even),
        cmocka_unit_test(stores_every_width),
        cmocka_unit_test(a_mixture_reads_each_set_by_its_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
