/* The interpreter: valid programs give one result under every seed; a hang, poison or another value is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/interpret.h"
#include "support/images.h"
#include "support/meshes.h"

static void test_every_seed_agrees(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{1, 1, 1, "local"},   {1, 2, 1, "ring"}, {1, 4, 1, "ring"}, {1, 1, 2, "ulysses"},
                  {1, 1, 3, "ulysses"}, {1, 2, 2, "usp"},  {2, 2, 1, "ring"}, {3, 1, 1, "local"}};
    for (size_t k = 0; k < 2 * LS_COUNT(meshes); k++) {
        const size_t m = k / 2;
        image_set set = (k % 2 == 0 ? images_of_network : images_in_place)(
            mesh_of(meshes[m].dp, meshes[m].ring, meshes[m].ulysses), meshes[m].strategy, LS_LAYOUT_ZIGZAG, 13, 1);
        const ls_image *const *images = (const ls_image *const *)set.image;
        ls_interpreter *first = ls_interpreter_create(images, set.ranks);
        ls_interpreter *others = ls_interpreter_create(images, set.ranks);
        const ls_interpreter_result reference = ls_interpreter_run(first, 0);
        for (uint64_t seed = 0; seed < 16; seed++) {
            const ls_interpreter_result other = ls_interpreter_run(others, seed);
            if (!ls_interpreter_same(&reference, &other))
                fail_msg("%s %dx%dx%d, seed %d: hung %d, poison %d, outside %d, left %s", meshes[m].strategy,
                         meshes[m].dp, meshes[m].ring, meshes[m].ulysses, (int)seed, other.hung, other.poison,
                         other.outside, reference.left == other.left ? "the same" : "something else");
        }
        ls_interpreter_destroy(first);
        ls_interpreter_destroy(others);
        free_images(&set);
    }
}

/* The outcomes of 16 seeds for a ring of two after an edit. */
typedef struct findings {
    int hung, poison, outside, other;
} findings;

static ls_instr *first_of(image_set *set, ls_instr_kind kind) {
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].kind == kind) return &p->instrs[i];
    }
    return NULL;
}

static void drop_first(image_set *set, ls_instr_kind kind) {
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    drop_instr(p, (int)(first_of(set, kind) - p->instrs));
}

static void drop_put(image_set *set) { drop_first(set, LS_INSTR_PUT); }
static void drop_kernel(image_set *set) { drop_first(set, LS_INSTR_KERNEL); }
static void far_outside(image_set *set) { first_of(set, LS_INSTR_KERNEL)->in[0].offset += 1u << 20; }
static void inputs_far_outside(image_set *set) { /* where the host cannot write them either */
    ls_image *image = set->image[0];
    for (int i = 0; i < image->n_buffers; i++)
        if (image->buffers[i].program < 0 && image->buffers[i].kind == LS_BUFFER_INPUT)
            image->buffers[i].offset += (size_t)1 << 40;
}
static void other_operand(image_set *set) { /* another part of the parameters */
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    int i = 0;
    while (strcmp(p->instrs[i].op, "embedding") != 0) i++;
    p->instrs[i].in[1].offset += 64;
}
static void forget_order(image_set *set) {
    ls_program *p = &set->image[1]->programs[ls_program_find(set->image[1], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) p->instrs[i].n_after = 0;
}

static void forget_puts(image_set *set) { /* sources are overwritten when their puts have begun */
    for (int r = 0; r < set->ranks; r++) {
        ls_program *p = &set->image[r]->programs[ls_program_find(set->image[r], LS_PROGRAM_MICRO)];
        for (int i = 0; i < p->n_instrs; i++) {
            for (int k = 0; k < p->instrs[i].n_after; k++) p->instrs[i].after[k].done = false;
        }
    }
}

static findings look(void (*edit)(image_set *set), int ranks) {
    image_set set = images_of_network(mesh_of(1, ranks, 1), "ring", LS_LAYOUT_ZIGZAG, 13, 1);
    const ls_image *const *images = (const ls_image *const *)set.image;
    ls_interpreter *right = ls_interpreter_create(images, set.ranks);
    const ls_interpreter_result reference = ls_interpreter_run(right, 0);
    edit(&set);
    ls_interpreter *edited = ls_interpreter_create(images, set.ranks);
    findings found = {0};
    for (uint64_t seed = 0; seed < 16; seed++) {
        const ls_interpreter_result outcome = ls_interpreter_run(edited, seed);
        found.hung += outcome.hung;
        found.poison += outcome.poison;
        found.outside += outcome.outside;
        found.other += !outcome.hung && !outcome.poison && !ls_interpreter_same(&reference, &outcome);
    }
    ls_interpreter_destroy(right);
    ls_interpreter_destroy(edited);
    free_images(&set);
    return found;
}

static void test_faults_are_seen(void **state) {
    (void)state;
    assert_int_equal(look(drop_put, 2).hung, 16);
    assert_int_equal(look(drop_kernel, 2).poison, 16);
    assert_int_equal(look(far_outside, 2).outside, 16);
    assert_int_equal(look(inputs_far_outside, 2).outside, 16);
    assert_int_equal(look(other_operand, 2).other, 16);
    const findings races = look(forget_order, 2);
    print_message("without order between the queues: of 16 seeds %d read poison, %d another value\n", races.poison,
                  races.other);
    assert_true(races.poison + races.other > 12);
    const findings early = look(forget_puts, 4);
    print_message("without waiting for puts: of 16 seeds %d read poison, %d another value\n", early.poison,
                  early.other);
    assert_true(early.poison + early.other > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_seed_agrees),
        cmocka_unit_test(test_faults_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
