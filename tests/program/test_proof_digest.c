/*
 * What classes say to each other in few numbers: proofs of programs that fit together agree, and where the comparison
 * of the proofs finds a difference, so do the numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "program/instr.h"
#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"

enum { MOST = 8 };

/* Each rank is a class of its own. */
typedef struct judged {
    ls_status alone;   /* each class by itself */
    ls_status between; /* LS_OK unless alone */
    bool agree;
} judged;

static judged judge(const image_set *set) {
    ls_arena *arena = ls_arena_create();
    ls_class_proof *proofs[MOST];
    ls_proof_digest digests[MOST];
    int class_of[MOST];
    judged j = {.alone = ls_ok()};
    for (int r = 0; r < set->ranks; r++) class_of[r] = r;
    for (int r = 0; r < set->ranks && j.alone.code == LS_OK; r++) {
        j.alone = ls_prove_class(set->image[r], r, arena, &proofs[r]);
        if (j.alone.code == LS_OK) digests[r] = ls_class_proof_digest(proofs[r], r, class_of, set->ranks);
    }
    if (j.alone.code == LS_OK) {
        j.between = ls_prove_between((const ls_class_proof *const *)proofs, set->ranks, class_of, set->ranks);
        j.agree = ls_proof_digests_agree(digests, set->ranks);
    }
    ls_arena_destroy(arena);
    return j;
}

static void test_programs_that_fit_agree(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } cases[] = {{1, 1, 1, "local"},     {4, 1, 1, "local"},   {1, 3, 1, "ring"},
                 {2, 3, 1, "tokenring"}, {2, 1, 2, "ulysses"}, {1, 2, 2, "usp"},
                 {1, 4, 1, "gather"},    {1, 3, 1, "burst"},   {2, 2, 1, "rsa"}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const ls_mesh mesh = mesh_of(cases[i].dp, cases[i].ring, cases[i].ulysses);
        image_set set = images_of_network(mesh, cases[i].strategy, LS_LAYOUT_CONTIGUOUS, 24, 1);
        const judged j = judge(&set);
        if (j.alone.code != LS_OK || j.between.code != LS_OK) fail_msg("%s%s", j.alone.text, j.between.text);
        assert_true(j.agree);
        free_images(&set);
    }
}

/* --- edits of one rank -------------------------------------------------------------------------------------------- */

static void other_words(ls_image *image) {
    image->words++;
    for (int p = 0; p < image->n_programs; p++) {
        image->programs[p].first_word++;
        image->programs[p].own_word++;
    }
}
static void fewer_phases(ls_image *image) { image->n_phases--; }

/* All that the rank does on the first channel of a program is about another transfer. */
static void other_transfer(ls_image *image) {
    ls_program *program = &image->programs[0];
    for (int i = 0; i < program->n_instrs; i++) {
        ls_instr *instr = &program->instrs[i];
        if (instr->kind != LS_INSTR_KERNEL && instr->channel == 0) instr->transfer++;
    }
}

/* All that the rank says and awaits is said to be later than it is. */
static void other_epochs(ls_image *image) {
    ls_program *program = &image->programs[0];
    for (int i = 0; i < program->n_instrs; i++) {
        ls_instr *instr = &program->instrs[i];
        if (instr->kind != LS_INSTR_KERNEL) instr->epoch.slot++;
    }
}

/* The other end of every channel is one rank further on. */
static void other_peers(ls_image *image) {
    ls_program *program = &image->programs[0];
    for (int i = 0; i < program->n_instrs; i++) {
        ls_instr *instr = &program->instrs[i];
        if (instr->kind == LS_INSTR_KERNEL) continue;
        const int size = ls_team_size(&image->teams[instr->peer.team]);
        instr->peer.shift = instr->peer.shift % (size - 1) + 1;
    }
}

static void test_what_does_not_fit_disagrees(void **state) {
    (void)state;
    static void (*const edits[])(ls_image *) = {other_words, fewer_phases, other_transfer, other_epochs, other_peers};
    for (size_t e = 0; e < LS_COUNT(edits); e++) {
        image_set set = images_of_network(mesh_of(1, 3, 1), "ring", LS_LAYOUT_CONTIGUOUS, 24, 1);
        edits[e](set.image[1]);
        const judged j = judge(&set);
        if (j.alone.code != LS_OK) fail_msg("edit %zu: %s", e, j.alone.text);
        assert_int_equal(j.between.code, LS_INVALID);
        if (j.agree) fail_msg("edit %zu: the numbers agree, but: %s", e, j.between.text);
        free_images(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs_that_fit_agree),
                                       cmocka_unit_test(test_what_does_not_fit_disagrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
