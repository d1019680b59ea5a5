/* A sample of the random graphs of general ops (long_random_graphs.c has 1,000). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/random_graphs.h"

static void test_graphs(void **state) {
    (void)state;
    check_random_graphs(280, 320);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
