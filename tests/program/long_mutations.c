/*
 * Random edits of valid programs: both verifiers reject every wrong one, and the play few harmless ones for their
 * order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/mutate.h"

static void test_wrong_edits_are_rejected(void **state) {
    (void)state;
    const mutation_verdicts v = judge_mutations(1000, 2000, 32);
    /*
     * Of the edits that break no rule of the form and harm nothing, the play may reject a tenth: its order is the exact
     * one, but it asks on behalf of all ranks of a class, and of puts that may arrive sooner than other ranks' work
     * lets them.
     */
    assert_true(10 * v.play.harmless_unordered <= v.play.harmless_unordered + v.play.harmless_accepted);
}

static void test_wrong_edits_of_sharded_programs(void **state) {
    (void)state;
    (void)judge_sharded_mutations(1000, 1000, 32);
}

static void test_wrong_edits_of_offloading_programs(void **state) {
    (void)state;
    (void)judge_offload_mutations(1000, 500, 32);
    (void)judge_stage_mutations(1000, 500, 32);
    (void)judge_state_mutations(1000, 500, 16);
}

static void accept(image_set set) {
    const ls_image *image = set.image[0];
    char mesh[64];
    ls_mesh_print(&image->mesh, mesh, sizeof mesh);
    ls_status status = ls_verify((const ls_image *const *)set.image, set.ranks);
    if (status.code == LS_OK) status = ls_verify_local((const ls_image *const *)set.image, set.ranks);
    if (status.code != LS_OK) fail_msg("%s %s, %s: %s", image->strategy, mesh, ls_transfers_of(image), status.text);
    free_images(&set);
}

/* Every mesh of up to 16 ranks, strategies and layouts in turn. */
static void test_unedited_programs_are_accepted(void **state) {
    (void)state;
    int accepted = 0;
    for (int dp = 1; dp <= 16; dp++) {
        for (int ring = 1; dp * ring <= 16; ring++) {
            for (int ulysses = 1; ulysses <= 4 && dp * ring * ulysses <= 16; ulysses++) {
                const ls_layout_kind layout = (ls_layout_kind)(accepted / 2 % LS_LAYOUTS);
                const char *strategy = ulysses > 1 ? ring > 1 ? "usp" : "ulysses" : ring > 1 ? "ring" : "local";
                accept(images_of_network(mesh_of(dp, ring, ulysses), strategy, layout, 37, 1));
                accept(images_in_place(mesh_of(dp, ring, ulysses), strategy, layout, 37, 1));
                accepted += 2;
            }
        }
    }
    print_message("%d unedited programs accepted\n", accepted);
    assert_true(accepted > 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_edits_are_rejected),
        cmocka_unit_test(test_wrong_edits_of_sharded_programs),
        cmocka_unit_test(test_wrong_edits_of_offloading_programs),
        cmocka_unit_test(test_unedited_programs_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
