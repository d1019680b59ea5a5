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

#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/mutate.h"

static void test_wrong_edits_are_rejected(void **state) {
    (void)state;
    const mutation_verdicts v = judge_mutations(0, 200, 8);
    /* long_mutations requires 10 %; with so few edits the share is known only to a tenth. */
    assert_true(10 * v.play.harmless_unordered <= 2 * (v.play.harmless_unordered + v.play.harmless_accepted));
}

static void test_wrong_edits_of_sharded_programs(void **state) {
    (void)state;
    (void)judge_sharded_mutations(0, 80, 8);
}

static void test_wrong_edits_of_offloading_programs(void **state) {
    (void)state;
    (void)judge_offload_mutations(0, 60, 8);
}

static void test_wrong_edits_of_stages(void **state) {
    (void)state;
    (void)judge_stage_mutations(0, 60, 8);
}

static void test_wrong_edits_of_programs_with_states(void **state) {
    (void)state;
    (void)judge_state_mutations(0, 60, 4);
}

/* --- a state declared wrong --------------------------------------------------------------------------------------- */

/* Both verifiers reject what the images of the set have become. */
static void both_reject(const image_set *set, const char *what, const char *name) {
    const ls_image *const *images = (const ls_image *const *)set->image;
    const ls_status local = ls_verify_local(images, set->ranks), play = ls_verify(images, set->ranks);
    if (local.code != LS_INVALID || play.code != LS_INVALID)
        fail_msg("%s, \"%s\": accepted by %s", what, name, local.code == LS_OK ? "the local verifier" : "the play");
}

/* Whether another effect on an input or a table says something else: every program finds them set. */
static bool is_other(ls_buffer_kind kind, ls_effect declared, ls_effect effect) {
    const bool hosts = kind == LS_BUFFER_INPUT || kind == LS_BUFFER_TABLE;
    return effect != declared && (!hosts || effect > LS_EFFECT_READ) && (!hosts || declared <= LS_EFFECT_READ);
}

/* Every other effect on every persistent buffer, in every program of the last rank. */
static int declare_otherwise(image_set *set) {
    const ls_image *image = set->image[set->ranks - 1];
    int wrong = 0;
    for (int p = 0; p < image->n_programs; p++) {
        for (int b = 0; b < image->n_buffers; b++) {
            ls_kept *kept = &image->programs[p].kept[b];
            const ls_effect declared = kept->effect;
            if (image->buffers[b].program >= 0 || image->buffers[b].bytes == 0) continue;
            for (int effect = 0; effect < LS_EFFECTS; effect++) {
                if (!is_other(image->buffers[b].kind, declared, (ls_effect)effect)) continue;
                kept->effect = (ls_effect)effect;
                both_reject(set, image->programs[p].name, image->buffers[b].name);
                wrong++;
            }
            kept->effect = declared;
        }
    }
    return wrong;
}

/* Rows of which the host must clear sums, or by which sums go on, said to find zeros. */
static int join_what_does_not_fit(image_set *set) {
    const ls_phase *rows = set->image[0]->phases;
    const int n = set->image[0]->n_phases;
    ls_phase *edited = calloc((size_t)n, sizeof *edited);
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        if (rows[i].sums == LS_PHASE_ZERO) continue;
        for (int k = 0; k < n; k++) edited[k] = rows[k];
        edited[i].sums = LS_PHASE_ZERO;
        for (int r = 0; r < set->ranks; r++) set->image[r]->phases = edited;
        both_reject(set, "a row that finds no zeros", set->image[0]->programs[rows[i].to].name);
        wrong++;
    }
    for (int r = 0; r < set->ranks; r++) set->image[r]->phases = rows;
    free(edited);
    return wrong;
}

static void test_states_declared_wrong_are_rejected(void **state) {
    (void)state;
    static const struct {
        int dp, ring;
        bool accumulates;
    } cases[] = {{1, 1, true}, {1, 1, false}, {1, 2, true}, {2, 2, false}};
    int states = 0, rows = 0;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        image_set set = images_of_kind(mesh_of(cases[i].dp, cases[i].ring, 1), "ring", LS_LAYOUT_ZIGZAG, 13, 1,
                                       cases[i].accumulates, false);
        states += declare_otherwise(&set);
        rows += join_what_does_not_fit(&set);
        free_images(&set);
    }
    print_message("%d states and %d joins declared wrong, all rejected\n", states, rows);
    assert_true(states > 200 && rows > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_edits_are_rejected),
                                       cmocka_unit_test(test_wrong_edits_of_sharded_programs),
                                       cmocka_unit_test(test_wrong_edits_of_offloading_programs),
                                       cmocka_unit_test(test_wrong_edits_of_stages),
                                       cmocka_unit_test(test_wrong_edits_of_programs_with_states),
                                       cmocka_unit_test(test_states_declared_wrong_are_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
