/* Evaluations of 1 to 50 sequences while training, with 9 batches and meshes, are those of `longspan eval`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/evaluations.h"

static void all_sizes_with_all_settings(void **state) {
    for (int64_t n = 1; n <= 50; n++) check_evaluations(state, n, 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sizes_with_all_settings)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
