/*
 * Savings of memory change no result: recomputed results have the same bits; tiles give the same numbers to
 * rounding (f64: 1e-12; f32: 1e-6 and twice the error of rounding on one rank), and equal tiles the same bits; on
 * one rank and on meshes, for the graphs of examples/graphs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "support/emulated.h"
#include "support/meshes.h"
#include "support/network.h"

enum { V = 17 /* of all examples */, ALL = 1 << 20 };

static const network examples[] = {
    {"gpt2", gpt2_loss, .ids = V},       {"llama", llama_loss, .ids = V},   {"qwen3", qwen3_loss, .ids = V},
    {"mistral", mistral_loss, .ids = V}, {"gemma2", gemma2_loss, .ids = V}, {"gptoss", gptoss_loss, .ids = V},
    {"encoder", encoder_loss, .ids = V}, {"mixer", mixer_loss, .ids = V},
};

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
    ls_layout_kind layout;
} meshes[] = {
    {1, 1, 1, "local", LS_LAYOUT_CONTIGUOUS},
    {1, 3, 1, "ring", LS_LAYOUT_ZIGZAG},
    {1, 1, 2, "ulysses", LS_LAYOUT_CONTIGUOUS},
    {2, 2, 2, "usp", LS_LAYOUT_ZIGZAG},
};

static const struct {
    ls_saving saving;
    bool same_bits;
} savings[] = {
    {{.drop = 1}, true},
    {{.drop = 9}, true},
    {{.drop = ALL}, true},
    {{.tile = LS_TILE_LOSS, .tile_rows = 3}, false},
    {{.tile = LS_TILE_ALL, .tile_rows = 5}, false},
    {{.drop = 12, .tile = LS_TILE_LOSS, .tile_rows = 1}, false},
    {{.drop = ALL, .tile = LS_TILE_ALL, .tile_rows = 4}, false},
    {{.offload = 5}, true},
    {{.offload = ALL, .offload_state = true}, true},
    {{.drop = ALL, .offload = ALL, .tile = LS_TILE_ALL, .tile_rows = 4}, false},
};

static ls_target target_of(size_t m, ls_saving saving) {
    return (ls_target){.mesh = mesh_of(meshes[m].dp, meshes[m].ring, meshes[m].ulysses),
                       .strategy = meshes[m].strategy,
                       .layout = meshes[m].layout,
                       .threads = 1,
                       .saving = saving};
}

static void must(const network *n, size_t m, size_t s, ls_status status) {
    if (status.code != LS_OK) fail_msg("%s, mesh %zu, saving %zu: %s", n->name, m, s, status.text);
}

/*
 * Fails where a result differs by more than `tolerance` and twice its own error; own NULL: none. Returns the largest
 * difference.
 */
static double compare(const network *n, size_t m, size_t s, const network_result *saved, const network_result *whole,
                      double tolerance, const double *own) {
    double worst = 0;
    for (int i = -1; i < whole->image->n_flats; i++) {
        const double difference = network_error(saved, whole, i);
        const double allowed = tolerance + (own != NULL ? 2 * own[1 + i] : 0);
        if (!(savings[s].same_bits ? difference == 0 : difference <= allowed))
            fail_msg("%s %s, mesh %zu, saving %zu: %s differs by %g, allowed are %g", n->name,
                     ls_dtype_name(whole->image->dtype), m, s, i < 0 ? "loss" : whole->image->flats[i].name, difference,
                     allowed);
        worst = fmax(worst, difference);
    }
    return worst;
}

static void check(const network *n, ls_dtype dtype, ls_isa isa, size_t first_mesh, double tolerance,
                  const double *own) {
    double worst = 0;
    for (size_t m = first_mesh; m < LS_COUNT(meshes); m++) {
        ls_target plain = target_of(m, (ls_saving){0});
        plain.isa = isa;
        network_result whole, saved;
        must(n, m, 0, network_solve(n, &plain, dtype, dtype, &whole));
        for (size_t s = 0; s < LS_COUNT(savings); s++) {
            ls_target target = target_of(m, savings[s].saving);
            target.isa = isa;
            must(n, m, s, network_solve(n, &target, dtype, dtype, &saved));
            worst = fmax(worst, compare(n, m, s, &saved, &whole, tolerance, own));
            network_free(&saved);
        }
        network_free(&whole);
    }
    print_message("%s %s: differs by %.1e at most\n", n->name, ls_dtype_name(dtype), worst);
}

static void test_same_in_f64(void **state) {
    (void)state;
    skip_if_repeated();
    for (size_t i = 0; i < LS_COUNT(examples); i++) check(&examples[i], LS_F64, LS_ISA_REF, 0, 1e-12, NULL);
}

static void test_same_in_f32(void **state) {
    (void)state;
    ls_machine machine;
    ls_machine_detect(&machine);
    for (size_t i = 0; i < LS_COUNT(examples); i += is_repeated() ? 3 : 1) {
        const network *n = &examples[i];
        const ls_target alone = target_of(0, (ls_saving){0});
        network_result exact;
        must(n, 0, 0, network_solve(n, &alone, LS_F64, LS_F32, &exact));
        double *own = calloc((size_t)exact.image->n_flats + 1, sizeof *own);
        must(n, 0, 0, network_own_errors(n, LS_F32, 1, &exact, own));
        check(n, LS_F32, machine.isa, LS_COUNT(meshes) - 1, 1e-6, own);
        free(own);
        network_free(&exact);
    }
}

static void test_programs_verify(void **state) {
    (void)state;
    skip_if_repeated();
    for (size_t i = 0; i < LS_COUNT(examples); i++) {
        for (size_t m = 1; m < LS_COUNT(meshes); m++) {
            for (size_t s = (i + m) % 3; s < LS_COUNT(savings); s += 3) { /* each saving in some graphs */
                const ls_target target = target_of(m, savings[s].saving);
                must(&examples[i], m, s, network_verify(&examples[i], &target, 1));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_in_f64),
        cmocka_unit_test(test_same_in_f32),
        cmocka_unit_test(test_programs_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
