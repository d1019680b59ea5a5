/*
 * Every network of linear recurrences (decays × updates × documents, and the form without a mask) by every way, on 1 to
 * 16 ranks of a sequence, contiguous and zigzag, with dp, ulysses and tp: loss and all gradients within 1e-12 of one
 * rank in f64; f32 and bf16 within the bounds of the short test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/linear_recurrences.h"
#include "support/meshes.h"
#include "support/network.h"

/* dp × ring × ulysses × tp */
static const int meshes[][4] = {{1, 2, 1, 1}, {2, 3, 1, 1},  {1, 4, 1, 1},  {1, 5, 1, 1},  {1, 2, 3, 1}, {1, 7, 1, 1},
                                {1, 4, 2, 1}, {1, 9, 1, 1},  {1, 5, 2, 1},  {1, 11, 1, 1}, {1, 3, 4, 1}, {1, 13, 1, 1},
                                {1, 7, 2, 1}, {1, 15, 1, 1}, {1, 16, 1, 1}, {2, 2, 2, 1},  {1, 1, 4, 1}, {2, 1, 1, 2},
                                {1, 2, 1, 2}, {1, 1, 2, 2},  {1, 3, 1, 3},  {2, 2, 1, 2},  {1, 2, 2, 2}};
static const char *const ways[] = {"maps", "owners", "heads"};

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

/* Too few heads for the ranks of a way, or of tp. */
static bool lacks_heads(const ls_status *status) {
    static const char *const texts[] = {"way ", "by heads: ", "heads of keys are cut over more ranks along tp",
                                        "expected at most that many ranks"};
    bool lacks = false;
    for (size_t i = 0; i < LS_COUNT(texts); i++) lacks |= strstr(status->text, texts[i]) != NULL;
    return status->code != LS_OK && lacks;
}

/* The programs of a network: one of each mesh, way and layout. */
enum { PROGRAMS = (int)(LS_COUNT(meshes) * LS_COUNT(ways)) * 2 };

static ls_target target_of(int i) {
    const int *size = meshes[i / 2 / (int)LS_COUNT(ways)];
    return (ls_target){.mesh = mesh_with_tp(size[0], size[1], size[2], size[3]),
                       .strategy = "local",
                       .layout = i % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS,
                       .recurrence_way = ways[i / 2 % (int)LS_COUNT(ways)],
                       .threads = 1};
}

static void test_every_way(void **state) {
    (void)state;
    int solved[LS_COUNT(ways)] = {0}, with_tp = 0;
    for (int k = 0; k < n_linear_networks; k++) {
        const network *n = &linear_networks[k];
        network_result one, many;
        const ls_target single = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
        must(network_solve(n, &single, LS_F64, LS_F64, &one));
        for (int i = 0; i < PROGRAMS; i++) {
            const ls_target target = target_of(i);
            const ls_status status = network_solve(n, &target, LS_F64, LS_F64, &many);
            if (lacks_heads(&status)) continue;
            must(status);
            const char *what;
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s, %d ranks %s by %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh),
                         ls_layout_name(target.layout), target.recurrence_way, what, difference);
            solved[i / 2 % (int)LS_COUNT(ways)]++;
            with_tp += ls_mesh_axes(&target.mesh, LS_AXIS_FEATURE) != 0;
            network_free(&many);
        }
        network_free(&one);
    }
    print_message("%d programs by maps, %d by owners, %d by heads; %d of them with tp\n", solved[0], solved[1],
                  solved[2], with_tp);
    assert_true(solved[0] > 500 && solved[1] > 150 && solved[2] > 75 && with_tp > 200);
}

static void test_other_types(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    ls_machine machine;
    ls_machine_detect(&machine);
    for (int k = 0; k < n_linear_networks * 2; k++) {
        const network *n = &linear_networks[k / 2];
        const ls_dtype T = types[k % 2];
        linear_bounds bounds = linear_bounds_of(n, T);
        for (int i = k % 5; i < PROGRAMS; i += 5) {
            ls_target target = target_of(i);
            network_result many;
            target.isa = machine.isa;
            const ls_status status = network_solve(n, &target, T, T, &many);
            if (lacks_heads(&status)) continue;
            must(status);
            char what[128];
            snprintf(what, sizeof what, "%s %s, %d ranks %s by %s", n->name, ls_dtype_name(T),
                     ls_mesh_ranks(&target.mesh), ls_layout_name(target.layout), target.recurrence_way);
            linear_bounds_check(&bounds, &many, what);
            network_free(&many);
        }
        linear_bounds_free(&bounds);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way), cmocka_unit_test(test_other_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
