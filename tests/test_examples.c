/*
 * The graphs of examples/graphs over every kind of mesh, in f64, against one rank: loss and all gradients within 1e-12.
 * The sequence divides by none of the numbers of ranks but 3. In f32 and bf16, with the fast kernels, against f64 on
 * the same rounded parameters: f32 within 1e-5, bf16 within twice what one rank is off, and half a rounding. The
 * programs pass the verifier and all ranks compile the same skeleton.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../examples/graphs/graphs.h"
#include "support/network.h"

enum { V = 17 /* of all examples */ };

static const network examples[] = {
    {"gpt2", gpt2_loss, V, NULL},       {"llama", llama_loss, V, NULL},   {"qwen3", qwen3_loss, V, NULL},
    {"mistral", mistral_loss, V, NULL}, {"gemma2", gemma2_loss, V, NULL}, {"encoder", encoder_loss, V, NULL},
    {"mixer", mixer_loss, V, NULL},
};

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
    ls_layout_kind layout;
} meshes[] = {
    {1, 2, 1, "ring", LS_LAYOUT_ZIGZAG},     {1, 1, 2, "ulysses", LS_LAYOUT_CONTIGUOUS},
    {1, 3, 1, "ring", LS_LAYOUT_CONTIGUOUS}, {1, 1, 3, "ulysses", LS_LAYOUT_ZIGZAG},
    {1, 4, 1, "ring", LS_LAYOUT_ZIGZAG},     {1, 1, 4, "ulysses", LS_LAYOUT_CONTIGUOUS},
    {1, 2, 2, "usp", LS_LAYOUT_ZIGZAG},      {2, 1, 1, "local", LS_LAYOUT_CONTIGUOUS},
    {2, 2, 2, "usp", LS_LAYOUT_CONTIGUOUS},  {1, 8, 1, "ring", LS_LAYOUT_ZIGZAG},
};

static ls_target target_of(size_t m) {
    return (ls_target){.mesh = ls_mesh_make(meshes[m].dp, meshes[m].ring, meshes[m].ulysses),
                       .strategy = meshes[m].strategy,
                       .layout = meshes[m].layout,
                       .threads = 1};
}

static void must(const network *n, size_t m, ls_status status) {
    if (status.code != LS_OK)
        fail_msg("%s, dp %d ring %d ulysses %d: %s", n->name, meshes[m].dp, meshes[m].ring, meshes[m].ulysses,
                 status.text);
}

static void test_same_on_every_mesh(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(examples); i++) {
        const network *n = &examples[i];
        const ls_target alone = {.mesh = ls_mesh_make(1, 1, 1), .strategy = "local", .threads = 1};
        network_result one, many;
        double worst = 0;
        must(n, 0, network_solve(n, &alone, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_target target = target_of(m);
            const char *what;
            must(n, m, network_solve(n, &target, LS_F64, LS_F64, &many));
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s, dp %d ring %d ulysses %d: %s differs by %g", n->name, meshes[m].dp,
                         meshes[m].ring, meshes[m].ulysses, what, difference);
            worst = difference > worst ? difference : worst;
            network_free(&many);
        }
        print_message("%s: loss %.6f, %d parameters, differs by %.1e at most\n", n->name, one.loss,
                      one.image->n_flats, worst);
        network_free(&one);
    }
}

/* One rank in f64 is exact; the gradient of each parameter may be so far from it. */
static void check_precision(const network *n, ls_dtype dtype, double floor, double times) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_target alone = {.mesh = ls_mesh_make(1, 1, 1), .strategy = "local", .threads = 1};
    network_result exact, one, many;
    double worst = 0, worst_one = 0;
    const char *name = "";
    must(n, 0, network_solve(n, &alone, LS_F64, dtype, &exact));
    alone.isa = machine.isa;
    must(n, 0, network_solve(n, &alone, dtype, dtype, &one));
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        ls_target target = target_of(m);
        target.isa = machine.isa;
        must(n, m, network_solve(n, &target, dtype, dtype, &many));
        for (int i = -1; i < exact.image->n_flats; i++) {
            const double error = network_error(&many, &exact, i), by_one = network_error(&one, &exact, i);
            if (!(error <= times * by_one + floor))
                fail_msg("%s %s, dp %d ring %d ulysses %d: %s is off by %g, one rank by %g", n->name,
                         ls_dtype_name(dtype), meshes[m].dp, meshes[m].ring, meshes[m].ulysses,
                         i < 0 ? "loss" : exact.image->flats[i].name, error, by_one);
            if (error > worst) name = i < 0 ? "loss" : exact.image->flats[i].name;
            worst = fmax(worst, error);
            worst_one = fmax(worst_one, by_one);
        }
        network_free(&many);
    }
    print_message("%s %s: off by %.1e at most (%s), one rank by %.1e\n", n->name, ls_dtype_name(dtype), worst,
                  name, worst_one);
    network_free(&one);
    network_free(&exact);
}

static void test_f32(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(examples); i++) check_precision(&examples[i], LS_F32, 1e-5, 0);
}

static void test_bf16(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(examples); i++) check_precision(&examples[i], LS_BF16, 0x1p-9, 2);
}

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(examples); i++) {
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_target target = target_of(m);
            must(&examples[i], m, network_verify(&examples[i], &target));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_on_every_mesh),
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_programs_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
