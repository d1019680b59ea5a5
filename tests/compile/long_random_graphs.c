/* 1,000 random graphs of general ops over meshes of two to six ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/random_graphs.h"

static void test_graphs(void **state) {
    (void)state;
    check_random_graphs(0, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
