/*
 * The whole matrix of example graphs (support/matrix.h) in f64, f32 and bf16. The programs of every graph, mesh and
 * layout are proved, with savings of memory in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/matrix.h"

static bool all(const matrix_place *p) {
    (void)p;
    return true;
}

static bool one_saving(const matrix_place *p) { return p->saving == (p->network + p->mesh + p->layout) % 5; }

static void test_f64(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_F64, all), 3000, 100000);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_F32, all), 3000, 100000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_BF16, all), 3000, 100000);
}

static void test_programs_verify(void **state) {
    (void)state;
    assert_in_range(matrix_verify(one_saving), 600, 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_programs_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
