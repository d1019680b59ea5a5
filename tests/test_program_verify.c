/*
 * The verifier: accepts the programs of every strategy, and rejects broken ones with a message that names the place. The edits
 * here are single and aimed; each must be caught.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/verify.h"
#include "support/images.h"

static ls_status verify(const image_set *set) {
    return ls_verify((const ls_image *const *)set->image, set->ranks);
}

static void test_accepts(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{1, 1, 1, "local"}, {1, 2, 1, "ring"},    {1, 3, 1, "ring"},    {1, 8, 1, "ring"},
                  {1, 16, 1, "ring"}, {1, 1, 2, "ulysses"}, {1, 1, 4, "ulysses"}, {1, 2, 2, "usp"},
                  {1, 4, 4, "usp"},   {2, 2, 2, "usp"},     {2, 2, 1, "ring"},    {4, 1, 1, "local"}};
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        image_set set = images_of_network(ls_mesh_make(meshes[i].dp, meshes[i].ring, meshes[i].ulysses),
                                          meshes[i].strategy, LS_LAYOUT_ZIGZAG, 37, 2);
        const ls_status status = verify(&set);
        if (status.code != LS_OK)
            fail_msg("%s %d×%d: %s", meshes[i].strategy, meshes[i].ulysses, meshes[i].ring, status.text);
        free_images(&set);
    }
}

/* The nth instruction of a kind in program micro of a rank. */
static ls_instr *nth(image_set *set, int rank, ls_instr_kind kind, int n) {
    ls_program *p = &set->image[rank]->programs[LS_PROGRAM_MICRO];
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].kind == kind && n-- == 0) return &p->instrs[i];
    }
    return NULL;
}

typedef void (*edit)(image_set *set);

static void drop_wait(image_set *set) { nth(set, 1, LS_INSTR_WAIT, 0)->kind = LS_INSTR_QUIET; }
static void drop_signal(image_set *set) { nth(set, 1, LS_INSTR_SIGNAL, 1)->kind = LS_INSTR_QUIET; }
static void drop_put(image_set *set) { nth(set, 0, LS_INSTR_PUT_SIGNAL, 0)->kind = LS_INSTR_QUIET; }
static void wrong_peer(image_set *set) { nth(set, 0, LS_INSTR_PUT_SIGNAL, 0)->peer = 0; }
static void wrong_generation(image_set *set) { nth(set, 1, LS_INSTR_SIGNAL, 0)->generation++; }
static void forget_order(image_set *set) {
    ls_program *p = &set->image[1]->programs[LS_PROGRAM_MICRO];
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].kind == LS_INSTR_KERNEL && p->instrs[i].after >= 0) {
            p->instrs[i].after = -1;
            return;
        }
    }
    fail_msg("no kernel waits for the other queue");
}
static void shift_slot(image_set *set) { nth(set, 0, LS_INSTR_PUT_SIGNAL, 1)->out[0].offset += 64; }
static void early_reuse(image_set *set) {
    /* Two buffers that are live together, laid on each other. */
    for (int i = 0; i < set->image[0]->n_buffers; i++) {
        ls_buffer *a = &set->image[0]->buffers[i];
        if (a->kind != LS_BUFFER_SLOT) continue;
        for (int j = i + 1; j < set->image[0]->n_buffers; j++) {
            ls_buffer *b = &set->image[0]->buffers[j];
            if (b->kind != LS_BUFFER_SLOT || b->program != a->program || a->last < b->first ||
                b->last < a->first)
                continue;
            for (int r = 0; r < set->ranks; r++)
                set->image[r]->buffers[j].offset = set->image[r]->buffers[i].offset;
            return;
        }
    }
    fail_msg("no two slots are live together");
}

static void test_rejects(void **state) {
    (void)state;
    static const struct {
        const char *name;
        edit edit;
        const char *says;
    } edits[] = {{"a wait dropped", drop_wait, "rejected"},
                 {"a slot-free signal dropped", drop_signal, "rejected"},
                 {"a put dropped", drop_put, "rejected"},
                 {"a put to the wrong rank", wrong_peer, "rejected"},
                 {"a generation skipped", wrong_generation, "do not rise by one"},
                 {"a queue that does not wait for the other", forget_order, "not ordered"},
                 {"a put that lands 64 bytes on", shift_slot, "rejected"},
                 {"two slots in one place", early_reuse, "not ordered"}};
    for (size_t i = 0; i < LS_COUNT(edits); i++) {
        image_set set = images_of_network(ls_mesh_make(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 2);
        edits[i].edit(&set);
        const ls_status status = verify(&set);
        print_message("%s: %s\n", edits[i].name, status.text);
        if (status.code == LS_OK) fail_msg("%s was not noticed", edits[i].name);
        assert_non_null(strstr(status.text, edits[i].says));
        free_images(&set);
    }
}

static void test_skeletons_agree(void **state) {
    (void)state;
    image_set set = images_of_network(ls_mesh_make(2, 2, 2), "usp", LS_LAYOUT_ZIGZAG, 37, 2);
    for (int r = 1; r < set.ranks; r++)
        assert_true(ls_image_skeleton(set.image[r]) == ls_image_skeleton(set.image[0]));
    free_images(&set);
}

static void test_placement_is_tight(void **state) {
    (void)state;
    image_set set = images_of_network(ls_mesh_make(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 256, 4);
    for (int s = 0; s < LS_SPACES; s++) {
        const size_t bytes = set.image[0]->bytes[s], least = set.image[0]->least[s];
        print_message("arena %d: %zu bytes placed, %zu is the lower bound\n", s, bytes, least);
        assert_true((double)bytes <= 1.03 * (double)least);
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_skeletons_agree),
        cmocka_unit_test(test_placement_is_tight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
