/* Random edits of valid programs: both verifiers reject every wrong one, and the play few harmless ones for their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/mutate.h"

static void test_wrong_edits_are_rejected(void **state) {
    (void)state;
    const mutation_verdicts v = count_mutations(0, 200, 8);
    assert_true(v.play.wrong_rejected > 200 / 2 && v.local.wrong_rejected > 200 / 2);
    assert_int_equal(v.play.wrong_accepted, 0);
    assert_int_equal(v.local.wrong_accepted, 0);
    /* long_mutations requires 10 %; with so few edits the share is known only to a tenth. */
    assert_true(10 * v.play.harmless_unordered <=
                2 * (v.play.harmless_unordered + v.play.harmless_accepted));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_edits_are_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
