/* Training steps over every strategy on several pretended hosts: the bits are those of one host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/step_digest.h"

static void test_same_bits(void **state) {
    (void)state;
    hosts_change_nothing();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
