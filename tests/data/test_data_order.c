/* The permutation of sequences, and the store of tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "data/data.h"
#include "data/pack_impl.h"

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
        cmocka_unit_test(stores_every_width),
        cmocka_unit_test(a_mixture_reads_each_set_by_its_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
