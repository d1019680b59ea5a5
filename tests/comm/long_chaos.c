/* A thousand seeds of chaos over every strategy give the bits of the plain transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/step_digest.h"

static void test_same_bits(void **state) {
    (void)state;
    chaos_changes_nothing(1000, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
