/*
 * An optimiser is a row: one that only the tests know is compiled and proved, and of the states of others there is no
 * trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/meshes.h"
#include "support/momentum.h"

static int count_instructions(const ls_image *image, const char *op) {
    int n = 0;
    for (int p = 0; p < image->n_programs; p++) {
        const ls_program *program = &image->programs[p];
        for (int i = 0; i < program->n_instrs; i++) n += strcmp(program->instrs[i].op, op) == 0;
    }
    return n;
}

static void pass(void *context, int class, const ls_image *image) { (void)context, (void)class, (void)image; }

/* Compiles a training with the optimiser on a mesh of two ranks, in the type, and proves it. */
static ls_image *compile(const ls_optimizer *optimizer, ls_dtype dtype) {
    ls_model *model;
    ls_language_model lm;
    ls_image *image = NULL;
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_graph *g = ls_graph_create(dtype);
    assert_int_equal(ls_model_open(LS_TEST_REFERENCE "/models/llama/config.json", &model).code, LS_OK);
    assert_int_equal(ls_model_build(model, g, 1, 24, true, &lm).code, LS_OK);
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, lm.forward_nodes, LS_UPDATE_APPLY, 1),
                        .optimizer = optimizer,
                        .hyper = {0.9, 0.95, 1e-8, 0.1}};
    const ls_target target = {.mesh = mesh_of(1, 2, 1), .strategy = "ring", .isa = machine.isa, .threads = 1};
    const ls_status status = ls_compile_proved(&job, &target, pass, NULL, &image);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    ls_graph_destroy(g);
    ls_model_close(model);
    return image;
}

static void check_states(const ls_image *image, const ls_optimizer *optimizer, const ls_optimizer *other) {
    assert_int_equal(image->n_states, optimizer->n_states);
    for (int i = 0; i < optimizer->n_states; i++) {
        const ls_binding *state = ls_image_find(image, optimizer->states[i].binding);
        assert_non_null(state);
        assert_int_equal(ls_view_elements(&state->operand.view), image->shard_count);
    }
    for (int i = 0; i < other->n_states; i++) assert_null(ls_image_find(image, other->states[i].binding));
}

static void test_states_and_calls_are_the_row_s(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        ls_image *usual = compile(NULL, types[t]), *own = compile(&momentum, types[t]);
        check_states(usual, &ls_optimizer_adamw, &momentum);
        check_states(own, &momentum, &ls_optimizer_adamw);
        assert_true(count_instructions(usual, "adamw") == usual->n_pieces);
        assert_true(count_instructions(own, "adamw") == 0);
        ls_image_destroy(usual);
        ls_image_destroy(own);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states_and_calls_are_the_row_s)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
