/* The interpreter: right programs give one result under every seed; a hang, poison and another value are seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run/interpret.h"
#include "support/images.h"

static void test_every_seed_agrees(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{1, 1, 1, "local"},   {1, 2, 1, "ring"}, {1, 4, 1, "ring"}, {1, 1, 2, "ulysses"},
                  {1, 1, 3, "ulysses"}, {1, 2, 2, "usp"},  {2, 2, 1, "ring"}, {3, 1, 1, "local"}};
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        image_set set = images_of_network(ls_mesh_make(meshes[m].dp, meshes[m].ring, meshes[m].ulysses),
                                          meshes[m].strategy, LS_LAYOUT_ZIGZAG, 13, 1);
        const ls_image *const *images = (const ls_image *const *)set.image;
        ls_interpreter *first = ls_interpreter_create(images, set.ranks);
        ls_interpreter *others = ls_interpreter_create(images, set.ranks);
        const ls_outcome reference = ls_interpreter_run(first, 0);
        for (uint64_t seed = 0; seed < 16; seed++) {
            const ls_outcome other = ls_interpreter_run(others, seed);
            if (!ls_outcome_same(&reference, &other))
                fail_msg("%s %dx%dx%d, seed %d: hung %d, poison %d, outside %d, left %s", meshes[m].strategy,
                         meshes[m].dp, meshes[m].ring, meshes[m].ulysses, (int)seed, other.hung, other.poison,
                         other.outside, reference.left == other.left ? "the same" : "something else");
        }
        ls_interpreter_destroy(first);
        ls_interpreter_destroy(others);
        free_images(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_seed_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
