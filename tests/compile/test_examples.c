/*
 * The graphs of examples/graphs on one to eight ranks against one rank in f64 (support/matrix.h): every graph on
 * every mesh in f64, a third of these in f32 and in bf16, with layouts and savings of memory in turn.
 * tests/compile/long_examples.c does all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/matrix.h"

enum { LAYOUTS = 3, SAVINGS = 5 };

/* Each graph on each mesh; layouts and savings go round, so that all of them meet each graph and each mesh. */
static bool one_of_each(const matrix_place *p) {
    return p->layout == (p->network + p->mesh) % LAYOUTS && p->saving == (p->network + 2 * p->mesh) % SAVINGS;
}

static bool third(const matrix_place *p, int which) {
    return one_of_each(p) && (p->network + p->mesh / 3) % 3 == which;
}
static bool first_third(const matrix_place *p) { return third(p, 0); }
static bool second_third(const matrix_place *p) { return third(p, 1); }
static bool last_third(const matrix_place *p) { return third(p, 2); }

static void test_f64(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_F64, one_of_each), 200, 1000);
}

static void test_f32(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_F32, first_third), 60, 1000);
}

static void test_bf16(void **state) {
    (void)state;
    assert_in_range(matrix_compare(LS_BF16, second_third), 60, 1000);
}

static void test_programs_verify(void **state) {
    (void)state;
    assert_in_range(matrix_verify(last_third), 60, 1000);
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
