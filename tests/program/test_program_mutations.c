/* Random edits of valid programs: the verifier rejects every wrong one, and few harmless ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/mutate.h"

static void test_wrong_edits_are_rejected(void **state) {
    (void)state;
    const mutation_counts c = count_mutations(0, 200, 8);
    assert_true(c.wrong_rejected > 200 / 2);
    assert_int_equal(c.wrong_accepted, 0);
    /* long_mutations requires 30 %; with so few edits the share is known only to a tenth. */
    assert_true(10 * c.harmless_rejected <= 4 * (c.harmless_rejected + c.harmless_accepted));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_edits_are_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
