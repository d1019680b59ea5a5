/* Shares of a dimension of heads, features or words: even, in order, of whole units, and together all of it once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/tensor.h"

enum { MOST = 256 };

static const ls_dim_units dims[] = {
    {1, {{6, 1}}},                 /* hidden features */
    {1, {{5, 4}}},                 /* heads */
    {3, {{3, 8}, {3, 4}, {3, 4}}}, /* q, k and v in one matrix */
    {2, {{7, 1}, {7, 1}}},         /* gate and up */
    {1, {{1, 9}}},
};

static int64_t size_of(const ls_dim_units *dim) {
    int64_t size = 0;
    for (int s = 0; s < dim->n; s++) size += dim->segment[s].units * dim->segment[s].elements;
    return size;
}

static void check(const ls_dim_units *dim, int parts) {
    int times[MOST] = {0};
    int64_t most = 0;
    for (int part = 0; part < parts; part++) {
        const int64_t count = ls_units_count(dim, parts, part);
        int64_t last = -1;
        most = count > most ? count : most;
        for (int64_t at = 0, follow; at < count; at += follow) {
            const int64_t place = ls_units_place(dim, parts, part, at, &follow);
            assert_true(follow > 0 && place > last && at + follow <= count);
            for (int64_t i = 0; i < follow; i++) {
                int64_t one;
                assert_int_equal(ls_units_place(dim, parts, part, at + i, &one), place + i);
                assert_int_equal(one, follow - i);
                times[place + i]++;
            }
            last = place + follow - 1;
        }
    }
    assert_int_equal(ls_units_most(dim, parts), most);
    for (int64_t i = 0; i < size_of(dim); i++) assert_int_equal(times[i], 1);
}

static void test_shares(void **state) {
    (void)state;
    for (size_t d = 0; d < LS_COUNT(dims); d++)
        for (int parts = 1; parts <= 8; parts++) check(&dims[d], parts);
}

static void test_fewest(void **state) {
    (void)state;
    static const int64_t expected[] = {6, 5, 3, 7, 1};
    for (size_t d = 0; d < LS_COUNT(dims); d++) assert_int_equal(ls_units_fewest(&dims[d]), expected[d]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_fewest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
