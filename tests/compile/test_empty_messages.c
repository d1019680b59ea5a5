/*
 * What ranks say to each other is about something: of the instructions that communicate, those about no bytes are
 * counted, on meshes of every axis, with stages and without, and there are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"

typedef struct messages {
    int all, empty;
} messages;

static messages count_messages(const image_set *set) {
    messages m = {0};
    for (int r = 0; r < set->ranks; r++) {
        for (int p = 0; p < set->image[r]->n_programs; p++) {
            const ls_program *program = &set->image[r]->programs[p];
            for (int i = 0; i < program->n_instrs; i++) {
                const ls_operand *subject = ls_instr_subject(&program->instrs[i]);
                if (program->instrs[i].kind == LS_INSTR_KERNEL) continue;
                m.all++;
                m.empty += subject != NULL && ls_operand_is_empty(subject);
            }
        }
    }
    return m;
}

static void check(image_set set, const char *what, const char *strategy) {
    const messages m = count_messages(&set);
    print_message("%s, %s: %d instructions communicate, %d about nothing\n", what, strategy, m.all, m.empty);
    assert_true(m.all > 0);
    assert_int_equal(m.empty, 0);
    free_images(&set);
}

/* Lengths that no number of ranks divides, so that some have nothing to send where others have. */
static void test_meshes_without_stages(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses, tp;
        const char *strategy;
    } meshes[] = {{2, 1, 1, 1, "local"},  {1, 3, 1, 1, "ring"},   {1, 7, 1, 1, "ring"},    {1, 4, 1, 1, "tokenring"},
                  {1, 5, 1, 1, "gather"}, {1, 4, 1, 1, "decode"}, {1, 1, 3, 1, "ulysses"}, {1, 2, 2, 1, "usp"},
                  {2, 2, 1, 1, "ring"},   {1, 1, 1, 2, "local"},  {1, 2, 1, 2, "ring"},    {1, 5, 1, 1, "burst"},
                  {1, 5, 1, 1, "rsa"},    {1, 3, 2, 1, "burst"}};
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        for (int layout = LS_LAYOUT_CONTIGUOUS; layout <= LS_LAYOUT_ZIGZAG; layout++) {
            const ls_mesh mesh = mesh_with_tp(meshes[i].dp, meshes[i].ring, meshes[i].ulysses, meshes[i].tp);
            char text[64];
            ls_mesh_print(&mesh, text, sizeof text);
            check(images_of_network(mesh, meshes[i].strategy, (ls_layout_kind)layout, 13, 1), text, meshes[i].strategy);
            check(images_in_place(mesh, meshes[i].strategy, (ls_layout_kind)layout, 13, 1), text, meshes[i].strategy);
        }
    }
}

static void test_stages(void **state) {
    (void)state;
    static const struct {
        const char *mesh, *strategy;
    } meshes[] = {{"pp=2", "local"},
                  {"pp=4", "local"},
                  {"pp=2,ring=3", "ring"},
                  {"pp=2,dp=2", "local"},
                  {"pp=2,ulysses=2", "ulysses"},
                  {"pp=2,tp=2", "local"},
                  {"pp=2,ring=2,tp=2", "ring"}};
    static const char *const pipelines[] = {"1f1b", "interleaved:2", "zero-bubble"};
    for (size_t i = 0; i < LS_COUNT(meshes) * LS_COUNT(pipelines); i++) {
        const size_t m = i / LS_COUNT(pipelines);
        const char *pipeline = pipelines[i % LS_COUNT(pipelines)];
        check(images_of_stages(meshes[m].mesh, meshes[m].strategy, pipeline, &ls_shard_modes[i % LS_SHARD_MODES]),
              meshes[m].mesh, pipeline);
    }
}

/* The count finds one. */
static void test_an_empty_message_is_counted(void **state) {
    (void)state;
    image_set set = images_of_network(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 13, 1);
    const ls_program *program = &set.image[0]->programs[0];
    int i = 0;
    while (program->instrs[i].kind != LS_INSTR_GRANT) i++;
    program->instrs[i].out[0].view.size[0] = 0;
    assert_int_equal(count_messages(&set).empty, 1);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_meshes_without_stages), cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_an_empty_message_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
