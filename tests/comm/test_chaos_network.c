/*
 * Training steps over every strategy, with ranks as threads: their results under chaos have the bits of the plain
 * transport.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/meshes.h"
#include "support/step_digest.h"

static void test_same_bits(void **state) {
    (void)state;
    chaos_changes_nothing(1, 40);
}

/* A program that reads before it waits is found out: the test can fail. */
static void test_missing_wait_shows(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* a race on purpose */
#endif
    image_set set = images_of_network(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1);
    uint64_t plain, digest;
    assert_int_equal(step_digest(&set, NULL, &plain).code, LS_OK);
    for (int r = 0; r < set.ranks; r++) {
        ls_program *p = &set.image[r]->programs[ls_program_find(set.image[r], LS_PROGRAM_MICRO)];
        for (int i = 0; i < p->n_instrs; i++) {
            if (p->instrs[i].kind == LS_INSTR_KERNEL) p->instrs[i].n_after = 0;
        }
    }
    int other = 0;
    for (int seed = 0; seed < 10; seed++) {
        char name[16];
        snprintf(name, sizeof name, "chaos:%d", seed);
        const ls_status status = step_digest(&set, name, &digest); /* fails when the loss is not a number */
        other += status.code != LS_OK || digest != plain;
    }
    print_message("without waits between the queues: %d of 10 runs differ\n", other);
    assert_true(other > 0);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_missing_wait_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
