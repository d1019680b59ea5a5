/* Evaluation while training: every sequence counts once, whatever the batch and the mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/evaluations.h"

/* All sizes with all settings are in long_train_evaluation. */
static void counts_each_sequence_once(void **state) {
    check_evaluations(state, 1, 1, 4);
    check_evaluations(state, 3, 2, 2);
    check_evaluations(state, 50, 3, 4);
}

static void some_sequences_are_the_same_with_any_batch(void **state) {
    char text[600], out[600];
    snprintf(text, sizeof text, "%s", make_text(state, "evaluation.txt", 40 * EVALUATION_SEQ));
    const double all = evaluate_in_training(state, &evaluation_settings[0], text, 0, out, sizeof out);
    const double some = evaluate_in_training(state, &evaluation_settings[0], text, 7, out, sizeof out);
    const double same = evaluate_in_training(state, &evaluation_settings[3], text, 7, out, sizeof out);
    assert_true(fabs(some - same) <= 1e-6);
    assert_true(fabs(some - all) > 1e-4); /* or nothing would be compared */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_each_sequence_once),
        cmocka_unit_test(some_sequences_are_the_same_with_any_batch),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
