/*
 * The covering set of meshes with stages (support/matrix.h), every pair of values of networks, places within a stage,
 * what is cut over ranks, micro-batches, schedules and the rest, on up to 16 ranks: in f64 gradients, parameters after
 * two steps and proofs; a part of it in f32, under chaos, and on devices that execute late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/matrix.h"

enum { MOST_RANKS = 16, FEW_RANKS = 8 };

static int run(matrix_part part) {
    part.set = MATRIX_STAGED;
    return matrix_run_cover(&part);
}

static void test_f64(void **state) {
    (void)state;
    assert_in_range(run((matrix_part){.dtype = LS_F64, .every = 1, .most_ranks = MOST_RANKS}), 400, 100000);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(run((matrix_part){.dtype = LS_F32, .first = 1, .every = 9, .most_ranks = MOST_RANKS}), 40, 100000);
}

static void test_chaos(void **state) {
    (void)state;
    const matrix_part part = {
        .dtype = LS_F64, .first = 4, .every = 13, .most_ranks = FEW_RANKS, .transport = "chaos:7"};
    assert_in_range(run(part), 20, 100000);
}

static void test_delayed(void **state) {
    (void)state;
    static const char *const devices[] = {"delayed:1", "delayed:2:awaited", "delayed:3:messages", "delayed:4:recorded"};
    for (size_t i = 0; i < LS_COUNT(devices); i++) {
        const matrix_part part = {
            .dtype = LS_F64, .first = (int)i, .every = 53, .most_ranks = FEW_RANKS, .device = devices[i]};
        assert_in_range(run(part), 10, 100000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f64), cmocka_unit_test(test_f32),
                                       cmocka_unit_test(test_chaos), cmocka_unit_test(test_delayed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
