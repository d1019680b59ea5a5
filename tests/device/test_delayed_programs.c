/* A training on the device delayed: the same bits as on cpu, for all strategies and both kinds of ordering. */
#include "support/meshes.h"
#include "support/step_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_the_same_bits(void **state) {
    (void)state;
    delayed_changes_nothing(1, 3, false);
}

static void test_the_same_bits_over_chaos(void **state) {
    (void)state;
    delayed_changes_nothing(11, 1, true);
}

/* The heap that others could read is not the device's. */
static void test_messages_do_not_read_in_place(void **state) {
    (void)state;
    uint64_t digest;
    image_set set = images_of_kind(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1, false, READS_ALL);
    setenv("LONGSPAN_DEVICE", "delayed:1:messages", 1);
    const ls_status status = step_digest(&set, NULL, &digest);
    unsetenv("LONGSPAN_DEVICE");
    free_images(&set);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "read in place, but its memory cannot be addressed from here"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same_bits),
                                       cmocka_unit_test(test_the_same_bits_over_chaos),
                                       cmocka_unit_test(test_messages_do_not_read_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
