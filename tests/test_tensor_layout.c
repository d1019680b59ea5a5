/* Layouts: each is a permutation, dealt in the promised counts, in the promised order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

enum { MOST_S = 40 };

/* Every position once, counts as ls_part_start deals them, ascending within a rank. */
static void check_permutation(const ls_layout *layout) {
    int owner[MOST_S];
    for (int i = 0; i < MOST_S; i++) owner[i] = -1;
    int64_t total = 0;
    for (int p = 0; p < layout->P; p++) {
        int64_t n = ls_layout_count(layout, p);
        assert_int_equal(n,
                         ls_part_start(layout->S, layout->P, p + 1) - ls_part_start(layout->S, layout->P, p));
        assert_true(n <= ls_layout_most(layout) && n >= layout->S / layout->P);
        assert_int_equal(ls_layout_start(layout, p), total);
        total += n;
        int32_t positions[MOST_S + 1];
        positions[n] = -77;
        ls_layout_positions(layout, p, positions);
        assert_int_equal(positions[n], -77);
        for (int64_t i = 0; i < n; i++) {
            assert_true(positions[i] >= 0 && positions[i] < layout->S);
            assert_int_equal(owner[positions[i]], -1);
            owner[positions[i]] = p;
            if (i > 0) assert_true(positions[i] > positions[i - 1]);
        }
    }
    assert_int_equal(total, layout->S);
    assert_int_equal(ls_layout_start(layout, layout->P), layout->S);
}

static void test_every_layout_is_a_permutation(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_LAYOUTS; kind++)
        for (int64_t S = 1; S <= MOST_S; S++)
            for (int P = 1; P <= S; P++) check_permutation(&(ls_layout){(ls_layout_kind)kind, S, P});
}

/* Rank p: ceil(n/2) tokens from the front, in rank order; n/2 from the back, the ranks reversed. */
static void test_zigzag_runs(void **state) {
    (void)state;
    for (int64_t S = 1; S <= MOST_S; S++) {
        for (int P = 1; P <= S; P++) {
            ls_layout layout = {LS_LAYOUT_ZIGZAG, S, P};
            int64_t front = 0, back = S;
            for (int p = 0; p < P; p++) {
                int32_t positions[MOST_S];
                ls_layout_positions(&layout, p, positions);
                int64_t n = ls_layout_count(&layout, p), half = n - n / 2;
                back -= n / 2;
                for (int64_t i = 0; i < half; i++) assert_int_equal(positions[i], front + i);
                for (int64_t i = half; i < n; i++) assert_int_equal(positions[i], back + i - half);
                front += half;
            }
            assert_int_equal(front, back);
        }
    }
}

static void expect_positions(ls_layout layout, int p, const int32_t *expected, int64_t n) {
    int32_t positions[MOST_S];
    assert_int_equal(ls_layout_count(&layout, p), n);
    ls_layout_positions(&layout, p, positions);
    for (int64_t i = 0; i < n; i++) assert_int_equal(positions[i], expected[i]);
}

static void test_known_layouts(void **state) {
    (void)state;
    expect_positions((ls_layout){LS_LAYOUT_CONTIGUOUS, 8, 2}, 1, (int32_t[]){4, 5, 6, 7}, 4);
    expect_positions((ls_layout){LS_LAYOUT_ZIGZAG, 8, 2}, 0, (int32_t[]){0, 1, 6, 7}, 4);
    expect_positions((ls_layout){LS_LAYOUT_ZIGZAG, 8, 2}, 1, (int32_t[]){2, 3, 4, 5}, 4);
    expect_positions((ls_layout){LS_LAYOUT_ZIGZAG, 7, 2}, 0, (int32_t[]){0, 1, 6}, 3);
    expect_positions((ls_layout){LS_LAYOUT_ZIGZAG, 7, 2}, 1, (int32_t[]){2, 3, 4, 5}, 4);
    expect_positions((ls_layout){LS_LAYOUT_STRIPED, 8, 2}, 1, (int32_t[]){1, 3, 5, 7}, 4);
    expect_positions((ls_layout){LS_LAYOUT_STRIPED, 7, 2}, 1, (int32_t[]){0, 2, 4, 6}, 4);
    expect_positions((ls_layout){LS_LAYOUT_STRIPED, 7, 2}, 0, (int32_t[]){1, 3, 5}, 3);
}

/* Pairs of a causal mask per rank: equal for zigzag when 2P divides S. */
static void test_zigzag_balances_causal(void **state) {
    (void)state;
    for (int P = 1; P <= 8; P++) {
        ls_layout layout = {LS_LAYOUT_ZIGZAG, 4 * P, P};
        for (int p = 0; p < P; p++) {
            int32_t positions[4];
            ls_layout_positions(&layout, p, positions);
            int64_t pairs = 0;
            for (int i = 0; i < 4; i++) pairs += positions[i] + 1;
            assert_int_equal(pairs, 2 * (4 * P + 1));
        }
    }
}

static void test_names(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        ls_layout_kind read = LS_LAYOUTS;
        assert_int_equal(ls_layout_parse(ls_layout_name((ls_layout_kind)kind), &read).code, LS_OK);
        assert_int_equal(read, kind);
    }
    ls_layout_kind untouched = LS_LAYOUT_STRIPED;
    ls_status status = ls_layout_parse("zigzagged", &untouched);
    assert_int_equal(status.code, LS_USAGE);
    for (int kind = 0; kind < LS_LAYOUTS; kind++)
        assert_non_null(strstr(status.text, ls_layout_name((ls_layout_kind)kind)));
    assert_int_equal(untouched, LS_LAYOUT_STRIPED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_is_a_permutation),
        cmocka_unit_test(test_zigzag_runs),
        cmocka_unit_test(test_known_layouts),
        cmocka_unit_test(test_zigzag_balances_causal),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
