/*
 * The covering set of the matrix (support/matrix.h), every pair of values: in f64 gradients, parameters after two steps
 * and proofs; a third of it in f32 and in bf16. LS_TEST_PART=I/N: in its place part I of N (0 to N - 1) of the product
 * of networks, meshes, --shard, micro-batches, masks, heads and lengths, in f64, as tools/run-in-parts.sh asks for. The
 * work is divided over processes, one per core.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/matrix.h"

enum { THIRD = 3, MOST_RANKS = 16 };

static void add_account(void *sum, const void *account) { matrix_account_add(sum, account); }

static int run(ls_dtype dtype, int first, int every) {
    return matrix_run_cover(&(matrix_part){.dtype = dtype, .first = first, .every = every, .most_ranks = MOST_RANKS});
}

static void test_f64(void **state) {
    (void)state;
    assert_in_range(run(LS_F64, 0, 1), 1500, 100000);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(run(LS_F32, 1, THIRD), 500, 100000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(run(LS_BF16, 2, THIRD), 500, 100000);
}

static void run_product(test_part part, const void *input, void *account) {
    (void)input;
    matrix *m = matrix_open(LS_F64, account);
    matrix_case c;
    for (int64_t at = 0; matrix_next(part, &at, &c);) matrix_check(m, &c);
    matrix_close(m);
}

static void test_part_of_product(void **state) {
    (void)state;
    bool asked;
    matrix_account sum = {0};
    (void)matrix_axes(MATRIX_PLAIN);
    run_workers(test_part_asked_for(&asked), run_product, NULL, sizeof sum, add_account, &sum);
    assert_true(matrix_report(LS_F64, &sum) > 0);
}

int main(void) {
    bool asked;
    (void)test_part_asked_for(&asked);
    const struct CMUnitTest cover[] = {cmocka_unit_test(test_f64), cmocka_unit_test(test_f32),
                                       cmocka_unit_test(test_bf16)},
                            product[] = {cmocka_unit_test(test_part_of_product)};
    return asked ? cmocka_run_group_tests(product, NULL, NULL) : cmocka_run_group_tests(cover, NULL, NULL);
}
