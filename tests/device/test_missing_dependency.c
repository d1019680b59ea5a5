/*
 * Programs in which something that an instruction comes after is missing. The verifier says where that lets two
 * accesses to one place run concurrently; the device delayed must find each of these, whoever happens to be
 * first.
 */
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"

#include <stdlib.h>

#include "program/program.h"
#include "program/verify_local.h"

typedef struct counts {
    int tried, races, found;
} counts;

/*
 * Runs the programs without the k-th thing that an instruction comes after, on all ranks: what the verifier says of one
 * may hold for the bytes of another.
 */
static void run_without(image_set *set, int program, int i, int k, counts *c) {
    const ls_after missing = set->image[0]->programs[program].instrs[i].after[k];
    for (int r = 0; r < set->ranks; r++) {
        ls_instr *instr = &set->image[r]->programs[program].instrs[i];
        assert_true(k < instr->n_after && memcmp(&instr->after[k], &missing, sizeof missing) == 0);
        set_after(instr, k, -1);
    }
    const ls_status judged = ls_verify_local((const ls_image *const *)set->image, set->ranks);
    uint64_t digest;
    const ls_status ran = step_digest(set, NULL, &digest);
    for (int r = 0; r < set->ranks; r++) {
        ls_instr *instr = &set->image[r]->programs[program].instrs[i];
        instr->after[instr->n_after++] = instr->after[k];
        instr->after[k] = missing;
    }
    const bool race = judged.code != LS_OK && strstr(judged.text, "not ordered") != NULL;
    const bool found = ran.code != LS_OK && strstr(ran.text, "memory touched too early") != NULL;
    if (race && !found) print_message("not found: %s; the run: %s\n", judged.text, ran.text);
    if (judged.code == LS_OK && ran.code != LS_OK) fail_msg("the verifier accepts it, the run: %s", ran.text);
    c->tried++;
    c->races += race;
    c->found += race && found;
}

static void check(ls_mesh mesh, const char *strategy, images_reads reads) {
    image_set set = images_of_kind(mesh, strategy, LS_LAYOUT_ZIGZAG, 26, 1, false, reads);
    const int step = ls_program_find(set.image[0], LS_PROGRAM_STEP);
    const ls_program *program = &set.image[0]->programs[step];
    counts c = {0};
    for (int i = 0; i < program->n_instrs; i++)
        for (int k = 0; k < program->instrs[i].n_after; k++) run_without(&set, step, i, k, &c);
    print_message("%s: %d things missing, one at a time: %d races, %d found\n", strategy, c.tried, c.races, c.found);
    assert_true(c.races > 0);
    assert_int_equal(c.found, c.races);
    free_images(&set);
}

static void test_each_race_is_found(void **state) {
    (void)state;
    setenv("LONGSPAN_DEVICE", "delayed:1", 1);
    check(mesh_of(1, 2, 1), "ring", READS_NOTHING);
    check(mesh_of(1, 2, 1), "ring", READS_ALL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_race_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
