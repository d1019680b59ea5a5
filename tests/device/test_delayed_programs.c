/* A training on the device delayed: the same bits as on cpu, for all strategies and both kinds of ordering. */
#include "support/step_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_the_same_bits(void **state) {
    (void)state;
    delayed_changes_nothing(1, 3, false);
}

static void test_the_same_bits_over_chaos(void **state) {
    (void)state;
    delayed_changes_nothing(11, 1, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same_bits),
                                       cmocka_unit_test(test_the_same_bits_over_chaos)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
