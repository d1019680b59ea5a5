/*
 * A part of the covering set of the matrix (support/matrix.h): networks on one to sixteen ranks against one rank in
 * f64, gradients and updated parameters, and in f32 and bf16 the gradients; and of that of meshes with stages.
 * tests/compile/long_matrix.c and long_matrix_stages.c run all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/emulated.h"
#include "support/matrix.h"

/* Every n-th case from `first` on, or every third of these. */
static int run_some(matrix_set set, ls_dtype dtype, int first, int every) {
    if (is_repeated()) every *= 3;
    matrix_account account = {0};
    int n;
    matrix_case *cases = matrix_cover(set, &n);
    matrix *m = matrix_open(dtype, &account);
    for (int i = first; i < n; i += every) matrix_check(m, &cases[i]);
    matrix_close(m);
    free(cases);
    return matrix_report(dtype, &account);
}

static void test_f64(void **state) {
    (void)state;
    skip_if_repeated();
    assert_in_range(run_some(MATRIX_PLAIN, LS_F64, 0, 97), 17, 1000);
}

static void test_stages(void **state) {
    (void)state;
    skip_if_repeated();
    assert_in_range(run_some(MATRIX_STAGED, LS_F64, 3, 97), 5, 1000);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(run_some(MATRIX_PLAIN, LS_F32, 1, 193), is_repeated() ? 3 : 8, 1000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(run_some(MATRIX_PLAIN, LS_BF16, 2, 193), is_repeated() ? 3 : 8, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f64), cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
